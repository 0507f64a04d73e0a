"""The contract every algorithm fulfils: what is sent, what is kept, what the server does.

A method is one file: a :class:`ClientModel` with its ``train_step`` and an :class:`Algorithm` with
its server step. In a round, for every client i of the cohort:

    received = algorithm.download(server, state_i)              server -> client
    start    = algorithm.start(round)                           normally the received weights
    train_step, num_steps times
    upload, state_i = algorithm.report(client, outcome)         client -> server
    summands = algorithm.summands(upload, outcome)              summed over the cohort

and then once: ``server = algorithm.server_step(server, aggregate, round)``. All of it is traced
into one TensorFlow graph. Vectors are trees (lists of tensors); ``delta``, momenta and duals point
downhill and are added to the model, gradients and control variates point uphill.
"""

import dataclasses
from typing import Any, ClassVar

import tensorflow as tf

from tf_fedsam import tree
from tf_fedsam.client import ClientModel, ClientRound
from tf_fedsam.errors import InputError, unknown
from tf_fedsam.tree import Tree

Vectors = dict[str, Tree]


@dataclasses.dataclass(frozen=True)
class ModelSpec:
    """What an algorithm may know of the model: its variables and the shape of one input."""

    shapes: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]
    input_shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What local training did on one client.

    Attributes:
        weights: the local model after the last step.
        delta: ``weights - start``, downhill.
        num_steps: local steps really done (at least 1 here), as a float tensor.
        num_examples: examples of the client, as a float tensor.
        lr: learning rate of the round.
    """

    weights: Tree
    delta: Tree
    num_steps: tf.Tensor
    num_examples: tf.Tensor
    lr: tf.Tensor

    def mean_gradient(self) -> Tree:
        """The mean effective gradient of the local steps, uphill: ``-delta / (num_steps * lr)``."""
        return tree.scale(tf.math.divide_no_nan(-1.0, self.num_steps * self.lr), self.delta)


@dataclasses.dataclass(frozen=True)
class Aggregate:
    """The cohort's summands put together.

    Attributes:
        mean: weighted means over the clients that reported.
        total: plain sums over the clients that reported.
        scalar: weighted means of single numbers.
    """

    mean: Vectors
    total: Vectors
    scalar: dict[str, tf.Tensor]


@dataclasses.dataclass(frozen=True)
class Round:
    """The round as the server sees it: the real cohort, never an expected one.

    Attributes:
        lr: local learning rate of the round.
        num_clients: clients there are.
        num_reporting: clients that reported, as a float tensor.
    """

    lr: tf.Tensor
    num_clients: int
    num_reporting: tf.Tensor


@dataclasses.dataclass(frozen=True)
class NoHparams:
    """A method without hyper-parameters of its own."""


class Algorithm:
    """A federated algorithm; this base class is FedAvg.

    Class attributes:
        name: the ``--algo`` flag and the file's name; the class's name in lower case by default.
        title: the method's name as its paper writes it; the class's name by default.
        paper: citation.
        summary: one line on what it does.
        Client: the client model with the method's ``train_step``.
        Hparams: frozen dataclass of the method's own hyper-parameters; it validates itself.
        downloads, uploads: names of the vectors of model size that go down and up.
        download_scalars: names of single numbers that go down.
        client_state: names of the vectors kept for a client between rounds.
        client_state_on_server: whether the server keeps them, so that they are never sent.
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
    """

    name: ClassVar[str] = "algorithm"
    title: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    Client: ClassVar[type[ClientModel]] = ClientModel
    Hparams: ClassVar[type] = NoHparams
    downloads: tuple[str, ...] = ("weights",)
    download_scalars: tuple[str, ...] = ()
    uploads: tuple[str, ...] = ("delta",)
    client_state: tuple[str, ...] = ()
    client_state_on_server: ClassVar[bool] = False
    means: tuple[str, ...] = ("delta",)
    totals: tuple[str, ...] = ()
    mean_scalars: tuple[str, ...] = ()
    default_server_lr: ClassVar[float] = 1.0
    model_form: bool = False
    own_momentum: str = ""
    own_start: str = ""
    proximal: ClassVar[bool] = False
    extra_gradient_epochs: int = 0

    spec: ModelSpec

    def __init__(self, *, server_lr: float | None = None, **hparams: Any):
        self.hparams = make_hparams(type(self), hparams)
        self.server_lr = self.default_server_lr if server_lr is None else server_lr
        if not self.server_lr > 0:
            raise InputError(
                f"server_lr must be > 0. Received: {server_lr}. 1.0 is plain averaging."
            )
        if self.model_form and self.server_lr != 1.0:
            raise InputError(
                f"{self.name} makes the new model from the local models themselves, so a server "
                f"learning rate has no effect. Received: server_lr={server_lr}. Leave it at 1."
            )

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.name = cls.__dict__.get("name", cls.__name__.lower())
        cls.title = cls.__dict__.get("title", cls.__name__)

    def setup(self, spec: ModelSpec) -> None:
        """Told once, before anything else, what the model looks like."""
        self.spec = spec

    def make_client(self, network, local_step) -> ClientModel:
        """The Keras model that trains on the clients."""
        return self.Client(network, self.hparams, local_step)

    def server_vectors(self, weights: Tree) -> Vectors:
        """The server's vectors besides ``weights``, before round 0."""
        return {}

    def client_defaults(self, server: Vectors) -> Vectors:
        """State of a client that takes part for the first time, given the server's vectors."""
        return {name: tree.zeros_like(server["weights"]) for name in self.client_state}

    def download(self, server: Vectors, state: Vectors) -> Vectors:
        """What goes to a client: exactly what ``downloads`` and ``download_scalars`` name."""
        return {name: server[name] for name in (*self.downloads, *self.download_scalars)}

    def start(self, client_round: ClientRound) -> Tree:
        """Where a client starts."""
        return client_round.received["weights"]

    def report(self, client: ClientModel, outcome: Outcome) -> tuple[Vectors, Vectors]:
        """What goes back, exactly the vectors named in ``uploads``, and the client's new state."""
        return {"delta": outcome.delta}, {}

    def summands(self, upload: Vectors, outcome: Outcome, client: ClientModel) -> dict[str, Any]:
        """What the server adds up over the cohort: ``means``, ``totals`` and ``mean_scalars``."""
        return upload

    def server_step(self, server: Vectors, aggregate: Aggregate, round_: Round) -> Vectors:
        """The server's vectors after the round."""
        moved = tree.axpy(self.server_lr, aggregate.mean["delta"], server["weights"])
        return {**server, "weights": moved}

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


def check(condition: bool, name: str, received: Any, expected: str) -> None:
    """Raises an :class:`InputError` unless the hyper-parameter is valid."""
    if not condition:
        raise InputError(
            f"Hyper-parameter {name} must be {expected}. Received: {received!r}. "
            f"Set it with --hparams.{name}=..."
        )


def check_radius(rho: Any) -> None:
    check_coefficient("rho", rho)


def check_unit(name: str, value: Any, *, open_at_zero: bool = False) -> None:
    """A number in [0, 1], or in (0, 1]."""
    inside = isinstance(value, (int, float)) and 0 <= value <= 1
    low = "(0" if open_at_zero else "[0"
    check(inside and not (open_at_zero and value == 0), name, value, f"a number in {low}, 1]")


def check_coefficient(name: str, value: Any) -> None:
    check(
        isinstance(value, (int, float)) and 0 <= value < float("inf"), name, value, "a number >= 0"
    )


def check_momentum(value: Any, name: str = "server_momentum") -> None:
    check(isinstance(value, (int, float)) and 0 <= value < 1, name, value, "a number in [0, 1)")


def check_positive(name: str, value: Any) -> None:
    check(isinstance(value, (int, float)) and 0 < value < float("inf"), name, value, "a number > 0")


def check_flag(name: str, value: Any) -> None:
    check(isinstance(value, bool), name, value, "true or false")
