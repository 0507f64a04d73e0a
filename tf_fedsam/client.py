"""The Keras model that trains on one client.

``ClientModel.train_step`` is the plain local step that every method builds on:

    q = gradient of the batch loss at the weights w, or at w + shift
    v = clip(scale * q + r)                      global norm over all variables
    w = w - lr * (v + weight_decay * w)          decay after clipping, at the unshifted w

With local momentum the last line is that of the heavy ball, d the bracket above:

    velocity = momentum * velocity + d,   w = w - lr * velocity

A method overrides ``train_step`` in a few lines. The same class trains in ``model.fit`` (compile it
with any Keras optimizer), which makes SAM and its relatives usable centrally.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from tf_fedsam import tree
from tf_fedsam.lazy import keras, tf
from tf_fedsam.losses import Loss, cross_entropy
from tf_fedsam.tree import Tree


@dataclasses.dataclass(frozen=True)
class LocalStep:
    """What every method's local step shares.

    Attributes:
        weight_decay: coefficient of the decay, applied to all trainable variables.
        clip_norm: global norm that the corrected gradient is clipped to; ``None`` does not clip.
        clip_scope: whether a proximal term is clipped in "full" or, as in the "official" codes,
            without its half ``lamb * w``.
        microbatch: if given, gradients are added up over microbatches of this many examples.
        loss_scale: factor of the loss during differentiation, for float16; a power of two.
        measure: whether the last step of a round tells the norm of the shift its gradient was
            taken at.
        momentum: of the local steps; in ``model.fit`` the optimizer has its own instead.
        loss: of single examples; in ``model.fit`` that of ``compile`` is used instead.
    """

    weight_decay: float = 0.0
    clip_norm: float | None = None
    clip_scope: str = "full"
    microbatch: int | None = None
    loss_scale: float = 1.0
    measure: bool = False
    momentum: float = 0.0
    loss: Loss = dataclasses.field(default_factory=cross_entropy)


@dataclasses.dataclass(frozen=True)
class ClientData:
    """A client's batches of the round, on the device.

    Attributes:
        num_examples: examples of the client.
        num_batches: batches of one pass over them.
        batch: (step, augmented=True) -> inputs and labels of a local step.
    """

    num_examples: tf.Tensor
    num_batches: tf.Tensor
    batch: Callable[..., tuple[tf.Tensor, tf.Tensor]]


@dataclasses.dataclass(frozen=True)
class ClientRound:
    """What a client knows during one round; constant over its local steps.

    Attributes:
        received: the vectors the client downloaded, by name; ``received["weights"]`` is the model.
        state: the client's own vectors as they were when the round began, by name.
        start: the point local training starts from, the centre of every proximal term.
        lr: learning rate of the round; ``None`` in ``model.fit``, where the optimizer has it.
        number: of the round, from 0.
        num_steps: local steps that the client is to do; ``None`` in ``model.fit``.
        seed: the client's integer seed of the round.
        data: the client's batches of the round; ``None`` in ``model.fit``.
        rho_factor: of the method's radius in this round; ``None``: the radius stays as it is.
    """

    received: dict[str, Tree]
    state: dict[str, Tree]
    start: Tree
    lr: tf.Tensor | None = None
    number: tf.Tensor | int = 0
    num_steps: tf.Tensor | None = None
    seed: tf.Tensor | int = 0
    data: ClientData | None = None
    rho_factor: tf.Tensor | None = None


class Fixed:
    """What a method's ``begin_round`` computed, to be used in every step of the round."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name!r} was not set by begin_round")


class StepResult(NamedTuple):
    """What is told of a local step.

    Attributes:
        loss: of the batch, at the weights before the step.
        perturbation_norm: norm of the last shift that a gradient was taken at, if this is the last
            step of a round that is measured; else 0.
    """

    loss: tf.Tensor
    perturbation_norm: tf.Tensor


class Batch:
    """One batch during one local step; counts the gradients taken on it.

    Attributes:
        extra: further values of every example, for a loss of the method's own.
    """

    def __init__(self, x, y, sample_weight=None):
        self.x = x
        self.y = y
        self.sample_weight = sample_weight
        self.extra: dict[str, tf.Tensor] = {}
        self.num_gradients = 0
        self.random_state: list[tf.Tensor] = []
        self.loss: tf.Tensor | None = None
        self.logits: tf.Tensor | None = None
        self.perturbation_norm = tf.zeros([])

    def part(self, begin: tf.Tensor, size: int) -> Batch:
        """Some of the examples."""
        part = Batch(self.x[begin : begin + size], self.y[begin : begin + size])
        part.extra = {name: v[begin : begin + size] for name, v in self.extra.items()}
        return part


BatchLoss = Callable[[Batch, "tf.Tensor"], "tf.Tensor"]  # of a batch and its logits


if TYPE_CHECKING:
    from keras import Model as _Model
else:
    _Model = object  # until a client is made, so that methods are known without loading Keras


class ClientModel(_Model):
    """A Keras network with a local step; the plain one is local SGD (FedAvg's client).

    Args:
        network: the Keras model to train; maps a batch of inputs to logits.
        hparams: the method's hyper-parameters.
        local_step: weight decay and clipping.

    Class attributes:
        gradients_per_step: gradients that ``train_step`` takes.
        spared_gradients: those of them that the first step of a round does without.
        forwards_per_step: passes without a gradient that ``train_step`` does besides.
        perturbs: whether it takes one at shifted weights, so that rounds log the shift's norm.

    Attributes:
        round: what the client knows in this round.
        fixed: what ``begin_round`` computed from it.
        radius_was_read: whether the method has asked for its radius, which may be scheduled.
        velocity: of the local momentum, if there is one.
    """

    gradients_per_step: ClassVar[int] = 1
    spared_gradients: ClassVar[int] = 0
    forwards_per_step: ClassVar[int] = 0
    perturbs: ClassVar[bool] = False

    def __new__(cls, *args, **kwargs):
        plain: Any = cls
        made = _keras_class(plain)
        return super(ClientModel, made).__new__(made, *args, **kwargs)

    def __init__(
        self, network: keras.Model, hparams: Any = None, local_step: LocalStep | None = None
    ):
        super().__init__(name=f"client_{network.name}")
        self.network = network
        self.hparams = hparams
        self.local_options = local_step or LocalStep()
        self.radius_was_read = False
        self.round: Any = None  # a ClientRound while training
        self.fixed: Any = Fixed()
        self._step_index: Any = None
        self._random_state = random_state(network)
        self._model_state = model_state(network)
        self.velocity = self.local_vector("velocity") if self.local_options.momentum else None
        self.built = True

    def call(self, inputs, training=None):
        return self.network(inputs, training=training)

    # What a method overrides.

    def begin_round(self) -> None:
        """Sets ``fixed``, what stays constant over the local steps, and local variables."""

    def schedule(self, step: tf.Tensor) -> tf.Tensor | None:
        """The factor of the round's learning rate in some local steps; ``None``: always 1.

        Args:
            step: numbers of local steps, from 0, as floats of any shape.
        """
        return None

    def train_step(self, data):
        batch = self.unpack(data)
        return self.step(batch, self.gradient(batch))

    # What a method calls.

    def unpack(self, data) -> Batch:
        batch = Batch(*keras.utils.unpack_x_y_sample_weight(data))
        batch.random_state = [tf.identity(v.value) for v in self._random_state]
        return batch

    def gradient(
        self, batch: Batch, shift: Tree | None = None, loss: BatchLoss | None = None
    ) -> Tree:
        """Gradient of the batch's mean loss at the current weights, or at ``weights + shift``.

        Further gradients of the same batch see the same dropout masks as the first and leave the
        BatchNorm statistics alone. The weights are put back as they were, bit for bit.

        Args:
            batch: the batch.
            shift: from the weights to where the gradient is taken.
            loss: mean loss of a batch, or of a part of it; the training loss by default.
        """
        return self._gradient(batch, shift, loss)[0]

    def either(
        self,
        condition: tf.Tensor,
        batch: Batch,
        then: Callable[[Batch], Tree],
        otherwise: Callable[[Batch], Tree],
    ) -> Tree:
        """The gradient of a batch that one of two functions takes; the other one is not run."""

        def taken(function):
            part = copy.copy(batch)  # what one branch of a graph told is not known to the other
            part.extra = dict(batch.extra)
            gradient = function(part)
            logits = [] if part.logits is None else [part.logits]
            return gradient, part.loss, part.perturbation_norm, logits

        gradient, batch.loss, batch.perturbation_norm, logits = tf.cond(
            condition, lambda: taken(then), lambda: taken(otherwise)
        )
        batch.logits = logits[0] if logits else None
        return gradient

    def logits_at(self, weights: Tree, batch: Batch, statistics: Tree | None = None) -> tf.Tensor:
        """The batch's logits at other weights, in inference mode and without a gradient.

        Args:
            weights: where.
            batch: the batch.
            statistics: of BatchNorm; the present ones by default.
        """
        present = self.read_model_state()
        with self._moved(lambda _: weights):
            if statistics is not None:
                self.assign_model_state(statistics)
            logits = tf.stop_gradient(self.network(batch.x, training=False))
        if statistics is not None:
            self.assign_model_state(present)
        return logits

    def input_gradient(
        self, batch: Batch, transform: Callable[[tf.Tensor], tf.Tensor], parameters: Tree
    ) -> tuple[Tree, Tree]:
        """Gradients of the weights and of the parameters of a transform of the inputs."""
        return self._gradient(batch, None, None, transform, parameters)

    def _gradient(self, batch, shift, loss=None, transform=None, parameters=()):
        first = batch.num_gradients == 0
        batch.num_gradients += 1
        if shift is not None and self.local_options.measure and not self.in_fit:
            is_last = tf.equal(self.step_index, self.round.num_steps - 1)
            batch.perturbation_norm = tf.cond(
                is_last, lambda: tree.norm(shift), lambda: tf.zeros([])
            )
        nothing = contextlib.nullcontext()
        with (
            nothing if shift is None else self._moved(lambda weights: tree.add(weights, shift)),
            nothing if first else self._replayed(batch),
        ):
            told, logits, gradient, of_parameters = self.mean_gradient(
                batch, loss, transform, parameters
            )
        if first:
            batch.loss, batch.logits = told, logits
        return gradient, of_parameters

    def mean_gradient(
        self,
        batch: Batch,
        loss: BatchLoss | None = None,
        transform: Callable[[tf.Tensor], tf.Tensor] | None = None,
        parameters: Sequence[tf.Tensor] = (),
        training: bool = True,
    ):
        """Training loss, logits and gradients of one batch, in microbatches if that is asked for.

        Microbatches need less memory and give the same gradient, except that BatchNorm and dropout
        see each microbatch by itself; the logits of the whole batch are not kept.
        """
        size = self.local_options.microbatch
        if size is None:
            return self._taped(batch, loss, transform, parameters, training)
        total = tf.shape(batch.y)[0]

        def add_one(begin, told, gradient, of_parameters):
            part = batch.part(begin, size)
            share = tf.cast(tf.shape(part.y)[0], tf.float32) / tf.cast(total, tf.float32)
            one, _, g, p = self._taped(part, loss, transform, parameters, training)
            return (
                begin + size,
                told + share * one,
                tree.axpy(share, g, gradient),
                tree.axpy(share, p, of_parameters),
            )

        zeros = tree.zeros_like(self.read_weights())
        start = (0, tf.zeros([]), zeros, tree.zeros_like(list(parameters)))
        _, told, gradient, of_parameters = tf.while_loop(
            lambda begin, *_: begin < total, add_one, start, parallel_iterations=1
        )
        return told, None, gradient, of_parameters

    def _taped(self, batch, loss, transform, parameters, training):
        variables = [v.value for v in self.network.trainable_variables]
        scale = self.local_options.loss_scale
        with tf.GradientTape() as tape:
            tape.watch(list(parameters))
            inputs = batch.x if transform is None else transform(batch.x)
            logits = self.network(inputs, training=training)
            told = self.batch_loss(batch, logits)
            objective = told if loss is None else loss(batch, logits)
            scaled = objective if scale == 1 else objective * scale
        gradients = tape.gradient(
            scaled,
            (variables, list(parameters)),
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        gradient, of_parameters = ([tf.convert_to_tensor(g) for g in part] for part in gradients)
        if scale != 1:
            gradient = tree.scale(1 / scale, gradient)
            of_parameters = tree.scale(1 / scale, of_parameters)
        return told, logits, gradient, of_parameters

    def step(
        self,
        batch: Batch,
        gradient: Tree,
        *,
        scale: float | tf.Tensor = 1.0,
        correction: Tree | None = None,
        correction_scale: float = 1.0,
        unclipped: Tree | None = None,
    ) -> StepResult | dict[str, tf.Tensor]:
        """Ends a ``train_step``: moves the weights and tells of the step, in fit its metrics.

        Args:
            batch: the batch the gradient was taken on.
            gradient: data gradient q.
            scale: factor of the data gradient.
            correction: r, added to the scaled gradient before clipping.
            correction_scale: factor of the correction.
            unclipped: added after clipping, like the weight decay.
        """
        direction = gradient
        if not (isinstance(scale, float) and scale == 1.0):
            direction = tree.scale(scale, direction)
        if correction is not None and correction_scale == 1:
            direction = tree.add(direction, correction)
        elif correction is not None:
            add = lambda q, r: q + correction_scale * r  # noqa: E731
            direction = tree.one_by_one(add, direction, correction)
        if self.local_options.clip_norm is not None:
            direction = tree.clip(direction, self.local_options.clip_norm)
        if unclipped is not None:
            direction = tree.add(direction, unclipped)
        variables, decay = self.network.trainable_variables, self.local_options.weight_decay

        def decayed(d, variable):
            return decay * tf.identity(variable.value) + d if decay else d

        if self.in_fit:
            self.optimizer.apply(list(map(decayed, direction, variables)), variables)
            self._loss_tracker.update_state(batch.loss)
            return self.compute_metrics(batch.x, batch.y, batch.logits, batch.sample_weight)
        lr = self.learning_rate()

        def move(d, variable, velocity=None):
            d = decayed(d, variable)
            if velocity is not None:
                d = self.local_options.momentum * tf.identity(velocity) + d
                velocity.assign(d)
            moved = lr * d
            variable.value.assign_sub(moved)
            return moved

        velocity = [] if self.velocity is None else [self.velocity.variables]
        tree.one_by_one(move, direction, variables, *velocity)
        return StepResult(batch.loss, batch.perturbation_norm)

    def read_weights(self) -> Tree:
        """The trainable weights as they are now."""
        return [tf.identity(v.value) for v in self.network.trainable_variables]

    def learning_rate(self) -> tf.Tensor:
        """The rate of the present local step."""
        if self.in_fit:
            return self.optimizer.learning_rate
        factor = self.schedule(tf.cast(self.step_index, tf.float32))
        return self.round.lr if factor is None else factor * self.round.lr

    def radius(self, rho: float | tf.Tensor | None = None) -> float | tf.Tensor:
        """The method's ``rho`` in this round; what a method reads in place of ``hparams.rho``.

        Args:
            rho: another radius of the method, to which the same schedule applies.
        """
        self.radius_was_read = True
        rho = self.hparams.rho if rho is None else rho
        return scheduled(rho, None if self.in_fit else self.round.rho_factor)

    def lr_sum(self) -> tf.Tensor:
        """The sum of the rates of the round's local steps; of one step if there are none.

        It is what the update is divided by for the mean of the steps' directions d. With local
        momentum m, step k moves by lr_k * (d_k + m d_(k-1) + m^2 d_(k-2) + ...), so that all steps
        together give

            -delta = sum_j a_j d_j,    a_j = sum_(k >= j) lr_k m^(k - j)

        and the sum of the weights a_j, in another order, is that of lr_k (1 + m + ... + m^k): the
        rates times the weight that the momentum has gathered (the normaliser of Wang et al. 2020,
        arXiv:2007.07481). A velocity v that was kept from earlier rounds adds
        sum_k lr_k m^(k + 1) v to it, which are not directions of this round; see ``inherited``.
        """
        return self.rates(tf.maximum(self.round.num_steps, 1))

    def unit_rates(self, num_steps: int) -> float:
        """What ``lr_sum`` is in a round of so many local steps with a learning rate of 1."""
        present, steps = self.round, tf.constant(num_steps)
        self.round = ClientRound({}, {}, [], lr=tf.constant(1.0), num_steps=steps)
        total = float(self.rates(steps))
        self.round = present
        return total

    def rates(self, num_steps: tf.Tensor) -> tf.Tensor:
        """The sum of the rates of the first local steps, with the weight momentum gives them."""
        steps = tf.range(tf.cast(num_steps, tf.float32))
        factors, momentum = self.schedule(steps), self.local_options.momentum
        if momentum and not self.in_fit:
            gathered = tf.cumsum(tf.pow(momentum, steps))  # 1 + m + ... + m^k
            factors = gathered if factors is None else factors * gathered
        total = tf.cast(num_steps, tf.float32) if factors is None else tf.reduce_sum(factors)
        return total * (self.optimizer.learning_rate if self.in_fit else self.round.lr)

    def inherited(self, velocity: Tree) -> Tree:
        """The part of the round's update that comes of the velocity it began with, downhill."""
        steps = tf.range(tf.cast(self.round.num_steps, tf.float32))
        factors, left = self.schedule(steps), tf.pow(self.local_options.momentum, steps + 1)
        total = tf.reduce_sum(left if factors is None else factors * left)
        return tree.scale(-total * self.round.lr, velocity)

    def local_vector(self, name: str, like: Sequence[np.ndarray] | None = None) -> LocalVector:
        """Variables that change from local step to local step; made in ``__init__``.

        Args:
            name: for the variables' names.
            like: initial values; zeros in the shape of the weights by default.
        """
        if like is None:
            like = [np.zeros(v.shape, np.float32) for v in self.network.trainable_variables]
        return LocalVector([tf.Variable(v, trainable=False, name=name) for v in like])

    def read_local(self, vector: LocalVector) -> Tree:
        return [tf.identity(v) for v in vector.variables]

    def set_local(self, vector: LocalVector, values: Tree) -> None:
        for variable, value in zip(vector.variables, values, strict=True):
            variable.assign(value)

    def offset(self) -> Tree:
        """How far the weights are from where the round started: ``w - start``."""
        return tree.sub(self.read_weights(), self.round.start)

    # What the engine calls.

    def start_round(self, round_: ClientRound, state: Tree, velocity: Tree | None = None) -> None:
        """Puts the model at the start of a client's round.

        Args:
            round_: what the client knows.
            state: the BatchNorm statistics.
            velocity: of the local momentum; zero by default.
        """
        self.round, self.fixed = round_, Fixed()
        self.assign_weights(round_.start)
        self.assign_model_state(state)
        if self.velocity is not None:
            self.set_local(self.velocity, velocity or tree.zeros_like(round_.start))
        self.begin_round()

    def begin_step(self, step: tf.Tensor) -> None:
        """Tells the number of the step; dropout is a function of it and the client's seed."""
        self._step_index = step
        for index, variable in enumerate(self._random_state):
            stream = (tf.cast(self.round.seed, tf.int64) + index * 0x3C6EF372) % 2**31
            counter = tf.cast(step, tf.int64) * 1024  # a layer may draw several times in a step
            variable.assign(tf.cast(tf.stack([stream, counter]), variable.dtype))

    def assign_weights(self, values: Tree) -> None:
        for variable, value in zip(self.network.trainable_variables, values, strict=True):
            variable.assign(value)

    def read_model_state(self) -> Tree:
        return [tf.identity(v.value) for v in self._model_state]

    def assign_model_state(self, values: Tree) -> None:
        for variable, value in zip(self._model_state, values, strict=True):
            variable.assign(value)

    def batch_loss(self, batch: Batch, logits: tf.Tensor) -> tf.Tensor:
        """Mean loss of the batch; Keras' ``compute_loss`` would divide it by the replicas."""
        if self.in_fit:
            return self.compute_loss(batch.x, batch.y, logits, batch.sample_weight)
        losses = self.local_options.loss(batch.y, tf.cast(logits, tf.float32))
        loss = tf.reduce_mean(losses)
        return tf.add_n([loss, *self.network.losses]) if self.network.losses else loss

    # In ``model.fit`` there is no server: nothing was received but the weights the fit starts from.

    def compile(self, *args, **kwargs):
        if self.local_options.microbatch is not None:
            raise ValueError("Microbatches are for federated rounds. Set batch_size in fit().")
        super().compile(*args, **kwargs)
        weights = self.read_weights()
        self.round = ClientRound(_Nothing(weights), _Nothing(weights), weights)
        self.fixed = Fixed()
        self.begin_round()

    @property
    def step_index(self) -> tf.Tensor:
        """Local steps done in this round."""
        return self.optimizer.iterations if self.in_fit else self._step_index

    @property
    def in_fit(self) -> bool:
        return self.round is not None and self.round.lr is None

    @contextlib.contextmanager
    def _moved(self, move: Callable[[Tree], Tree]):
        weights = self.read_weights()
        self.assign_weights(move(weights))
        yield
        self.assign_weights(weights)

    @contextlib.contextmanager
    def _replayed(self, batch: Batch):
        for variable, value in zip(self._random_state, batch.random_state, strict=True):
            variable.assign(value)
        statistics = self.read_model_state()
        yield
        self.assign_model_state(statistics)


def scheduled(rho: float | tf.Tensor, factor: tf.Tensor | None) -> float | tf.Tensor:
    """A radius in a round with this factor."""
    return rho if factor is None else factor * rho


@functools.cache
def _keras_class(client: Any) -> Any:
    """The class as a Keras model, which its objects are."""
    if issubclass(client, keras.Model):
        return client
    facts = {"__module__": client.__module__, "__qualname__": client.__qualname__}
    return type(client.__name__, (client, keras.Model), facts | {"__doc__": client.__doc__})


class LocalVector:
    """A client model's own variables, apart from the network's."""

    def __init__(self, variables: list[tf.Variable]):
        self.variables = variables


class Proximal:
    """The term ``coefficient * (dual + w - start)`` of a client's steps.

    Made in ``begin_round``: all of it but ``coefficient * w`` stays the same for a round.
    """

    def __init__(self, client: ClientModel, coefficient: float, dual: Tree | None = None):
        start = client.round.start
        centre = tree.scale(-1.0, start) if dual is None else tree.sub(dual, start)
        self._client = client
        self._coefficient = coefficient
        self._constant = tree.scale(coefficient, centre)

    def terms(self) -> dict[str, Tree]:
        """The arguments of ``step`` for it."""
        weights = self._client.read_weights()
        if self._client.local_options.clip_scope == "full":
            return {"correction": tree.axpy(self._coefficient, weights, self._constant)}
        return {
            "correction": self._constant,
            "unclipped": tree.scale(self._coefficient, weights),
        }


class _Nothing(dict):
    """Vectors that nobody sent: the model itself, and zeros for everything else."""

    def __init__(self, weights: Tree):
        super().__init__(weights=weights)

    def __missing__(self, name: str) -> Tree:
        return tree.zeros_like(self["weights"])


def random_state(network: keras.Model) -> list[keras.Variable]:
    """The states of the network's random number generators (dropout)."""
    weights = {id(v) for v in network.non_trainable_weights}
    return [v for v in network.non_trainable_variables if id(v) not in weights]


def frozen_weights(network: keras.Model) -> list[keras.Variable]:
    """The weights that never move: those of frozen layers."""
    moving = {id(v) for v in (*network.trainable_variables, *model_state(network))}
    return [v for v in network.weights if id(v) not in moving]


def model_state(network: keras.Model) -> list[keras.Variable]:
    """What training moves besides the trainable variables: the BatchNorm statistics.

    The weights of frozen layers never move and are not part of it.
    """
    moving = {
        id(v)
        for layer in network._flatten_layers(include_self=True)
        if layer.trainable
        for v in layer._non_trainable_variables
    }
    return [v for v in network.non_trainable_weights if id(v) in moving]
