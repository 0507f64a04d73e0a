"""FedSOL (Lee et al. 2024, arXiv:2308.12532).

L = mean KL(s(start) || s(w_i)), s = softmax(logits / tau); e = rho u(grad L), times |w_i - start|
at unit length along the outputs if adaptive; w_i <- w_i - lr g(w_i + e); e = 0 in the first step

A first plain step goes from 0 to LR/2 A. The two models then disagree along A, so that u(grad L) =
A/2, and a perturbation of length RHO along it takes A w from ln 3 to 2 ln 3, where g = -A/10.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.eager import LN3, LR, RHO, A, Visit, X, Y, as_flat, assert_refused, network
from tests.algorithms.harness import PARTIAL, Toy, assert_close, plugged
from tf_fedsam.algorithms.fedavg import FedAvg
from tf_fedsam.algorithms.fedsol import FedSOL
from tf_fedsam.algorithms.registry import accounting
from tf_fedsam.client import ClientModel, ClientRound, LocalStep
from tf_fedsam.errors import InputError

pytestmark = pytest.mark.no_cover


def test_the_first_step_is_plain():
    """One gradient, and not one at a shift of rounding errors."""
    visit, plain = Visit(FedSOL(strength="fixed")), Visit(FedAvg())
    np.testing.assert_array_equal(visit.step(), plain.step())
    assert visit.shifts == [None]


def test_the_fixed_perturbation_leads_away_from_the_start():
    visit = Visit(FedSOL(rho=RHO, strength="fixed"))
    visit.step()
    assert_close(visit.step(), LR * (1 / 2 + 1 / 10) * A, 5e-6)
    assert_close(visit.shifts[2], RHO * A / 2, 5e-6)


def test_the_adaptive_perturbation_is_scaled_along_the_outputs():
    """|A| is the same for both outputs: every fibre, and the bias, is (1, 1) / sqrt(2).

    Along the inputs it would be (0.6, 0.8), over the whole tensor 0.6 / sqrt(2), 0.8 / sqrt(2).
    """
    visit = Visit(FedSOL(rho=RHO))
    visit.step()
    visit.step()
    assert_close(visit.shifts[2], RHO / np.sqrt(2) * A / 2, 5e-6)


def test_rho_0_is_plain():
    for strength in ("fixed", "adaptive"):
        visit = Visit(FedSOL(rho=0, strength=strength))
        visit.step()
        assert_close(visit.step(), LR * (1 / 2 + 1 / 4) * A)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_gradient_of_the_disagreement(temperature):
    """(s(w) - s(0)) / tau in the logits, whose difference is A w = ln 3, and 0 at the start."""
    visit = Visit(FedSOL(temperature=temperature))
    visit.step()
    client, batch = visit.client, visit.client.unpack((tf.constant(X), tf.constant(Y)))
    batch.extra["teacher"] = client.logits_at(visit.round.start, batch)
    received = as_flat(client.gradient(batch, loss=client.disagreement))
    share = 1 / (1 + np.exp(-LN3 / temperature))
    assert_close(received, (share - 0.5) / temperature * A, 5e-6)


def test_zero_offsets_stay_zero():
    """The bias did not move: it is not perturbed, whatever the gradient."""
    visit = Visit(FedSOL(rho=1))
    visit.step()
    kernel, bias = visit.client.read_weights()
    visit.client.assign_weights([kernel, tf.zeros_like(bias)])
    ascent = visit.client.ascent([tf.ones_like(kernel), tf.ones_like(bias)])
    np.testing.assert_array_equal(ascent[1], [0, 0])
    assert_close(ascent[0], np.full((2, 2), 1 / np.sqrt(2) / np.sqrt(6)))


@pytest.mark.parametrize("perturb", ["head", "body"])
@pytest.mark.parametrize("strength", ["fixed", "adaptive"])
def test_part_of_the_model(perturb, strength):
    """The norm is taken over the part that is perturbed.

    In float32 the direction has the rounding errors of a difference of nearly equal outputs.
    """
    settings = {"rho": 2.0, "perturb": perturb, "strength": strength}
    toy = Toy(hidden=5)
    received, _, process, metrics = toy.run("fedsol", PARTIAL, **settings)
    expected = toy.reference("fedsol", PARTIAL, **settings)
    assert_close(received, expected.weights, 1e-5)
    head = toy.problem.head_mask
    for *_, e in expected.perturbations:
        assert not e[head == (perturb == "body")].any()
    norms = [m["perturbation_norm"] for m in metrics]
    assert max(norms) <= 2.0 * (1 + 1e-5)
    if strength == "fixed":
        assert norms == pytest.approx([2.0] * len(PARTIAL), rel=1e-5)
    client = process.algorithm.make_client(toy.network(), LocalStep())
    assert client._perturbed == [perturb == "body"] * 2 + [perturb == "head"] * 2


def test_a_body_must_be_there():
    with pytest.raises(InputError, match=r"perturb must be all or head.*Received: 'body'"):
        FedSOL(perturb="body").make_client(network(), LocalStep())


def test_the_logged_loss_is_that_of_training():
    """ln 2 at w = 0 and ln(1 + 1/3) at A w = ln 3."""
    client = Visit(FedSOL()).client
    for step, expected in enumerate((np.log(2), np.log(4 / 3))):
        client.begin_step(tf.constant(step))
        assert_close(client.train_step((tf.constant(X), tf.constant(Y))).loss, expected, 5e-6)


def test_microbatches_take_their_part_of_the_teacher():
    toy = Toy(hidden=5)
    whole = toy.train("fedsol", PARTIAL, rho=2.0)
    parts = toy.train("fedsol", PARTIAL, training={"microbatch": 3}, rho=2.0)
    assert_close(parts, whole, 1e-5)
    assert np.abs(whole - toy.train("fedavg", PARTIAL)).max() > 1e-3


def test_relaxed_start_is_the_teacher():
    toy = Toy(hidden=5)
    settings = {"rho": 2.0, "relaxed_init": 0.3}
    expected = toy.reference("fedsol", PARTIAL, **settings).weights
    assert_close(toy.train("fedsol", PARTIAL, **settings), expected)


def normalised_client(dropout=0.0, **hparams):
    layers = [
        keras.layers.Dense(3),
        keras.layers.BatchNormalization(momentum=0.5),
        keras.layers.Dropout(dropout),
        keras.layers.Dense(2),
    ]
    client = FedSOL(**hparams).make_client(
        keras.Sequential([keras.Input((2,)), *layers]), LocalStep()
    )
    weights = client.read_weights()
    round_ = ClientRound(
        {"weights": weights}, {}, weights, tf.constant(LR, tf.float32), num_steps=tf.constant(3)
    )
    client.start_round(round_, client.read_model_state())
    return client


INPUTS = np.array([[0.3, -1.0], [2.0, 0.5], [-0.7, 1.1]], np.float32)


def step(client, number):
    client.begin_step(tf.constant(number))
    return client.train_step((tf.constant(INPUTS), tf.constant([0, 1, 1])))


def test_the_teacher_keeps_its_statistics():
    """Those of the start of the round, while the student's move; they are put back."""
    client = normalised_client()
    batch = client.unpack((tf.constant(INPUTS), tf.constant([0, 1, 1])))
    first = client.network(INPUTS, training=False).numpy()
    step(client, 0)
    before = as_flat(client.read_model_state())
    assert np.abs(before - [0, 0, 0, 1, 1, 1]).max() > 0.01
    teacher = client.logits_at(client.round.start, batch, client.fixed.statistics)
    np.testing.assert_array_equal(teacher, first)
    np.testing.assert_array_equal(as_flat(client.read_model_state()), before)
    present = client.logits_at(client.round.start, batch).numpy()
    assert np.abs(present - first).max() > 0.01


def test_steps_compare_with_that_teacher():
    """The logits at the start of the round, in inference mode, in every step but the first."""
    client, compared = normalised_client(), []
    first, disagreement = client.network(INPUTS, training=False).numpy(), client.disagreement

    def compare(batch, logits):
        compared.append(batch.extra["teacher"].numpy())
        return disagreement(batch, logits)

    client.disagreement = compare
    for number in range(3):
        step(client, number)
    np.testing.assert_array_equal(compared, [first] * 2)


def test_statistics_move_once_a_step_at_the_unperturbed_weights():
    client = normalised_client(rho=5.0, strength="fixed")
    step(client, 0)
    old = as_flat(client.read_model_state())
    kernel, bias = (w.numpy() for w in client.read_weights()[:2])
    step(client, 1)
    hidden = INPUTS @ kernel + bias
    expected = np.concatenate([hidden.mean(axis=0), hidden.var(axis=0)])
    assert_close(as_flat(client.read_model_state()), (old + expected) / 2, 5e-6)


def test_a_step_without_radius_is_plain_under_dropout():
    client, plain = normalised_client(dropout=0.5, rho=0), normalised_client(dropout=0.5)
    plain.network.set_weights(client.network.get_weights())
    plain.start_round(client.round, plain.read_model_state())
    plain.train_step = lambda data: ClientModel.train_step(plain, data)
    for number in range(3):
        step(client, number)
        step(plain, number)
    assert_close(as_flat(client.read_weights()), as_flat(plain.read_weights()))


def test_accounting():
    assert accounting(FedSOL()) == ("none", 1, 1, "2 + 1 forward")
    process = Toy().process(plugged("fedsol"))
    metrics = process.next(process.initialize(), [1, 3])[1]
    # 4 and 1 examples: two steps each, of which the first takes one gradient.
    assert metrics["gradient_evaluations"] == 2 * (1 + 2)


@pytest.mark.parametrize(
    "hparams",
    [{"rho": -1.0}, {"strength": "weak"}, {"temperature": 0.0}, {"perturb": "tail"}],
)
def test_hyper_parameters_are_checked(hparams):
    assert_refused(FedSOL, **hparams)
