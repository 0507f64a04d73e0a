import gzip
import io
import os
import pickle
import pickletools
import struct
import tarfile

import numpy as np
import pytest
from hypothesis import given

from tasks.formats import batch_pickle, tar
from tasks.formats.cifar import read_cifar10, read_cifar100
from tests.tasks.formats_helpers import damaged, fuzz, memory_below, only_input_errors, refused
from tf_fedsam.errors import InputError

COUNTS = (10, 4)  # five training files of two images, one test file of four


class Data:
    """Images as they are stored (one plane for each colour) and labels, by file."""

    def __init__(self, seed=0):
        random = np.random.default_rng(seed)
        self.images = random.integers(0, 256, (14, 3, 32, 32), np.uint8)
        self.labels = random.integers(0, 10, 14)
        self.coarse = random.integers(0, 20, 14)
        self.fine = random.integers(0, 100, 14)

    def check(self, arrays, labels):
        x_train, y_train, x_test, y_test = arrays
        assert x_train.dtype == np.uint8
        assert x_train.flags.c_contiguous
        assert y_train.dtype == y_test.dtype == np.int32
        stacked = np.concatenate([x_train, x_test])
        assert stacked.shape == (14, 32, 32, 3)
        for colour in range(3):
            np.testing.assert_array_equal(stacked[..., colour], self.images[:, colour])
        np.testing.assert_array_equal(np.concatenate([y_train, y_test]), labels)


def cifar10_binary(data):
    records = np.concatenate(
        [data.labels[:, None].astype(np.uint8), data.images.reshape(14, -1)], 1
    )
    files = {f"data_batch_{i + 1}.bin": records[2 * i : 2 * i + 2].tobytes() for i in range(5)}
    return files | {"test_batch.bin": records[10:].tobytes()}


def cifar100_binary(data):
    labels = np.stack([data.coarse, data.fine], 1).astype(np.uint8)
    records = np.concatenate([labels, data.images.reshape(14, -1)], 1)
    return {"train.bin": records[:10].tobytes(), "test.bin": records[10:].tobytes()}


def python2_pickle(fields):
    """A dictionary as Python 2's cPickle writes it at protocol 2, which the publisher used.

    Byte strings (SHORT_BINSTRING, BINSTRING), small integers (BININT1) and arrays through
    numpy.core.multiarray._reconstruct, as in the published data_batch_1.
    """

    def text(value):
        return b"U" + bytes([len(value)]) + value

    def integer(value):
        return b"K" + bytes([value]) if value < 256 else b"M" + struct.pack("<H", value)

    out = b"\x80\x02}q\x01("
    for number, (key, value) in enumerate(fields.items()):
        out += text(key) + b"q" + bytes([2 + number])
        if isinstance(value, bytes):
            out += text(value)
        elif isinstance(value, list):
            items = (integer(item) if isinstance(item, int) else text(item) for item in value)
            out += b"]q\x20(" + b"".join(items) + b"e"
        else:
            raw = value.tobytes()
            out += (
                b"cnumpy.core.multiarray\n_reconstruct\nq\x21cnumpy\nndarray\nq\x22K\x00\x85U\x01b"
                b"\x87Rq\x23(K\x01" + b"".join(map(integer, value.shape)) + b"\x86cnumpy\ndtype\n"
                b"q\x24U\x02u1K\x00K\x01\x87Rq\x25(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
                b"K\x00tb\x89T" + struct.pack("<I", len(raw)) + raw + b"tb"
            )
    return out + b"u."


def cifar10_python(data, dump=python2_pickle):
    def batch(rows):
        return dump(
            {
                b"batch_label": b"training batch 1 of 5",
                b"labels": data.labels[rows].tolist(),
                b"data": data.images[rows].reshape(-1, 3072),
                b"filenames": [b"camion_s_000148.png"] * len(data.labels[rows]),
            }
        )

    files = {f"data_batch_{i + 1}": batch(slice(2 * i, 2 * i + 2)) for i in range(5)}
    return files | {"test_batch": batch(slice(10, 14)), "batches.meta": b"(dp1\n."}


def cifar100_python(data, dump=python2_pickle):
    def batch(rows):
        return dump(
            {
                b"filenames": [b"bos_taurus_s_000507.png"] * len(data.fine[rows]),
                b"batch_label": b"training batch 1 of 1",
                b"fine_labels": data.fine[rows].tolist(),
                b"coarse_labels": data.coarse[rows].tolist(),
                b"data": data.images[rows].reshape(-1, 3072),
            }
        )

    return {"train": batch(slice(10)), "test": batch(slice(10, 14))}


FORMS = {
    "cifar-10-batches-bin": (cifar10_binary, "cifar-10-binary.tar.gz"),
    "cifar-10-batches-py": (cifar10_python, "cifar-10-python.tar.gz"),
    "cifar-100-binary": (cifar100_binary, "cifar-100-binary.tar.gz"),
    "cifar-100-python": (cifar100_python, "cifar-100-python.tar.gz"),
}


def write_folder(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def tar_bytes(files, form=tarfile.USTAR_FORMAT, extra=()):
    """A .tar.gz of {name: content} and of further TarInfo objects, in this order."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for info in extra:
            archive.addfile(info)
    return gzip.compress(buffer.getvalue(), 1, mtime=0)


def archive_of(folder, files, **kwargs):
    return tar_bytes({f"{folder}/{name}": content for name, content in files.items()}, **kwargs)


def reader(folder):
    return read_cifar10 if "cifar-10-" in folder else read_cifar100


@pytest.mark.parametrize("folder", FORMS)
@pytest.mark.parametrize("where", ["itself", "parent", "archive", "archive's folder"])
def test_round_trip_of_every_published_form(tmp_path, folder, where):
    data = Data()
    write, archive = FORMS[folder]
    path = tmp_path
    if where.startswith("archive"):
        (tmp_path / archive).write_bytes(archive_of(folder, write(data)))
        path = tmp_path / archive if where == "archive" else tmp_path
    else:
        write_folder(tmp_path / folder, write(data))
        path = tmp_path / folder if where == "itself" else tmp_path
    labels = data.labels if "cifar-10-" in folder else data.fine
    data.check(reader(folder)(path, expected_counts=COUNTS), labels)
    data.check(reader(folder)(path, expected_counts=None), labels)


@pytest.mark.parametrize("folder", ["cifar-100-binary", "cifar-100-python"])
def test_coarse_labels(tmp_path, folder):
    data = Data()
    write_folder(tmp_path / folder, FORMS[folder][0](data))
    data.check(read_cifar100(tmp_path, labels="coarse", expected_counts=COUNTS), data.coarse)
    with pytest.raises(InputError, match="coarse"):
        read_cifar100(tmp_path, labels="superclass")


def test_the_binary_version_goes_first(tmp_path):
    old, new = Data(1), Data(2)
    write_folder(tmp_path / "cifar-10-batches-py", cifar10_python(old))
    write_folder(tmp_path / "cifar-10-batches-bin", cifar10_binary(new))
    new.check(read_cifar10(tmp_path, expected_counts=COUNTS), new.labels)


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_tar_dialect_is_read(tmp_path, form):
    data = Data()
    folder = tarfile.TarInfo("./cifar-10-batches-bin")
    folder.type = tarfile.DIRTYPE
    # A long name makes GNU and pax add an extra header; the others carry a modification time.
    files = {"cifar-10-batches-bin/" + "x" * 90 + "/" + "y" * 60: b"unrelated"}
    files |= {f"./cifar-10-batches-bin/{name}": x for name, x in cifar10_binary(data).items()}
    path = tmp_path / "any-name.tar.gz"
    packed = tar_bytes(files, form, [folder])
    path.write_bytes(packed)
    data.check(read_cifar10(path, expected_counts=COUNTS), data.labels)
    path.write_bytes(gzip.decompress(packed))  # a plain .tar
    data.check(read_cifar10(path, expected_counts=COUNTS), data.labels)


def test_the_publishers_counts_are_expected_unless_told(tmp_path):
    write_folder(tmp_path, cifar10_binary(Data()))
    refused(lambda: read_cifar10(tmp_path), "data_batch_1.bin", "received 2 images", "10,000")
    write_folder(tmp_path / "python", cifar100_python(Data()))
    refused(lambda: read_cifar100(tmp_path / "python"), "train", "received 10 images", "50,000")
    refused(lambda: read_cifar10(tmp_path, expected_counts=(11, 4)), "multiple of 5")
    refused(lambda: read_cifar10(tmp_path, expected_counts=(10, 0)), "positive")


@pytest.mark.parametrize("folder", FORMS)
@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "overlong"])
def test_a_damaged_file_is_named(tmp_path, folder, damage):
    files = FORMS[folder][0](Data())
    name = next(iter(files))
    content = files[name]
    if damage == "missing":
        del files[name]
    else:
        changed = {"empty": b"", "truncated": content[:-100], "overlong": content * 2}
        files[name] = changed[damage]
    write_folder(tmp_path / folder, files)
    path = tmp_path / "archive.tar.gz"
    path.write_bytes(archive_of(folder, files))
    if damage == "overlong" and folder.endswith(("py", "python")):
        # What follows the end of a pickle is not part of it.
        reader(folder)(path, expected_counts=COUNTS)
        return
    refused(lambda: reader(folder)(tmp_path, expected_counts=COUNTS), name)
    refused(lambda: reader(folder)(path, expected_counts=COUNTS), name, "archive.tar.gz")
    if damage != "overlong":
        refused(lambda: reader(folder)(path, expected_counts=None), name)


@pytest.mark.parametrize(
    ("folder", "field", "value", "part"),
    [
        ("cifar-10-batches-bin", "labels", 10, "the value 10 in labels"),
        ("cifar-100-binary", "fine", 100, "the value 100 in fine_labels"),
        ("cifar-100-binary", "coarse", 20, "the value 20 in coarse_labels"),
        ("cifar-10-batches-py", "labels", 10, "0 to 9"),
        ("cifar-100-python", "coarse", 20, "0 to 19"),
    ],
)
def test_labels_out_of_range_are_refused(tmp_path, folder, field, value, part):
    data = Data()
    getattr(data, field)[1] = value
    write_folder(tmp_path, FORMS[folder][0](data))
    refused(lambda: reader(folder)(tmp_path, expected_counts=COUNTS), part)


def test_a_folder_or_archive_of_something_else_is_refused(tmp_path):
    refused(lambda: read_cifar10(tmp_path), tmp_path.name, "cifar-10-binary.tar.gz")
    refused(lambda: read_cifar10(tmp_path / "none"), "none", "No such file")
    path = tmp_path / "other.tar.gz"
    path.write_bytes(tar_bytes({"readme": b"text"}))
    refused(lambda: read_cifar10(path), "other.tar.gz", "without the data")
    path.write_bytes(archive_of("cifar-100-binary", cifar100_binary(Data())))
    refused(lambda: read_cifar10(path), "other.tar.gz", "cifar-10-batches-bin/test_batch.bin")
    for content in (b"", b"plain text", gzip.compress(b"plain text" * 100), bytes(1024)):
        path.write_bytes(content)
        refused(lambda: read_cifar10(path), "other.tar.gz")
    os.mkfifo(tmp_path / "pipe")
    refused(lambda: read_cifar10(tmp_path / "pipe"), "regular file")


def test_a_truncated_or_corrupt_archive_is_refused(tmp_path):
    path = tmp_path / "cifar.tar.gz"
    packed = archive_of("cifar-10-batches-bin", cifar10_binary(Data()))
    for cut in (1, 100, len(packed) // 2, len(packed) - 4):
        path.write_bytes(packed[:cut])
        refused(lambda: read_cifar10(path, expected_counts=COUNTS), "cifar.tar.gz")
    changed = bytearray(packed)
    changed[-8] ^= 1
    path.write_bytes(changed)
    refused(lambda: read_cifar10(path, expected_counts=COUNTS), "cifar.tar.gz", "CRC")


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        (tarfile.SYMTYPE, "symbolic link"),
        (tarfile.LNKTYPE, "hard link"),
        (tarfile.CHRTYPE, "character device"),
        (tarfile.BLKTYPE, "block device"),
        (tarfile.FIFOTYPE, "named pipe"),
        (tarfile.GNUTYPE_SPARSE, "sparse"),
        (b"Z", "unknown type"),
    ],
)
def test_links_and_devices_in_an_archive_are_refused(tmp_path, kind, part):
    info = tarfile.TarInfo("cifar-10-batches-bin/test_batch.bin")
    info.type, info.linkname = kind, "/etc/passwd"
    files = cifar10_binary(Data())
    del files["test_batch.bin"]
    path = tmp_path / "links.tar.gz"
    path.write_bytes(archive_of("cifar-10-batches-bin", files, extra=[info]))
    refused(lambda: read_cifar10(path, expected_counts=COUNTS), "links.tar.gz", part)


@pytest.mark.parametrize(
    "name", ["../escape", "/escape", "cifar-10-batches-bin/../../escape", "..\\escape"]
)
def test_names_that_lead_out_of_an_archive_are_refused_and_nothing_is_written(tmp_path, name):
    inner = tmp_path / "inner"
    inner.mkdir()
    path = inner / "traversal.tar.gz"
    files = {f"cifar-10-batches-bin/{key}": x for key, x in cifar10_binary(Data()).items()}
    path.write_bytes(tar_bytes(files | {name: b"evil"}))
    refused(lambda: read_cifar10(path, expected_counts=COUNTS), "traversal.tar.gz", "leads out")
    assert sorted(entry.name for entry in tmp_path.rglob("*")) == ["inner", "traversal.tar.gz"]


def test_the_same_member_twice_is_refused(tmp_path):
    path = tmp_path / "twice.tar.gz"
    files = cifar10_binary(Data())
    both = {f"cifar-10-batches-bin/{key}": x for key, x in files.items()}
    path.write_bytes(tar_bytes(both | {"test_batch.bin": files["test_batch.bin"]}))
    refused(lambda: read_cifar10(path, expected_counts=COUNTS), "test_batch.bin", "twice")
    path.write_bytes(tar_bytes(both | {"./cifar-10-batches-bin/test_batch.bin": b"x"}))
    refused(lambda: read_cifar10(path, expected_counts=COUNTS), "test_batch.bin", "twice")


def header_bytes(name, size):
    """A tar header that claims `size` for a member, without the member's content."""
    info = tarfile.TarInfo(name)
    info.size = size
    return info.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("test_batch.bin", tar.MAX_MEMBER_BYTES + 1),
        ("test_batch.bin", 1 << 20),  # the file ends before
        ("unrelated", tar.MAX_ARCHIVE_BYTES),
        ("unrelated", 8**11 - 1),  # the largest octal size
        ("unrelated", 1 << 40),  # base 256, which is not octal
    ],
)
def test_absurd_member_sizes_take_no_memory(tmp_path, name, size):
    path = tmp_path / "claim.tar.gz"
    path.write_bytes(gzip.compress(header_bytes(name, size) + bytes(2048)))
    with memory_below(4 << 20):
        refused(lambda: read_cifar10(path), "claim.tar.gz")


def test_a_tar_bomb_stops_at_the_archive_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(tar, "MAX_ARCHIVE_BYTES", 1 << 23)
    path = tmp_path / "bomb.tar.gz"
    path.write_bytes(gzip.compress(header_bytes("unrelated", 512) + bytes(1 << 24)))
    refused(lambda: read_cifar10(path), "bomb.tar.gz", "more than 8,388,608 bytes")


# --- pickles ---------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("text_keys", [False, True])
def test_pickles_that_were_written_again_by_python_3_are_read(tmp_path, protocol, text_keys):
    def dump(fields):
        if text_keys:
            fields = {key.decode(): value for key, value in fields.items()}
        return pickle.dumps(fields, protocol)

    data = Data()
    write_folder(tmp_path, cifar10_python(data, dump))
    data.check(read_cifar10(tmp_path, expected_counts=COUNTS), data.labels)


def test_the_reader_agrees_with_pickle_on_the_publishers_form():
    fields = {
        b"labels": [3, 255, 256],
        b"data": np.arange(12, dtype=np.uint8).reshape(3, 4),
        b"batch_label": b"testing batch 1 of 1",
    }
    content = python2_pickle(fields)
    trusted = pickle.loads(content, encoding="bytes")  # written three lines above
    np.testing.assert_array_equal(trusted[b"data"], fields[b"data"])
    result = batch_pickle.loads(content, "batch")
    np.testing.assert_array_equal(result["data"], fields[b"data"])
    assert result["labels"] == [3, 255, 256]
    assert result["batch_label"] == "testing batch 1 of 1"


def test_arrays_in_fortran_order(tmp_path):
    data = Data()
    write = cifar10_python(
        data, lambda fields: pickle.dumps(fields | {b"data": np.asfortranarray(fields[b"data"])}, 2)
    )
    write_folder(tmp_path, write)
    data.check(read_cifar10(tmp_path, expected_counts=COUNTS), data.labels)


class Hostile:
    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def hostile_pickles(marker):
    command = f"touch {marker}"
    yield pickle.dumps({b"data": Hostile(os.system, command)}, 2)
    yield pickle.dumps({b"data": Hostile(os.system, command)}, 4)
    yield pickle.dumps(Hostile(eval, f"open({str(marker)!r}, 'w')"), 2)
    yield b"cos\nsystem\n(U" + bytes([len(command)]) + command.encode() + b"tR."
    yield b"(U" + bytes([len(command)]) + command.encode() + b"ios\nsystem\n."  # INST
    yield b"(cos\nsystem\nU" + bytes([len(command)]) + command.encode() + b"o."  # OBJ
    # An admitted name with a dotted path behind it, and admitted functions with other arguments.
    yield b"\x80\x04\x8c\x05numpy\x8c\x0endarray.tofile\x93."
    yield b"\x80\x04\x8c\x05numpy\x8c\x04load\x93."
    yield b"\x80\x02c_codecs\nencode\nU\x01aU\x05rot13\x86R."
    yield b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\ndtype\nK\x00\x85U\x01b\x87R."
    # BUILD on an admitted name would set attributes of the function itself.
    yield b"\x80\x02cnumpy\nndarray\n}U\x01aK\x01sb."


def test_hostile_pickles_are_refused_and_not_executed(tmp_path):
    marker = tmp_path / "executed"
    write_folder(tmp_path / "cifar", cifar10_python(Data()))
    for content in hostile_pickles(marker):
        (tmp_path / "cifar" / "data_batch_3").write_bytes(content)
        refused(
            lambda: read_cifar10(tmp_path / "cifar", expected_counts=COUNTS),
            "data_batch_3",
            "Do not open this file with pickle",
        )
        assert not marker.exists()


def test_the_hostile_pickles_of_this_test_do_execute_elsewhere(tmp_path):
    # Otherwise the test above would prove nothing.
    marker = tmp_path / "executed"
    pickle.loads(next(hostile_pickles(marker)))
    assert marker.exists()


def big_text_pickle():
    """Stores one long text and asks a thousand times for it as bytes."""
    text = b"X" + struct.pack("<I", 1 << 20) + b"a" * (1 << 20) + b"q\x01"
    again = b"c_codecs\nencode\nh\x01X\x06\0\0\0latin1\x86R"
    return b"\x80\x02](" + text + again * 1000 + b"e."


@pytest.mark.parametrize(
    ("content", "part"),
    [
        # Nine bytes for which the C unpickler takes 32 GiB: put into memo slot 2**31 - 1.
        (b"\x80\x02}r" + struct.pack("<I", 2**31 - 1) + b".", "data"),
        (b"\x80\x02T" + struct.pack("<I", 2**31 - 1) + b"x.", "damaged"),  # a text of 2 GiB
        (b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b"x.", "damaged"),  # bytes of 4 EiB
        (b"\x80\x04\x95" + struct.pack("<Q", 2**62) + b"}.", ""),  # a frame of 4 EiB
        (big_text_pickle(), "many times"),
    ],
)
def test_pickles_cannot_take_memory_that_they_do_not_fill(tmp_path, content, part):
    write_folder(tmp_path, cifar10_python(Data()))
    (tmp_path / "data_batch_1").write_bytes(content)
    with memory_below(16 << 20):
        refused(lambda: read_cifar10(tmp_path, expected_counts=COUNTS), "data_batch_1", part)


def test_the_number_of_instructions_is_bounded(monkeypatch):
    monkeypatch.setattr(batch_pickle, "MAX_INSTRUCTIONS", 1_000)
    refused(lambda: batch_pickle.loads(b"\x80\x02" + b"}" * 1_001 + b".", "batch"), "1,000")


def test_the_published_sizes_stay_below_the_bound_on_instructions():
    # CIFAR-100's train: 50,000 of two labels and one file name with its memo entry = 200,000.
    per_image = [b"bos_taurus_s_000507.png"]
    one = python2_pickle({b"filenames": per_image, b"fine_labels": [1], b"coarse_labels": [1]})
    none = python2_pickle({b"filenames": [], b"fine_labels": [], b"coarse_labels": []})
    growth = len(list(pickletools.genops(one))) - len(list(pickletools.genops(none)))
    assert growth == 3
    assert 50_000 * (growth + 1) < batch_pickle.MAX_INSTRUCTIONS / 5


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({b"data": b"text"}, "'data' as bytes"),
        ({b"data": np.zeros((2, 3071), np.uint8)}, "(2, 3071)"),
        ({b"data": np.zeros((3, 3072), np.uint8)}, "received 3 images"),
        ({b"data": np.zeros((2, 3072), np.int16)}, "not uint8"),
        ({b"data": np.zeros((2, 32, 96), np.uint8)}, "not two-dimensional"),
        ({b"data": np.array([[None] * 3072] * 2)}, "not uint8"),
        ({b"labels": [1]}, "1 labels"),
        ({b"labels": [1, -1]}, "not labels"),
        ({b"labels": [1, 10**30]}, "not labels"),
        ({b"labels": [1, True]}, "not labels"),
        ({b"labels": [1, b"2"]}, "not labels"),
        ({b"labels": 7}, "not labels"),
        ({7: b"seven"}, "key of type int"),
    ],
)
def test_batches_of_another_content_are_refused(tmp_path, change, part):
    files = cifar10_python(Data(), lambda fields: pickle.dumps(fields, 2))
    fields = {b"data": np.zeros((2, 3072), np.uint8), b"labels": [0, 1]}
    files["data_batch_2"] = pickle.dumps(fields | change, 2)
    write_folder(tmp_path, files)
    refused(lambda: read_cifar10(tmp_path, expected_counts=COUNTS), "data_batch_2", part)


@pytest.mark.parametrize(
    "content",
    [
        b".",
        b"e.",
        b"(.",
        b"((.",
        b"]K\x01u.",
        b"}K\x01s.",
        b"h\x07.",
        b"R.",
        b"b.",
        b"(t",
        b"\x93.",
    ],
)
def test_meaningless_instructions_are_refused(content):
    refused(lambda: batch_pickle.loads(b"\x80\x02" + content, "batch"), "batch")


SMALL_PICKLE = python2_pickle({b"labels": [1, 2], b"data": np.zeros((2, 4), np.uint8)})


@fuzz
@given(content=damaged(SMALL_PICKLE))
def test_damaged_pickles_raise_input_errors_only(content):
    only_input_errors(lambda: batch_pickle.loads(content, "batch"), "batch")


SMALL_TAR = gzip.decompress(archive_of("cifar-10-batches-bin", {"test_batch.bin": b"x" * 600}))


@fuzz
@given(content=damaged(SMALL_TAR))
def test_damaged_archives_raise_input_errors_only(tmp_path, content):
    path = tmp_path / "fuzz.tar"
    path.write_bytes(content)
    only_input_errors(lambda: tar.read_members(path, lambda name: True), path)
    only_input_errors(lambda: read_cifar10(path, expected_counts=COUNTS), path)


@fuzz
@given(content=damaged(archive_of("cifar-10-batches-bin", cifar10_binary(Data()))))
def test_damaged_gzipped_archives_are_refused_or_harmless(tmp_path, content):
    path = tmp_path / "fuzz.tar.gz"
    path.write_bytes(content)
    result = only_input_errors(lambda: read_cifar10(path, expected_counts=COUNTS), path)
    if result is not None:
        Data().check(result, Data().labels)
