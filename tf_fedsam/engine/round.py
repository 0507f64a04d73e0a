"""The compiled round: all clients of all replicas, then the server step."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tf_fedsam import diagnostics, tree
from tf_fedsam.algorithms.base import Algorithm, Round, Vectors
from tf_fedsam.client import ClientData
from tf_fedsam.data import batches
from tf_fedsam.data.federated_dataset import FederatedDataset
from tf_fedsam.engine import cohort, kept, sums
from tf_fedsam.engine.client_training import ClientTraining, Server, expect
from tf_fedsam.engine.cohort import CohortInputs, Entry
from tf_fedsam.engine.examples import DeviceExamples, Streamed
from tf_fedsam.engine.kept import MODEL_STATE, Rows
from tf_fedsam.engine.placement import Placement
from tf_fedsam.engine.sums import Sums
from tf_fedsam.options import TrainingOptions

Scalars = dict[str, tf.Tensor]
RowsOfReplicas = dict[str, tuple[tf.Tensor, ...]]


class CompiledRound:
    """Rounds of one algorithm on one data set; compiled at the first.

    Args:
        algorithm: the method.
        training: one client's part.
        dataset: the clients.
        examples: its examples on the devices.
        options: how clients train.
        placement: the devices.

    Attributes:
        function: the compiled function, once there is one.
        num_traces: how often it was traced.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        training: ClientTraining,
        dataset: FederatedDataset,
        examples: DeviceExamples,
        options: TrainingOptions,
        placement: Placement,
    ):
        self._algorithm = algorithm
        self._training = training
        self._dataset = dataset
        self.examples = examples
        self._options = options
        self._placement = placement
        self.function: Any = None
        self.num_traces = 0

    def __call__(
        self,
        server: Vectors,
        inputs: CohortInputs,
        rows: Mapping[str, np.ndarray],
        round_num: int,
        lr: float,
        streamed: Streamed,
    ) -> tuple[Vectors, tf.Tensor, RowsOfReplicas, Scalars]:
        """The server after the round, the clients' table, their new rows, and numbers to log.

        Args:
            server: before the round.
            inputs: the cohort.
            rows: what is kept for its clients.
            round_num: the round, from 0.
            lr: learning rate of the round.
            streamed: examples that are not on the devices yet.
        """
        if self.function is None:
            self.function = self._compile(server, rows)
        with self._placement.rewrites():
            numbers = self.numbers(round_num, lr)
            return self.function(server, inputs, rows, *numbers, streamed)

    def trace(self, server: Vectors, rows: Mapping[str, np.ndarray]) -> None:
        """Compiles the round before the first one is run, so that mistakes in it come out."""
        if self.function is None:
            self.function = self._compile(server, rows)
        with self._placement.rewrites():
            self.function.get_concrete_function()

    def signature(self, server: Vectors, rows: Mapping[str, np.ndarray]) -> tuple[Any, ...]:
        """Of what the compiled round is given."""
        return (
            tf.nest.map_structure(lambda t: tf.TensorSpec(t.shape, t.dtype), server),
            cohort.signature(self._placement.num_replicas),
            {name: tf.TensorSpec([None, r.shape[1]], r.dtype) for name, r in rows.items()},
            tf.TensorSpec([], tf.int32),
            {name: tf.TensorSpec([], tf.float32) for name in self._rates(0, 0.0)},
            self.examples.signature(),
        )

    def _compile(self, server: Vectors, rows: Mapping[str, np.ndarray]) -> Callable:
        @tf.function(input_signature=self.signature(server, rows), autograph=False)
        def run(server, inputs, rows, round_num, rates, streamed):
            self.num_traces += 1
            before, round_ = self.parts(server, round_num, rates)
            totals, new_rows = self._train(before, round_, inputs, rows, streamed)
            new_server, scalars = self.finish(before, round_, totals)
            return new_server, totals.table, new_rows, scalars

        return run

    def parts(self, server: Vectors, round_num: tf.Tensor, rates: Scalars) -> tuple[Server, Round]:
        """The server and the round, in a graph."""
        vectors = {name: v for name, v in server.items() if name != MODEL_STATE}
        round_ = Round(round_num, num_clients=self._dataset.num_clients, **rates)
        return Server(vectors, server[MODEL_STATE]), round_

    def numbers(self, round_num: int, lr: float) -> tuple[np.int32, dict[str, np.float32]]:
        """The round and its rates, as the compiled round is given them."""
        return np.int32(round_num), self._rates(round_num, lr)

    def _rates(self, round_num: int, lr: float) -> dict[str, np.float32]:
        """The numbers that change from round to round, by the names of ``Round``."""
        factor = self._options.rho_factor(round_num)
        rates = {"lr": np.float32(lr)}
        if factor is not None and hasattr(self._algorithm.hparams, "rho"):
            rates["rho_factor"] = np.float32(factor)
        return rates

    def _train(
        self, server: Server, round_: Round, inputs: CohortInputs, rows: Rows, streamed: Streamed
    ) -> tuple[Sums, RowsOfReplicas]:
        """Trains a cohort on all replicas; its sums, and the new rows of each replica's clients."""

        def share(x, y):
            vectors = {**server.vectors, MODEL_STATE: server.statistics}
            nobody = self.nobody(vectors, inputs.size)
            return self.train_share(server, round_, inputs, rows, x, y, nobody)

        each, new_rows = self._placement.run(share, *self.examples.of_round(streamed))
        return self._placement.total(each), {
            name: self._placement.each(r) for name, r in new_rows.items()
        }

    def nobody(self, server: Vectors, size: int | tf.Tensor = 0) -> Sums:
        """The sums over nobody, with a table for so many clients."""
        diagnose = self._options.diagnostics
        return sums.zeros(self._algorithm, server["weights"], server[MODEL_STATE], size, diagnose)

    def train_share(
        self,
        server: Server,
        round_: Round,
        inputs: CohortInputs,
        rows: Rows,
        x: tf.Tensor,
        y: tf.Tensor,
        totals: Sums,
    ) -> tuple[Sums, Rows]:
        """One replica: trains its clients one after another and adds up what they report.

        Args:
            server: before the round.
            round_: the round.
            inputs: the clients of all replicas.
            rows: what is kept for them.
            x, y: the examples that their order points at.
            totals: the sums to begin with.
        """
        replica = self._placement.replica()
        members, count = inputs.members[replica], inputs.num_members[replica]
        weights = server.vectors["weights"]

        def train_one(j, totals, new_rows):
            number = members[j]
            entry = inputs.client(number)
            old = {name: matrix[number] for name, matrix in rows.items()}
            data = self._client_data(x, y, inputs.order, entry)
            trained = self._training(server, round_, entry, old, data)
            reported = trained.is_finite() & (entry.weight > 0)
            totals = sums.add(
                totals,
                trained,
                number=number,
                weight=entry.weight,
                reported=reported,
                weights=weights,
            )
            new_rows = {
                name: array.write(j, kept.row(trained.kept[name], old[name], reported))
                for name, array in new_rows.items()
            }
            return j + 1, totals, new_rows

        empty = {
            name: tf.TensorArray(tf.float32, size=count, element_shape=[matrix.shape[1]])
            for name, matrix in rows.items()
        }
        _, totals, new_rows = tf.while_loop(
            lambda j, *_: j < count, train_one, (0, totals, empty), parallel_iterations=1
        )
        return totals, {name: array.stack() for name, array in new_rows.items()}

    def _client_data(self, x, y, order, entry: Entry) -> ClientData:
        size, dataset = self._options.batch_size, self._dataset

        def batch(k, augmented=True):
            return batches.read(
                x,
                y,
                order,
                entry._asdict(),
                k,
                batch_size=size,
                preprocess=dataset.preprocess,
                augment=dataset.augment if augmented else None,
            )

        return ClientData(entry.num_examples, batches.per_epoch(entry.num_examples, size), batch)

    def finish(self, server: Server, round_: Round, totals: Sums) -> tuple[Vectors, Scalars]:
        """The server step; the server after it, and numbers to log."""
        vectors = self._algorithm.server_step(server.vectors, totals.aggregate(), round_)
        expect("server_step", vectors, server.vectors)
        keeps = self._options.norm_state == "keep_server"
        statistics = server.statistics if keeps else totals.mean_statistics()
        vectors = self._algorithm.after_round(vectors, statistics, round_)
        expect("after_round", vectors, server.vectors)
        scalars = self._scalars(server, Server(vectors, statistics), totals)
        return {**vectors, MODEL_STATE: statistics}, scalars

    def _scalars(self, before: Server, after: Server, totals: Sums) -> Scalars:
        """Numbers to log, one after another, since some need a vector for a moment."""
        algorithm = self._algorithm
        moved = tree.norm_of(tf.subtract, after.vectors["weights"], before.vectors["weights"])
        found = {"update_norm": moved}
        with tf.control_dependencies([moved]):
            momentum = algorithm.downhill_momentum(after.vectors)
            if momentum is not None:
                found["momentum_norm"] = tree.norm(momentum)
        if self._options.diagnostics:
            with tf.control_dependencies(list(found.values())):
                found |= self._diagnose(before, after, totals)
        return found | algorithm.scalars(after.vectors)

    def _diagnose(self, before: Server, after: Server, totals: Sums) -> Scalars:
        table, moves, count = totals.columns(), totals.moves, totals.count
        found = diagnostics.of_round(
            moves,
            table.move_square,
            table.moved,
            count,
            before.vectors["weights"],
            after.vectors["weights"],
        )
        with tf.control_dependencies(list(found.values())):
            momentum = self._algorithm.downhill_momentum(before.vectors)
            if momentum is not None:
                found["momentum_cosine"] = diagnostics.momentum_cosine(moves, momentum, count)
        if self._algorithm.Client.perturbs:
            total = tf.reduce_sum(table.perturbation_norm)
            found["perturbation_norm"] = tf.math.divide_no_nan(total, count)
        return found
