import gc
import io
import os
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import given
from PIL import Image

from tasks.formats import tiny_imagenet
from tests.tasks.formats.helpers import damaged, fuzz, memory_below, only_input_errors, refused

# Not in alphabetical order, as in the published wnids.txt.
WNIDS = ("n02124075", "n01443537", "n07747607")


def encoded(array, form="PNG"):
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, form)
    return buffer.getvalue()


def dataset(seed=0):
    """(files by name, images by name): two training images of each class, three for validation.

    Stored losslessly, whatever their names say, so that they can be compared exactly.
    """
    random = np.random.default_rng(seed)
    names = [f"train/{wnid}/images/{wnid}_{i}.JPEG" for wnid in WNIDS for i in range(2)]
    names += [f"val/images/val_{i}.JPEG" for i in range(3)]
    images = {name: random.integers(0, 256, (64, 64, 3), np.uint8) for name in names}
    files = {name: encoded(image) for name, image in images.items()}
    files["wnids.txt"] = "".join(f"{wnid}\n" for wnid in WNIDS).encode()
    files["words.txt"] = b"n01443537\tgoldfish, Carassius auratus\nn02124075\tEgyptian cat\n"
    files["val/val_annotations.txt"] = (
        b"val_2.JPEG\tn01443537\t0\t0\t63\t63\n"
        b"val_0.JPEG\tn07747607\t0\t32\t44\t62\n"
        b"val_1.JPEG\tn02124075\t52\t55\t57\t59\n"
    )
    files["test/images/test_0.JPEG"] = b"has no label and is not read"
    files["train/n02124075/n02124075_boxes.txt"] = b"n02124075_0.JPEG\t0\t10\t63\t58\n"
    return files, images


def write_folder(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def zip_bytes(files, compression=zipfile.ZIP_DEFLATED, prefix="tiny-imagenet-200/"):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for folder in (prefix, f"{prefix}train/") if prefix else ():
            archive.mkdir(folder)
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(prefix + name), content, compression)
    return buffer.getvalue()


def write(tmp_path, files, where):
    """The data set in one of the accepted forms; returns the path to read."""
    folder = tmp_path / "tiny-imagenet-200"
    if where in ("folder", "parent"):
        write_folder(folder, files)
        return folder if where == "folder" else tmp_path
    path = tmp_path / "tiny-imagenet-200.zip"
    path.write_bytes(zip_bytes(files, prefix="" if where == "bare zip" else "tiny-imagenet-200/"))
    return tmp_path if where == "zip's folder" else path


@pytest.mark.parametrize("where", ["folder", "parent", "zip", "zip's folder", "bare zip"])
def test_round_trip(tmp_path, where):
    files, images = dataset()
    path = write(tmp_path, files, where)
    found = tiny_imagenet.index(path)
    assert found.wnids == WNIDS
    assert found.class_names == ("Egyptian cat", "goldfish, Carassius auratus", "n07747607")
    # Labels follow wnids.txt; training files are sorted by name, the others as annotated.
    assert [label for _, label in found.train] == [1, 1, 0, 0, 2, 2]
    assert found.test == (
        ("val/images/val_2.JPEG", 1),
        ("val/images/val_0.JPEG", 2),
        ("val/images/val_1.JPEG", 0),
    )
    x_train, y_train, x_test, y_test = tiny_imagenet.load(path)
    assert x_train.shape == (6, 64, 64, 3)
    assert x_train.dtype == np.uint8
    assert y_train.dtype == np.int32
    assert y_train.tolist() == [1, 1, 0, 0, 2, 2]
    assert y_test.tolist() == [1, 2, 0]
    for array, part in ((x_train, found.train), (x_test, found.test)):
        np.testing.assert_array_equal(array, [images[name] for name, _ in part])


@pytest.mark.parametrize("where", ["folder", "zip"])
def test_files_are_read_by_number(tmp_path, where):
    """An archive stays open as long as one of the readers is there, and no longer."""
    files, _ = dataset()
    path = write(tmp_path, files, where)
    found = tiny_imagenet.index(path)
    num_open = len(os.listdir("/proc/self/fd"))
    train, test = tiny_imagenet.readers(path, found)
    assert len(os.listdir("/proc/self/fd")) == num_open + (where == "zip")
    for read, part in ((train, found.train), (test, found.test)):
        for number, (name, _) in enumerate(part):
            content, shown = read(number)
            assert content == files[name]
            assert shown.endswith(name)
    del train
    assert test(0)[0] == files[found.test[0][0]]
    del test, read
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == num_open


@pytest.mark.parametrize("where", ["folder", "zip"])
def test_jpeg_grey_images_and_another_size(tmp_path, where):
    files, _ = dataset()
    files["val/images/val_2.JPEG"] = encoded(np.full((64, 64), 77, np.uint8), "JPEG")
    files["val/images/val_0.JPEG"] = encoded(np.full((64, 64, 3), (250, 10, 90), np.uint8), "JPEG")
    _, _, x_test, _ = tiny_imagenet.load(write(tmp_path, files, where), size=32)
    assert x_test.shape == (3, 32, 32, 3)
    # A constant picture survives JPEG up to the rounding of its colour conversion.
    assert np.abs(x_test[0].astype(int) - 77).max() <= 1
    assert np.abs(x_test[1].astype(int) - (250, 10, 90)).max() <= 2


def change_annotation(files, old, new):
    name = "val/val_annotations.txt"
    files[name] = files[name].replace(old, new)


DAMAGES = {
    "no wnids": (lambda files: files.pop("wnids.txt"), "wnids.txt"),
    "empty wnids": (lambda files: files.update({"wnids.txt": b"\n"}), "wnids.txt"),
    "binary wnids": (lambda files: files.update({"wnids.txt": b"\xff\xfe\0"}), "wnids.txt"),
    "odd wnid": (lambda files: files.update({"wnids.txt": b"../n02124075"}), "wnids.txt"),
    "wnid twice": (lambda files: files.update({"wnids.txt": b"n1\nn1"}), "twice"),
    "class without images": (
        lambda files: files.update({"wnids.txt": files["wnids.txt"] + b"n09999999\n"}),
        "train/n09999999/images",
    ),
    "unknown training class": (
        lambda files: files.update({"train/n00000000/images/a.JPEG": b"x"}),
        "train/n00000000/images/a.JPEG",
    ),
    "no annotations": (lambda files: files.pop("val/val_annotations.txt"), "val_annotations.txt"),
    "empty annotations": (
        lambda files: files.update({"val/val_annotations.txt": b""}),
        "no line for 'val_0.JPEG'",
    ),
    "unknown class": (
        lambda files: change_annotation(files, b"n07747607", b"n1"),
        "'n1' in line 2",
    ),
    "missing image": (lambda files: files.pop("val/images/val_1.JPEG"), "val_1.JPEG"),
    "traversal": (
        lambda files: change_annotation(files, b"val_0.JPEG", b"../../wnids.txt"),
        "../../wnids.txt",
    ),
    "twice": (lambda files: change_annotation(files, b"val_0", b"val_1"), "annotated twice"),
    "no tab": (lambda files: change_annotation(files, b"val_0.JPEG\t", b"val_0.JPEG "), "line 2"),
    "unreadable words": (lambda files: files.update({"words.txt": b"\xff"}), "words.txt"),
}


@pytest.mark.parametrize("where", ["folder", "zip"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_an_inconsistent_data_set_is_refused(tmp_path, damage, where):
    files, _ = dataset()
    change, part = DAMAGES[damage]
    change(files)
    path = write(tmp_path, files, where)
    refused(lambda: tiny_imagenet.index(path), "tiny-imagenet-200", part)
    refused(lambda: tiny_imagenet.load(path), "tiny-imagenet-200", part)


@pytest.mark.parametrize("where", ["folder", "zip"])
@pytest.mark.parametrize("content", [b"", b"text", encoded(np.zeros((64, 64), np.uint8))[:-30]])
def test_an_unreadable_image_is_named(tmp_path, where, content):
    files, _ = dataset()
    name = "train/n01443537/images/n01443537_1.JPEG"
    files[name] = content
    path = write(tmp_path, files, where)
    refused(lambda: tiny_imagenet.load(path), name)


@pytest.mark.parametrize("where", ["folder", "zip"])
def test_sizes_are_bounded(tmp_path, where, monkeypatch):
    files, _ = dataset()
    name = "train/n01443537/images/n01443537_1.JPEG"
    files[name] = bytes(tiny_imagenet.MAX_IMAGE_BYTES + 1)
    with memory_below(64 << 20):
        path = write(tmp_path, files, where)
        refused(lambda: tiny_imagenet.load(path), name, "bytes")
    files[name] = encoded(np.zeros((1025, 1024), np.uint8))  # 1,024 pixels more than 2**20
    path = write(tmp_path, files, where)
    refused(lambda: tiny_imagenet.load(path), name, "1024 x 1025 pixels")


def test_a_missing_place_and_other_files_are_refused(tmp_path):
    refused(lambda: tiny_imagenet.index(tmp_path), tmp_path.name, "tiny-imagenet-200.zip")
    refused(lambda: tiny_imagenet.index(tmp_path / "none"), "none")
    path = tmp_path / "other.zip"
    for content in (b"", b"not a zip archive", zip_bytes({})[:-5]):
        path.write_bytes(content)
        refused(lambda: tiny_imagenet.index(path), "other.zip")
    path.write_bytes(zip_bytes({"readme": b"text"}))
    refused(lambda: tiny_imagenet.index(path), "other.zip", "wnids.txt")
    os.mkfifo(tmp_path / "pipe")
    refused(lambda: tiny_imagenet.index(tmp_path / "pipe"), "regular file")


@pytest.mark.parametrize("name", ["../escape", "/escape", "a/../../escape", "..\\escape"])
def test_names_that_lead_out_of_the_archive_are_refused(tmp_path, name):
    files, _ = dataset()
    path = tmp_path / "zip"
    path.write_bytes(
        zip_bytes({f"tiny-imagenet-200/{k}": x for k, x in files.items()} | {name: b""}, prefix="")
    )
    refused(lambda: tiny_imagenet.index(path), "leads out")


def test_a_member_twice_a_link_and_other_compression_are_refused(tmp_path):
    files, _ = dataset()
    path = tmp_path / "odd.zip"
    path.write_bytes(zip_bytes(files | {"tiny-imagenet-200/wnids.txt": b"n1"}, prefix=""))
    refused(lambda: tiny_imagenet.index(path), "odd.zip", "twice")

    path.write_bytes(zip_bytes(files, zipfile.ZIP_LZMA))
    refused(lambda: tiny_imagenet.index(path), "odd.zip", "compression type 14")

    link = zipfile.ZipInfo("train/link.JPEG")
    link.external_attr = 0o120777 << 16
    buffer = io.BytesIO(zip_bytes(files))
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr(link, "/etc/passwd")
    path.write_bytes(buffer.getvalue())
    refused(lambda: tiny_imagenet.index(path), "odd.zip", "symbolic link")


def test_a_member_without_a_name_is_no_surprise(tmp_path):
    content = bytearray(zip_bytes(dataset()[0]))
    name = content.rindex(b"tiny-imagenet-200/words.txt")  # in the list of members, at the end
    content[name] = 0  # zipfile ends a name at its first zero byte
    path = tmp_path / "odd.zip"
    path.write_bytes(content)
    # words.txt is gone under this name; what is left is whole.
    assert tiny_imagenet.index(path).class_names == WNIDS


def test_an_encrypted_or_corrupt_member_is_named(tmp_path):
    files, _ = dataset()
    stored = zip_bytes({"wnids.txt": files.pop("wnids.txt")} | files, zipfile.ZIP_STORED)
    path = tmp_path / "odd.zip"
    # The name's first occurrence is the local header, 30 bytes before its own name; the content
    # follows the name.
    where = stored.index(b"wnids.txt") + len(b"wnids.txt")
    changed = bytearray(stored)
    changed[where] ^= 1
    path.write_bytes(changed)
    refused(lambda: tiny_imagenet.index(path), "odd.zip: wnids.txt", "CRC")

    changed = bytearray(stored)
    central = stored.index(b"PK\x01\x02", where)
    while b"wnids.txt" not in stored[central : central + 80]:
        central = stored.index(b"PK\x01\x02", central + 4)
    changed[central + 8 : central + 10] = struct.pack("<H", 1)  # general purpose flags: encrypted
    path.write_bytes(changed)
    refused(lambda: tiny_imagenet.index(path), "odd.zip: wnids.txt", "encrypted")


def test_limits_of_the_archive(tmp_path, monkeypatch):
    path = tmp_path / "large.zip"
    path.write_bytes(zip_bytes(dataset()[0]))
    with monkeypatch.context() as patch:
        patch.setattr(tiny_imagenet, "MAX_MEMBERS", 10)
        refused(lambda: tiny_imagenet.index(path), "large.zip", "at most 10")
    with monkeypatch.context() as patch:
        patch.setattr(tiny_imagenet, "MAX_DIRECTORY_BYTES", 100)
        refused(lambda: tiny_imagenet.index(path), "large.zip", "at most 100 bytes")
    monkeypatch.setattr(tiny_imagenet, "MAX_ARCHIVE_BYTES", 1000)
    refused(lambda: tiny_imagenet.index(path), "large.zip", "at most 1,000 bytes")


def small_files():
    """As few bytes as possible, so that the damage often hits what matters."""
    pixel = encoded(np.zeros((1, 1), np.uint8))
    return {
        "wnids.txt": b"n1\n",
        "train/n1/images/a.JPEG": pixel,
        "val/images/b.JPEG": pixel,
        "val/val_annotations.txt": b"b.JPEG\tn1\n",
    }


@fuzz
@given(content=damaged(zip_bytes(small_files())))
def test_damaged_archives_raise_input_errors_only(tmp_path, content):
    path = tmp_path / "fuzz.zip"
    path.write_bytes(content)
    only_input_errors(lambda: tiny_imagenet.load(path, size=1), path)


@fuzz
@given(
    wnids=damaged(small_files()["wnids.txt"]),
    annotations=damaged(small_files()["val/val_annotations.txt"]),
)
def test_damaged_texts_raise_input_errors_only(tmp_path, wnids, annotations):
    folder = tmp_path / "tiny"
    changed = {"wnids.txt": wnids, "val/val_annotations.txt": annotations}
    write_folder(folder, small_files() | changed)
    only_input_errors(lambda: tiny_imagenet.load(folder, size=1), folder)
