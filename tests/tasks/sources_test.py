"""The order of the sources, what is said when none has the data, and subsets."""

import gzip

import numpy as np
import pytest
import requests

from tasks import registry
from tasks.base import Request
from tasks.sources import Found, Part, in_memory, read, resized
from tests.tasks.formats.idx_test import idx_bytes, write_pairs
from tests.tasks.stored import no_network, prepare_tfds, some_images
from tf_fedsam.data.federated_dataset import Preprocess
from tf_fedsam.errors import InputError


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setattr(requests, "head", no_network)


def load(name, folder=None, **options):
    return registry.find(name).load(Request(data_dir=folder, **options))


def test_prepared_goes_before_published_goes_before_downloaded(tmp_path, monkeypatch):
    attempts = []
    monkeypatch.setattr(
        "tasks.tfds_source.Known.downloaded", lambda self: attempts.append("download")
    )
    write_pairs(tmp_path)
    assert load("mnist", tmp_path).source == f"the publisher's IDX files in {tmp_path}"
    content = (some_images(4), np.arange(4))
    prepare_tfds(tmp_path, "mnist", {"train": content, "test": content})
    assert "prepared by TFDS" in load("mnist", tmp_path).source
    assert not attempts


def test_a_broken_publishers_file_is_an_error_and_not_a_reason_to_download(tmp_path, monkeypatch):
    attempts = []
    monkeypatch.setattr(
        "tasks.tfds_source.Known.downloaded", lambda self: attempts.append("download")
    )
    write_pairs(tmp_path)
    labels = tmp_path / "train-labels-idx1-ubyte.gz"
    whole = labels.read_bytes()
    for damage in (lambda: labels.write_bytes(whole[:-3]), labels.unlink):
        damage()
        with pytest.raises(InputError, match="train-labels-idx1-ubyte"):
            load("mnist", tmp_path)
    assert not attempts


def test_one_of_four_files_is_a_broken_set_too(tmp_path):
    (tmp_path / "t10k-labels-idx1-ubyte.gz").write_bytes(
        gzip.compress(idx_bytes(np.zeros(3, "u1")))
    )
    with pytest.raises(InputError, match="train-images-idx3-ubyte"):
        load("mnist", tmp_path)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("emnist", ["emnist/byclass prepared by TFDS", "nist.gov", "glyphs is embedded"]),
        ("mnist", ["train-images-idx3-ubyte.gz", "yann.lecun.com", "glyphs is embedded"]),
        ("fashion_mnist", ["dataset-fashion-mnist", "github.com", "glyphs is embedded"]),
        ("cifar10", ["cifar-10-binary.tar.gz", "toronto.edu", "no embedded data set"]),
        ("cifar100", ["cifar-100-binary.tar.gz", "toronto.edu", "no embedded data set"]),
        ("tiny_imagenet", ["tiny-imagenet-200.zip", "TFDS does not have", "no embedded data set"]),
        ("office_home", ["OfficeHome", "TFDS does not have", "dataset=image_folder"]),
    ],
)
@pytest.mark.parametrize("exists", [True, False])
def test_missing_data_is_explained(tmp_path, name, parts, exists):
    folder = tmp_path if exists else tmp_path / "nowhere"
    with pytest.raises(InputError) as caught:
        load(name, folder)
    message = str(caught.value)
    for part in (*parts, f"dataset={name} was not found", "data_dir", str(folder)):
        assert part in message
    there = "they are not there" if exists else "there is no such folder"
    assert f"the publisher's files in {folder}: {there}" in message
    if "TFDS does not have" not in message:
        assert f"download by TFDS into {folder}: no connection to " in message
    assert list(tmp_path.iterdir()) == []


def test_without_a_folder_only_tfds_is_tried(monkeypatch, tmp_path):
    import tensorflow_datasets as tfds

    monkeypatch.setattr(tfds.core.constants, "DATA_DIR", str(tmp_path))
    with pytest.raises(InputError) as caught:
        load("mnist")
    assert "publisher's files in" not in str(caught.value)
    assert f"mnist prepared by TFDS in {tmp_path}: it is not there" in str(caught.value)
    with pytest.raises(InputError, match="no data_dir was given"):
        load("office_home")


def test_mnist_and_fashion_mnist_are_not_confused(tmp_path):
    """Their files have the same names; the labels they begin with tell them apart."""
    starts = {
        "mnist": (5, 0, 4, 1, 9, 2, 1, 3, 1, 4),
        "fashion_mnist": (9, 0, 0, 3, 0, 2, 7, 2, 5, 5),
    }
    for name, other in (("mnist", "fashion_mnist"), ("fashion_mnist", "mnist")):
        folder = tmp_path / name
        write_pairs(folder, counts=(12, 3))
        labels = np.array([*starts[name], 1, 1], np.uint8)
        (folder / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes(labels)))
        assert len(load(name, folder).train) == 12
        with pytest.raises(InputError, match=f"received the files of {name}"):
            load(other, folder)


def test_a_subset_in_memory_keeps_images_labels_and_clients_together():
    x = np.arange(100, dtype=np.float32)[:, None]
    train, test = in_memory(x[:80], np.arange(80)), in_memory(x[80:], np.arange(80, 100))
    found = Found(train, test, ("a",), "here", np.arange(80))
    part = read(found, Request(subset=25), Preprocess())
    assert (len(part.train), len(part.test)) == (20, 5)
    for examples in (part.train, part.test):
        np.testing.assert_array_equal(examples.x[:, 0], examples.y)
    np.testing.assert_array_equal(part.client_id, part.train.y)
    assert np.shares_memory(read(found, Request(), Preprocess()).train.x, x)


def test_resizing():
    x = some_images(3, 8, 8, 3)
    assert resized(x, None) is x
    assert resized(x, 8) is x
    constant = np.full((2, 5, 9, 1), 77, np.uint8)
    np.testing.assert_array_equal(resized(constant, 4), np.full((2, 4, 4, 1), 77))
    # Halving with antialiasing: the triangle filter of width 4 at the middle of a linear ramp
    # keeps its values, (32 k + 16) at pixel k of the half.
    ramp = np.broadcast_to(np.arange(8, dtype=np.uint8)[None, None, :, None] * 16, (1, 8, 8, 3))
    half = resized(np.ascontiguousarray(ramp), 4)
    np.testing.assert_array_equal(half[0, 0, 1:3, 0], [40, 72])


def test_images_that_do_not_fit_are_explained():
    def too_much(positions, size, stream):
        raise MemoryError

    y = np.arange(6)
    part = Part(6, lambda positions: y, too_much)
    found = Found(part, part, ("a",), "here")
    with pytest.raises(InputError, match=r"do not fit into memory.*image_size=2000"):
        read(found, Request(image_size=2000), Preprocess())


def test_parts_read_what_is_asked_for():
    x, y = some_images(6), np.arange(6)
    part = in_memory(x, y)
    assert part.examples(None, None, "auto").x is x
    some = part.examples(np.array([1, 4]), 14, "auto")
    assert some.x.shape == (2, 14, 14, 1)
    np.testing.assert_array_equal(some.y, [1, 4])
    np.testing.assert_array_equal(part.labels(np.array([2])), [2])
