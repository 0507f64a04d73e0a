"""The Keras model that trains on one client.

``ClientModel.train_step`` is the plain local step that every method builds on:

    q = gradient of the batch loss at the weights w, or at w + shift
    v = clip(scale * q + correction)             global norm over all variables
    w = w - lr * (v + weight_decay * w)          decay after clipping, at the unshifted w

A method overrides ``train_step`` in a few lines. The same class trains in ``model.fit`` (compile it
with any Keras optimizer), which makes SAM and its relatives usable centrally.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from tf_fedsam import tree
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
        measure: whether the steps that the engine marks tell the norm of the shift their gradient
            was taken at.
    """

    weight_decay: float = 0.0
    clip_norm: float | None = None
    clip_scope: str = "full"
    microbatch: int | None = None
    loss_scale: float = 1.0
    measure: bool = False


class ClientRound:
    """What a client knows during one round; constant over its local steps.

    Attributes:
        received: the vectors the client downloaded, by name; ``received["weights"]`` is the model.
        state: the client's own vectors as they were when the round began, by name.
        start: the point local training starts from, the centre of every proximal term.
        lr: learning rate of the round.
        seed: the client's integer seed of the round.
        data: the client's batches of the round; ``None`` in ``model.fit``.
        server: the server's own vectors, for what runs on the server: ``summands``, and client
            state that the server keeps. Nothing that runs on the client may look at it.

    A method's ``begin_round`` may set further attributes, computed once and used in every step.
    """

    def __init__(
        self,
        received: dict[str, Tree],
        state: dict[str, Tree],
        start: Tree,
        lr: tf.Tensor | None,
        seed: tf.Tensor | int = 0,
        data: Any = None,
    ):
        self.received = received
        self.state = state
        self.start = start
        self.lr = lr
        self.seed = seed
        self.data = data
        self.server: dict[str, Tree] = {}

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name!r} was not set by begin_round")


class Batch:
    """One batch during one local step; counts the gradients taken on it."""

    def __init__(self, x, y, sample_weight=None):
        self.x = x
        self.y = y
        self.sample_weight = sample_weight
        self.num_gradients = 0
        self.random_state: list[tf.Tensor] = []
        self.loss: tf.Tensor | None = None
        self.logits: tf.Tensor | None = None
        self.perturbation_norm: tf.Tensor | None = None


class ClientModel(keras.Model):
    """A Keras network with a local step; the plain one is local SGD (FedAvg's client).

    Args:
        network: the Keras model to train; maps a batch of inputs to logits.
        hparams: the method's hyper-parameters.
        local_step: weight decay and clipping.
    """

    gradients_per_step: ClassVar[int] = 1

    def __init__(
        self, network: keras.Model, hparams: Any = None, local_step: LocalStep | None = None
    ):
        super().__init__(name=f"client_{network.name}")
        self.network = network
        self.hparams = hparams
        self.local_options = local_step or LocalStep()
        self.round: Any = None  # a ClientRound while training
        self._step_index: Any = None
        self.measuring: Any = None  # whether this step is measured
        self._random_state = random_state(network)
        self._model_state = model_state(network)
        self.built = True

    def call(self, inputs, training=None):
        return self.network(inputs, training=training)

    # What a method overrides.

    def begin_round(self) -> None:
        """Computes what stays constant over the local steps of a round and sets local variables."""

    def train_step(self, data):
        batch = self.unpack(data)
        return self.step(batch, self.gradient(batch))

    # What a method calls.

    def unpack(self, data) -> Batch:
        batch = Batch(*keras.utils.unpack_x_y_sample_weight(data))
        batch.random_state = [tf.identity(v.value) for v in self._random_state]
        return batch

    def gradient(self, batch: Batch, shift: Tree | None = None) -> Tree:
        """Gradient of the batch's mean loss at the current weights, or at ``weights + shift``.

        Further gradients of the same batch see the same dropout masks as the first and leave the
        BatchNorm statistics alone. The weights are put back as they were, bit for bit.
        """
        return self._gradient(batch, shift)[0]

    def input_gradient(
        self, batch: Batch, transform: Callable[[tf.Tensor], tf.Tensor], parameters: Tree
    ) -> tuple[Tree, Tree]:
        """Gradients of the weights and of the parameters of a transform of the inputs."""
        return self._gradient(batch, None, transform, parameters)

    def _gradient(self, batch, shift, transform=None, parameters=()):
        first = batch.num_gradients == 0
        batch.num_gradients += 1
        if shift is not None and self.local_options.measure:
            batch.perturbation_norm = tf.cond(
                self.measuring, lambda: tree.norm(shift), lambda: tf.zeros([])
            )
        with (
            self._shifted(shift) if shift is not None else contextlib.nullcontext(),
            contextlib.nullcontext() if first else self._replayed(batch),
        ):
            loss, logits, gradient, of_parameters = self.mean_gradient(batch, transform, parameters)
        if first:
            batch.loss, batch.logits = loss, logits
        return gradient, of_parameters

    def mean_gradient(self, batch: Batch, transform=None, parameters: Sequence = (), training=True):
        """Loss, logits and gradients of one batch, in microbatches if that is asked for.

        Microbatches need less memory and give the same gradient, except that BatchNorm and dropout
        see each microbatch by itself; the logits of the whole batch are not kept.
        """
        size = self.local_options.microbatch
        if size is None:
            return self._taped(batch, transform, parameters, training)
        total = tf.shape(batch.y)[0]

        def add_one(begin, loss, gradient, of_parameters):
            part = Batch(batch.x[begin : begin + size], batch.y[begin : begin + size])
            share = tf.cast(tf.shape(part.y)[0], tf.float32) / tf.cast(total, tf.float32)
            one, _, g, p = self._taped(part, transform, parameters, training)
            return (
                begin + size,
                loss + share * one,
                tree.axpy(share, g, gradient),
                tree.axpy(share, p, of_parameters),
            )

        zeros = tree.zeros_like(self.read_weights())
        start = (0, tf.zeros([]), zeros, tree.zeros_like(list(parameters)))
        _, loss, gradient, of_parameters = tf.while_loop(
            lambda begin, *_: begin < total, add_one, start, parallel_iterations=1
        )
        return loss, None, gradient, of_parameters

    def _taped(self, batch, transform, parameters, training):
        variables = [v.value for v in self.network.trainable_variables]
        scale = self.local_options.loss_scale
        with tf.GradientTape() as tape:
            tape.watch(list(parameters))
            inputs = batch.x if transform is None else transform(batch.x)
            logits = self.network(inputs, training=training)
            loss = self.batch_loss(batch, logits)
            scaled = loss if scale == 1 else loss * scale
        gradients = tape.gradient(
            scaled,
            (variables, list(parameters)),
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        gradient, of_parameters = ([tf.convert_to_tensor(g) for g in part] for part in gradients)
        if scale != 1:
            gradient = tree.scale(1 / scale, gradient)
            of_parameters = tree.scale(1 / scale, of_parameters)
        return loss, logits, gradient, of_parameters

    def step(
        self,
        batch: Batch,
        gradient: Tree,
        *,
        scale: float | tf.Tensor = 1.0,
        correction: Tree | None = None,
        unclipped: Tree | None = None,
    ) -> dict[str, tf.Tensor]:
        """Ends a ``train_step``: moves the weights and returns the step's metrics.

        Args:
            batch: the batch the gradient was taken on.
            gradient: data gradient q.
            scale: factor of the data gradient.
            correction: r, added to the scaled gradient before clipping.
            unclipped: added after clipping, like the weight decay.
        """
        direction = gradient
        if not (isinstance(scale, float) and scale == 1.0):
            direction = tree.scale(scale, direction)
        if correction is not None:
            direction = tree.add(direction, correction)
        if self.local_options.clip_norm is not None:
            direction = tree.clip(direction, self.local_options.clip_norm)
        if unclipped is not None:
            direction = tree.add(direction, unclipped)
        if self.local_options.weight_decay:
            direction = tree.axpy(self.local_options.weight_decay, self.read_weights(), direction)
        if self.in_fit:
            self.optimizer.apply(direction, self.network.trainable_variables)
            self._loss_tracker.update_state(batch.loss)
            return self.compute_metrics(batch.x, batch.y, batch.logits, batch.sample_weight)
        for variable, d in zip(self.network.trainable_variables, direction, strict=True):
            variable.value.assign_sub(self.round.lr * d)
        if batch.perturbation_norm is None:
            return {"loss": batch.loss}
        return {"loss": batch.loss, "perturbation_norm": batch.perturbation_norm}

    def read_weights(self) -> Tree:
        """The trainable weights as they are now."""
        return [tf.identity(v.value) for v in self.network.trainable_variables]

    def learning_rate(self) -> tf.Tensor:
        return self.optimizer.learning_rate if self.in_fit else self.round.lr

    def local_vector(self, name: str, like: Sequence[np.ndarray] | None = None) -> "LocalVector":
        """Variables that change from local step to local step; made in ``__init__``.

        Args:
            name: for the variables' names.
            like: initial values; zeros in the shape of the weights by default.
        """
        if like is None:
            like = [np.zeros(v.shape, np.float32) for v in self.network.trainable_variables]
        return LocalVector([tf.Variable(v, trainable=False, name=name) for v in like])

    def read_local(self, vector: "LocalVector") -> Tree:
        return [tf.identity(v) for v in vector.variables]

    def set_local(self, vector: "LocalVector", values: Tree) -> None:
        for variable, value in zip(vector.variables, values, strict=True):
            variable.assign(value)

    def offset(self) -> Tree:
        """How far the weights are from where the round started: ``w - start``."""
        return tree.sub(self.read_weights(), self.round.start)

    # What the engine calls.

    def start_round(self, round_: ClientRound, state: Tree) -> None:
        """Puts the model at the start of a client's round."""
        self.round = round_
        self.assign_weights(round_.start)
        self.assign_model_state(state)
        self.begin_round()

    def seed_step(self, step: tf.Tensor) -> None:
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
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(batch.y, tf.cast(logits, tf.float32))
        )
        return tf.add_n([loss, *self.network.losses]) if self.network.losses else loss

    # In ``model.fit`` there is no server: nothing was received but the weights the fit starts from.

    def compile(self, *args, **kwargs):
        if self.local_options.microbatch is not None:
            raise ValueError("Microbatches are for federated rounds. Set batch_size in fit().")
        super().compile(*args, **kwargs)
        weights = self.read_weights()
        self.round = ClientRound(_Nothing(weights), _Nothing(weights), weights, lr=None)
        self.begin_round()

    @property
    def step_index(self) -> tf.Tensor:
        """Local steps done in this round."""
        return self.optimizer.iterations if self.in_fit else self._step_index

    @property
    def in_fit(self) -> bool:
        return self.round is not None and self.round.lr is None

    @contextlib.contextmanager
    def _shifted(self, shift: Tree):
        weights = self.read_weights()
        self.assign_weights(tree.add(weights, shift))
        yield
        self.assign_weights(weights)

    @contextlib.contextmanager
    def _replayed(self, batch: Batch):
        for variable, value in zip(self._random_state, batch.random_state, strict=True):
            variable.assign(value)
        statistics = self.read_model_state()
        yield
        self.assign_model_state(statistics)


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
