"""What the rest of the library calls: rounds and evaluation."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_fedsam import diagnostics, tree
from tf_fedsam.algorithms.base import Algorithm, Vectors
from tf_fedsam.algorithms.fedavg import FedAvg
from tf_fedsam.client import ClientModel, LocalStep
from tf_fedsam.data.batches import Cohort
from tf_fedsam.data.federated_dataset import Examples, FederatedDataset
from tf_fedsam.engine import cohort as cohorts
from tf_fedsam.engine import kept, rehearsal, waves
from tf_fedsam.engine.client_training import ClientTraining
from tf_fedsam.engine.evaluation import Evaluation
from tf_fedsam.engine.examples import DeviceExamples
from tf_fedsam.engine.kept import MODEL_STATE
from tf_fedsam.engine.placement import Placement, ring_bytes
from tf_fedsam.engine.round import CompiledRound
from tf_fedsam.engine.sums import ClientTable
from tf_fedsam.losses import Loss
from tf_fedsam.models import remat
from tf_fedsam.options import TrainingOptions
from tf_fedsam.tree import Tree
from tf_fedsam.workers import Team


@dataclasses.dataclass(frozen=True)
class RoundResult:
    """What one round gives back.

    Attributes:
        server: the server's vectors after the round; unchanged if nobody reported, unless the
            algorithm acts alone.
        clients: what is told of the clients, arrays with one entry a client of the cohort.
        rows: for each vector that is kept for a client, the new rows, one a client of the cohort.
        scalars: the norms of the model's move and of the server's momentum, what the diagnostics
            say, and the algorithm's own numbers.
    """

    server: Vectors
    clients: ClientTable
    rows: dict[str, np.ndarray]
    scalars: dict[str, float]


class Engine:
    """Runs rounds of one algorithm on one data set.

    Args:
        model_fn: makes the Keras network.
        algorithm: the method, already told the model's spec.
        dataset: the clients.
        options: how clients train.
        strategy: where; a strategy's replicas share a cohort.
        loss: of single examples, to train with and to evaluate.
        frozen: values of the model's frozen weights, the same on every replica.
    """

    def __init__(
        self,
        model_fn: Callable[[], keras.Model],
        algorithm: Algorithm,
        dataset: FederatedDataset,
        options: TrainingOptions,
        strategy: tf.distribute.Strategy,
        loss: Loss,
        frozen: Sequence[np.ndarray] = (),
    ):
        self.strategy = strategy
        self.loss = loss
        self._algorithm = algorithm
        self._dataset = dataset
        self._options = options
        self._frozen = frozen
        self._placement = Placement(strategy)
        self._examples = DeviceExamples(dataset, self._placement)
        local_step = LocalStep(
            weight_decay=options.weight_decay,
            clip_norm=options.clip_norm,
            clip_scope=options.clip_scope,
            microbatch=options.microbatch,
            loss_scale=options.loss_scale,
            measure=options.diagnostics,
            momentum=options.local_momentum,
            loss=loss,
        )

        def make() -> ClientModel:
            network = model_fn()
            if options.remat:
                remat.rematerialise(network)
            return algorithm.make_client(network, local_step)

        self.client = self._placement.make_client(make, frozen)
        self.round = CompiledRound(
            algorithm,
            ClientTraining(algorithm, self.client, options.xla),
            dataset,
            self._examples,
            options,
            self._placement,
        )
        self._evaluation = Evaluation(
            self.client,
            loss,
            dataset.preprocess,
            self._examples,
            self._placement,
            options.microbatch or options.batch_size,
        )

    @property
    def team(self) -> Team:
        """The workers."""
        return self._placement.team

    def network_bytes(
        self, server: Vectors, cohort_size: int, num_replicas: int | None = None
    ) -> int:
        """What each worker sends to the others in a round of so many clients.

        Args:
            server: the server's vectors.
            cohort_size: the number of clients.
            num_replicas: devices of all workers together, of a team that is only planned; by
                default those that there are.
        """
        if num_replicas is None:
            if self.team.count == 1:
                return 0
            num_replicas = self._placement.num_replicas
        algorithm, weights = self._algorithm, server["weights"]
        vectors = len(algorithm.means) + len(algorithm.totals)
        vectors += len(diagnostics.zeros([])) if self._options.diagnostics else 0
        state = server[MODEL_STATE]
        numbers = vectors * sum(tree.sizes(weights)) + sum(tree.sizes(state))
        numbers += cohort_size * len(ClientTable._fields)
        rows = cohort_size * sum(self.row_lengths(server).values())
        return ring_bytes(num_replicas, 4 * numbers, 4 * rows)

    @property
    def num_traces(self) -> int:
        """How often the round was traced."""
        return self.round.num_traces

    @property
    def num_devices(self) -> int:
        """How many devices share a cohort."""
        return self._placement.num_replicas

    def row_lengths(self, server: Vectors) -> dict[str, int]:
        """The lengths of the rows that are kept for a client, given the server before round 0."""
        return kept.lengths(self._algorithm, server, self._options)

    def wave(self, lengths: Mapping[str, int]) -> int:
        """How many of a cohort's clients train at a time, if they keep rows of these lengths.

        Where one device trains all of them, waves cost no time, and the rows of one are kept small.
        Several devices would wait for each other after each wave.
        """
        most = self._options.wave
        if self.num_devices == 1 and lengths:
            most = min(most, max(1, waves.BYTES // (4 * sum(lengths.values()))))
        return most

    def trace(self, server: Vectors) -> None:
        """Compiles the round, given the server before round 0."""
        lengths = self.row_lengths(server)
        self.round.trace(server, {n: np.zeros((0, k), np.float32) for n, k in lengths.items()})

    def run_round(
        self,
        server: Vectors,
        cohort: Cohort,
        round_num: int,
        lr: float,
        rows: Mapping[str, np.ndarray],
        seen: np.ndarray,
        upcoming: np.ndarray,
        compiled: CompiledRound | None = None,
    ) -> RoundResult:
        """Trains the cohort and takes the server step.

        Args:
            server: the server's vectors.
            cohort: the clients and their batches.
            round_num: the round, from 0.
            lr: learning rate of the round.
            rows: flat vectors that were kept for the clients, one row a client of the cohort.
            seen: whether each client has taken part before; the rows of the others are ignored.
            upcoming: positions of the next round's clients, whose files are read meanwhile.
            compiled: the round that is run; the engine's own by default.
        """
        order, streamed = self._examples.of_cohort(cohort.order)
        self._examples.prefetch(upcoming)
        members = self._placement.shares(cohort.num_steps)
        inputs = cohorts.make(
            dataclasses.replace(cohort, order=order), seen, self._options.weighting, members
        )
        new_server, table, new_rows, scalars = (compiled or self.round)(
            server, inputs, rows, round_num, lr, streamed
        )
        clients = ClientTable(*table.numpy().T)
        in_order = np.argsort(np.concatenate(members), kind="stable")
        return RoundResult(
            server=new_server if self._algorithm.acts_alone or clients.reported.any() else server,
            clients=clients,
            rows={
                name: np.concatenate([r.numpy() for r in each])[in_order]
                for name, each in new_rows.items()
            },
            scalars={name: float(value) for name, value in scalars.items()},
        )

    def run_waves(
        self,
        server: Vectors,
        cohort: Cohort,
        round_num: int,
        lr: float,
        clients: waves.Clients,
        upcoming: np.ndarray,
    ) -> RoundResult:
        """The same as ``run_round``, bit for bit, with the rows of a wave of clients at a time.

        Args:
            server: the server's vectors.
            cohort: the clients and their batches.
            round_num: the round, from 0.
            lr: learning rate of the round.
            clients: gives the rows of clients, and is given the new ones; the result has none.
            upcoming: as for a round.
        """
        wave = self.wave(clients.lengths)
        parts = waves.split(self._placement.shares(cohort.num_steps), wave)
        arguments = server, cohort, round_num, lr, clients, parts, upcoming
        new_server, table, scalars = self._waves(*arguments)
        told = ClientTable(*table.T)
        return RoundResult(
            server=new_server if self._algorithm.acts_alone or told.reported.any() else server,
            clients=told,
            rows={},
            scalars={name: float(value) for name, value in scalars.items()},
        )

    @functools.cached_property
    def _waves(self) -> waves.Waves:
        return waves.Waves(self.round, self._placement, self._options.weighting)

    def rehearse(
        self,
        server: Vectors,
        cohort: Cohort,
        round_num: int,
        lr: float,
        rows: Mapping[str, np.ndarray],
        seen: np.ndarray,
        plain: bool = False,
    ) -> list[Vectors | None]:
        """The models that a cohort would train in a round, which is not made.

        Args:
            server: the server's vectors.
            cohort: the clients and their batches.
            round_num: the round, from 0.
            lr: learning rate of the round.
            rows: as for a round.
            seen: as for a round.
            plain: whether the clients do plain local SGD instead of what the algorithm does.

        Returns:
            For each client the vectors ``weights`` and ``model_state``, or ``None`` if it did no
            step or did not end with finite numbers.
        """
        if plain:
            server, rows = {name: server[name] for name in ("weights", kept.MODEL_STATE)}, {}
        nobody = np.array([], np.int64)
        result = self.run_round(
            server,
            cohort,
            round_num,
            lr,
            rehearsal.with_models(rows, server, len(seen)),
            seen,
            nobody,
            self._rehearsed_plain_round if plain else self._rehearsed_round,
        )
        return rehearsal.models(result.rows, result.clients.reported > 0, server)

    @functools.cached_property
    def _rehearsed_round(self) -> CompiledRound:
        return self._silent_round(self._algorithm, self.client)

    @functools.cached_property
    def _rehearsed_plain_round(self) -> CompiledRound:
        plain = FedAvg()
        plain.setup(self._algorithm.spec)
        make = lambda: plain.make_client(self.client.network, self.client.local_options)  # noqa: E731
        client = self._placement.make_client(make, self._frozen)
        no_radius = {"rho_schedule": "constant", "rho_warmup_rounds": 0}
        return self._silent_round(plain, client, **no_radius)

    def _silent_round(
        self, algorithm: Algorithm, client: ClientModel, **changes: Any
    ) -> CompiledRound:
        """A round that does not measure itself, with some options changed."""
        return CompiledRound(
            algorithm,
            ClientTraining(algorithm, client, self._options.xla),
            self._dataset,
            self._examples,
            dataclasses.replace(self._options, diagnostics=False, **changes),
            self._placement,
        )

    def evaluate(self, server: Vectors, examples: Examples) -> dict[str, float]:
        """Mean loss and accuracy of the global model."""
        losses, classes = self.predict(server, examples)
        return {"loss": float(losses.mean()), "accuracy": float((classes == examples.y).mean())}

    def predict(self, server: Vectors, examples: Examples) -> tuple[np.ndarray, np.ndarray]:
        """The global model's loss on every example, and the class it gives it."""
        return self._evaluation.predict(server, examples)

    def summed(
        self,
        function: Callable[..., Tree],
        zeros: Callable[[Tree], Tree],
        batch: int | None = None,
    ) -> Callable:
        """Compiles the sum of a function over examples; see ``Evaluation.summed``."""
        return self._evaluation.summed(function, zeros, batch)

    @property
    def gradient_batch(self) -> int:
        """Examples that such a function is given at a time, as memory allows."""
        return self._evaluation.gradient_batch
