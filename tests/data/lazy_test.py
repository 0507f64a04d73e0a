"""Images in files give the same results as images in memory."""

import threading

import numpy as np
import pytest

from tests.algorithms.harness import flat, plugged, strategy
from tf_fedsam import models
from tf_fedsam.data.federated_dataset import Examples, FederatedDataset
from tf_fedsam.data.lazy import LazyImages
from tf_fedsam.data.partition import dirichlet
from tf_fedsam.options import TrainingOptions
from tf_fedsam.process import LearningProcess

SHAPE = (6, 6, 3)


class Files:
    """Stands for files: counts what is decoded."""

    def __init__(self, num: int):
        self.images = np.random.default_rng(0).integers(0, 256, (num, *SHAPE)).astype(np.uint8)
        self.decoded: list[int] = []

    def decode(self, numbers):
        self.decoded += numbers.tolist()
        return self.images[numbers]

    def lazy(self, **options):
        return LazyImages(self.decode, len(self.images), SHAPE, **options)


def test_indexing_is_that_of_an_array():
    files = Files(20)
    lazy = files.lazy()
    for index in (3, [4, 4, 1], slice(2, 9), np.asarray([[0, 1], [2, 0]]), np.zeros(0, int)):
        np.testing.assert_array_equal(lazy[index], files.images[index])
    assert len(lazy) == 20
    assert lazy.shape == (20, *SHAPE)


def test_cache_is_bounded_and_used():
    files = Files(10)
    lazy = files.lazy(cache_bytes=4 * 6 * 6 * 3)
    lazy[[0, 1, 2, 3]]
    lazy[[0, 1, 2, 3]]
    assert files.decoded == [0, 1, 2, 3]
    lazy[[4]]  # 0 goes, the least recently used
    lazy[[1, 2, 3, 4]]
    assert files.decoded == [0, 1, 2, 3, 4]
    lazy[[0]]
    assert files.decoded == [0, 1, 2, 3, 4, 0]


def test_prefetch_decodes_in_the_background():
    files = Files(10)
    lazy = files.lazy()
    lazy.prefetch(np.asarray([5, 6]))
    lazy[[5, 6]]
    assert files.decoded == [5, 6]
    failing = LazyImages(lambda numbers: 1 / 0, 3, SHAPE)
    failing.prefetch(np.asarray([0]))
    with pytest.raises(ZeroDivisionError):
        failing[[0]]


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
    for prefetch in (False, True):
        streamed = train(files.lazy(), prefetch)
        np.testing.assert_array_equal(in_memory[0], streamed[0])
        assert in_memory[1] == pytest.approx(streamed[1], rel=1e-6)
        assert in_memory[2] == streamed[2]
    assert threading.active_count() <= threads + 2
