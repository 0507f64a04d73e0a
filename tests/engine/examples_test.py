"""Examples where the devices can read them."""

import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.harness import strategy
from tests.launch.running import image_files
from tf_fedsam.data.federated_dataset import Examples, FederatedDataset
from tf_fedsam.data.partition import by_client_id
from tf_fedsam.engine import examples as engine_examples
from tf_fedsam.engine.examples import DeviceExamples
from tf_fedsam.engine.placement import Placement
from tf_fedsam.runs import task
from tf_fedsam.runs.task import Request

X, Y = np.arange(12, dtype=np.float32).reshape(6, 2), np.arange(6) % 3


def placed(dataset):
    return DeviceExamples(dataset, Placement(strategy(2)))


@pytest.fixture
def in_memory():
    return FederatedDataset.from_arrays(X, Y, Y)


@pytest.fixture
def in_files(tmp_path):
    """Twelve images of two classes in files, four of each of three clients."""
    image_files(tmp_path, 6, 1)
    loaded = task.find("image_folder").load(Request(data_dir=tmp_path, stream="always"))
    partition = by_client_id(np.arange(12) % 3, seed=0)
    return FederatedDataset(loaded.train, partition, test=loaded.test, num_classes=2)


class TestInMemory:
    def test_a_round_has_all_of_them(self, in_memory):
        found = placed(in_memory)
        order, streamed = found.of_cohort(np.array([5, 0, 5]))
        assert order.tolist() == [5, 0, 5]
        assert streamed == found.signature() == ()
        x, y = found.of_round(streamed)
        np.testing.assert_array_equal(x, X)
        np.testing.assert_array_equal(y, Y)

    def test_there_is_nothing_to_prefetch(self, in_memory):
        placed(in_memory).prefetch(np.array([0, 1]))

    def test_others_are_placed_once(self, in_memory):
        found, others = placed(in_memory), Examples(2 * X, Y)
        (first,), (again,) = found.pieces(others), found.pieces(others)
        assert first is again
        np.testing.assert_array_equal(first[0], 2 * X)
        (train,) = found.pieces(in_memory.train)
        assert train is found.of_round(())  # no second copy


class TestInFiles:
    def test_a_round_has_the_cohorts(self, in_files):
        """Each example once, and the order points at these."""
        found = placed(in_files)
        wanted = np.array([7, 2, 7, 11])
        order, (x, y) = found.of_cohort(wanted)
        assert x.shape == (3, *in_files.input_shape)
        np.testing.assert_array_equal(x[order], in_files.train.x[wanted])
        np.testing.assert_array_equal(y[order], in_files.train.y[wanted])
        assert found.of_round((x, y)) == (x, y)

    def test_rounds_fit_the_signature(self, in_files):
        found = placed(in_files)
        for numbers in ([0], [3, 4, 5, 4]):
            _, streamed = found.of_cohort(np.array(numbers))
            for spec, array in zip(found.signature(), streamed, strict=True):
                assert spec.is_compatible_with(tf.constant(array))

    def test_prefetched_images_are_those_of_the_clients(self, in_files, monkeypatch):
        asked = []
        monkeypatch.setattr(type(in_files.train.x), "prefetch", lambda _, n: asked.append(n))
        found = placed(in_files)
        found.prefetch(np.array([2, 0]))
        found.prefetch(np.array([], int))
        (numbers,) = asked
        assert sorted(numbers) == [0, 2, 3, 5, 6, 8, 9, 11]

    def test_piece_by_piece(self, in_files, monkeypatch):
        monkeypatch.setattr(engine_examples, "PIECE", 5)
        pieces = list(placed(in_files).pieces(in_files.train))
        assert [len(y) for _, y in pieces] == [5, 5, 2]
        np.testing.assert_array_equal(
            np.concatenate([x for x, _ in pieces]), in_files.train.x[np.arange(12)]
        )
