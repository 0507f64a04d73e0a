"""The contract's own parts; that the base class is FedAvg is checked in fedavg_test.py."""

import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.eager import as_flat, as_tree
from tf_fedsam.algorithms.base import Aggregate, Algorithm, Contribution, Outcome, Round
from tf_fedsam.errors import InputError

W, D = np.arange(6.0), np.array([1.0, 0, -2, 4, 0, 8])


@dataclasses.dataclass(frozen=True)
class Numbers:
    rho: float = 0.1
    beta: float = 0.5


class MyMethod(Algorithm):
    Hparams = Numbers


class Named(MyMethod):
    name = "other_name"
    title = "Other Name"


class FromModels(Algorithm):
    model_form = True


def a_round():
    return Round(tf.constant(0), tf.constant(0.1), num_clients=4)


def contribution(upload, sent=None, row=None):
    trees = [{n: as_tree(v) for n, v in (part or {}).items()} for part in (upload, sent, row)]
    return Contribution(trees[0], tf.constant(4.0), tf.constant(9.0), tf.constant(0.5), *trees[1:])


def same(a, expected):
    np.testing.assert_array_equal(as_flat(a), np.asarray(expected, np.float32))


def test_names_come_from_the_class_unless_they_are_given():
    assert (MyMethod.name, MyMethod.title) == ("mymethod", "MyMethod")
    assert (Named.name, Named.title) == ("other_name", "Other Name")

    class Inherits(Named):
        pass

    assert (Inherits.name, Inherits.title) == ("inherits", "Inherits")


class TestHparams:
    def test_given_and_default(self):
        algorithm = MyMethod(beta=0.7)
        assert algorithm.hparams == Numbers(rho=0.1, beta=0.7)
        assert algorithm.describe() == {"rho": 0.1, "beta": 0.7}
        assert Algorithm().describe() == {}

    def test_unknown_ones(self):
        with pytest.raises(InputError, match=r"of mymethod 'roh'. Did you mean 'rho'.*: beta, rho"):
            MyMethod(roh=1)
        with pytest.raises(InputError, match=r"algorithm has no hyper-parameters.*Received: rho"):
            Algorithm(rho=1)


class TestServerLr:
    def test_default_and_given(self):
        assert Algorithm().server_lr == Algorithm(server_lr=None).server_lr == 1
        assert Algorithm(server_lr=0.3).server_lr == 0.3

        class Slow(Algorithm):
            default_server_lr = 0.01

        assert Slow().server_lr == 0.01
        assert Slow(server_lr=2).server_lr == 2

    @pytest.mark.parametrize("value", [0, -1, math.nan])
    def test_refused(self, value):
        with pytest.raises(
            InputError, match=rf"server_lr must be (> 0|a finite number). Received: {value}"
        ):
            Algorithm(server_lr=value)

    def test_has_no_meaning_for_methods_that_make_models(self):
        assert FromModels(server_lr=1.0).server_lr == 1
        with pytest.raises(InputError, match=r"server_lr must be 1 for frommodels. Received: 0.5"):
            FromModels(server_lr=0.5)


class TestMeanGradient:
    """-delta / lr_sum: a move downhill of 0.5 times the gradients' mean, turned around."""

    def test_of_a_client(self):
        numbers = tf.constant(4.0), tf.constant(9.0), tf.constant(0.5)
        same(Outcome(as_tree(W), as_tree(D), *numbers).mean_gradient(), -2 * D)
        still = Outcome(as_tree(W), as_tree(0 * D), *numbers[:2], tf.constant(0.0))
        same(still.mean_gradient(), 0 * D)  # learning rates of 0 do not divide

    def test_of_an_uploaded_update(self):
        same(contribution({"delta": D}).mean_gradient(), -2 * D)

    def test_of_an_uploaded_model(self):
        sent = contribution({"model": W + D}, {"weights": W})
        same(sent.delta(), D)
        same(sent.mean_gradient(), -2 * D)

    def test_an_uploaded_update_goes_before_a_model(self):
        """The client may have started elsewhere than at what it was sent."""
        same(contribution({"model": W, "delta": D}, {"weights": W}).delta(), D)


class Keeps(Algorithm):
    """Every kind of vector that there is."""

    downloads = ("weights", "momentum")
    download_scalars = ("radius",)
    uploads = ("model", "extra")
    client_state = ("dual",)
    server_rows = ("last", "sum")
    means = ("delta", "extra")
    totals = ("extra",)


class TestDefaults:
    def test_what_is_kept_starts_at_zero(self):
        algorithm, weights = Keeps(), {"weights": as_tree(W)}
        for kept, names in (
            (algorithm.client_defaults(weights), ("dual",)),
            (algorithm.row_defaults(weights), ("last", "sum")),
        ):
            assert tuple(kept) == names
            for vector in kept.values():
                same(vector, 0 * W)

    def test_what_is_sent_is_what_is_named(self):
        server = {n: as_tree(W) for n in ("momentum", "secret", "weights")}
        server["radius"] = as_tree(0.5)
        sent = Keeps().download(server, {}, a_round())
        assert set(sent) == {"weights", "momentum", "radius"}
        same(sent["weights"], W)

    def test_summands_are_those_that_are_named(self):
        given = contribution({"model": W + D, "extra": 3 * D}, {"weights": W})
        received = Keeps().summands(given, {}, a_round())
        assert set(received) == {"delta", "extra"}
        same(received["delta"], D)
        same(received["extra"], 3 * D)

    def test_rows_stay(self):
        given = contribution({"delta": D}, row={"last": W})
        assert Keeps().new_row(given, {}, a_round()) is given.row

    def test_server_step(self):
        """w + server_lr * mean delta; the other vectors are left alone."""
        server = {"weights": as_tree(W), "other": as_tree(D)}
        aggregate = Aggregate({"delta": as_tree(D)}, {}, {}, tf.constant(2.0))
        new = Algorithm(server_lr=0.5).server_step(server, aggregate, a_round())
        same(new["weights"], W + 0.5 * D)
        assert new["other"] is server["other"]
        same(server["weights"], W)

    def test_the_rest_is_nothing(self):
        algorithm = Algorithm()
        assert algorithm.server_vectors(as_tree(W)) == {}
        assert algorithm.scalars({}) == {}
        assert algorithm.round_lr(0.3, 7) == 0.3
        assert algorithm.downhill_momentum({"weights": as_tree(W)}) is None
        momentum = as_tree(D)
        assert algorithm.downhill_momentum({"momentum": momentum}) is momentum
        start = as_tree(W)
        assert algorithm.start({"weights": start}, {}) is start


class TestKeptMomentum:
    def test_a_client_leaves_out_what_is_of_earlier_rounds(self):
        """-(D - W) / 0.5: W of the update comes of what was kept."""
        numbers = tf.constant(4.0), tf.constant(9.0), tf.constant(0.5)
        outcome = Outcome(as_tree(W), as_tree(D), *numbers, inherited=as_tree(W))
        same(outcome.mean_gradient(), -(D - W) / 0.5)
        same(Outcome(as_tree(W), as_tree(D), *numbers).mean_gradient(), -D / 0.5)

    def test_a_server_cannot(self):
        kept = dataclasses.replace(contribution({"delta": D}), inherits=True)
        same(kept.delta(), D)
        with pytest.raises(InputError, match="local_momentum_state=keep makes no sense"):
            kept.mean_gradient()


def test_radius_of_a_round():
    assert a_round().radius(0.3) == 0.3
    halved = dataclasses.replace(a_round(), rho_factor=tf.constant(0.5))
    assert float(halved.radius(0.5)) == 0.25
