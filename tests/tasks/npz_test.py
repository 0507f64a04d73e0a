"""A user's own arrays; most refusals are tested at the command line."""

import zipfile

import numpy as np
import pytest

from tasks.base import Request
from tasks.npz import TASK
from tests.launch.running import toy_file
from tf_fedsam.errors import InputError


def load(folder, request=None, **changes):
    return TASK.load(Request(data_file=toy_file(folder, **changes), **(request or {})))


def test_what_is_in_the_file(tmp_path):
    loaded = load(tmp_path)
    with np.load(tmp_path / "toy.npz") as file:
        np.testing.assert_array_equal(loaded.train.x, file["x_train"])
        np.testing.assert_array_equal(loaded.test.y, file["y_test"])
        np.testing.assert_array_equal(loaded.client_id, file["client_id"])
    assert loaded.class_names == ("0", "1", "2")
    assert loaded.source == str(tmp_path / "toy.npz")


def test_clients_are_optional_and_may_have_names(tmp_path):
    assert load(tmp_path, client_id=None).client_id is None
    names = np.repeat(["ann", "bob"], 20)
    assert load(tmp_path, client_id=names).client_id[-1] == "bob"


@pytest.mark.parametrize(("dtype", "scale"), [(np.uint8, 1 / 255), (np.int64, 1), (float, 1)])
def test_bytes_are_divided_by_255(dtype, scale, tmp_path):
    x = np.arange(200).reshape(40, 5).astype(dtype)
    loaded = load(tmp_path, x_train=x, x_test=x[:12])
    assert loaded.preprocess.scale == scale
    np.testing.assert_allclose(loaded.preprocess(loaded.train.x), x * scale, rtol=1e-6)


def test_labels_may_be_whole_floats(tmp_path):
    loaded = load(tmp_path, y_train=np.arange(40) % 3 * 1.0)
    assert loaded.train.y.dtype == np.int64
    with pytest.raises(InputError, match="integers"):
        load(tmp_path, y_train=np.arange(40) % 3 + 0.5)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (np.arange(40) % 3 * 2, r"without \[1, 3\]"),
        (np.full(40, 10**6), "a label 1000000 among 40"),
    ],
)
def test_labels_that_are_not_numbered_from_0(labels, words, tmp_path):
    with pytest.raises(InputError, match=words):
        load(tmp_path, y_train=labels)


def test_a_class_that_is_only_tested(tmp_path):
    with pytest.raises(InputError, match=r"without \[3, 4\]"):
        load(tmp_path, y_test=np.arange(12) % 5)


def test_what_is_needed(tmp_path):
    with pytest.raises(InputError, match="data_file"):
        TASK.load(Request())
    np.savez(tmp_path / "a.npz", x_train=1, other=2)
    with pytest.raises(
        InputError, match=r"lacks y_train, x_test, y_test\. Received: x_train, other"
    ):
        TASK.load(Request(data_file=tmp_path / "a.npz"))


def test_what_is_not_needed_is_not_read(tmp_path):
    """A member that would fail if it were read."""
    load(tmp_path, notes=np.arange(10))
    path = toy_file(tmp_path, notes=np.arange(10))
    path.write_bytes(path.read_bytes().replace(np.arange(10).tobytes(), bytes(80)))
    with pytest.raises(zipfile.BadZipFile), np.load(path) as file:
        _ = file["notes"]
    assert len(TASK.load(Request(data_file=path)).train) == 40


X = np.random.default_rng(0).integers(0, 256, (40, 5))
MANY = np.random.default_rng(1).uniform(0, 1, (200, 6))  # 1,200 numbers


@pytest.mark.parametrize(
    ("train", "test", "words"),
    [
        (X.astype(np.uint8), X[:12] / 255, "uint8 from 0 to 25.* and float64 from 0"),
        (X / 255, X[:12].astype(np.uint8), "one dtype"),
        (X.astype(np.float32), X[:12].astype(np.float64), "float32 .* and float64"),
        # A mean of 127.5 beside one of 0.5.
        (X.astype(np.float32), (X[:12] / 255).astype(np.float32), "one scale.*away from 0"),
        ((X / 255).astype(np.float32), X[:12].astype(np.float32), "one scale"),
        # About half of the numbers beside none.
        (MANY, 2 * MANY - 1, r"one range.* 0% and (4|5)\d% are below 0"),
        (2 * MANY - 1, MANY, r"one range.*(4|5)\d% and 0% are below 0"),
        (X.astype(np.longdouble), X[:12].astype(np.longdouble), "64 bits.*float128"),
    ],
)
def test_training_and_test_examples_that_cannot_be_meant(train, test, words, tmp_path):
    with pytest.raises(InputError, match=words):
        load(tmp_path, **arrays(train, test))


def arrays(train, test):
    """With labels and clients for any number of inputs."""
    labels = {"y_train": np.arange(len(train)) % 3, "y_test": np.arange(len(test)) % 3}
    return {"x_train": train, "x_test": test, "client_id": np.arange(len(train)) % 4, **labels}


@pytest.mark.parametrize(
    ("train", "test"),
    [
        (MANY[:12], 2 * MANY[:12] - 1),  # of 72 numbers nothing can be said
        (2 * MANY - 1, 2 * MANY[::-1] - 0.9),
        (X.astype(">f4"), X[:12].astype("<f4")),
        (X.astype(np.uint8), np.zeros((12, 5), np.uint8)),
        (X / 255, X[:12] / 255 * 20),  # a shift that may be meant
    ],
)
def test_training_and_test_examples_that_may_differ(train, test, tmp_path):
    assert len(load(tmp_path, **arrays(train, test)).test) == len(test)


def test_a_subset(tmp_path):
    """Of 40 and 12 examples half: 20 and 6."""
    loaded = load(tmp_path, {"subset": 26})
    assert (len(loaded.train), len(loaded.test), len(loaded.client_id)) == (20, 6, 20)
