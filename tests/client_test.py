"""The client model: its plain step, model.fit, and what two gradients of one step share.

Numbers are those of tests/algorithms/eager.py: the gradient at weights w with A w = 0 is -A/2, and
-3A/4 after a perturbation of length RHO uphill; V is orthogonal to A.
"""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.eager import LR, RHO, ZERO, A, V, Visit, X, Y, as_flat, as_tree, network
from tests.algorithms.harness import LR as TOY_LR
from tests.algorithms.harness import Toy, assert_close, some_in_gate, strategy
from tf_fedsam.algorithms.fedavg import FedAvg
from tf_fedsam.algorithms.fedinit import FedInit
from tf_fedsam.algorithms.fedsam import FedSAM
from tf_fedsam.algorithms.registry import all_algorithms, find
from tf_fedsam.client import ClientModel, ClientRound, LocalStep, model_state
from tf_fedsam.data.federated_dataset import FederatedDataset
from tf_fedsam.options import TrainingOptions
from tf_fedsam.process import LearningProcess

# The plain step.


def test_step_clips_then_decays():
    local_step = LocalStep(weight_decay=0.1, clip_norm=0.5)
    visit = Visit(FedAvg(), weights=V, local_step=local_step)
    # |g| = |A/2| = 1 is clipped to 0.5; the decay 0.1 V comes on top.
    assert_close(visit.step(), V - LR * (-A / 4 + 0.1 * V))


def test_step_leaves_short_gradients_alone():
    visit = Visit(FedAvg(), weights=V, local_step=LocalStep(clip_norm=1.01))
    assert_close(visit.step(), V + LR / 2 * A)


def test_step_scales_corrects_clips_and_adds_in_this_order():
    visit = Visit(FedAvg(), local_step=LocalStep(clip_norm=2.5))
    batch = visit.client.unpack((X, Y))
    visit.client.begin_step(tf.constant(0))
    visit.client.gradient(batch)
    visit.client.step(
        batch, as_tree(2 * A), scale=0.75, correction=as_tree(2 * V), unclipped=as_tree(9 * V)
    )
    # 0.75 * 2 A + 2 V has length sqrt(3^2 + 4^2) = 5 and is halved.
    assert_close(visit.weights, -LR * ((1.5 * A + 2 * V) / 2 + 9 * V))


def with_momentum(velocity=None):
    """A visit of two steps with momentum 1/2, each of direction A."""
    visit = Visit(FedAvg(), local_step=LocalStep(momentum=0.5))
    visit.client.start_round(visit.round, [], None if velocity is None else as_tree(velocity))
    for step in range(2):
        batch = visit.client.unpack((X, Y))
        visit.client.begin_step(tf.constant(step))
        visit.client.gradient(batch)
        visit.client.step(batch, as_tree(A))
    return visit


def test_momentum_is_that_of_the_heavy_ball():
    """Velocities A and A + A/2; the update divided by its normaliser is A again, uphill."""
    visit = with_momentum()
    assert_close(visit.weights, -LR * (1 + 1.5) * A)
    assert_close(float(visit.client.lr_sum()), LR * (1 + 1.5))
    assert_close(as_flat(visit.client.read_local(visit.client.velocity)), 1.5 * A)


def test_momentum_that_was_kept():
    """V goes on with 1/2 and 1/4 of itself; what it adds is known, and is not of this round."""
    visit = with_momentum(V)
    assert_close(visit.weights, -LR * (2.5 * A + 0.75 * V))
    assert_close(as_flat(visit.client.inherited(as_tree(V))), -LR * 0.75 * V)
    assert_close(as_flat(visit.client.read_local(visit.client.velocity)), 1.5 * A + V / 4)
    visit.client.start_round(visit.round, [])
    assert_close(as_flat(visit.client.read_local(visit.client.velocity)), ZERO)


def test_rates_of_steps_with_a_schedule_and_momentum(monkeypatch):
    """Rates LR and LR/2: LR * 1 + LR/2 * 1.5."""
    monkeypatch.setattr(ClientModel, "schedule", lambda self, step: 2.0**-step)
    assert_close(float(with_momentum().client.lr_sum()), LR * (1 + 0.75))
    # What was kept moves step 0 by LR / 2 of it, and step 1 by LR / 2 * 1/4.
    assert_close(as_flat(with_momentum(V).client.inherited(as_tree(V))), -LR * 0.625 * V)


def test_in_fit_the_optimizer_has_the_momentum():
    clients = [ClientModel(network(), local_step=LocalStep(momentum=m)) for m in (0.0, 0.5)]
    plain, other = (fitted(at(client, V))[0] for client in clients)
    np.testing.assert_array_equal(plain, other)


def test_radius():
    visit = Visit(FedSAM(rho=RHO))
    assert visit.client.radius() == RHO
    halved = dataclasses.replace(visit.round, rho_factor=tf.constant(0.5))
    visit.client.start_round(halved, [])
    assert_close(float(visit.client.radius()), RHO / 2)


def test_clipping_shows_what_is_not_finite():
    visit = Visit(FedAvg(), local_step=LocalStep(clip_norm=1.0))
    batch = visit.client.unpack((X, Y))
    visit.client.begin_step(tf.constant(0))
    visit.client.gradient(batch)
    visit.client.step(batch, as_tree([np.inf, 0, 0, 0, 0, 0]))
    assert np.isnan(visit.weights).all()


def test_shifted_gradient_puts_the_weights_back():
    """Bit for bit, where subtracting the shift again would not."""
    start = np.array([0.1, 0.7, -0.3, 1e-3, 12.3, -0.9], np.float32)
    shift = np.array([3.3, -0.77, 1e-5, 5.1, 1e4, 0.11], np.float32)
    assert ((start + shift) - shift != start).any()
    visit = Visit(FedAvg(), weights=start)
    batch = visit.client.unpack((X, Y))
    shifted = visit.client.gradient(batch, shift=as_tree(shift))
    np.testing.assert_array_equal(visit.weights, start)
    # 1 / (1 + exp(A (w + shift))) is 0 in float32; without the shift it would be 1e-6.
    np.testing.assert_array_equal(as_flat(shifted), ZERO)
    assert as_flat(visit.client.gradient(batch)).any()


def test_begin_round_attributes_have_a_message():
    with pytest.raises(AttributeError, match="'pull' was not set by begin_round"):
        _ = ClientModel(network()).fixed.pull


# model.fit


def fitted(client, epochs=2, metrics=None, **arguments):
    """Trains a client model in fit on the example X; the weights after it and the history."""
    client.compile(
        optimizer=keras.optimizers.SGD(LR),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=metrics,
    )
    history = client.fit(X, Y, batch_size=1, epochs=epochs, verbose=0, **arguments)
    return as_flat(client.read_weights()), history.history


def at(client, weights):
    client.assign_weights(as_tree(weights))
    return client


def test_fit_is_the_plain_step():
    client = at(ClientModel(network(), local_step=LocalStep(weight_decay=0.1)), V)
    weights, _ = fitted(client, epochs=1)
    assert_close(weights, V - LR * (-A / 2 + 0.1 * V))


def test_fit_of_fedsam_is_two_gradients():
    plain, _ = fitted(at(ClientModel(network()), ZERO), epochs=1)
    sharp, _ = fitted(at(FedSAM(rho=RHO).make_client(network(), None), ZERO), epochs=1)
    assert_close(plain, LR / 2 * A)
    assert_close(sharp, LR * 3 / 4 * A)


def test_fit_weights_samples_and_reports_metrics():
    client = at(ClientModel(network()), ZERO)
    weights, history = fitted(client, metrics=["accuracy"], sample_weight=np.array([2.0]))
    first = LR * A  # twice -A/2; then A w = 4 LR = 2 ln 3 and twice -A / (1 + 9)
    assert_close(weights, first + LR / 5 * A)
    assert history["accuracy"][1] == 1.0


def test_fit_reports_the_loss():
    """ln 2 at A w = 0; then, at A w = ln 3, ln(1 + 1/3)."""
    _, history = fitted(at(ClientModel(network()), ZERO))
    np.testing.assert_allclose(history["loss"], [np.log(2), np.log(4 / 3)], rtol=1e-5)


@pytest.mark.parametrize("method", some_in_gate(all_algorithms(), 3))
def test_fit_is_a_first_visit(method):
    """There is no server in fit: it trains as a client does in round 0, and moves the weights.

    The rate is the optimizer's, also for methods whose rates fall in a round.
    """
    start = V + A / 4
    constant = {"lr_end": 1} if method in ("fedswa", "fedmoswa") else {}
    visit = Visit(find(method)(**constant), weights=start)
    visit.step()
    expected = visit.step()
    client = at(find(method)().make_client(network(), LocalStep()), start)
    weights, _ = fitted(client)
    assert np.abs(weights - start).max() > 0.01
    assert_close(weights, expected)


# What two gradients of one step share.


def first_round(weights, seed=7):
    lr = tf.constant(LR, tf.float32)
    return ClientRound({"weights": weights}, {}, weights, lr, num_steps=tf.constant(9), seed=seed)


def dropout_client():
    layers = [keras.Input((8,)), keras.layers.Dropout(0.5), keras.layers.Dense(2)]
    client = FedSAM(rho=0).make_client(keras.Sequential(layers), LocalStep())
    return client, client.read_weights()


def dropout_gradients(seed, step, num=1):
    client, weights = dropout_client()
    zeros = [tf.zeros_like(w) for w in weights]
    client.start_round(first_round(zeros, seed), [])
    client.begin_step(tf.constant(step))
    batch = client.unpack((tf.ones([3, 8]), tf.constant([0, 1, 0])))
    gradients = [as_flat(client.gradient(batch)) for _ in range(num)]
    fresh = client.unpack((batch.x, batch.y))
    return *gradients, as_flat(client.gradient(fresh))


def test_dropout_masks_of_a_step_are_the_same():
    first, second, third, fresh = dropout_gradients(seed=7, step=0, num=3)
    assert (first[:16] == 0).any()  # the mask shows in the gradient of the kernel
    np.testing.assert_array_equal(second, first)
    np.testing.assert_array_equal(third, first)
    assert (fresh != first).any()  # a new batch draws new masks


def test_dropout_masks_are_a_function_of_seed_and_step():
    first, _ = dropout_gradients(seed=7, step=0)
    np.testing.assert_array_equal(dropout_gradients(seed=7, step=0)[0], first)
    assert (dropout_gradients(seed=7, step=1)[0] != first).any()
    assert (dropout_gradients(seed=8, step=0)[0] != first).any()


def test_sharpness_aware_step_without_radius_is_plain_under_dropout():
    client, weights = dropout_client()
    plain = ClientModel(client.network)
    ends = []
    for model in (client, plain):
        model.start_round(first_round(weights), [])
        model.begin_step(tf.constant(3))
        model.train_step((tf.ones([3, 8]), tf.constant([0, 1, 0])))
        ends.append(as_flat(model.read_weights()))
    np.testing.assert_array_equal(ends[0], ends[1])


def test_statistics_move_once_a_step_at_the_unperturbed_weights():
    norm = keras.layers.BatchNormalization(momentum=0.5)
    layers = [keras.Input((2,)), keras.layers.Dense(3), norm, keras.layers.Dense(2)]
    client = FedSAM(rho=2.0).make_client(keras.Sequential(layers), LocalStep())
    weights = client.read_weights()
    client.start_round(first_round(weights), client.read_model_state())
    client.begin_step(tf.constant(0))
    x = np.array([[0.3, -1.0], [2.0, 0.5], [-0.7, 1.1]], np.float32)
    client.train_step((tf.constant(x), tf.constant([0, 1, 1])))
    hidden = x @ weights[0].numpy() + weights[1].numpy()
    mean, variance = client.read_model_state()
    # From 0 and 1, half of the way to the batch's.
    assert_close(mean, 0.5 * hidden.mean(axis=0))
    assert_close(variance, 0.5 + 0.5 * hidden.var(axis=0))


def test_one_of_two_ways_to_a_gradient():
    """Only that one is taken, in a graph too, and the batch knows what it told."""
    client, taken = ClientModel(network()), []
    client.start_round(first_round(as_tree(ZERO)), [])

    def uphill(batch):
        client.gradient(batch)
        tf.py_function(lambda: taken.append("uphill"), [], [])
        return client.gradient(batch, shift=as_tree(-RHO * A / 2))

    def plain(batch):
        tf.py_function(lambda: taken.append("plain"), [], [])
        return client.gradient(batch)

    @tf.function(autograph=False)
    def choose(condition):
        batch = client.unpack((tf.constant(X), tf.constant(Y)))
        return client.either(condition, batch, uphill, plain), batch.loss, batch.logits

    for condition, factor in ((True, 3 / 4), (False, 1 / 2)):
        gradient, loss, logits = choose(tf.constant(condition))
        assert_close(as_flat(gradient), -factor * A)
        assert_close(loss, np.log(2))  # at w = 0
        assert_close(logits, np.zeros((1, 2)))
    assert taken == ["uphill", "plain"]


def test_logits_at_other_weights_and_statistics():
    norm = keras.layers.BatchNormalization(epsilon=0)
    client = ClientModel(keras.Sequential([keras.Input((2,)), norm]))
    x = np.array([[3.0, 5.0]], np.float32)
    client.assign_model_state([tf.constant([1.0, 1.0]), tf.constant([1.0, 1.0])])
    batch = client.unpack((tf.constant(x), tf.constant([0])))
    before = [as_flat(client.read_weights()), as_flat(client.read_model_state())]
    weights = [tf.constant([2.0, 2.0]), tf.constant([10.0, 0.0])]
    # 2 (x - mean) / deviation + (10, 0)
    assert_close(client.logits_at(weights, batch), [[14, 8]])
    other = [tf.constant([2.0, 3.0]), tf.constant([4.0, 4.0])]
    assert_close(client.logits_at(weights, batch, other), [[11, 2]])
    after = [as_flat(client.read_weights()), as_flat(client.read_model_state())]
    np.testing.assert_array_equal(after, before)


# Losses and layers that are special.


def test_regularisation_of_layers_counts():
    """0.1 |kernel|^2 adds 0.2 kernel to the gradient; V is all kernel."""

    def regularised():
        dense = keras.layers.Dense(2, kernel_regularizer=keras.regularizers.L2(0.1))
        return keras.Sequential([keras.Input((2,)), dense])

    expected = V - LR * (-A / 2 + 0.2 * V)
    client = ClientModel(regularised())
    client.start_round(first_round(as_tree(V)), [])
    client.begin_step(tf.constant(0))
    loss = client.train_step((tf.constant(X), tf.constant(Y))).loss
    assert_close(as_flat(client.read_weights()), expected)
    assert_close(loss, np.log(2) + 0.1 * 4)  # |V|^2 = 4
    weights, _ = fitted(at(ClientModel(regularised()), V), epochs=1)
    assert_close(weights, expected)


def partly_frozen():
    layers = [keras.layers.Dense(3), keras.layers.BatchNormalization()]
    for layer in layers:
        layer.trainable = False
    norm = keras.layers.BatchNormalization()
    return keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(3), norm])


def test_frozen_layers_are_neither_trained_nor_sent():
    toy, ends = Toy(), []
    for devices in (1, 2):
        process = LearningProcess(
            partly_frozen,
            FedSAM(),
            toy.dataset,
            options=TrainingOptions(batch_size=4, local_epochs=1, weight_decay=0.1),
            strategy=strategy(devices),
        )
        frozen = [v.numpy() for layer in process.network.layers[:2] for v in layer.weights]
        state = process.initialize()
        # kernel, bias, gamma and beta of the last two layers, and the last one's mean and variance
        assert [w.shape for w in state.server["weights"]] == [(3, 3), (3,), (3,), (3,)]
        assert [w.shape for w in state.server["model_state"]] == [(3,), (3,)]
        state, metrics = process.next(state, [0, 2, 5])
        assert metrics["bytes_down"] == 3 * 4 * (9 + 3 + 3 + 3 + 3 + 3)
        trained = process.engine.client.network
        for layer, before in zip(trained.layers[:2], (frozen[:2], frozen[2:]), strict=True):
            for variable, value in zip(layer.weights, before, strict=True):
                np.testing.assert_array_equal(variable.numpy(), value)
        assert [v.name for v in model_state(trained)] == ["moving_mean", "moving_variance"]
        ends.append(as_flat([*state.server["weights"], *state.server["model_state"]]))
    assert_close(ends[1], ends[0], 1e-6)  # replicas have the same frozen weights


def test_two_clients_end_with_different_weights():
    """Replicas must not share gradients: each client's model is its own SGD, step by step."""
    toy = Toy()
    process = toy.process(FedInit(beta=0), devices=2)  # which keeps every client's last model
    state = process.initialize(toy.initial())
    state, _ = process.next(state, [0, 2])
    problem, ends = toy.problem, []
    for client in (0, 2):
        w = problem.initial
        for batch in problem.batches(0, client):
            w = w - TOY_LR * problem.gradient(w, batch)
        assert_close(state.clients.row(client)["last_model"], w)
        ends.append(w)
    assert np.abs(ends[0] - ends[1]).max() > 0.05


def test_a_data_set_of_one_client_trains():
    x = np.repeat(X, 4, axis=0)
    dataset = FederatedDataset.from_arrays(x, np.zeros(4, int), np.zeros(4, int), num_classes=2)
    options = TrainingOptions(batch_size=4, local_epochs=2, lr=LR, weight_decay=0.0, clip_norm=None)
    process = LearningProcess(network, FedAvg(), dataset, options=options)
    state, metrics = process.next(process.initialize([w.numpy() for w in as_tree(ZERO)]), [0])
    assert_close(as_flat(state.server["weights"]), LR * (1 / 2 + 1 / 4) * A)
    # The losses were ln 2 and, at A w = ln 3, ln(4/3).
    assert_close(metrics["train_loss"], (np.log(2) + np.log(4 / 3)) / 2, 1e-5)
