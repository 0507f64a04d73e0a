"""How models train in rounds: normalisation, precision, microbatches, frozen and shared layers."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.contract_test import VARIANTS, ids
from tests.algorithms.harness import flat, plugged, some_in_gate, strategy
from tests.models.conftest import NUM_CLASSES, SHAPE
from tf_fedsam import models
from tf_fedsam.data.federated_dataset import FederatedDataset
from tf_fedsam.models.trainable import select_trainable
from tf_fedsam.options import TrainingOptions
from tf_fedsam.process import LearningProcess

pytestmark = pytest.mark.no_cover

FIRST_OF_EACH = {name: (name, hparams) for name, hparams in reversed(VARIANTS)}


def residual(norm: str) -> keras.Model:
    """A small residual network: a stem, a block with a shortcut, a head."""
    layers = keras.layers

    def normalised(x):
        if norm == "batch":
            return layers.BatchNormalization(momentum=0.9)(x)
        return layers.GroupNormalization(2, epsilon=1e-5)(x)

    inputs = keras.Input(SHAPE)
    x = layers.ReLU()(normalised(layers.Conv2D(4, 3, padding="same")(inputs)))
    inner = layers.ReLU()(normalised(layers.Conv2D(8, 3, 2, padding="same")(x)))
    inner = normalised(layers.Conv2D(8, 3, padding="same")(inner))
    x = layers.ReLU()(layers.Add()([normalised(layers.Conv2D(8, 1, 2)(x)), inner]))
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(NUM_CLASSES)(x))


def perceptron(extra=()) -> keras.Model:
    return keras.Sequential(
        [
            keras.Input(SHAPE),
            keras.layers.Flatten(),
            keras.layers.Dense(8, activation="relu", name="body"),
            *extra,
            keras.layers.Dense(NUM_CLASSES, name="head"),
        ]
    )


def rounds(model, dataset, method=("fedsam", {"rho": 0.05}), num=2, devices=1, **options):
    """Some rounds of four clients; the process, the state before and the state after."""
    options = {"batch_size": 8, "local_epochs": 1, "lr": 0.05, "weight_decay": 0.0, **options}
    process = LearningProcess(
        model,
        plugged(method[0], **method[1]),
        dataset,
        options=TrainingOptions(**options),
        strategy=strategy(devices),
    )
    first = state = process.initialize()
    losses = []
    for _ in range(num):
        state, metrics = process.next(state, [0, 2, 3, 4])
        losses.append(metrics["train_loss"])
    return process, first, state, losses


@pytest.mark.parametrize("norm", ["group", "batch"])
@pytest.mark.parametrize("method", some_in_gate(FIRST_OF_EACH.values(), 10), ids=ids)
def test_every_method_on_residual_networks(method, norm, dataset):
    process, first, state, losses = rounds(lambda: residual(norm), dataset, method, num=1)
    weights = process.get_model_weights(state)
    assert np.isfinite(losses).all()
    assert np.abs(flat(weights.trainable) - flat(first.server["weights"])).max() > 1e-5
    assert len(weights.non_trainable) == (8 if norm == "batch" else 0)
    for before, after in zip(first.server["model_state"], weights.non_trainable, strict=True):
        assert np.isfinite(after).all()
        assert np.abs(after - before.numpy()).max() > 0
    variances = weights.non_trainable[1::2]
    assert all((v > 0).all() for v in variances)


FAMILIES = {
    "linear": {},
    "mlp": {"hidden_units": (8,)},
    "cnn": {},
    "resnet18": {"width": 4, "stem": "cifar"},
    "vgg11": {"width": 4},
    "lenet5": {},
}


@pytest.mark.parametrize("name", some_in_gate(FAMILIES, 2))
def test_every_family_trains(name):
    generator = np.random.default_rng(0)
    shape = (32, 32, 3)
    x = generator.normal(size=(12, *shape)).astype(np.float32)
    data = FederatedDataset.from_arrays(x, np.arange(12) % 3, np.arange(12) // 4)
    process = LearningProcess(
        lambda: models.build(name, shape, 3, FAMILIES[name]),
        plugged("fedsam"),
        data,
        options=TrainingOptions(batch_size=4, local_steps=1, lr=0.01),
        strategy=strategy(),
    )
    state = process.initialize()
    before = flat(state.server["weights"])
    state, metrics = process.next(state, [0, 2])
    assert np.isfinite(metrics["train_loss"])
    assert np.abs(flat(state.server["weights"]) - before).max() > 1e-6


class TestNormState:
    def test_average_is_the_plain_mean_over_the_cohort(self, dataset):
        """One round from the same statistics: the mean of what each client alone would get."""
        together = rounds(lambda: residual("batch"), dataset, ("fedavg", {}), num=1)[2]
        alone = []
        for client in (0, 2, 3, 4):
            process, state, _, _ = rounds(lambda: residual("batch"), dataset, ("fedavg", {}), num=0)
            state, _ = process.next(state, [client])
            alone.append(flat(state.server["model_state"]))
        np.testing.assert_allclose(
            flat(together.server["model_state"]), np.mean(alone, axis=0), rtol=1e-5, atol=1e-6
        )

    def test_keep_server(self, dataset):
        model = lambda: residual("batch")  # noqa: E731
        process, first, state, _ = rounds(model, dataset, norm_state="keep_server")
        for before, after in zip(
            first.server["model_state"], state.server["model_state"], strict=True
        ):
            np.testing.assert_array_equal(before, after)
        _, metrics = process.next(state, [0])
        assert metrics["bytes_up"] == 4 * process.num_parameters  # no statistics are sent

    def test_local_statistics_stay_with_the_client(self, dataset):
        model = lambda: residual("batch")  # noqa: E731
        process, _, state, _ = rounds(model, dataset, norm_state="local", num=1)
        rows, seen = state.clients.gather(np.arange(5))
        assert seen.tolist() == [True, False, True, True, True]
        mine = rows["model_state"]
        assert np.abs(mine[0] - mine[2]).max() > 1e-4
        average = flat(state.server["model_state"])
        np.testing.assert_allclose(average, mine[[0, 2, 3, 4]].mean(0), rtol=1e-5, atol=1e-6)
        # The next round starts from the client's own: with lr 0 its moving mean goes on from there.
        state, _ = process.next(state, [2])
        again = state.clients.gather(np.asarray([2]))[0]["model_state"][0]
        assert np.abs(again - mine[2]).max() < np.abs(again - average).max()


class TestPrecision:
    @pytest.mark.parametrize("precision", ["bfloat16", "float16"])
    def test_learns_with_float32_weights(self, precision, dataset):
        process, _, state, losses = rounds(
            perceptron, dataset, num=6, precision=precision, lr=0.1, local_epochs=3
        )
        assert losses[-1] < 0.8 * losses[0]
        assert all(w.dtype == tf.float32 for w in state.server["weights"])
        assert process.network.layers[-1].compute_dtype == precision
        assert keras.config.dtype_policy().name == "float32"  # put back

    def test_close_to_float32_but_not_equal(self, dataset):
        exact, half = (
            flat(rounds(perceptron, dataset, num=1, precision=p)[2].server["weights"])
            for p in ("float32", "float16")
        )
        difference = np.abs(exact - half).max()
        assert 0 < difference < 2e-3  # half precision has 11 bits

    def test_loss_scaling_keeps_small_gradients(self, dataset):
        """Inputs of 1e-7 give gradients below the smallest float16; scaling keeps them."""
        small = FederatedDataset.from_arrays(
            dataset.train.x * np.float32(1e-6), dataset.train.y, np.zeros(120, int)
        )
        model = lambda: keras.Sequential(  # noqa: E731
            [keras.Input(SHAPE), keras.layers.Flatten(), keras.layers.Dense(4, use_bias=False)]
        )
        options = TrainingOptions(
            batch_size=120, local_steps=1, lr=1e6, weight_decay=0, precision="float16"
        )
        assert options.loss_scale == 1024
        process = LearningProcess(
            model, plugged("fedavg"), small, options=options, strategy=strategy()
        )
        state = process.initialize()
        before = flat(state.server["weights"])
        state, _ = process.next(state, [0])
        assert (np.abs(flat(state.server["weights"]) - before) > 1e-3).mean() > 0.9


@pytest.mark.parametrize("method", ["fedsam", "mimelite", "fedrobust"])
def test_microbatches_give_the_same_result(method, dataset):
    """Batches of 8 in parts of 3, 3 and 2, on a model without BatchNorm and dropout."""
    whole = rounds(perceptron, dataset, (method, {}), microbatch=None)
    parts = rounds(perceptron, dataset, (method, {}), microbatch=3)
    np.testing.assert_allclose(
        flat(whole[2].server["weights"]), flat(parts[2].server["weights"]), atol=2e-6
    )
    np.testing.assert_allclose(whole[3], parts[3], rtol=1e-5)


class TestUnusualModels:
    def test_shared_layer_gets_the_sum_of_its_gradients(self, dataset):
        shared = lambda: _with_shared_layer()  # noqa: E731
        _, first, state, _ = rounds(shared, dataset)
        assert len(first.server["weights"]) == 6  # three layers, the shared one once
        assert np.isfinite(flat(state.server["weights"])).all()

    def test_frozen_layer_is_neither_trained_nor_sent(self, dataset):
        def model():
            network = perceptron()
            network.get_layer("body").trainable = False
            return network

        process, _, state, _ = rounds(model, dataset)
        assert len(state.server["weights"]) == 2
        assert state.server["model_state"] == []
        _, metrics = process.next(state, [0])
        assert metrics["bytes_down"] == 4 * 36

    def test_frozen_weights_are_the_same_on_every_device(self, dataset):
        """The compiled evaluation on three devices agrees with the exported model."""
        model = lambda: select_trainable(perceptron(), "head")  # noqa: E731
        process, _, state, _ = rounds(model, dataset, devices=3)
        received = process.evaluate(state, dataset.train)
        logits = process.get_model(state).predict(dataset.train.x, verbose=0)
        accuracy = np.mean(logits.argmax(-1) == dataset.train.y)
        assert received["accuracy"] == pytest.approx(accuracy)
        loss = keras.losses.sparse_categorical_crossentropy(
            dataset.train.y, logits, from_logits=True
        )
        assert received["loss"] == pytest.approx(float(np.mean(loss)), rel=1e-5)

    def test_dropout_does_not_depend_on_the_devices(self, dataset):
        model = lambda: perceptron([keras.layers.Dropout(0.5)])  # noqa: E731
        results = [flat(rounds(model, dataset, devices=n)[2].server["weights"]) for n in (1, 2, 3)]
        np.testing.assert_allclose(results[0], results[1], atol=1e-6)
        np.testing.assert_allclose(results[0], results[2], atol=1e-6)
        without = flat(rounds(perceptron, dataset)[2].server["weights"])
        assert np.abs(results[0] - without).max() > 1e-4


def _with_shared_layer() -> keras.Model:
    inputs = keras.Input(SHAPE)
    x = keras.layers.Dense(8)(keras.layers.Flatten()(inputs))
    shared = keras.layers.Dense(8, activation="tanh")
    return keras.Model(inputs, keras.layers.Dense(NUM_CLASSES)(shared(shared(x))))
