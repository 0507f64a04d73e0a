"""CIFAR in every form that its publisher has."""

import gzip
import os
import pickle

import numpy as np
import pytest
from hypothesis import given

from tasks.formats.cifar import read_cifar10, read_cifar100
from tests.tasks.formats.cifar_files import (
    COUNTS,
    FORMS,
    Data,
    archive_of,
    cifar10_binary,
    cifar10_python,
    cifar100_binary,
    cifar100_python,
    tar_bytes,
    write_folder,
)
from tests.tasks.formats.helpers import damaged, fuzz, only_input_errors, refused
from tf_fedsam.errors import InputError


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


def test_the_same_member_twice_is_refused(tmp_path):
    path = tmp_path / "twice.tar.gz"
    files = cifar10_binary(Data())
    both = {f"cifar-10-batches-bin/{key}": x for key, x in files.items()}
    path.write_bytes(tar_bytes(both | {"test_batch.bin": files["test_batch.bin"]}))
    refused(lambda: read_cifar10(path, expected_counts=COUNTS), "test_batch.bin", "twice")
    path.write_bytes(tar_bytes(both | {"./cifar-10-batches-bin/test_batch.bin": b"x"}))
    refused(lambda: read_cifar10(path, expected_counts=COUNTS), "test_batch.bin", "twice")


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


def test_arrays_in_fortran_order(tmp_path):
    data = Data()
    write = cifar10_python(
        data, lambda fields: pickle.dumps(fields | {b"data": np.asfortranarray(fields[b"data"])}, 2)
    )
    write_folder(tmp_path, write)
    data.check(read_cifar10(tmp_path, expected_counts=COUNTS), data.labels)


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


@fuzz
@given(content=damaged(archive_of("cifar-10-batches-bin", cifar10_binary(Data()))))
def test_damaged_gzipped_archives_are_refused_or_harmless(tmp_path, content):
    path = tmp_path / "fuzz.tar.gz"
    path.write_bytes(content)
    result = only_input_errors(lambda: read_cifar10(path, expected_counts=COUNTS), path)
    if result is not None:
        Data().check(result, Data().labels)


@pytest.mark.parametrize("content", [b"\x80\x02}.", pickle.dumps({b"labels": [1, 2]}, 2)])
def test_a_batch_without_images_is_refused(tmp_path, content):
    write_folder(tmp_path, cifar10_python(Data()))
    (tmp_path / "data_batch_3").write_bytes(content)
    refused(lambda: read_cifar10(tmp_path, expected_counts=COUNTS), "data_batch_3", "data")
