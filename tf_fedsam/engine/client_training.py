"""One client's part in a round, from what it is sent to what it leaves behind."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tf_fedsam import tree
from tf_fedsam.algorithms.base import Algorithm, Contribution, Outcome, Round, Vectors
from tf_fedsam.client import ClientData, ClientModel, ClientRound, StepResult
from tf_fedsam.engine import kept
from tf_fedsam.engine.cohort import Entry
from tf_fedsam.engine.kept import LOCAL_MODEL, LOCAL_VELOCITY, MODEL_STATE, Rows
from tf_fedsam.errors import InputError
from tf_fedsam.tree import Tree


@dataclasses.dataclass(frozen=True)
class Server:
    """The server before the round.

    Attributes:
        vectors: its vectors, ``vectors["weights"]`` the global model.
        statistics: its BatchNorm statistics.
    """

    vectors: Vectors
    statistics: Tree


@dataclasses.dataclass(frozen=True)
class Trained:
    """What a client's part in a round leaves behind.

    Attributes:
        summands: what the server adds up.
        kept: what is kept for the client, on either side, by the names of its rows.
        weights: its local model.
        delta: its update.
        statistics: its BatchNorm statistics.
        loss: mean loss of its local steps.
        perturbation_norm: norm of the shift in its last local step.
    """

    summands: dict[str, Any]
    kept: Vectors
    weights: Tree
    delta: Tree
    statistics: Tree
    loss: tf.Tensor
    perturbation_norm: tf.Tensor

    def is_finite(self) -> tf.Tensor:
        """Whether nothing diverged that would go into a sum or a row."""
        told = tf.nest.flatten([self.summands, self.kept])
        return tf.math.is_finite(tree.norm(self.delta)) & tf.math.is_finite(tree.norm(told))


class ClientTraining:
    """Trains one client after another, in a graph.

    Args:
        algorithm: the method.
        client: the replicas' client model.
        xla: whether XLA compiles its local steps.
    """

    def __init__(self, algorithm: Algorithm, client: ClientModel, xla: bool = False):
        self._algorithm = algorithm
        self._client = client
        self._xla = xla

    def __call__(
        self, server: Server, round_: Round, entry: Entry, rows: Rows, data: ClientData
    ) -> Trained:
        """A client's whole part in a round.

        Args:
            server: before the round.
            round_: the round.
            entry: the client.
            rows: what was kept for it.
            data: its batches.
        """
        row = self._row(server, entry, rows)
        sent = self._download(server, row, round_)
        beforehand = kept.known_beforehand(self._algorithm, server.vectors)
        statistics = self._statistics(server, entry, rows)
        velocity = self._velocity(server, entry, rows)
        known = sent | beforehand
        start = self._start_client(sent, known, statistics, velocity, round_, entry, rows, data)
        loss, perturbation_norm = self._local_steps(entry.num_steps, data)
        read = self._client.radius_was_read or round_.radius_reads
        if round_.rho_factor is not None and not read:
            raise InputError(
                f"rho_schedule would have no effect on {self._algorithm.name}, which reads "
                f"hparams.rho itself. Let its client take the radius from self.radius().",
                "rho_schedule",
            )
        outcome = self._outcome(start, entry, velocity)
        upload, state = self._report(outcome)
        contribution = Contribution(
            upload,
            outcome.num_steps,
            outcome.num_examples,
            outcome.lr_sum,
            sent,
            row,
            inherits=velocity is not None,
        )
        summands, new_row = self._receive(contribution, server, round_)
        return Trained(
            summands=summands,
            kept={**state, **new_row, **self._kept_besides(rows, outcome)},
            weights=outcome.weights,
            delta=outcome.delta,
            statistics=self._client.read_model_state(),
            loss=loss / outcome.num_steps,
            perturbation_norm=perturbation_norm,
        )

    # On the server.

    def _row(self, server: Server, entry: Entry, rows: Rows) -> Vectors:
        defaults = self._algorithm.row_defaults(server.vectors)
        expect("row_defaults", defaults, self._algorithm.server_rows)
        return kept.restore(rows, entry.seen, defaults)

    def _download(self, server: Server, row: Vectors, round_: Round) -> Vectors:
        algorithm = self._algorithm
        sent = algorithm.download(server.vectors, row, round_)
        expect("download", sent, algorithm.downloads + algorithm.download_scalars)
        return sent

    def _statistics(self, server: Server, entry: Entry, rows: Rows) -> Tree:
        """The BatchNorm statistics to begin with: the server's, or the client's own."""
        if MODEL_STATE not in rows:
            return server.statistics
        return kept.restore(rows, entry.seen, {MODEL_STATE: server.statistics})[MODEL_STATE]

    def _receive(
        self, contribution: Contribution, server: Server, round_: Round
    ) -> tuple[dict[str, Any], Vectors]:
        """What is added up, and the row that the server keeps."""
        algorithm = self._algorithm
        summands = algorithm.summands(contribution, server.vectors, round_)
        names = {*algorithm.means, *algorithm.totals, *algorithm.mean_scalars}
        expect("summands", summands, names)
        row = algorithm.new_row(contribution, server.vectors, round_)
        expect("new_row", row, algorithm.server_rows)
        return summands, row

    # On the client.

    def _velocity(self, server: Server, entry: Entry, rows: Rows) -> Tree | None:
        """Of the local momentum to begin with, if the client keeps its own."""
        if LOCAL_VELOCITY not in rows:
            return None
        zeros = tree.zeros_like(server.vectors["weights"])
        return kept.restore(rows, entry.seen, {LOCAL_VELOCITY: zeros})[LOCAL_VELOCITY]

    def _start_client(
        self,
        sent: Vectors,
        known: Vectors,
        statistics: Tree,
        velocity: Tree | None,
        round_: Round,
        entry: Entry,
        rows: Rows,
        data: ClientData,
    ) -> Tree:
        """Puts the client model at the start of the round; where that is."""
        algorithm = self._algorithm
        defaults = algorithm.client_defaults(known)
        expect("client_defaults", defaults, algorithm.client_state)
        state = kept.restore(rows, entry.seen, defaults)
        client_round = ClientRound(
            received=sent,
            state=state,
            start=algorithm.start(sent, state),
            lr=round_.lr,
            number=round_.number,
            num_steps=entry.num_steps,
            seed=entry.seed,
            data=data,
            rho_factor=round_.rho_factor,
        )
        self._client.start_round(client_round, statistics, velocity)
        return client_round.start

    def _local_steps(self, num_steps: tf.Tensor, data: ClientData) -> tuple[tf.Tensor, tf.Tensor]:
        """The sum of the steps' losses, and the norm of the last one's perturbation."""

        def train(k, batch):
            self._client.begin_step(k)
            result = self._client.train_step(batch)
            if not isinstance(result, StepResult):
                raise InputError(
                    f"train_step must give a StepResult. Received: {result!r:.60}. Return what "
                    f"self.step(batch, gradient) gives."
                )
            return result

        if self._xla:  # compiled for each size of a batch when it is first met
            train = tf.function(train, autograph=False, jit_compile=True)

        def one(k, loss, _):
            result = train(k, data.batch(k))
            return k + 1, loss + result.loss, result.perturbation_norm

        return tf.while_loop(
            lambda k, *_: k < num_steps,
            one,
            (0, tf.zeros([]), tf.zeros([])),
            parallel_iterations=1,
        )[1:]

    def _outcome(self, start: Tree, entry: Entry, velocity: Tree | None) -> Outcome:
        weights = self._client.read_weights()
        return Outcome(
            weights=weights,
            delta=tree.sub(weights, start),
            num_steps=tf.cast(tf.maximum(entry.num_steps, 1), tf.float32),
            num_examples=tf.cast(entry.num_examples, tf.float32),
            lr_sum=self._client.lr_sum(),
            inherited=None if velocity is None else self._client.inherited(velocity),
        )

    def _report(self, outcome: Outcome) -> tuple[Vectors, Vectors]:
        """What goes up, and what the client keeps."""
        upload, state = self._algorithm.report(self._client, outcome)
        expect("report (upload)", upload, self._algorithm.uploads)
        expect("report (client state)", state, self._algorithm.client_state)
        return upload, state

    def _kept_besides(self, rows: Rows, outcome: Outcome) -> Vectors:
        """What is kept for every method alike."""
        values = {MODEL_STATE: self._client.read_model_state(), LOCAL_MODEL: outcome.weights}
        if self._client.velocity is not None:
            values[LOCAL_VELOCITY] = self._client.read_local(self._client.velocity)
        return {name: value for name, value in values.items() if name in rows}


def expect(where: str, received, expected) -> None:
    """A mistake in an algorithm's own code, said where it is."""
    if not isinstance(received, Mapping):
        raise InputError(
            f"{where} must give exactly {sorted(expected)}. Received: {received!r:.60}. Return a "
            f"dict from these names to vectors."
        )
    if set(received) != set(expected):
        raise InputError(
            f"{where} must give exactly {sorted(expected)}. Received: {sorted(received)}."
        )
