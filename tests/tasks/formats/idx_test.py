import gzip
import os
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.formats.idx import find_idx, read_idx, read_pairs
from tests.tasks.formats.helpers import damaged, fuzz, memory_below, only_input_errors, refused
from tf_fedsam.errors import InputError

CODES = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}


def idx_bytes(array):
    code = CODES[array.dtype.str[1:]]
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, code, array.ndim, *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


IMAGES = np.arange(3 * 4 * 5, dtype=np.uint8).reshape(3, 4, 5)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_round_trip_of_every_value_type(tmp_path, code, suffix):
    array = np.array([[1, -2, 300], [4, 5, -6]]).astype(code)
    path = tmp_path / f"values-idx2{suffix}"
    path.write_bytes(gzip.compress(idx_bytes(array)) if suffix else idx_bytes(array))
    result = read_idx(path)
    assert result.dtype == np.dtype(code)
    assert result.dtype.isnative
    np.testing.assert_array_equal(result, array)


def test_gzip_is_recognised_without_its_suffix(tmp_path):
    path = tmp_path / "images-idx3-ubyte"
    path.write_bytes(gzip.compress(idx_bytes(IMAGES)))
    np.testing.assert_array_equal(read_idx(path), IMAGES)


def test_gzip_of_several_members_is_one_stream(tmp_path):
    data = idx_bytes(IMAGES)
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(data[:30]) + gzip.compress(data[30:]))
    np.testing.assert_array_equal(read_idx(path), IMAGES)


GOOD = idx_bytes(IMAGES)


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"", "empty file"),
        (b"\0\0", "first bytes"),
        (b"\1" + GOOD[1:], "first bytes"),
        (b"<html>404 Not Found</html>", "first bytes"),
        (GOOD[:2] + b"\x0a" + GOOD[3:], "0x0a"),
        (GOOD[:3] + b"\0" + GOOD[4:], "0 dimensions"),
        (GOOD[:3] + b"\xff" + GOOD[4:], "255 dimensions"),
        (GOOD[:9], "inside its header"),
        (GOOD[:-1], "exactly 60"),
        (GOOD + b"\0", "exactly 60"),
        (struct.pack(">4B3I", 0, 0, 8, 3, 0, 28, 28), "(0, 28, 28)"),
        # 0 x (2**32 - 1)**2 values: no bytes at all, yet NumPy cannot make such an array.
        (struct.pack(">4B3I", 0, 0, 8, 3, 0, 2**32 - 1, 2**32 - 1), "4294967295"),
        # 2**33 + 1 bytes, the first claim beyond 8 GiB that two dimensions can make: 3 * x.
        (struct.pack(">4B2I", 0, 0, 8, 2, 3, (2**33 + 1) // 3), "8,589,934,593"),
        (struct.pack(">4B3I", 0, 0, 14, 3, 2**32 - 1, 2**32 - 1, 2**32 - 1), "claims"),
    ],
)
@pytest.mark.parametrize("gzipped", [False, True])
def test_malformed_content_is_refused(tmp_path, data, part, gzipped):
    path = tmp_path / "broken-idx"
    path.write_bytes(gzip.compress(data) if gzipped else data)
    if gzipped:
        # An empty stream has no first bytes; a payload too long is noticed, not measured.
        part = {"empty file": "first bytes"}.get(part, part)
    refused(lambda: read_idx(path), "broken-idx", part)


def test_a_gz_name_must_be_true(tmp_path):
    path = tmp_path / "images-idx3-ubyte.gz"
    path.write_bytes(GOOD)
    refused(lambda: read_idx(path), path.name, "not gzip")


@pytest.mark.parametrize("cut", [5, 20, -8, -1])
def test_a_truncated_gzip_is_refused(tmp_path, cut):
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(GOOD)[:cut])
    refused(lambda: read_idx(path), path.name)


def test_a_gzip_checksum_that_does_not_match_is_reported(tmp_path):
    data = bytearray(gzip.compress(GOOD))
    data[-8] ^= 1  # the trailer: CRC-32, then the length
    path = tmp_path / "images.gz"
    path.write_bytes(data)
    refused(lambda: read_idx(path), path.name, "CRC")


def test_garbage_after_a_gzip_stream_is_refused(tmp_path):
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(GOOD) + b"garbage")
    refused(lambda: read_idx(path), path.name)


def test_a_gzip_bomb_is_read_only_to_its_claim(tmp_path):
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(GOOD + bytes(32 << 20)))  # 32 kB that hold 32 MiB
    with memory_below(8 << 20):
        refused(lambda: read_idx(path), "bomb.gz", "more bytes", "exactly 60")


@pytest.mark.parametrize("pack", [gzip.compress, bytes])
def test_a_small_file_cannot_allocate_what_it_claims(tmp_path, pack):
    path = tmp_path / "claim"
    path.write_bytes(pack(struct.pack(">4B3I", 0, 0, 8, 3, 8, 1 << 15, 1 << 15)))  # exactly 8 GiB
    with memory_below(1 << 20):
        refused(lambda: read_idx(path), "claim", "8,589,934,592")


def test_a_pipe_a_folder_and_a_missing_file_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    refused(lambda: read_idx(tmp_path / "pipe"), "pipe", "regular file")
    refused(lambda: read_idx(tmp_path), tmp_path.name)
    refused(lambda: read_idx(tmp_path / "none"), "none", "No such file")
    refused(lambda: read_idx("nul\0byte"))


@fuzz
@given(data=damaged(GOOD))
def test_damaged_files_raise_input_errors_only(tmp_path, data):
    path = tmp_path / "fuzz-idx"
    path.write_bytes(data)
    only_input_errors(lambda: read_idx(path), path)


@fuzz
@given(data=damaged(gzip.compress(GOOD, mtime=0)))
def test_damaged_gzip_is_refused_or_harmless(tmp_path, data):
    path = tmp_path / "fuzz.gz"
    path.write_bytes(data)
    result = only_input_errors(lambda: read_idx(path), path)
    # Bytes of the gzip header that carry no data may change; nothing that passes the CRC differs.
    if result is not None:
        np.testing.assert_array_equal(result, IMAGES)


@fuzz
@given(data=st.binary(max_size=64))
def test_random_bytes_raise_input_errors_only(tmp_path, data):
    path = tmp_path / "fuzz-idx"
    path.write_bytes(b"\0\0\x08\x01" + data)
    only_input_errors(lambda: read_idx(path), path)


@pytest.mark.parametrize("subfolder", ["", "gzip", "raw", "MNIST/raw"])
@pytest.mark.parametrize("name", ["train-images-idx3-ubyte", "train-images.idx3-ubyte"])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_find_idx_knows_the_usual_places_and_spellings(tmp_path, subfolder, name, suffix):
    path = tmp_path / subfolder / (name + suffix)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    assert find_idx(tmp_path, "train-images-idx3-ubyte") == path
    assert find_idx(tmp_path, "train-images.idx3-ubyte") == path


def test_find_idx_prefers_the_plain_file_and_says_what_is_missing(tmp_path):
    (tmp_path / "a-idx1-ubyte.gz").write_bytes(b"")
    (tmp_path / "a-idx1-ubyte").write_bytes(b"")
    assert find_idx(tmp_path, "a-idx1-ubyte").name == "a-idx1-ubyte"
    refused(lambda: find_idx(tmp_path, "b-idx1-ubyte"), tmp_path.name, "b-idx1-ubyte.gz")
    refused(lambda: find_idx(tmp_path / "none", "a-idx1-ubyte"), "none")


def write_pairs(folder, prefixes=("train", "t10k"), counts=(5, 3), seed=0, num_classes=10):
    """Publisher-like files; returns what was written: images, labels, images, labels."""
    random = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for prefix, count in zip(prefixes, counts, strict=True):
        images = random.integers(0, 256, (count, 28, 28), np.uint8)
        labels = random.integers(0, num_classes, count, np.uint8)
        (folder / f"{prefix}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx_bytes(images)))
        (folder / f"{prefix}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes(labels)))
        written += [images, labels]
    return written


@pytest.mark.parametrize("kind", ["mnist", "fashion_mnist"])
def test_read_pairs_round_trip(tmp_path, kind):
    written = write_pairs(tmp_path)
    x_train, y_train, x_test, y_test = read_pairs(tmp_path, kind)
    assert x_train.shape == (5, 28, 28, 1)
    assert x_train.dtype == np.uint8
    assert y_train.dtype == y_test.dtype == np.int32
    for array, expected in zip(
        (x_train[..., 0], y_train, x_test[..., 0], y_test), written, strict=True
    ):
        np.testing.assert_array_equal(array, expected)


def test_emnist_letters_stand_upright(tmp_path):
    prefixes = ("emnist-byclass-train", "emnist-byclass-test")
    # 2,000 images: more than the 1,337 that are transposed at a time (1 MiB / 784).
    written = write_pairs(tmp_path / "gzip", prefixes, (2_000, 3), num_classes=62)
    x_train, y_train, x_test, y_test = read_pairs(tmp_path, "emnist")
    np.testing.assert_array_equal(x_train[..., 0], written[0].transpose(0, 2, 1))
    np.testing.assert_array_equal(x_test[..., 0], written[2].transpose(0, 2, 1))
    np.testing.assert_array_equal(y_train, written[1])
    np.testing.assert_array_equal(y_test, written[3])


def test_mnist_and_fashion_mnist_below_one_root_are_not_confused(tmp_path):
    digits = write_pairs(tmp_path / "MNIST" / "raw", seed=1)
    clothes = write_pairs(tmp_path / "FashionMNIST" / "raw", seed=2)
    np.testing.assert_array_equal(read_pairs(tmp_path, "mnist")[0][..., 0], digits[0])
    np.testing.assert_array_equal(read_pairs(tmp_path, "fashion_mnist")[0][..., 0], clothes[0])


def test_files_of_two_folders_are_not_mixed(tmp_path):
    write_pairs(tmp_path)
    write_pairs(tmp_path / "raw")
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    refused(lambda: read_pairs(tmp_path, "mnist"), "t10k-labels-idx1-ubyte")


@pytest.mark.parametrize(
    ("name", "array", "part"),
    [
        ("train-labels-idx1-ubyte", np.zeros(4, np.uint8), "4 labels"),
        ("train-labels-idx1-ubyte", np.full(5, 10, np.uint8), "label 10"),
        ("train-labels-idx1-ubyte", np.zeros((5, 1), np.uint8), "(5, 1)"),
        ("train-labels-idx1-ubyte", np.full(5, -1, np.int32), "int32"),
        ("t10k-images-idx3-ubyte", np.zeros((3, 28, 27), np.uint8), "(3, 28, 27)"),
        ("t10k-images-idx3-ubyte", np.zeros((3, 28, 28), np.float32), "float32"),
        ("t10k-images-idx3-ubyte", np.zeros((3, 784), np.uint8), "(3, 784)"),
    ],
)
def test_read_pairs_refuses_what_does_not_fit(tmp_path, name, array, part):
    write_pairs(tmp_path)
    (tmp_path / name).write_bytes(idx_bytes(array))  # a plain file goes first
    refused(lambda: read_pairs(tmp_path, "mnist"), name, part)


def test_an_unknown_kind_lists_the_known_ones(tmp_path):
    with pytest.raises(InputError, match="Did you mean 'fashion_mnist'"):
        read_pairs(tmp_path, "fashion")


def test_the_deflate_bound_holds_for_the_most_compressible_payload(tmp_path):
    # The size check before allocation must never refuse an honest file: all zeros, best level.
    array = np.zeros((1 << 24,), np.uint8)
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    path = tmp_path / "zeros.gz"
    path.write_bytes(compressor.compress(idx_bytes(array)) + compressor.flush())
    assert read_idx(path).shape == array.shape
