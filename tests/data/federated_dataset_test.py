"""A federated data set: how it is made, and what a client's tf.data.Dataset holds."""

import hypothesis
import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st

from tasks import registry
from tasks.base import Request
from tests.algorithms.harness import flat, plugged, some_in_gate, strategy
from tests.launch.running import image_files
from tf_fedsam.algorithms.fedavg import FedAvg
from tf_fedsam.client import ClientModel, LocalStep
from tf_fedsam.data import augment
from tf_fedsam.data import partition as partitions
from tf_fedsam.data.federated_dataset import Examples, FederatedDataset, Preprocess
from tf_fedsam.errors import InputError
from tf_fedsam.options import TrainingOptions
from tf_fedsam.process import LearningProcess

SHAPE = (6, 5, 3)
X = np.random.default_rng(0).integers(0, 256, (90, *SHAPE)).astype(np.uint8)
Y = np.arange(90) % 4
OPTIONS = {
    "dirichlet": {"alpha": 0.3},
    "dirichlet_classes": {"alpha": 0.3},
    "iid": {"size_sigma": 0.5},
    "pathological": {"classes_per_client": 2},
    "shards": {"shards_per_client": 2},
    "natural": {"client_id": "owner"},
    "given": {"client_id": lambda element: element["owner"]},
}
DRAWN = [name for name, scheme in partitions.SCHEMES.items() if not scheme.needs_client_ids]


def stored(y, x=None):
    """A data set whose inputs are their own positions."""
    x = np.arange(len(y))[:, None] if x is None else x
    return tf.data.Dataset.from_tensor_slices({"x": x, "label": y, "owner": np.asarray(y) % 3})


# How it is made.


@pytest.mark.parametrize("name", OPTIONS)
def test_a_tf_dataset_is_cut_as_its_arrays_are(name):
    needs_ids = partitions.SCHEMES[name].needs_client_ids
    num_clients = None if needs_ids else 5
    made = FederatedDataset.from_tf_dataset(
        stored(Y).batch(7), partition=name, num_clients=num_clients, seed=3, **OPTIONS[name]
    )
    options = {"client_id": Y % 3} if needs_ids else OPTIONS[name]
    expected = partitions.make(name, Y, num_clients, 3, **options)
    assert made.partition.fingerprint() == expected.fingerprint()
    np.testing.assert_array_equal(made.train.x, np.arange(90)[:, None])
    np.testing.assert_array_equal(made.train.y, Y)
    assert list(made.client_ids) == list(range(3 if needs_ids else 5))
    x = np.arange(90)[:, None]
    arrays = FederatedDataset.from_arrays(
        x, Y, partition=name, num_clients=num_clients, seed=3, **options
    )
    assert arrays.partition.fingerprint() == expected.fingerprint()


@hypothesis.settings(max_examples=25, deadline=None, derandomize=True)
@hypothesis.given(
    labels=st.lists(st.integers(0, 4), min_size=6, max_size=60),
    num_clients=st.integers(1, 6),
    scheme=st.sampled_from(DRAWN),
    sigma=st.sampled_from([0.0, 0.7]),
    seed=st.integers(0, 3),
    batch_size=st.sampled_from([None, 1, 4, 64]),
)
def test_any_data_set_cut_by_any_scheme(labels, num_clients, scheme, sigma, seed, batch_size):
    y = np.asarray(labels)
    options = {"alpha": 0.1, "classes_per_client": 1, "shards_per_client": 1, "size_sigma": sigma}
    takes = partitions.SCHEMES[scheme].options
    options = {name: value for name, value in options.items() if name in takes}
    leaves_out = scheme == "pathological"  # what clients may not have, so that it is their number

    def make(seed):
        dataset = stored(y) if batch_size is None else stored(y).batch(batch_size)
        # A filter hides how many there are.
        return FederatedDataset.from_tf_dataset(
            dataset.filter(lambda element: True),
            partition=scheme,
            num_clients=num_clients,
            seed=seed,
            **options,
        )

    refused = ""
    try:
        data = make(seed)
    except InputError as error:  # too few examples for all that drew a class
        refused = str(error)
    if refused:
        assert leaves_out
        assert "clients that drew it" in refused
        return
    assert data.num_clients == num_clients
    clients = [data.client_examples(client) for client in data.client_ids]
    held = np.concatenate([client.x[:, 0] for client in clients])
    assert len(set(held)) == len(held)  # disjoint
    if not leaves_out:
        np.testing.assert_array_equal(np.sort(held), np.arange(len(y)))  # and complete
    for client in clients:
        np.testing.assert_array_equal(client.y, y[client.x[:, 0]])
        assert len(client) >= 1
    assert make(seed).partition.fingerprint() == data.partition.fingerprint()
    if len(y) > 20:  # else two seeds may well agree
        assert make(seed + 1).partition.fingerprint() != data.partition.fingerprint()


def test_test_examples_come_in_the_same_form():
    named = stored(Y[:8])
    for test in (named, named.batch(3), Examples(np.arange(8)[:, None], Y[:8])):
        data = FederatedDataset.from_tf_dataset(
            stored(Y), partition="iid", num_clients=2, test=test, num_classes=6
        )
        np.testing.assert_array_equal(data.test.x, np.arange(8)[:, None])
        np.testing.assert_array_equal(data.test.y, Y[:8])
        assert data.num_classes == 6


def test_clients_have_the_names_of_the_data():
    names = np.array(["bob", "al", "bob", "cy"])
    data = FederatedDataset.from_arrays(X[:4], Y[:4], names)
    assert data.client_ids == ["al", "bob", "cy"]
    np.testing.assert_array_equal(np.sort(data.client_examples("bob").y), [0, 2])
    called = FederatedDataset(data.train, data.partition, client_ids=["x", "y", "z"])
    assert called.client_ids == ["x", "y", "z"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "neither a partition nor a client_id.*Name a scheme"),
        ({"partition": "iid"}, "no num_clients for partition='iid'"),
        ({"partition": "dirichlet", "num_clients": 3}, "no alpha for partition='dirichlet'"),
        ({"partition": "dirichlett"}, "Unknown partition 'dirichlett'. Did you mean 'dirichlet'"),
        ({"partition": "iid", "client_id": "owner"}, "a client_id and partition='iid', which dra"),
        ({"partition": "given"}, "no client_id for partition='given'"),
        ({"partition": "iid", "num_clients": 3, "alhpa": 1}, "alhpa=1 for partition='iid'"),
        ({"partition": "iid", "num_clients": 91}, "91 clients for 90 examples"),
        ({"client_id": "owner", "num_classes": 3}, r"Labels must be 0\.\.2"),
        ({"client_id": "owner", "test": stored, "x_key": "image"}, "Unknown x_key 'image'"),
    ],
)
def test_bad_arguments_are_explained(arguments, message):
    if "test" in arguments:
        arguments = {**arguments, "test": stored(Y)}
    with pytest.raises(InputError, match=message):
        FederatedDataset.from_tf_dataset(stored(Y), **arguments)


# What a client's tf.data.Dataset holds.


def images(x=X, seed=0):
    """Shuffled, normalised and augmented, as image data sets are."""
    return FederatedDataset(
        Examples(x, Y),
        partitions.dirichlet(Y, 5, 0.5, seed),
        preprocess=Preprocess(1 / 255, (0.5, 0.4, 0.3), (0.2, 0.3, 0.25)),
        augment=augment.compose(augment.flip(), augment.pad_and_crop(2)),
    )


def batches_of(dataset):
    return list(dataset.as_numpy_iterator())


def network():
    layers = [keras.Input(SHAPE), keras.layers.Flatten(), keras.layers.Dense(8, "tanh")]
    return keras.Sequential([*layers, keras.layers.Dense(4)])


def test_without_a_round_it_is_the_plain_examples():
    data = images()
    found = batches_of(data.create_tf_dataset_for_client(2))
    indices = data.partition.client(2)
    assert len(found) == len(indices)
    np.testing.assert_array_equal([y for _, y in found], Y[indices])
    mean, std = np.array([0.5, 0.4, 0.3]), np.array([0.2, 0.3, 0.25])
    np.testing.assert_allclose(
        np.stack([x for x, _ in found]), (X[indices] / 255 - mean) / std, rtol=0, atol=2e-6
    )


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({"local_epochs": 2}, lambda n: 2 * -(-n // 7)),
        ({"local_steps": 5}, lambda n: 5),
        ({"local_steps": 1, "local_epochs": 9}, lambda n: 1),
    ],
)
def test_a_round_has_as_many_batches_as_local_steps(options, steps):
    data = images()
    for client in data.client_ids:
        dataset = data.create_tf_dataset_for_client(
            client, 3, options=TrainingOptions(batch_size=7, **options)
        )
        size = len(data.partition.client(client))
        assert int(dataset.cardinality()) == steps(size) == len(batches_of(dataset))
        assert all(1 <= len(y) <= 7 for _, y in batches_of(dataset))


def test_step_fraction_is_that_of_the_round():
    data, options = images(), TrainingOptions(batch_size=7, local_steps=8)
    make = data.create_tf_dataset_for_client
    whole = batches_of(make(1, 0, options=options))
    part = batches_of(make(1, 0, options=options, step_fraction=0.4))
    assert len(part) == 4  # 0.4 * 8 = 3.2, and not less than that
    for (x, y), (x_part, y_part) in zip(whole, part, strict=False):
        np.testing.assert_array_equal(x, x_part)
        np.testing.assert_array_equal(y, y_part)


def test_every_pass_is_a_new_order_of_all_examples():
    data = images()
    options = TrainingOptions(batch_size=7, local_epochs=2)
    labels = []
    for seed, round_num in ((0, 0), (0, 1), (1, 0)):
        found = batches_of(
            data.create_tf_dataset_for_client(0, round_num, options=options, seed=seed)
        )
        y = np.concatenate([y for _, y in found])
        for half in np.split(y, 2):
            np.testing.assert_array_equal(np.sort(half), np.sort(Y[data.partition.client(0)]))
            labels.append(half.tolist())
    assert len({tuple(half) for half in labels}) == 6


class RecordingClient(ClientModel):
    """Plain local steps; writes down the batches they are given."""

    seen: list = []  # noqa: RUF012

    def train_step(self, data):
        x, y = data

        def record(x, y, seed):
            self.seen.append((int(seed), x, y))
            return np.int32(0)

        done = tf.numpy_function(record, [x, y, self.round.seed], tf.int32, stateful=True)
        with tf.control_dependencies([done]):
            return super().train_step((tf.identity(x), y))


class Recording(FedAvg):
    Client = RecordingClient


def test_batches_are_those_that_the_engine_trains_on(tmp_path):
    """Images in files, preprocessed and augmented, of several clients over two rounds."""
    image_files(tmp_path, 15, 2)
    loaded = registry.find("image_folder").load(Request(data_dir=tmp_path, stream="always"))
    assert not isinstance(loaded.train.x, np.ndarray)
    data = FederatedDataset(
        loaded.train,
        partitions.dirichlet(loaded.train.y, 4, 0.5, 0),
        preprocess=loaded.preprocess,
        augment=augment.compose(augment.flip(), augment.pad_and_crop(1)),
    )
    options = TrainingOptions(batch_size=4, local_epochs=2)
    process = LearningProcess(
        lambda: keras.Sequential(
            [keras.Input((8, 8, 3)), keras.layers.Flatten(), keras.layers.Dense(2)]
        ),
        Recording(),
        data,
        options=options,
        seed=5,
        strategy=strategy(1),
    )
    state = process.initialize()
    for round_num, cohort in enumerate([[0, 2, 3], [1, 3]]):
        RecordingClient.seen.clear()
        state, _ = process.next(state, cohort)
        by_client = {}
        for seed, x, y in RecordingClient.seen:
            by_client.setdefault(seed, []).append((x, y))
        assert len(by_client) == len(cohort)
        for client, used in zip(cohort, by_client.values(), strict=True):
            made = batches_of(
                data.create_tf_dataset_for_client(client, round_num, options=options, seed=5)
            )
            assert len(made) == len(used)
            for (x, y), (x_used, y_used) in zip(made, used, strict=True):
                np.testing.assert_array_equal(x, x_used)
                np.testing.assert_array_equal(y, y_used)


@pytest.mark.parametrize("method", some_in_gate(["fedsam", "fedavg"], 2))
@pytest.mark.parametrize(("eagerly", "tolerance"), [(True, 0), (False, 1e-6)])
def test_model_fit_on_it_ends_where_the_engine_does(method, eagerly, tolerance):
    """Shuffled and augmented, in the second round: Keras and the engine take the same steps.

    Bit for bit, but TensorFlow fuses ops of what Keras compiles, which rounds them otherwise.
    """
    data = images()
    options = TrainingOptions(
        batch_size=8, local_epochs=2, lr=0.2, lr_decay=0.5, keep_local_models=True
    )
    process = LearningProcess(
        network, plugged(method), data, options=options, seed=4, strategy=strategy(1)
    )
    state, _ = process.next(process.initialize(), [0, 1, 4])
    start = state.server["weights"]
    after, _ = process.next(state, [1, 2])
    step = LocalStep(weight_decay=options.weight_decay, clip_norm=options.clip_norm)
    for client_id in (1, 2):
        client = plugged(method).make_client(network(), step)
        client.assign_weights(start)
        client.compile(
            optimizer=keras.optimizers.SGD(options.learning_rate(1)),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            run_eagerly=eagerly,
        )
        batches = data.create_tf_dataset_for_client(client_id, 1, options=options, seed=4)
        client.fit(batches, shuffle=False, verbose=0)
        expected = after.clients.row(client_id)["local_model"]
        assert np.abs(expected - flat(start)).max() > 0.01
        np.testing.assert_allclose(flat(client.read_weights()), expected, rtol=0, atol=tolerance)


def test_arguments_that_need_a_round():
    data = images()
    for name, value in (("options", TrainingOptions()), ("seed", 0), ("step_fraction", 0.5)):
        with pytest.raises(InputError, match=f"{name}=.* without a round.*Set round_num"):
            data.create_tf_dataset_for_client(0, **{name: value})
    with pytest.raises(InputError, match=r"round_num=-1\. Expected 0"):
        data.create_tf_dataset_for_client(0, -1)
    with pytest.raises(InputError, match=r"must be 0\.\.4. Received: \[5\]"):
        data.create_tf_dataset_for_client(5)
