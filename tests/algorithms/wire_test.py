"""Nothing goes from one side to the other but what is sent, and all of it is counted.

A few rounds are played by a server and clients that share no object: each has an algorithm of its
own, and only NumPy arrays pass between them, in messages. The server must end with the model of the
method's NumPy reference, so what it adds up is a function of the messages, of its own vectors and
of the rows it keeps. The arrays of the messages must be those that the engine counts.
"""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.contract_test import VARIANTS, ids
from tests.algorithms.harness import LR, LR_DECAY, Toy, assert_close, flat, plugged, some_in_gate
from tf_fedsam import tree
from tf_fedsam.algorithms.base import Aggregate, Contribution, ModelSpec, Outcome, Round
from tf_fedsam.algorithms.registry import all_algorithms
from tf_fedsam.client import ClientData, ClientRound, LocalStep

pytestmark = pytest.mark.no_cover

SCHEDULE = [[0, 2], [2, 1, 3], [0, 2]]
LOCAL_STEP = {"weight_decay": 0.05, "clip_norm": 0.8}
FACTS = ("num_steps", "num_examples", "lr_sum")

FIRST = dict(reversed(VARIANTS))  # one variant of each method, for the plug-ins
PLUGGED = [
    *(
        (n, {**FIRST[n], "relaxed_init": 0.3})
        for n, a in all_algorithms().items()
        if n != "fedinit"
    ),
    *(
        (n, {**FIRST[n], "nesterov": 0.6})
        for n, a in all_algorithms().items()
        if not a.own_momentum
    ),
    ("feddyn", {"lamb": 0.3, "relaxed_init": 0.3, "nesterov": 0.6}),
]


@functools.cache
def toy():
    return Toy(sizes=[5, 3, 8, 1], epochs=1)


def make(method, settings):
    """An algorithm that knows the model."""
    algorithm, variables = plugged(method, **settings), toy().network().trainable_variables
    shapes = tuple(tuple(v.shape) for v in variables)
    algorithm.setup(ModelSpec(shapes, tuple(v.path for v in variables), toy().input_shape))
    return algorithm


def as_message(vectors):
    return {name: [np.array(t) for t in v] for name, v in vectors.items()}


def opened(message):
    return {name: [tf.constant(a) for a in v] for name, v in message.items()}


class Client:
    """One client, with its examples; it never meets the server."""

    def __init__(self, method, settings, number, beforehand):
        self.algorithm = make(method, settings)
        self.model = self.algorithm.make_client(toy().network(), LocalStep(**LOCAL_STEP))
        self.number = number
        self.beforehand = opened(beforehand)
        self.state = None

    def answer(self, message, round_num, lr):
        """Trains; the vectors and the numbers that go back."""
        received = opened(message)
        if self.state is None:
            self.state = self.algorithm.client_defaults(received | self.beforehand)
        data = self.data(round_num)
        lr = tf.constant(lr, tf.float32)
        start = self.algorithm.start(received, self.state)
        round_ = ClientRound(
            received, self.state, start, lr, round_num, data.num_batches, seed=1, data=data
        )
        self.model.start_round(round_, [])
        for step in range(int(data.num_batches)):
            self.model.begin_step(tf.constant(step))
            self.model.train_step(data.batch(step))
        weights = self.model.read_weights()
        outcome = Outcome(
            weights,
            tree.sub(weights, start),
            tf.cast(data.num_batches, tf.float32),
            tf.cast(data.num_examples, tf.float32),
            self.model.lr_sum(),
        )
        upload, self.state = self.algorithm.report(self.model, outcome)
        return as_message(upload), {name: float(getattr(outcome, name)) for name in FACTS}

    def data(self, round_num):
        x, y = toy().dataset.train.x, toy().dataset.train.y
        rows = toy().batches(round_num, self.number)

        def batch(step, augmented=True):
            return tf.constant(x[rows[int(step)]]), tf.constant(y[rows[int(step)]], tf.int32)

        num_examples = sum(map(len, rows))  # of one epoch
        return ClientData(tf.constant(num_examples), tf.constant(len(rows)), batch)


class Server:
    """The server; of a client it sees the number and the messages."""

    def __init__(self, method, settings, num_clients):
        self.algorithm = make(method, settings)
        weights = [tf.constant(a, tf.float32) for a in toy().initial()]
        self.vectors = {"weights": weights, **self.algorithm.server_vectors(weights)}
        self.rows, self.num_clients = {}, num_clients

    def beforehand(self):
        return as_message({name: self.vectors[name] for name in self.algorithm.beforehand})

    def begin(self, round_num, lr):
        self.round = Round(tf.constant(round_num), tf.constant(lr, tf.float32), self.num_clients)
        self.sent, self.contributions = {}, {}

    def message(self, client):
        row = self.rows.get(client, self.algorithm.row_defaults(self.vectors))
        self.sent[client] = self.algorithm.download(self.vectors, row, self.round)
        return as_message(self.sent[client])

    def receive(self, client, upload, facts):
        row = self.rows.get(client, self.algorithm.row_defaults(self.vectors))
        self.contributions[client] = Contribution(
            upload=opened(upload),
            sent=self.sent[client],
            row=row,
            **{name: tf.constant(value, tf.float32) for name, value in facts.items()},
        )

    def finish(self):
        algorithm, server, round_ = self.algorithm, self.vectors, self.round
        summands = [algorithm.summands(c, server, round_) for c in self.contributions.values()]
        for client, contribution in self.contributions.items():
            self.rows[client] = algorithm.new_row(contribution, server, round_)
        total = lambda name: functools.reduce(tree.add, [s[name] for s in summands])  # noqa: E731
        count = len(summands)
        aggregate = Aggregate(
            mean={name: tree.scale(1 / count, total(name)) for name in algorithm.means},
            total={name: total(name) for name in algorithm.totals},
            scalar={n: sum(s[n] for s in summands) / count for n in algorithm.mean_scalars},
            num_reporting=tf.constant(float(count)),
        )
        self.vectors = algorithm.server_step(server, aggregate, round_)


def play(method, settings):
    """The server's weights after every round, and for every round the messages down and up."""
    num_clients = toy().dataset.num_clients
    server, clients = Server(method, settings, num_clients), {}
    known, history, traffic = server.beforehand(), [], []
    for round_num, cohort in enumerate(SCHEDULE):
        lr = LR * LR_DECAY**round_num
        server.begin(round_num, lr)
        for number in cohort:
            if number not in clients:
                clients[number] = Client(method, settings, number, known)
            down = server.message(number)
            up, facts = clients[number].answer(down, round_num, lr)
            server.receive(number, up, facts)
            traffic.append((down, up))
        server.finish()
        for name, value in known.items():  # what clients know beforehand never changes
            assert_close(flat(server.vectors[name]), flat(value), 0)
        history.append(flat(server.vectors["weights"]))
    return history, traffic


@pytest.mark.parametrize("variant", some_in_gate([*VARIANTS, *PLUGGED], 6), ids=ids)
def test_messages_are_all_that_the_server_needs(variant):
    method, settings = variant
    history, traffic = play(method, settings)
    if method == "fednsam_d" and "relaxed_init" in settings:
        # Its reference measures FedDyn's move from the clients' starts, the package from the model
        # sent; elsewhere they are the same.
        expected = toy().train(method, SCHEDULE, training=LOCAL_STEP, **settings)
    else:
        expected = toy().reference(method, SCHEDULE, training=LOCAL_STEP, **settings).weights
    assert_close(history, expected)
    algorithm, size = plugged(method, **settings), toy().problem.initial.size
    for down, up in traffic:
        vectors = {name: v for name, v in down.items() if name not in algorithm.download_scalars}
        assert all(flat(v).size == size for v in (*vectors.values(), *up.values()))
        assert all(flat(down[name]).size == 1 for name in algorithm.download_scalars)
        assert len(vectors) == len(algorithm.downloads)
        assert len(up) == len(algorithm.uploads)


def test_what_the_newer_methods_send():
    """FedGloSS one vector each way, the model moved; FedMoSWA its controls besides."""
    for method, down, up in (
        ("fedgloss", {"weights"}, {"delta"}),
        ("fedswa", {"weights"}, {"delta"}),
        ("fedmoswa", {"weights", "control"}, {"delta", "control"}),
        ("fedsol", {"weights"}, {"delta"}),
    ):
        for message, answer in play(method, FIRST[method])[1]:
            assert (set(message), set(answer)) == (down, up)


def test_a_private_start_costs_feddyn_a_second_vector():
    """The server cannot tell delta_i from w_i if it does not know where the client started."""
    assert plugged("feddyn").uploads == ("model",)
    for method in ("feddyn", "fedsmoo", "fedlesam_d", "fednsam_d"):
        uploads = plugged(method, relaxed_init=0.3).uploads
        assert uploads == (*plugged(method).uploads, "delta")
    for method in ("fedavg", "scaffold", "fedspeed", "fedwmsam", "fedgloss"):
        assert plugged(method, relaxed_init=0.3).uploads == plugged(method).uploads
