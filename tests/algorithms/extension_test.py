"""What a method in one file of a user's own can do.

Rates that change within a round, a server that sends another point than its model, by the number of
the round, a teacher, and a plug-in that sets the rate: checked against a few lines of NumPy.
"""

import numpy as np
import tensorflow as tf

from tests.algorithms.eager import LR, A, V, Visit
from tests.algorithms.harness import LR as TOY_LR
from tests.algorithms.harness import PARTIAL, Toy, assert_close, flat
from tf_fedsam import tree
from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.algorithms.fedavg import FedAvg
from tf_fedsam.algorithms.plugin import Plugin
from tf_fedsam.algorithms.scaffold import Scaffold, ScaffoldClient
from tf_fedsam.client import ClientModel


def train(toy, algorithm, schedule, **options):
    process = toy.process(algorithm, **options)
    state, history = process.initialize(toy.initial()), []
    for cohort in schedule:
        state, _ = process.next(state, cohort)
        history.append(flat(state.server["weights"]))
    assert process.engine.num_traces == 1
    return np.asarray(history), state


class HalvingClient(ScaffoldClient):
    """Half of the rate in every step after the first."""

    def schedule(self, step):
        return tf.where(step > 0, 0.5, 1.0)


class Halving(Scaffold):
    Client = HalvingClient


def test_rates_within_a_round():
    """A mean gradient divides by their sum."""
    toy = Toy()
    received, state = train(toy, Halving(), [[0, 2]])
    ends = []
    for client in (0, 2):
        w, rates, gradients = toy.problem.initial, [], []
        for k, batch in enumerate(toy.problem.batches(0, client)):
            rates.append(TOY_LR / 2 if k else TOY_LR)
            gradients.append(toy.problem.gradient(w, batch))
            w = w - rates[-1] * gradients[-1]
        ends.append(w)
        mean = np.average(gradients, axis=0, weights=rates)
        assert_close(state.clients.row(client)["control"], mean, 1e-5)
    assert_close(received[0], np.mean(ends, axis=0))


class HalfRate(Plugin):
    def round_lr(self, lr, round_num):
        return lr / 2 if round_num == 1 else lr


def test_a_plug_in_sets_the_rate_of_a_round():
    toy = Toy()
    process = toy.process(HalfRate(FedAvg()), lr_decay=1.0)
    state, rates = process.initialize(toy.initial()), []
    for _ in range(3):
        before = flat(state.server["weights"])
        state, metrics = process.next(state, [1])
        rates.append(metrics["lr"])
    assert rates == [TOY_LR, TOY_LR / 2, TOY_LR]
    assert np.abs(flat(state.server["weights"]) - before).max() > 1e-3


class Scaled(Algorithm):
    """Sends multiples of the model."""

    def download(self, server, row, round_):
        factor = 1 + tf.cast(round_.number, tf.float32)
        return {"weights": tree.scale(factor, server["weights"])}


def test_a_server_may_send_another_point():
    """The update is measured from there and applied to the model."""
    visit = Visit(Scaled(), weights=V, number=2)
    assert_close(visit.step(), 3 * V + LR / 2 * A)
    assert_close(visit.report()[0]["delta"], LR / 2 * A)


class TaughtClient(ClientModel):
    def train_step(self, data):
        batch = self.unpack(data)
        batch.extra["teacher"] = self.logits_at(self.round.start, batch)
        return self.step(batch, self.gradient(batch, loss=self.taught))

    def taught(self, batch, logits):
        teacher = tf.nn.softmax(batch.extra["teacher"])
        away = tf.nn.softmax_cross_entropy_with_logits(teacher, logits)
        return self.batch_loss(batch, logits) + tf.reduce_mean(away) / 2


class Taught(Algorithm):
    """Half of the disagreement with the model received is a part of the loss."""

    Client = TaughtClient


def test_a_teacher():
    """In the second step -A/4 of the label, and half of (3/4 - 1/2) A of the teacher."""
    visit = Visit(Taught())
    assert_close(visit.step(), LR / 2 * A)
    assert_close(visit.step(), LR * (1 / 2 + 1 / 4 - 1 / 8) * A, 5e-6)


def test_the_logged_loss_is_that_of_training():
    client = Visit(Taught()).client
    client.begin_step(tf.constant(0))
    loss = client.train_step((tf.constant([[0.6, 0.8]]), tf.constant([0]))).loss
    assert_close(loss, np.log(2))  # at w = 0, without the teacher's part


def test_microbatches_take_their_part_of_the_teacher():
    toy = Toy()
    whole, _ = train(toy, Taught(), PARTIAL)
    assert_close(train(toy, Taught(), PARTIAL, microbatch=3)[0], whole, 1e-5)
    assert np.abs(whole - train(toy, FedAvg(), PARTIAL)[0]).max() > 1e-3
