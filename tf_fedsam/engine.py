"""One federated round, compiled once: cohort -> replicas -> local training -> sums -> server step.

Each replica (a GPU, or a logical CPU device with one thread) has its own copy of the client model
in replica-local variables, which nothing synchronises, and trains its share of the cohort one
client after another. The sums of all replicas are reduced once, as a single vector, and the server
step runs on the result. All of a round is one ``tf.function``: trip counts are dynamic, so that
clients of any size, and cohorts of any size, run through the same graph.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_fedsam import diagnostics, tree
from tf_fedsam.algorithms.base import Aggregate, Algorithm, Outcome, Round, Vectors
from tf_fedsam.client import ClientRound, LocalStep, frozen_weights
from tf_fedsam.data.batches import Cohort
from tf_fedsam.data.federated_dataset import Examples, FederatedDataset
from tf_fedsam.data.lazy import LazyImages
from tf_fedsam.options import TrainingOptions
from tf_fedsam.tree import Tree

MODEL_STATE = "model_state"  # the server's copy of the BatchNorm statistics
LOCAL_MODEL = "local_model"  # a client's last local model, if these are kept
CLIENT_COLUMNS = ("reported", "loss", "delta_norm", *diagnostics.COLUMNS)
EVALUATION_BATCH = 250
STREAMED_EVALUATION = 2000


@dataclasses.dataclass(frozen=True)
class RoundResult:
    """What one compiled round gives back.

    Attributes:
        server: the server's vectors after the round; unchanged if nobody reported.
        clients: for each name of ``CLIENT_COLUMNS`` an array with one entry a client of the cohort.
        client_state: for each vector a client keeps, the new rows, one a client of the cohort.
        scalars: the norms of the model's move and of the server's momentum, what the diagnostics
            say, and the algorithm's own numbers.
    """

    server: Vectors
    clients: dict[str, np.ndarray]
    client_state: dict[str, np.ndarray]
    scalars: dict[str, float]


@dataclasses.dataclass(frozen=True)
class ClientData:
    """A client's batches of the round, on the device."""

    num_examples: tf.Tensor
    num_batches: tf.Tensor
    batch: Callable[..., tuple[tf.Tensor, tf.Tensor]]


class Engine:
    """Runs rounds of one algorithm on one data set.

    Args:
        model_fn: makes the Keras network.
        algorithm: the method, already told the model's spec.
        dataset: the clients.
        options: how clients train.
        strategy: where; a strategy's replicas share a cohort.
        frozen: values of the model's frozen weights, the same on every replica.
    """

    def __init__(
        self,
        model_fn: Callable[[], keras.Model],
        algorithm: Algorithm,
        dataset: FederatedDataset,
        options: TrainingOptions,
        strategy: tf.distribute.Strategy,
        frozen: Sequence[np.ndarray] = (),
    ):
        self.algorithm = algorithm
        self.dataset = dataset
        self.options = options
        self.strategy = strategy
        self.num_replicas = strategy.num_replicas_in_sync
        self.num_traces = 0
        self._round: Callable | None = None
        self._predict: Callable | None = None
        self._placed: dict[int, tuple[Examples, Any]] = {}
        # Examples in memory stay on the devices; of those in files, the cohort's come every round.
        self._resident = isinstance(dataset.train.x, np.ndarray)
        self._train = self._place(dataset.train if self._resident else _nothing_like(dataset.train))
        local_step = LocalStep(
            options.weight_decay,
            options.clip_norm,
            options.clip_scope,
            options.microbatch,
            options.loss_scale,
            options.diagnostics,
        )
        self._perturbs = False
        with strategy.scope(), tf.variable_creator_scope(_replica_local):
            self._client = algorithm.make_client(model_fn(), local_step)
        self._assign_frozen(frozen)

    def run_round(
        self,
        server: Vectors,
        cohort: Cohort,
        lr: float,
        client_state: dict[str, np.ndarray],
        seen: np.ndarray,
        upcoming: np.ndarray | None = None,
    ) -> RoundResult:
        """Trains the cohort and takes the server step.

        Args:
            server: the server's vectors.
            cohort: the clients and their batches.
            lr: learning rate of the round.
            client_state: flat vectors that the clients kept, one row a client of the cohort.
            seen: whether each client has taken part before; the rows of the others are ignored.
            upcoming: positions of the next round's clients, whose files are read meanwhile.
        """
        shares = _shares(cohort.num_steps, self.num_replicas)
        by_samples = self.options.weighting == "samples"
        weights = cohort.num_examples if by_samples else np.ones(len(shares))
        inputs = {
            "order": cohort.order.astype(np.int32),
            "order_start": cohort.order_start.astype(np.int32),
            "num_examples": cohort.num_examples.astype(np.int32),
            "num_steps": cohort.num_steps.astype(np.int32),
            "weight": np.where(cohort.num_steps > 0, weights, 0).astype(np.float32),
            "seed": cohort.seeds.astype(np.int32),
            "seen": seen.astype(bool),
        }
        members = [np.flatnonzero(shares == replica) for replica in range(self.num_replicas)]
        width = max(map(len, members))
        inputs["members"] = np.stack(
            [np.pad(m, (0, width - len(m)), constant_values=-1) for m in members]
        ).astype(np.int32)
        inputs["num_members"] = np.asarray([len(m) for m in members], np.int32)
        streamed = () if self._resident else self._cohort_examples(inputs)
        if isinstance(self.dataset.train.x, LazyImages) and upcoming is not None and upcoming.size:
            following = [self.dataset.partition.client(p) for p in upcoming]
            self.dataset.train.x.prefetch(np.concatenate(following))
        if self._round is None:
            self._round = self._compile(server, inputs, client_state)
        with _without_graph_rewrites():
            new_server, table, rows, scalars = self._round(
                server, inputs, client_state, np.float32(lr), streamed
            )
        columns = table.numpy()
        clients = {name: columns[:, i] for i, name in enumerate(CLIENT_COLUMNS)}
        order = np.argsort(np.concatenate(members), kind="stable")
        return RoundResult(
            server=new_server if clients["reported"].any() else server,
            clients=clients,
            client_state={
                name: np.concatenate([r.numpy() for r in per_replica])[order]
                for name, per_replica in rows.items()
            },
            scalars={name: float(value) for name, value in scalars.items()},
        )

    def evaluate(self, server: Vectors, examples: Examples) -> dict[str, float]:
        """Mean loss and accuracy of the global model."""
        losses, classes = self.predict(server, examples)
        return {"loss": float(losses.mean()), "accuracy": float((classes == examples.y).mean())}

    def predict(self, server: Vectors, examples: Examples) -> tuple[np.ndarray, np.ndarray]:
        """The global model's loss on every example, and the class it gives it."""
        if self._predict is None:
            self._predict = self._compile_prediction()
        with _without_graph_rewrites():
            parts = [
                self._predict(x, y, server["weights"], server[MODEL_STATE]).numpy()
                for x, y in self._pieces(examples)
            ]
        table = np.concatenate(parts)
        return table[:, 0].astype(np.float64), table[:, 1].astype(np.int64)

    def summed(self, function: Callable[..., Tree], zeros: Callable[[Tree], Tree]) -> Callable:
        """Compiles the sum of a function over examples, shared by the replicas.

        Args:
            function: (network, inputs, labels, *trees) -> tree, the sum over one batch of examples;
                the network is at the server's weights.
            zeros: makes the tree of zeros to begin with from the server's weights.

        Returns:
            A function (server, examples, *trees) -> tree.
        """
        batch = min(EVALUATION_BATCH, self.options.microbatch or self.options.batch_size)

        def share(x, y, weights, state, trees):
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            total = tf.shape(y)[0]
            self._client.assign_weights(weights)
            self._client.assign_model_state(state)

            def one(begin, sums):
                inputs = self.dataset.preprocess(x[begin : begin + batch])
                new = function(self._client.network, inputs, y[begin : begin + batch], *trees)
                return begin + self.num_replicas * batch, tree.add(sums, new)

            return tf.while_loop(
                lambda begin, _: begin < total,
                one,
                (replica * batch, zeros(weights)),
                parallel_iterations=1,
            )[1]

        @tf.function(autograph=False, reduce_retracing=True)
        def run(x, y, weights, state, trees):
            sums = self.strategy.run(share, args=(x, y, weights, state, trees))
            return self.strategy.reduce(tf.distribute.ReduceOp.SUM, sums, axis=None)

        def over(server: Vectors, examples: Examples, *trees: Tree) -> Tree:
            sums: Tree | None = None
            for x, y in self._pieces(examples):
                with _without_graph_rewrites():
                    new = run(x, y, server["weights"], server[MODEL_STATE], trees)
                sums = new if sums is None else tree.add(sums, new)
            return sums or []

        return over

    def _pieces(self, examples: Examples):
        """The examples on the devices; those in files piece by piece."""
        if self._resident and examples is self.dataset.train:
            yield self._train
            return
        if isinstance(examples.x, np.ndarray):
            if id(examples) not in self._placed:
                self._placed[id(examples)] = (examples, self._place(examples))
            yield self._placed[id(examples)][1]
            return
        for begin in range(0, len(examples), STREAMED_EVALUATION):
            part = slice(begin, begin + STREAMED_EVALUATION)
            yield self._place(Examples(examples.x[part], examples.y[part]))

    def _cohort_examples(self, inputs: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Reads the cohort's examples from their files and points its order at them."""
        numbers, order = np.unique(inputs["order"], return_inverse=True)
        inputs["order"] = order.astype(np.int32)
        train = self.dataset.train
        return train.x[numbers], train.y[numbers].astype(np.int32)

    def _assign_frozen(self, values: Sequence[np.ndarray]) -> None:
        variables = frozen_weights(self._client.network)

        @tf.function(autograph=False)
        def assign():
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)

        if variables:
            self.strategy.run(assign)

    def _place(self, examples: Examples):
        """The examples on every device; logical CPU devices share one copy."""
        y = examples.y.astype(np.int32)
        if all("CPU" in d.upper() for d in self.strategy.extended.worker_devices):
            return tf.constant(examples.x), tf.constant(y)
        put = self.strategy.experimental_distribute_values_from_function
        return (
            put(lambda _: tf.constant(examples.x)),
            put(lambda _: tf.constant(y)),
        )

    def _compile(self, server, inputs, client_state):
        algorithm, strategy = self.algorithm, self.strategy
        signature = (
            tf.nest.map_structure(lambda t: tf.TensorSpec(t.shape, t.dtype), server),
            {
                name: tf.TensorSpec(
                    [self.num_replicas, None]
                    if name == "members"
                    else [self.num_replicas]
                    if name == "num_members"
                    else [None],
                    value.dtype,
                )
                for name, value in inputs.items()
            },
            {name: tf.TensorSpec([None, r.shape[1]], r.dtype) for name, r in client_state.items()},
            tf.TensorSpec([], tf.float32),
            ()
            if self._resident
            else (
                tf.TensorSpec([None, *self.dataset.input_shape], self.dataset.train.x.dtype),
                tf.TensorSpec([None], tf.int32),
            ),
        )

        @tf.function(input_signature=signature, autograph=False)
        def run(server, inputs, client_state, lr, streamed):
            self.num_traces += 1
            examples = streamed or self._train
            flat, rows = strategy.run(
                self._train_share, args=(*examples, server, inputs, client_state, lr)
            )
            flat = strategy.reduce(tf.distribute.ReduceOp.SUM, flat, axis=None)
            rows = {name: strategy.experimental_local_results(r) for name, r in rows.items()}
            layout = self._sums(server, tf.shape(inputs["weight"])[0])
            sums = _unpack(flat, layout)
            weight, reporting = sums["weight"][0][0], sums["weight"][0][1]
            mean = lambda a: tree.scale(tf.math.divide_no_nan(1.0, weight), a)  # noqa: E731
            aggregate = Aggregate(
                mean={name: mean(sums["mean"][name]) for name in algorithm.means},
                total={name: sums["total"][name] for name in algorithm.totals},
                scalar={n: mean(sums["scalar"][n])[0][0] for n in algorithm.mean_scalars},
            )
            round_ = Round(lr, self.dataset.num_clients, reporting)
            vectors = {name: v for name, v in server.items() if name != MODEL_STATE}
            new = algorithm.server_step(vectors, aggregate, round_)
            _expect("server_step", new, vectors)
            new[MODEL_STATE] = server[MODEL_STATE]
            if self.options.norm_state != "keep_server":
                new[MODEL_STATE] = tree.scale(
                    tf.math.divide_no_nan(1.0, reporting), sums[MODEL_STATE][MODEL_STATE]
                )
            moved = tree.sub(new["weights"], server["weights"])
            scalars = {"update_norm": tree.norm(moved)}
            momentum = algorithm.downhill_momentum(new)
            if momentum is not None:
                scalars["momentum_norm"] = tree.norm(momentum)
            if self.options.diagnostics:
                before = algorithm.downhill_momentum(vectors)
                scalars |= self._diagnose(sums, reporting, moved, before)
            scalars |= algorithm.scalars({n: v for n, v in new.items() if n != MODEL_STATE})
            return new, sums["table"][0], rows, scalars

        return run

    def _diagnose(self, sums, reporting, moved, momentum) -> dict[str, tf.Tensor]:
        table = sums["table"][0]
        table = tf.where(table[:, :1] > 0, table, 0.0)
        columns = {name: table[:, i] for i, name in enumerate(CLIENT_COLUMNS)}
        found = diagnostics.of_round(sums["diagnostics"], columns, reporting, moved)
        if momentum is not None:
            found["momentum_cosine"] = diagnostics.momentum_cosine(
                sums["diagnostics"], momentum, reporting
            )
        if self._perturbs:
            total = tf.reduce_sum(columns["perturbation_norm"])
            found["perturbation_norm"] = tf.math.divide_no_nan(total, reporting)
        return found

    def _sums(self, server: Vectors, cohort_size) -> dict:
        """Zeros in the shape of everything that is summed over clients."""
        algorithm = self.algorithm
        zeros = lambda: tree.zeros_like(server["weights"])  # noqa: E731
        return {
            "mean": {name: zeros() for name in algorithm.means},
            "total": {name: zeros() for name in algorithm.totals},
            "scalar": {name: [tf.zeros([1])] for name in algorithm.mean_scalars},
            MODEL_STATE: {MODEL_STATE: tree.zeros_like(server[MODEL_STATE])},
            "diagnostics": diagnostics.zeros(server["weights"]) if self.options.diagnostics else {},
            "weight": [tf.zeros([2])],
            "table": [tf.zeros([cohort_size, len(CLIENT_COLUMNS)])],
        }

    def _train_share(self, x, y, server, inputs, client_state, lr):
        """One replica: trains its clients one after another and adds up what they report."""
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        members = inputs["members"][replica]
        algorithm, client = self.algorithm, self._client
        vectors = {name: v for name, v in server.items() if name != MODEL_STATE}
        defaults = algorithm.client_defaults(vectors)
        _expect("client_defaults", defaults, algorithm.client_state)

        def train_one(j, sums, rows):
            entry = members[j]
            mine = {name: inputs[name][entry] for name in _CLIENT_INPUTS}
            old = {name: client_state[name][entry] for name in client_state}
            state = {
                name: tree.select(mine["seen"], tree.unflatten(old[name], like), like)
                for name, like in defaults.items()
            }
            received = algorithm.download(vectors, state)
            _expect("download", received, algorithm.downloads + algorithm.download_scalars)
            data = self._client_data(x, y, inputs["order"], mine)
            round_ = ClientRound(received, state, received["weights"], lr, mine["seed"], data)
            round_.server = vectors
            round_.start = algorithm.start(round_)
            statistics = server[MODEL_STATE]
            if MODEL_STATE in old:
                mine_before = tree.unflatten(old[MODEL_STATE], statistics)
                statistics = tree.select(mine["seen"], mine_before, statistics)
            client.start_round(round_, statistics)
            loss, perturbation = self._local_steps(mine["num_steps"], data)

            weights = client.read_weights()
            delta = tree.sub(weights, round_.start)
            steps = tf.cast(tf.maximum(mine["num_steps"], 1), tf.float32)
            outcome = Outcome(weights, delta, steps, tf.cast(mine["num_examples"], tf.float32), lr)
            upload, new_state = algorithm.report(client, outcome)
            _expect("report (upload)", upload, algorithm.uploads)
            _expect("report (client state)", new_state, algorithm.client_state)
            if MODEL_STATE in old:
                new_state = {**new_state, MODEL_STATE: client.read_model_state()}
            if LOCAL_MODEL in old:
                new_state = {**new_state, LOCAL_MODEL: weights}
            summands = algorithm.summands(upload, outcome, client)
            _expect(
                "summands",
                summands,
                {*algorithm.means, *algorithm.totals, *algorithm.mean_scalars},
            )

            length = tree.norm(delta)
            sent = tf.nest.flatten([summands, new_state])
            finite = tf.math.is_finite(length) & tf.math.is_finite(tree.norm(sent))
            reported = finite & (mine["weight"] > 0)
            weight = tf.where(reported, mine["weight"], 0.0)
            one = tf.where(reported, 1.0, 0.0)
            values = {
                "mean": {name: summands[name] for name in algorithm.means},
                "total": {name: summands[name] for name in algorithm.totals},
                "scalar": {n: [tf.reshape(summands[n], [1])] for n in algorithm.mean_scalars},
                MODEL_STATE: {MODEL_STATE: client.read_model_state()},
            }
            found: tuple[Vectors, list[tf.Tensor]] = ({}, [tf.zeros([])] * 2)
            if self.options.diagnostics:
                found = diagnostics.of_client(vectors["weights"], weights, delta)
            values["diagnostics"] = found[0]
            factor = {
                "mean": weight,
                "total": one,
                "scalar": weight,
                MODEL_STATE: one,
                "diagnostics": one,
            }
            new_sums: dict[str, Any] = {
                group: {
                    name: [
                        total + tf.where(reported, factor[group] * value, 0.0)
                        for total, value in zip(sums[group][name], values[group][name], strict=True)
                    ]
                    for name in values[group]
                }
                for group in values
            }
            new_sums["weight"] = [sums["weight"][0] + tf.stack([weight, one])]
            row = tf.stack([one, loss / steps, length, *found[1], perturbation])
            new_sums["table"] = [
                tf.tensor_scatter_nd_update(sums["table"][0], [[entry]], row[None])
            ]
            new_rows = {
                name: array.write(j, tf.where(reported, tree.flatten(new_state[name]), old[name]))
                for name, array in rows.items()
            }
            return j + 1, new_sums, new_rows

        count = inputs["num_members"][replica]
        rows = {
            name: tf.TensorArray(tf.float32, size=count, element_shape=[matrix.shape[1]])
            for name, matrix in client_state.items()
        }
        sums = self._sums(server, tf.shape(inputs["weight"])[0])
        _, sums, rows = tf.while_loop(
            lambda j, *_: j < count, train_one, (0, sums, rows), parallel_iterations=1
        )
        return tree.flatten(tf.nest.flatten(sums)), {n: a.stack() for n, a in rows.items()}

    def _local_steps(self, num_steps: tf.Tensor, data: ClientData) -> tuple[tf.Tensor, tf.Tensor]:
        """Runs the local steps of the client that was started.

        Returns:
            The sum of their losses and the norm of the last one's perturbation.
        """

        def one(k, loss, perturbation):
            self._client.seed_step(k)
            self._client.measuring = tf.equal(k, num_steps - 1)
            metrics = self._client.train_step(data.batch(k))
            if "perturbation_norm" in metrics:
                self._perturbs = True
                perturbation = metrics["perturbation_norm"]
            return k + 1, loss + metrics["loss"], perturbation

        return tf.while_loop(
            lambda k, *_: k < num_steps,
            one,
            (0, tf.zeros([]), tf.zeros([])),
            parallel_iterations=1,
        )[1:]

    def _client_data(self, x, y, order, mine) -> ClientData:
        size, preprocess, augment = (
            self.options.batch_size,
            self.dataset.preprocess,
            self.dataset.augment,
        )
        n = mine["num_examples"]
        num_batches = tf.maximum((n + size - 1) // size, 1)

        def batch(k, augmented=True):
            epoch, number = k // num_batches, k % num_batches
            begin = mine["order_start"] + epoch * n + number * size
            indices = tf.slice(order, [begin], [tf.minimum(size, n - number * size)])
            inputs = preprocess(tf.gather(x, indices))
            if augment is not None and augmented:
                inputs = augment(inputs, tf.stack([mine["seed"], k]))
            return inputs, tf.gather(y, indices)

        return ClientData(n, num_batches, batch)

    def _compile_prediction(self):
        def share(x, y, weights, state):
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            client, total = self._client, tf.shape(y)[0]
            client.assign_weights(weights)
            client.assign_model_state(state)

            def one(begin, table):
                inputs = self.dataset.preprocess(x[begin : begin + EVALUATION_BATCH])
                labels = y[begin : begin + EVALUATION_BATCH]
                logits = tf.cast(client.network(inputs, training=False), tf.float32)
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
                classes = tf.cast(tf.argmax(logits, -1), tf.float32)
                rows = tf.range(begin, begin + tf.shape(labels)[0])[:, None]
                table = tf.tensor_scatter_nd_update(table, rows, tf.stack([losses, classes], 1))
                return begin + self.num_replicas * EVALUATION_BATCH, table

            return tf.while_loop(
                lambda begin, _: begin < total,
                one,
                (replica * EVALUATION_BATCH, tf.zeros([total, 2])),
                parallel_iterations=1,
            )[1]

        @tf.function(autograph=False, reduce_retracing=True)
        def predict(x, y, weights, state):
            tables = self.strategy.run(share, args=(x, y, weights, state))
            return self.strategy.reduce(tf.distribute.ReduceOp.SUM, tables, axis=None)

        return predict


_CLIENT_INPUTS = ("order_start", "num_examples", "num_steps", "weight", "seed", "seen")


@contextlib.contextmanager
def _without_graph_rewrites():
    """Runs compiled functions as they were traced.

    On CPUs TensorFlow's memory optimizer turns sums of large tensors into temporary variables whose
    names clash in a loop within a loop ("Resource ... tmp_var already exists"). It cannot be
    switched off by itself, and rounds are as fast without any rewrites.
    """
    options = tf.config.optimizer
    before = options.get_experimental_options().get("disable_meta_optimizer", False)
    options.set_experimental_options({"disable_meta_optimizer": True})
    try:
        yield
    finally:
        options.set_experimental_options({"disable_meta_optimizer": before})


def _nothing_like(examples: Examples) -> Examples:
    return Examples(np.zeros((0, *examples.x.shape[1:]), examples.x.dtype), examples.y[:0])


def _replica_local(next_creator, **options):
    """Variables that differ from replica to replica and are never synchronised."""
    options["synchronization"] = tf.VariableSynchronization.ON_READ
    options["aggregation"] = tf.VariableAggregation.ONLY_FIRST_REPLICA
    return next_creator(**options)


def _shares(num_steps: np.ndarray, num_replicas: int) -> np.ndarray:
    """The replica of each client: the longest first, always to the replica with least to do."""
    load = np.zeros(num_replicas, np.int64)
    shares = np.zeros(len(num_steps), np.int64)
    for entry in np.argsort(-num_steps, kind="stable"):
        shares[entry] = np.argmin(load)
        load[shares[entry]] += max(int(num_steps[entry]), 1)
    return shares


def _unpack(flat: tf.Tensor, layout: dict) -> dict:
    """The inverse of flattening the sums; the cohort's table has a dynamic size."""
    leaves = tf.nest.flatten(layout)
    parts = tf.split(flat, [tf.size(leaf) for leaf in leaves], num=len(leaves))
    shaped = [
        tf.ensure_shape(tf.reshape(part, tf.shape(leaf)), leaf.shape)
        for part, leaf in zip(parts, leaves, strict=True)
    ]
    return tf.nest.pack_sequence_as(layout, shaped)


def _expect(where: str, received, expected) -> None:
    """A mistake in an algorithm's own code, said where it is."""
    if set(received) != set(expected):
        raise ValueError(
            f"{where} must give exactly {sorted(expected)}. Received: {sorted(received)}."
        )
