"""Images in files give the same results as images in memory."""

import gc
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.harness import flat, plugged, strategy
from tf_fedsam import models
from tf_fedsam.data.federated_dataset import Examples, FederatedDataset
from tf_fedsam.data.files import MAX_CHUNK, FileImages
from tf_fedsam.data.partition import dirichlet
from tf_fedsam.options import TrainingOptions
from tf_fedsam.process import LearningProcess

SHAPE = (6, 6, 3)
BYTES = 6 * 6 * 3


class Files:
    """Stands for files: notes what is decoded."""

    def __init__(self, num: int, broken=(), seconds: float = 0):
        self.images = np.random.default_rng(0).integers(0, 256, (num, *SHAPE)).astype(np.uint8)
        self.broken = set(broken)
        self.seconds = seconds
        self.decoded: list[int] = []

    def decode(self, number):
        self.decoded.append(number)
        time.sleep(self.seconds)
        if number in self.broken:
            raise ValueError(f"file {number} is broken")
        return self.images[number]

    def stored(self, **options):
        return FileImages(self.decode, len(self.images), SHAPE, **options)


def eventually(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


@pytest.mark.parametrize("num", [20, 5 * MAX_CHUNK + 1])
def test_indexing_is_that_of_an_array(num):
    files = Files(num)
    stored = files.stored()
    order = np.random.default_rng(1).permutation(num)
    for index in (3, [4, 4, 1], slice(2, 9), np.asarray([[0, 1], [2, 0]]), np.zeros(0, int), order):
        np.testing.assert_array_equal(stored[index], files.images[index])
        assert stored[index].shape == files.images[index].shape
    assert len(stored) == num
    assert stored.shape == (num, *SHAPE)
    assert stored.ndim == 4
    assert stored[order].dtype == stored.dtype == np.uint8


def test_all_in_memory():
    files = Files(5 * MAX_CHUNK + 1)
    np.testing.assert_array_equal(files.stored().in_memory(), files.images)
    assert sorted(files.decoded) == list(range(5 * MAX_CHUNK + 1))
    with pytest.raises(MemoryError):
        FileImages(files.decode, 1 << 40, (1 << 20, 1 << 20, 3)).in_memory()


def test_cache_is_bounded_and_used():
    files = Files(10)
    stored = files.stored(cache_bytes=4 * BYTES)
    stored[[0, 1, 2, 3]]
    stored[[0, 1, 2, 3]]
    assert files.decoded == [0, 1, 2, 3]
    stored[[4]]  # 0 goes, the least recently used
    stored[[1, 2, 3, 4]]
    assert files.decoded == [0, 1, 2, 3, 4]
    stored[[0]]
    assert files.decoded == [0, 1, 2, 3, 4, 0]


@pytest.mark.parametrize("cache_bytes", [0, BYTES, 3 * BYTES + 1])
def test_a_request_may_be_larger_than_the_cache(cache_bytes):
    files = Files(5 * MAX_CHUNK)
    stored = files.stored(cache_bytes=cache_bytes)
    for _ in range(2):
        stored.prefetch(np.arange(4 * MAX_CHUNK))
        np.testing.assert_array_equal(stored[1:], files.images[1:])


def test_no_more_is_prefetched_than_there_is_room_for():
    """Two chunks wait in the buffer, and each worker has one done or underway."""
    files = Files(50 * MAX_CHUNK)
    stored = files.stored(cache_bytes=2 * MAX_CHUNK * BYTES)
    stored.prefetch(np.arange(50 * MAX_CHUNK))
    assert eventually(lambda: len(files.decoded) >= 3 * MAX_CHUNK)
    time.sleep(0.2)
    assert len(files.decoded) <= (2 + 8 + 1) * MAX_CHUNK
    np.testing.assert_array_equal(stored[:], files.images)
    assert len(files.decoded) == 50 * MAX_CHUNK


def test_prefetch_decodes_in_the_background():
    files = Files(8 * MAX_CHUNK)
    stored = files.stored()
    first, second = np.arange(3 * MAX_CHUNK), np.arange(2 * MAX_CHUNK, 6 * MAX_CHUNK)
    stored.prefetch(first)
    assert eventually(lambda: len(files.decoded) == len(first))  # before anybody asks
    np.testing.assert_array_equal(stored[first], files.images[first])
    assert sorted(files.decoded) == first.tolist()
    stored.prefetch(second)
    np.testing.assert_array_equal(stored[second], files.images[second])
    assert sorted(files.decoded) == list(range(6 * MAX_CHUNK))  # what was kept is not decoded again


def test_prefetched_images_that_nobody_asks_for_do_no_harm():
    files = Files(4 * MAX_CHUNK)
    stored = files.stored()
    wanted = [0, MAX_CHUNK, 4 * MAX_CHUNK - 1]
    stored.prefetch(np.arange(MAX_CHUNK, 3 * MAX_CHUNK))
    np.testing.assert_array_equal(stored[wanted], files.images[wanted])
    stored.prefetch(np.arange(2 * MAX_CHUNK))
    stored.prefetch(np.arange(3 * MAX_CHUNK))  # instead of the others
    stored.prefetch(np.zeros(0, int))
    np.testing.assert_array_equal(stored[: 3 * MAX_CHUNK], files.images[: 3 * MAX_CHUNK])


def test_a_broken_image_is_an_error_where_it_is_asked_for():
    files = Files(60, broken=[35, 38])
    stored = files.stored()
    stored.prefetch(np.arange(60))
    np.testing.assert_array_equal(stored[:35], files.images[:35])
    np.testing.assert_array_equal(stored[39:], files.images[39:])
    for _ in range(2):
        with pytest.raises(ValueError, match="file 35 is broken"):
            stored[:]
    with pytest.raises(ValueError, match="file 35 is broken"):
        files.stored().in_memory()
    files.broken.clear()
    np.testing.assert_array_equal(stored[:], files.images)


def test_an_interrupted_access_leaves_nothing_wrong(monkeypatch):
    files = Files(6 * MAX_CHUNK)
    stored = files.stored(cache_bytes=0)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(stored, "_keep", interrupted)
        with pytest.raises(KeyboardInterrupt):
            stored[:]
    np.testing.assert_array_equal(stored[::-1], files.images[::-1])


def test_decoding_can_be_given_up():
    """Objects go while their pipelines work, without waiting for all of it."""
    files = Files(3200, seconds=0.001)
    for _ in range(3):
        files.decoded.clear()
        stored = files.stored()
        stored.prefetch(np.arange(3200))
        assert eventually(lambda: files.decoded)
        del stored
        gc.collect()
        num_decoded = len(files.decoded)
        assert num_decoded < 1600
        time.sleep(0.05)
        assert len(files.decoded) == num_decoded


def test_a_program_ends_while_images_are_decoded():
    """Quietly, and without waiting for 16 s of them."""
    program = """
import time, numpy as np
from tf_fedsam.data.files import FileImages
def decode(number):
    time.sleep(0.001)
    return np.zeros((2, 2, 3), np.uint8)
images = FileImages(decode, 16_000, (2, 2, 3))
images[:20]
images.prefetch(np.arange(16_000))
time.sleep(0.05)
"""
    began = time.monotonic()
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert b"Traceback" not in ended.stderr
    assert b"terminate" not in ended.stderr
    assert time.monotonic() - began < 60


def test_rounds_and_tests_are_bitwise_the_same():
    files = Files(60)
    y = np.arange(60) % 4
    partition = dirichlet(y, 6, 0.5, seed=0)

    def train(x, prefetch):
        dataset = FederatedDataset(Examples(x, y), partition, test=Examples(x, y))
        process = LearningProcess(
            lambda: models.build("mlp", SHAPE, 4, {"hidden_units": (5,)}),
            plugged("fedsam"),
            dataset,
            options=TrainingOptions(batch_size=4, local_epochs=2, lr=0.001),
            strategy=strategy(2),
        )
        state = process.initialize()
        schedule = [[0, 3, 5], [1, 2], [0, 4]]
        for cohort, following in zip(schedule, [*schedule[1:], []], strict=True):
            upcoming = following if prefetch else ()
            state, metrics = process.next(state, cohort, upcoming=upcoming)
        assert process.engine.num_traces == 1
        return flat(state.server["weights"]), process.evaluate(state), metrics["train_loss"]

    threads = threading.active_count()
    in_memory = train(files.images, prefetch=False)
    for prefetch, cache_bytes in ((False, None), (True, 0)):
        streamed = train(files.stored(cache_bytes=cache_bytes), prefetch)
        np.testing.assert_array_equal(in_memory[0], streamed[0])
        assert in_memory[1] == pytest.approx(streamed[1], rel=1e-6)
        assert in_memory[2] == streamed[2]
    gc.collect()
    assert threading.active_count() <= threads


def test_the_pipeline_is_built_once(monkeypatch):
    files, built = Files(200), []
    wrapped = tf.numpy_function
    monkeypatch.setattr(
        tf, "numpy_function", lambda *args, **k: (built.append(args), wrapped(*args, **k))[1]
    )
    stored = files.stored(cache_bytes=0)
    for begin in range(0, 200, 20):
        stored.prefetch(np.arange(begin, begin + 20))
        stored[begin : begin + 15]
    assert len(built) == 1
    assert len(files.decoded) == 200


def test_some_of_the_images_stay_in_files():
    files = Files(20)
    some = Examples(files.stored(), np.arange(20)).take(np.asarray([7, 3, 11]))
    assert files.decoded == []
    np.testing.assert_array_equal(some.x[[2, 0]], files.images[[11, 7]])
    assert sorted(files.decoded) == [7, 11]
    assert some.y.tolist() == [7, 3, 11]
    assert some.x.shape == (3, *SHAPE)
