"""The contract every algorithm fulfils: what is sent, what is kept, what the server does.

A method is one file: a :class:`ClientModel` with its ``train_step`` and an :class:`Algorithm` with
its server step. In a round, for every client i of the cohort:

    server   sent_i = download(server, row_i, round)
    client   state_i = client_defaults(sent_i and what is known beforehand)     the first time only
             start = start(sent_i, state_i)                     normally the weights that were sent
             begin_round, and train_step num_steps times
             upload, state_i = report(client, outcome)
    server   summands(contribution, server, round)              what is added up over the cohort
             row_i = new_row(contribution, server, round)       what the server keeps for client i

and then once ``server = after_round(server_step(server, aggregate, round), ...)``. What is tested
and exported is ``reported(server, ...)``, the global model itself unless a plug-in keeps another.
The two sides have nothing else in common: what runs on a client never sees the server's vectors,
and what runs on the server sees of a client its :class:`Contribution`, that is what was uploaded,
sent and kept on the server. All of it is traced into one TensorFlow graph. Vectors are trees (lists
of tensors); ``delta``, momenta and duals point downhill and are added to the model, gradients and
control variates point uphill.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from tf_fedsam import checks, tree
from tf_fedsam.client import ClientModel, scheduled
from tf_fedsam.errors import InputError, unknown
from tf_fedsam.lazy import tf
from tf_fedsam.tree import Tree

Vectors = dict[str, Tree]


@dataclasses.dataclass(frozen=True)
class ModelSpec:
    """What an algorithm may know of the model: its variables and the shape of one input.

    ``statistics`` are the shapes of its BatchNorm statistics.
    """

    shapes: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]
    input_shape: tuple[int, ...]
    statistics: tuple[tuple[int, ...], ...] = ()


@dataclasses.dataclass(frozen=True)
class TrainingSpec:
    """What an algorithm may know of training before it begins.

    Attributes:
        weighting: of the mean over clients, "uniform" or by number of "samples".
        shares_statistics: whether the server is told the clients' BatchNorm statistics.
        num_steps: local steps of every client; ``None`` if they differ from client to client.
        keeps_velocity: whether clients keep the velocity of their local momentum between rounds.
    """

    weighting: str
    shares_statistics: bool
    num_steps: int | None
    keeps_velocity: bool = False


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What local training did on one client, as the client knows it.

    Attributes:
        weights: the local model after the last step.
        delta: ``weights - start``, downhill.
        num_steps: local steps really done (at least 1 here), as a float tensor.
        num_examples: examples of the client, as a float tensor.
        lr_sum: sum of the learning rates of these steps, with the weight that local momentum gives
            them; see ``ClientModel.lr_sum``.
        inherited: the part of ``delta`` that comes of a velocity kept from earlier rounds; ``None``
            if there is none.
    """

    weights: Tree
    delta: Tree
    num_steps: tf.Tensor
    num_examples: tf.Tensor
    lr_sum: tf.Tensor
    inherited: Tree | None = None

    def mean_gradient(self) -> Tree:
        """The mean effective gradient of the local steps, uphill: ``-delta / lr_sum``."""
        own = self.delta if self.inherited is None else tree.sub(self.delta, self.inherited)
        return _mean_gradient(own, self.lr_sum)


@dataclasses.dataclass(frozen=True)
class Contribution:
    """One client's part in a round, as the server knows it.

    Attributes:
        upload: the vectors that the client uploaded, by the names of ``uploads``.
        num_steps, num_examples, lr_sum: the numbers of its ``Outcome``, uploaded along.
        sent: what the server sent to it, by the names of ``downloads`` and ``download_scalars``.
        row: what the server keeps for it, by the names of ``server_rows``.
        inherits: whether a velocity of earlier rounds, which the client keeps, moved it, too.
    """

    upload: Vectors
    num_steps: tf.Tensor
    num_examples: tf.Tensor
    lr_sum: tf.Tensor
    sent: Vectors
    row: Vectors
    inherits: bool = False

    def delta(self) -> Tree:
        """The client's update: uploaded, or the way from the model sent to the model uploaded.

        The latter holds for clients that start at the model they were sent.
        """
        if "delta" in self.upload:
            return self.upload["delta"]
        return tree.sub(self.upload["model"], self.sent["weights"])

    def mean_gradient(self) -> Tree:
        """The mean effective gradient of the local steps, uphill: ``-delta / lr_sum``."""
        if self.inherits:
            raise InputError(
                "local_momentum_state=keep makes no sense on this method: its server takes the "
                "mean gradient of a client's steps from the update, which then also holds "
                "gradients of earlier rounds that only the client knows. Use "
                "local_momentum_state=reset.",
                "local_momentum_state",
            )
        return _mean_gradient(self.delta(), self.lr_sum)


def _mean_gradient(delta: Tree, lr_sum: tf.Tensor) -> Tree:
    return tree.scale(tf.math.divide_no_nan(-1.0, lr_sum), delta)


@dataclasses.dataclass(frozen=True)
class Aggregate:
    """The cohort's summands put together.

    Attributes:
        mean: weighted means over the clients that reported.
        total: plain sums over the clients that reported.
        scalar: weighted means of single numbers.
        num_reporting: how many reported, the real cohort, never an expected one; a float tensor.
    """

    mean: Vectors
    total: Vectors
    scalar: dict[str, tf.Tensor]
    num_reporting: tf.Tensor


@dataclasses.dataclass(frozen=True)
class Round:
    """The round as the server sees it.

    Attributes:
        number: of the round, from 0, as an integer tensor.
        lr: local learning rate of the round.
        num_clients: clients there are.
        rho_factor: of the method's radius in this round; ``None``: the radius stays as it is.
        radius_reads: radii that the server asked for.
    """

    number: tf.Tensor
    lr: tf.Tensor
    num_clients: int
    rho_factor: tf.Tensor | None = None

    radius_reads: list[Any] = dataclasses.field(default_factory=list, compare=False)

    def radius(self, rho: float | tf.Tensor) -> float | tf.Tensor:
        """The radius of this round, given the one that is not scheduled."""
        self.radius_reads.append(rho)
        return scheduled(rho, self.rho_factor)


@dataclasses.dataclass(frozen=True)
class NoHparams:
    """A method without hyper-parameters of its own."""


class Algorithm:
    """A federated algorithm; this base class is FedAvg.

    Attributes:
        name: the file's name; the class's name in lower case by default.
        title: the method's name as its paper writes it; the class's name by default.
        paper: citation.
        summary: one line on what it does.
        Client: the client model with the method's ``train_step``.
        Hparams: frozen dataclass of the method's own hyper-parameters; it validates itself.
        downloads, uploads: names of the vectors of model size that go down and up.
        download_scalars: names of single numbers that go down.
        beforehand: names of server vectors that never change and that every client has known since
            before round 0, such as the initial model; they are not sent in a round.
        client_state: names of the vectors that a client keeps between rounds; nobody else has them.
        server_rows: names of the vectors that the server keeps for each client; not sent.
        means, totals: names of the summands of model size that are averaged with the aggregation
            weights, and of those that are added up plainly.
        mean_scalars: names of the summands that are single numbers, averaged.
        default_server_lr: learning rate of the server if the user gives none.
        model_form: the new model is made from local models, so that a server learning rate has no
            meaning and is refused.
        own_momentum: why the Nesterov plug-in makes no sense on top, or "".
        own_start: why relaxed initialisation makes no sense on top, or "".
        proximal: whether the method has a proximal term, which ``clip_scope`` applies to.
        extra_gradient_epochs: passes over the client's data besides the local steps.
        acts_alone: whether the server takes its step also if nobody reported.
        equal_steps: whether all clients must do the same number of local steps.
    """

    name: ClassVar[str] = "algorithm"
    title: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    Client: type[ClientModel] = ClientModel
    Hparams: ClassVar[type] = NoHparams
    downloads: tuple[str, ...] = ("weights",)
    download_scalars: tuple[str, ...] = ()
    uploads: tuple[str, ...] = ("delta",)
    beforehand: tuple[str, ...] = ()
    client_state: tuple[str, ...] = ()
    server_rows: tuple[str, ...] = ()
    means: tuple[str, ...] = ("delta",)
    totals: tuple[str, ...] = ()
    mean_scalars: tuple[str, ...] = ()
    default_server_lr: ClassVar[float] = 1.0
    model_form: bool = False
    own_momentum: str = ""
    own_start: str = ""
    proximal: ClassVar[bool] = False
    extra_gradient_epochs: int = 0
    acts_alone: bool = False
    equal_steps: bool = False

    spec: ModelSpec

    def __init__(self, *, server_lr: float | None = None, **hparams: Any):
        self.hparams = make_hparams(type(self), hparams)
        self.server_lr = self.default_server_lr if server_lr is None else server_lr
        checks.number("server_lr", self.server_lr, "(0, inf)", "1 is plain averaging.")
        checks.require(
            self.server_lr == 1 or not self.model_form,
            "server_lr",
            server_lr,
            f"1 for {self.name}",
            "It makes the new model from the local models, so that another value has no effect.",
        )

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.name = cls.__dict__.get("name", cls.__name__.lower())
        cls.title = cls.__dict__.get("title", cls.__name__)

    def setup(self, spec: ModelSpec) -> None:
        """Told once, before anything else, what the model looks like."""
        self.spec = spec

    def check_training(self, training: TrainingSpec) -> None:
        """Told once, after ``setup``, how clients train; refuses what it cannot work with."""

    def make_client(self, network, local_step) -> ClientModel:
        """The Keras model that trains on the clients."""
        return self.Client(network, self.hparams, local_step)

    def server_vectors(self, weights: Tree) -> Vectors:
        """The server's vectors besides ``weights``, before round 0."""
        return {}

    def round_lr(self, lr: float, round_num: int) -> float:
        """The local learning rate of a round, given the one of the training options."""
        return lr

    # What runs on a client.

    def client_defaults(self, known: Vectors) -> Vectors:
        """What a client that takes part for the first time keeps.

        Args:
            known: what was sent to it in this round and what it knew ``beforehand``.
        """
        return {name: tree.zeros_like(known["weights"]) for name in self.client_state}

    def start(self, received: Vectors, state: Vectors) -> Tree:
        """Where a client starts, given what was sent to it and what it keeps."""
        return received["weights"]

    def report(self, client: ClientModel, outcome: Outcome) -> tuple[Vectors, Vectors]:
        """What goes back, exactly the vectors named in ``uploads``, and the client's new state."""
        return {"delta": outcome.delta}, {}

    # What runs on the server.

    def row_defaults(self, server: Vectors) -> Vectors:
        """What the server keeps for a client that takes part for the first time."""
        return {name: tree.zeros_like(server["weights"]) for name in self.server_rows}

    def download(self, server: Vectors, row: Vectors, round_: Round) -> Vectors:
        """What goes to a client: exactly what ``downloads`` and ``download_scalars`` name."""
        return {name: server[name] for name in (*self.downloads, *self.download_scalars)}

    def summands(
        self, contribution: Contribution, server: Vectors, round_: Round
    ) -> dict[str, Any]:
        """What the server adds up over the cohort: ``means``, ``totals`` and ``mean_scalars``."""
        names = (*self.means, *self.totals)
        upload = {"delta": contribution.delta()} if "delta" in names else {}
        return {name: (contribution.upload | upload)[name] for name in names}

    def new_row(self, contribution: Contribution, server: Vectors, round_: Round) -> Vectors:
        """What the server keeps for the client from now on."""
        return contribution.row

    def server_step(self, server: Vectors, aggregate: Aggregate, round_: Round) -> Vectors:
        """The server's vectors after the round."""
        moved = tree.axpy(self.server_lr, aggregate.mean["delta"], server["weights"])
        return {**server, "weights": moved}

    def after_round(self, server: Vectors, statistics: Tree, round_: Round) -> Vectors:
        """The server's vectors with what it keeps of the model that the round made.

        Args:
            server: its vectors after ``server_step``.
            statistics: the global model's BatchNorm statistics after the round.
            round_: the round.
        """
        return server

    def reported(self, server: Vectors, statistics: Tree) -> tuple[Tree, Tree]:
        """The model to test, to measure and to export, and its BatchNorm statistics.

        Training goes on from ``server["weights"]``, whatever is reported. If that is what is
        reported, these are the same objects.
        """
        return server["weights"], statistics

    def downhill_momentum(self, server: Vectors) -> Tree | None:
        """Where the server's momentum pulls the model, downhill; ``None`` if it has none."""
        return server.get("momentum")

    def scalars(self, server: Vectors) -> dict[str, tf.Tensor]:
        """Numbers of the server's state worth a line in the log."""
        return {}

    def describe(self) -> dict[str, Any]:
        """The hyper-parameters in force, for the log and ``config.json``."""
        return dataclasses.asdict(self.hparams)


def make_hparams(algorithm: type[Algorithm], values: dict[str, Any]) -> Any:
    """Hyper-parameters from keyword arguments; unknown names are refused with the valid ones."""
    fields = {field.name for field in dataclasses.fields(algorithm.Hparams)}
    for name in values:
        if name not in fields:
            if not fields:
                raise InputError(
                    f"{algorithm.name} has no hyper-parameters of its own. Received: {name}. "
                    f"Remove it."
                )
            raise unknown(f"hyper-parameter of {algorithm.name}", name, fields)
    return algorithm.Hparams(**values)
