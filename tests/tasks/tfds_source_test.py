"""Data sets of TFDS: prepared on disk, mocked, missing and broken."""

import pathlib

import numpy as np
import pytest
import tensorflow_datasets as tfds
from tensorflow_datasets.core.download.download_manager import (
    NonMatchingChecksumError as ChecksumError,
)

from tasks import registry, tfds_source
from tasks.base import Request
from tests.tasks.stored import prepare_tfds, some_images
from tf_fedsam.errors import InputError

TRAIN, TEST = some_images(30, seed=1), some_images(8, seed=2)
TRAIN_LABELS, TEST_LABELS = np.arange(30) % 10, np.arange(8) % 10


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One of each kind."""
    folder = tmp_path_factory.mktemp("tfds")
    both = {"train": (TRAIN, TRAIN_LABELS), "test": (TEST, TEST_LABELS)}
    prepare_tfds(folder, "mnist", both)
    prepare_tfds(folder, "kmnist", {"train": both["train"], "validation": both["test"]})
    prepare_tfds(folder, "only_train", {"train": both["train"]})
    # A test split without labels, as of competitions, beside a labelled validation split.
    hidden = (TEST, np.full(8, -1))
    prepare_tfds(folder, "hidden", {**both, "test": hidden, "validation": both["test"]})
    prepare_tfds(folder, "emnist", both, config="byclass", num_classes=62)
    prepare_tfds(folder, "array_record", both, file_format="array_record")
    sizes = [(20, 30), (64, 64), (90, 50)]
    different = [np.full((*size, 3), 40 * i, np.uint8) for i, size in enumerate(sizes)]
    content = (different, np.arange(3))
    prepare_tfds(
        folder, "photos", {"train": content, "test": content}, shape=(None, None, 3), num_classes=3
    )
    return folder


@pytest.fixture(autouse=True)
def no_downloads(monkeypatch):
    def refuse(builder):
        raise tfds_source.NotFoundError("no connection in a test")

    monkeypatch.setattr(tfds_source, "_probe", refuse)


def load(name, folder, **options):
    return registry.find(name).load(Request(data_dir=folder, **options))


def test_a_prepared_data_set_is_read_in_its_order(folder):
    loaded = load("mnist", folder)
    for part, x, y in ((loaded.train, TRAIN, TRAIN_LABELS), (loaded.test, TEST, TEST_LABELS)):
        assert part.x.dtype == np.uint8
        assert part.y.dtype == np.int32
        np.testing.assert_array_equal(part.x, x)
        np.testing.assert_array_equal(part.y, y)
    assert loaded.source == f"mnist/3.0.1, prepared by TFDS in {folder}"
    assert loaded.class_names == tuple("0123456789")


def test_the_folder_of_the_version_itself_will_do(folder):
    loaded = load("mnist", folder / "mnist" / "3.0.1")
    np.testing.assert_array_equal(loaded.train.x, TRAIN)
    with pytest.raises(InputError, match="it is not there"):
        load("tfds:kmnist", folder / "mnist" / "3.0.1")


def test_batches_do_not_show(folder, monkeypatch):
    monkeypatch.setattr(tfds_source, "BATCH_BYTES", 7 * TRAIN[0].size)
    monkeypatch.setattr(tfds_source, "LABELS_BATCH", 7)
    for options in ({}, {"subset": 19}):
        loaded = load("mnist", folder, **options)
        chosen = [np.flatnonzero((x == TRAIN).all((1, 2, 3)))[0] for x in loaded.train.x]
        assert sorted(set(chosen)) == chosen
        np.testing.assert_array_equal(loaded.train.y, TRAIN_LABELS[chosen])
    assert (len(loaded.train), len(loaded.test)) == (15, 4)  # 19 x 30/38, 19 x 8/38


def test_labels_alone_are_the_same(folder):
    whole, labels = (load("mnist", folder, subset=20, labels_only=only) for only in (False, True))
    np.testing.assert_array_equal(labels.train.y, whole.train.y)
    np.testing.assert_array_equal(labels.test.y, whole.test.y)
    assert labels.train.x.shape == (len(labels.train), 0)


def test_other_file_formats_are_refused(folder):
    with pytest.raises(InputError, match="received files of the format array_record"):
        load("tfds:array_record", folder)


def test_emnist_is_turned_upright(folder):
    """TFDS keeps the publisher's exchange of rows and columns."""
    loaded = load("emnist", folder)
    np.testing.assert_array_equal(loaded.train.x, TRAIN.transpose(0, 2, 1, 3))
    np.testing.assert_array_equal(loaded.train.y, TRAIN_LABELS)
    assert loaded.class_names[9:12] == ("9", "A", "B")
    assert loaded.source == f"emnist/byclass/3.0.1, prepared by TFDS in {folder}"
    by_its_tfds_name = load("tfds:emnist/byclass", folder)
    np.testing.assert_array_equal(by_its_tfds_name.train.x, loaded.train.x)


def test_any_image_classification_set(folder):
    loaded = load("tfds:kmnist", folder)
    np.testing.assert_array_equal(loaded.test.x, TEST)
    assert loaded.source.endswith("its validation split is the test set")
    with_version = load("tfds:kmnist:3.0.1", folder)
    np.testing.assert_array_equal(with_version.train.x, loaded.train.x)
    hidden = load("tfds:hidden", folder)
    np.testing.assert_array_equal(hidden.test.y, TEST_LABELS)
    assert "validation" in hidden.source


def test_without_a_test_split_a_fifth_is_set_aside(folder):
    loaded = load("tfds:only_train", folder, seed=4)
    assert (len(loaded.train), len(loaded.test)) == (24, 6)
    together = np.concatenate([loaded.train.x, loaded.test.x])
    assert {x.tobytes() for x in together} == {x.tobytes() for x in TRAIN}
    assert "6 training examples set aside" in loaded.source
    np.testing.assert_array_equal(
        load("tfds:only_train", folder, seed=4, labels_only=True).test.y, loaded.test.y
    )
    other = load("tfds:only_train", folder, seed=5)
    assert not np.array_equal(other.test.x, loaded.test.x)


def test_images_of_different_sizes_become_one(folder):
    for size, expected in ((None, 64), (12, 12)):
        loaded = load("tfds:photos", folder, image_size=size)
        assert loaded.train.x.shape == (3, expected, expected, 3)
        # Of one colour each, which resampling keeps.
        for image, colour in zip(loaded.train.x, (0, 40, 80), strict=True):
            assert (image == colour).all()


def test_fixed_images_are_resized_when_asked(folder):
    assert load("mnist", folder, image_size=32).train.x.shape == (30, 32, 32, 1)


@pytest.mark.parametrize("damage", ["missing", "truncated", "flipped", "short"])
def test_a_broken_prepared_set_is_an_error_and_not_downloaded(tmp_path, damage):
    content = (TRAIN, TRAIN_LABELS)
    prepare_tfds(tmp_path, "mnist", {"train": content, "test": content})
    file = next(tmp_path.rglob("*-train.tfrecord-*"))
    data = file.read_bytes()
    if damage == "missing":
        for either in tmp_path.rglob("*-train.tfrecord-*"):
            either.unlink()
    elif damage == "truncated":
        file.write_bytes(data[: len(data) // 2])
    elif damage == "flipped":
        file.write_bytes(data[:200] + bytes([data[200] ^ 1]) + data[201:])
    else:  # whole records, but fewer than promised
        record = 8 + 4 + int.from_bytes(data[:8], "little") + 4
        file.write_bytes(data[:record])
    with pytest.raises(InputError, match=r"mnist/3\.0\.1, prepared by TFDS in") as caught:
        load("mnist", tmp_path)
    assert "prepare it again" in str(caught.value)
    assert "Tried" not in str(caught.value)


def test_a_broken_description_is_an_error(tmp_path):
    prepare_tfds(tmp_path, "mnist", {"train": (TRAIN, TRAIN_LABELS), "test": (TEST, TEST_LABELS)})
    next(tmp_path.rglob("dataset_info.json")).write_text("{ nothing")
    with pytest.raises(InputError, match="cannot be read"):
        load("mnist", tmp_path)


def test_other_kinds_of_data_are_refused(tmp_path):
    features = tfds.features.FeaturesDict({"text": tfds.features.Text(), "label": np.int64})
    tfds.dataset_builders.store_as_tfds_dataset(
        name="words",
        version="1.0.0",
        features=features,
        split_datasets={"train": [(0, {"text": "a", "label": 0})]},
        data_dir=str(tmp_path),
    )
    with pytest.raises(InputError, match="not a set of images with one class each"):
        load("tfds:words", tmp_path)


def test_an_unknown_name_is_said_to_be_unknown(tmp_path):
    with pytest.raises(InputError, match="does not know the data set") as caught:
        load("tfds:no_such_set", tmp_path)
    assert "Prepare it with TFDS" in str(caught.value)


@pytest.mark.parametrize("name", ["emnist", "mnist", "fashion_mnist", "cifar10", "cifar100"])
def test_mocked_downloads(name, monkeypatch):
    """TFDS's own mock: everything but the bytes is real."""
    monkeypatch.setattr(tfds_source, "_probe", lambda builder: None)
    policy = tfds.testing.MockPolicy.USE_CODE
    with tfds.testing.mock_data(num_examples=12, policy=policy):
        loaded = load(name, pathlib.Path("anywhere"))
    shape = (32, 32, 3) if name.startswith("cifar") else (28, 28, 1)
    assert loaded.train.x.shape == (12, *shape)
    assert loaded.train.x.dtype == np.uint8
    assert loaded.train.y.max() < len(loaded.class_names)
    assert "downloaded by TFDS into anywhere" in loaded.source
    expected = {"emnist": 62, "cifar100": 100}.get(name, 10)
    assert len(loaded.class_names) == expected


@pytest.mark.parametrize(
    ("error", "part"),
    [
        (OSError("Not enough disk space. Needed: 3 GiB"), "Not enough disk space"),
        (ChecksumError("wrong checksum"), "ChecksumError: wrong checksum"),
        (AssertionError("Manual directory\n  does not exist"), "Manual directory does not exist"),
    ],
)
def test_a_download_that_fails_is_reported(tmp_path, monkeypatch, error, part):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(tfds_source, "_probe", lambda builder: None)
    monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", fail)
    with pytest.raises(InputError, match=part) as caught:
        load("mnist", tmp_path)
    assert "dataset=glyphs is embedded and has the same shape" in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_servers_are_asked_once_and_without_retries(monkeypatch):
    import requests

    asked = []

    def head(url, timeout):
        asked.append(url)
        raise requests.ConnectionError

    monkeypatch.undo()
    monkeypatch.setattr(requests, "head", head)
    with pytest.raises(tfds_source.NotFoundError, match="no connection to"):
        tfds_source._probe(tfds.builder("mnist"))
    assert len(asked) == 1
