"""A TFF-style learning process: ``initialize()``, ``next(state, client_ids)``.

process = LearningProcess(model_fn, algorithm, dataset)
state = process.initialize()
for client_ids in schedule:
    state, metrics = process.next(state, client_ids)
weights = process.get_model_weights(state)
"""

import contextlib
import dataclasses
import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tf_fedsam import tree
from tf_fedsam.algorithms.base import Algorithm, ModelSpec, Vectors
from tf_fedsam.client import frozen_weights, model_state
from tf_fedsam.data import batches
from tf_fedsam.data.federated_dataset import Examples, FederatedDataset
from tf_fedsam.engine import LOCAL_MODEL, MODEL_STATE, Engine
from tf_fedsam.errors import InputError
from tf_fedsam.options import TrainingOptions
from tf_fedsam.state.client_store import ClientStore

ModelFn = Callable[[], keras.Model]


@dataclasses.dataclass(frozen=True)
class State:
    """The state of training between two rounds.

    Attributes:
        round_num: the next round, from 0.
        server: the server's vectors, ``server["weights"]`` the global model.
        clients: what the clients keep. ``next`` writes to it, so a state that has been passed to
            ``next`` is used up; ``copy`` it first to come back to it.
    """

    round_num: int
    server: Vectors
    clients: ClientStore

    def copy(self) -> "State":
        return dataclasses.replace(self, clients=self.clients.copy())


class Output(NamedTuple):
    """What a round gives: the new state and the round's metrics."""

    state: State
    metrics: dict[str, Any]


class ModelWeights(NamedTuple):
    """The global model's variables as NumPy arrays, in Keras' order."""

    trainable: list[np.ndarray]
    non_trainable: list[np.ndarray]


class LearningProcess:
    """Federated training of one model with one algorithm.

    Args:
        model: a function that makes the Keras model, or a built Keras model, which is cloned.
            It maps inputs to logits.
        algorithm: the method.
        dataset: the clients.
        options: how clients train.
        seed: of the initial weights, the batches, dropout and augmentation.
        strategy: the devices; one CPU or GPU by default.
    """

    def __init__(
        self,
        model: ModelFn | keras.Model,
        algorithm: Algorithm,
        dataset: FederatedDataset,
        *,
        options: TrainingOptions | None = None,
        seed: int = 0,
        strategy: tf.distribute.Strategy | None = None,
    ):
        model_fn: ModelFn = model
        self.algorithm = algorithm
        self.dataset = dataset
        self.options = options or TrainingOptions()
        self.seed = seed
        if isinstance(model, keras.Model):
            original = model
            model_fn = lambda: _clone(original)  # noqa: E731
            if self.options.precision != "float32":
                raise InputError(
                    f"precision={self.options.precision} is for models made by a function; a "
                    f"Keras model keeps the dtype policy it was built with."
                )
        with _seeded(seed), _computing_in(self.options.precision):
            self.network = model_fn()
        _check_network(self.network, dataset)
        variables = self.network.trainable_variables
        algorithm.setup(
            ModelSpec(
                shapes=tuple(tuple(v.shape) for v in variables),
                names=tuple(v.path for v in variables),
                input_shape=dataset.input_shape,
            )
        )
        self.num_parameters = sum(int(np.prod(v.shape)) for v in variables)
        self._num_state = sum(int(np.prod(v.shape)) for v in model_state(self.network))
        strategy = strategy or tf.distribute.MirroredStrategy(
            ["GPU:0" if tf.config.list_logical_devices("GPU") else "CPU:0"]
        )
        with _seeded(seed), _computing_in(self.options.precision):
            frozen = [v.numpy() for v in frozen_weights(self.network)]
            self.engine = Engine(model_fn, algorithm, dataset, self.options, strategy, frozen)

    def initialize(self, weights: Sequence[np.ndarray] | None = None) -> State:
        """The state before round 0.

        Args:
            weights: initial trainable weights in Keras' order; those of the seed by default.
        """
        variables = self.network.trainable_variables
        if weights is None:
            weights = [v.numpy() for v in variables]
        check_weights(weights, variables)
        trainable = [tf.constant(w, tf.float32) for w in weights]
        server = {
            "weights": trainable,
            **self.algorithm.server_vectors(trainable),
            MODEL_STATE: [tf.constant(v.numpy()) for v in model_state(self.network)],
        }
        kept = dict(self.algorithm.client_defaults(server))
        if self.options.norm_state == "local" and server[MODEL_STATE]:
            kept[MODEL_STATE] = server[MODEL_STATE]
        if self.options.keep_local_models:
            kept[LOCAL_MODEL] = trainable
        lengths = {name: sum(tree.sizes(vector)) for name, vector in kept.items()}
        return State(0, server, ClientStore(lengths))

    def next(
        self,
        state: State,
        client_ids: Iterable[Any],
        step_fraction: np.ndarray | None = None,
        upcoming: Iterable[Any] = (),
    ) -> Output:
        """One round with these clients.

        Args:
            state: used up by the call.
            client_ids: the cohort, each client once, in any order.
            step_fraction: share of its local steps that each client does; all by default.
            upcoming: the next round's cohort, if it is known: examples that lie in files are read
                while this round trains.
        """
        began = time.perf_counter()
        names = list(client_ids)
        positions = self.dataset.positions(names)
        if not names or len(set(positions.tolist())) != len(names):
            raise InputError(
                f"A cohort must name at least one client, each once. Received: {names}."
            )
        order = np.argsort(positions, kind="stable")
        cohort = batches.plan(
            self.dataset.partition,
            positions[order],
            self.seed,
            state.round_num,
            batch_size=self.options.batch_size,
            local_epochs=self.options.local_epochs,
            local_steps=self.options.local_steps,
            step_fraction=None if step_fraction is None else np.asarray(step_fraction)[order],
        )
        lr = self.options.learning_rate(state.round_num)
        rows, seen = state.clients.gather(cohort.positions)
        result = self.engine.run_round(
            state.server, cohort, lr, rows, seen, self.dataset.positions(upcoming)
        )
        reported = result.clients["reported"] > 0
        state.clients.scatter(cohort.positions, result.client_state, reported)
        new = State(state.round_num + 1, result.server, state.clients)
        metrics = self._metrics(
            state.round_num, [names[i] for i in order], cohort, lr, result, reported
        )
        metrics["seconds"] = time.perf_counter() - began
        return Output(new, metrics)

    def evaluate(self, state: State, examples: Examples | None = None) -> dict[str, float]:
        """Mean loss and accuracy of the global model, on the test examples by default."""
        examples = self.dataset.test if examples is None else examples
        if examples is None:
            raise InputError("The data set has no test examples; pass some to evaluate().")
        return self.engine.evaluate(state.server, examples)

    def get_model_weights(self, state: State) -> ModelWeights:
        """The global model's weights."""
        return ModelWeights(
            [w.numpy() for w in state.server["weights"]],
            [w.numpy() for w in state.server[MODEL_STATE]],
        )

    def get_model(self, state: State) -> keras.Model:
        """The global model as a plain Keras model; the next call changes the same object."""
        weights = self.get_model_weights(state)
        for variable, value in zip(
            self.network.trainable_variables, weights.trainable, strict=True
        ):
            variable.assign(value)
        for variable, value in zip(model_state(self.network), weights.non_trainable, strict=True):
            variable.assign(value)
        return self.network

    def _metrics(self, round_num, names, cohort, lr, result, reported) -> dict[str, Any]:
        algorithm = self.algorithm
        steps = cohort.num_steps
        vector = 4 * self.num_parameters
        sends_statistics = self.options.norm_state != "keep_server"
        statistics = 4 * self._num_state if sends_statistics else 0
        per_step = algorithm.Client.gradients_per_step
        passes = algorithm.extra_gradient_epochs * -(
            -cohort.num_examples // self.options.batch_size
        )
        losses = result.clients["loss"][reported]
        vectors_down = len(names) * len(algorithm.downloads)
        vectors_up = int(reported.sum()) * len(algorithm.uploads)
        return {
            "round": round_num + 1,
            "client_ids": names,
            "num_steps": steps.tolist(),
            "lr": lr,
            "train_loss": float(losses.mean()) if losses.size else None,
            "num_reported": int(reported.sum()),
            "failed_client_ids": [names[i] for i in np.flatnonzero((steps > 0) & ~reported)],
            "skipped": not reported.any(),
            "vectors_down": vectors_down,
            "vectors_up": vectors_up,
            "bytes_down": vectors_down * vector + len(names) * statistics,
            "bytes_up": vectors_up * vector + int(reported.sum()) * statistics,
            "gradient_evaluations": int((per_step * steps + passes).sum()),
            # Nobody reported: the server stays as it was, whatever its step would have made.
            **(result.scalars if reported.any() else {"update_norm": 0.0}),
        }


def check_weights(weights: Sequence[np.ndarray], variables: Sequence[keras.Variable]) -> None:
    """Refuses initial weights that do not fit the model."""
    received = [tuple(np.shape(w)) for w in weights]
    expected = [tuple(v.shape) for v in variables]
    if received != expected:
        raise InputError(
            f"The initial weights must have the shapes of the model's trainable variables. "
            f"Received: {received}. Expected: {expected}."
        )
    for number, array in enumerate(weights):
        if not np.isfinite(array).all():
            raise InputError(f"The initial weights must be finite. Received: NaN in w{number}.")


def _check_network(network: Any, dataset: FederatedDataset) -> None:
    if not isinstance(network, keras.Model) or not network.built:
        raise InputError(
            f"The model function must return a built Keras model. Received: {network!r}. "
            f"Give it an Input of shape {dataset.input_shape}."
        )
    if not network.trainable_variables:
        raise InputError("The model has no trainable variables. Expected: at least one.")
    inputs, outputs = network.inputs, network.outputs
    if inputs is not None and (len(inputs) != 1 or len(outputs) != 1):
        raise InputError(
            f"The model must have one input and one output. "
            f"Received: {len(inputs)} inputs and {len(outputs)} outputs."
        )
    expected = ((None, *dataset.input_shape), (None, dataset.num_classes))
    if inputs is not None and (tuple(inputs[0].shape), tuple(outputs[0].shape)) != expected:
        raise InputError(
            f"The model must map {expected[0]} to logits {expected[1]}. "
            f"Received: {tuple(inputs[0].shape)} to {tuple(outputs[0].shape)}."
        )


def _clone(model: keras.Model) -> keras.Model:
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    return clone


@contextlib.contextmanager
def _seeded(seed: int):
    """Keras draws initial weights from global generators: seeds them and puts them back."""
    saved = random.getstate(), np.random.get_state()
    keras.utils.set_random_seed(seed % 2**32)
    try:
        yield
    finally:
        random.setstate(saved[0])
        np.random.set_state(saved[1])


@contextlib.contextmanager
def _computing_in(precision: str):
    """Keras layers made inside compute in this precision and keep float32 variables."""
    saved = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float32" if precision == "float32" else f"mixed_{precision}")
    try:
        yield
    finally:
        keras.config.set_dtype_policy(saved)
