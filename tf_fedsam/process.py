"""A TFF-style learning process: ``initialize()``, ``next(state, client_ids)``.

process = LearningProcess(model_fn, algorithm, dataset)
state = process.initialize()
for client_ids in schedule:
    state, metrics = process.next(state, client_ids)
weights = process.get_model_weights(state)
"""

import contextlib
import dataclasses
import gc
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tf_fedsam import diagnostics, losses
from tf_fedsam.algorithms.base import Algorithm, ModelSpec, TrainingSpec, Vectors
from tf_fedsam.client import frozen_weights, model_state
from tf_fedsam.data import batches
from tf_fedsam.data.federated_dataset import Examples, FederatedDataset
from tf_fedsam.engine import MODEL_STATE, Engine, RoundResult
from tf_fedsam.errors import InputError
from tf_fedsam.options import TrainingOptions
from tf_fedsam.state.client_store import ClientStore

ModelFn = Callable[[], keras.Model]

LARGE = 10**6  # parameters of a model that is worth being collected at once


@dataclasses.dataclass(frozen=True)
class State:
    """The state of training between two rounds.

    Attributes:
        round_num: the next round, from 0.
        server: the server's vectors, ``server["weights"]`` the global model, from which training
            goes on.
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
        loss: what is minimised: a function (labels, logits) -> [batch] of integer labels and
            float32 logits, or a Keras loss made for logits; cross-entropy by default. Evaluation
            and probes report the same loss, so that with label smoothing it is the smoothed one.
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
        loss: losses.Loss | keras.losses.Loss | None = None,
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
                    f"precision must be float32 for a Keras model, which keeps the dtype policy it "
                    f"was built with. Received: {self.options.precision!r}. Give a function that "
                    f"makes the model.",
                    "precision",
                )
        self._model_fn = model_fn
        self._network: keras.Model | None = None
        self._model: keras.Model | None = None
        _check_network(self.network, dataset)
        self.options.check_radius(algorithm.name, hasattr(algorithm.hparams, "rho"))
        variables = self.network.trainable_variables
        algorithm.setup(
            ModelSpec(
                shapes=tuple(tuple(v.shape) for v in variables),
                names=tuple(v.path for v in variables),
                input_shape=dataset.input_shape,
                statistics=tuple(tuple(v.shape) for v in model_state(self.network)),
            )
        )
        algorithm.check_training(self._training_spec())
        self.num_parameters = sum(int(np.prod(v.shape)) for v in variables)
        self._num_state = sum(int(np.prod(shape)) for shape in algorithm.spec.statistics)
        strategy = strategy or tf.distribute.MirroredStrategy(
            ["GPU:0" if tf.config.list_logical_devices("GPU") else "CPU:0"]
        )
        with _seeded(seed), _computing_in(self.options.precision):
            self._frozen = [v.numpy() for v in frozen_weights(self.network)]
            self.engine = Engine(
                model_fn,
                algorithm,
                dataset,
                self.options,
                strategy,
                losses.per_example(loss, dataset.num_classes),
                self._frozen,
            )

    @property
    def network(self) -> keras.Model:
        """The model as a plain Keras model with the initial weights of the seed.

        It is made anew when it is asked for after ``initialize``, which lets go of it: training has
        its own, and a large model is not held twice.
        """
        if self._network is None:
            self._network = self._make_network()
        return self._network

    def _make_network(self) -> keras.Model:
        with _seeded(self.seed), _computing_in(self.options.precision):
            return self._model_fn()

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
        del variables
        self._network = None
        if self.num_parameters > LARGE:
            gc.collect()  # Keras models are cycles
        return State(0, server, ClientStore(self.engine.row_lengths(server)))

    def next(
        self,
        state: State,
        client_ids: Iterable[Any],
        step_fraction: np.ndarray | None = None,
        upcoming: Iterable[Any] = (),
        dropped: Iterable[Any] = (),
    ) -> Output:
        """One round with these clients.

        Args:
            state: used up by the call.
            client_ids: the cohort, each client once, in any order.
            step_fraction: share of its local steps that each client does; all by default.
            upcoming: the next round's cohort, if it is known: examples and client state that lie in
                files are read while this round trains.
            dropped: further clients that were sent the round's vectors and will not report.
        """
        began = time.perf_counter()
        names = list(client_ids)
        positions = self.dataset.positions(names)
        enough = bool(names) or self.algorithm.acts_alone
        if not enough or len(set(positions.tolist())) != len(names):
            raise InputError(
                f"A cohort must name at least one client, each once. Received: {names}."
            )
        order = np.argsort(positions, kind="stable")
        number = state.round_num
        fractions = None if step_fraction is None else np.asarray(step_fraction)[order]
        if fractions is not None and self.algorithm.equal_steps and (fractions != 1).any():
            raise InputError(
                f"Every client of {self.algorithm.name} must do all of its local steps here, since "
                f"the server divides by their number without knowing whose updates it has. "
                f"Received: a share of {fractions.min():g}. Leave step_fraction out."
            )
        cohort = self._plan(positions[order], number, step_fraction=fractions)
        lr = self.algorithm.round_lr(self.options.learning_rate(number), number)
        rho_factor = self.options.rho_factor(number)
        result = self._train(state, cohort, lr, self.dataset.positions(upcoming))
        reported = result.clients.reported > 0
        new = State(state.round_num + 1, result.server, state.clients)
        metrics = self._metrics(
            state.round_num, [names[i] for i in order], cohort, lr, result, reported
        )
        lost = list(dropped)
        if lost:
            metrics |= self._lost(lost, metrics)
        if rho_factor is not None:
            metrics["rho"] = rho_factor * self.algorithm.hparams.rho
        if self.engine.team.count > 1:
            metrics["network_bytes"] = self.engine.network_bytes(result.server, len(names))
        metrics["seconds"] = time.perf_counter() - began
        return Output(new, metrics)

    def _train(
        self, state: State, cohort: batches.Cohort, lr: float, upcoming: np.ndarray
    ) -> RoundResult:
        """A round; what its clients keep is in the state then."""
        clients, first = state.clients, (state.server, cohort, state.round_num, lr)
        if clients.lengths and len(cohort.positions) > self.engine.wave(clients.lengths):
            return self.engine.run_waves(*first, clients, upcoming)
        rows, seen = clients.gather(cohort.positions)
        clients.prefetch(upcoming)
        result = self.engine.run_round(*first, rows, seen, upcoming)
        clients.scatter(cohort.positions, result.rows, result.clients.reported > 0)
        return result

    def rehearse(
        self,
        state: State,
        client_ids: Iterable[Any],
        *,
        round_num: int | None = None,
        plain_epochs: int | None = None,
    ) -> list[Vectors | None]:
        """The models that clients would train in a round from this state.

        The state is neither used up nor changed. A client that takes part in the coming round ends
        with the same model, bit for bit, unless it does a share of its steps only.

        Args:
            state: the state.
            client_ids: the clients, each once.
            round_num: the round, from 0, whose batches and learning rate they have; the coming one
                by default.
            plain_epochs: if given, they do so many epochs of plain local SGD with the learning rate
                ``options.lr`` from the global model, instead of what the algorithm does.

        Returns:
            For each client what ``Engine`` takes for a server: ``weights`` and ``model_state``;
            ``None`` if it has no examples or did not end with finite numbers.
        """
        positions = self.dataset.positions(client_ids)
        number = state.round_num if round_num is None else round_num
        if plain_epochs is None:
            cohort = self._plan(positions, number)
            lr = self.algorithm.round_lr(self.options.learning_rate(number), number)
        else:
            cohort = self._plan(positions, number, local_epochs=plain_epochs, local_steps=None)
            lr = self.options.lr
        rows, seen = state.clients.gather(positions)
        plain = plain_epochs is not None
        return self.engine.rehearse(state.server, cohort, number, lr, rows, seen, plain)

    def trace(self, state: State) -> None:
        """Compiles the round without running it; a mistake in a method or a model comes out."""
        self.engine.trace(state.server)

    def reported(self, state: State) -> State:
        """The state with the model to report in place of the one that training goes on from.

        They are the same, and this is the same state, unless a plug-in such as server SWA keeps a
        model of its own. What is measured of a state is measured of this one.
        """
        weights, statistics = self.algorithm.reported(state.server, state.server[MODEL_STATE])
        if weights is state.server["weights"]:
            return state
        server = {**state.server, "weights": weights, MODEL_STATE: statistics}
        return dataclasses.replace(state, server=server)

    def evaluate(
        self, state: State, examples: Examples | None = None, *, last: bool = False
    ) -> dict[str, float]:
        """Mean loss and accuracy of the global model, on the test examples by default.

        Args:
            state: between two rounds.
            examples: to test on.
            last: whether to test the model that training goes on from, if another is reported.
        """
        examples = self.dataset.test if examples is None else examples
        if examples is None:
            raise InputError("The data set has no test examples; pass some to evaluate().")
        return self.engine.evaluate((state if last else self.reported(state)).server, examples)

    def get_model_weights(self, state: State, *, last: bool = False) -> ModelWeights:
        """The global model's weights.

        Args:
            state: between two rounds.
            last: whether those that training goes on from, if another model is reported.
        """
        server = (state if last else self.reported(state)).server
        return ModelWeights(
            [w.numpy() for w in server["weights"]], [w.numpy() for w in server[MODEL_STATE]]
        )

    def get_model(self, state: State, *, last: bool = False) -> keras.Model:
        """The global model as a plain Keras model; the next call changes the same object.

        Args:
            state: between two rounds.
            last: see ``get_model_weights``.
        """
        weights = self.get_model_weights(state, last=last)
        if self._model is None:
            self._model = self._make_network()
        network = self._model
        for variable, value in zip(frozen_weights(network), self._frozen, strict=True):
            variable.assign(value)
        for variable, value in zip(network.trainable_variables, weights.trainable, strict=True):
            variable.assign(value)
        for variable, value in zip(model_state(network), weights.non_trainable, strict=True):
            variable.assign(value)
        return network

    def _lost(self, names: list[Any], metrics: Mapping[str, Any]) -> dict[str, Any]:
        """What changes in the metrics with clients that were sent everything for nothing."""
        per_client = len(self.algorithm.downloads)
        return {
            "dropped_client_ids": names,
            "vectors_down": metrics["vectors_down"] + len(names) * per_client,
            "bytes_down": metrics["bytes_down"] + len(names) * self._bytes_down(per_client),
        }

    def _bytes_down(self, num_vectors: int) -> int:
        """What a client downloads: vectors of model size, and BatchNorm statistics."""
        sends_statistics = self.options.norm_state != "keep_server"
        statistics = 4 * self._num_state if sends_statistics else 0
        return 4 * self.num_parameters * num_vectors + statistics

    def _training_spec(self) -> TrainingSpec:
        options, sizes = self.options, self.dataset.partition.sizes()
        per_epoch = -(-sizes[sizes > 0] // options.batch_size)
        steps = np.unique(options.local_epochs * per_epoch)
        if options.local_steps is not None:
            steps = np.asarray([options.local_steps])
        has_statistics = bool(self.algorithm.spec.statistics)
        return TrainingSpec(
            weighting=options.weighting,
            shares_statistics=has_statistics and options.norm_state != "keep_server",
            num_steps=int(steps[0]) if len(steps) == 1 else None,
            keeps_velocity=options.keeps_velocity,
        )

    def _plan(self, positions: np.ndarray, round_num: int, **changes: Any) -> batches.Cohort:
        """The batches of some clients in a round."""
        options = self.options
        usual = {"local_epochs": options.local_epochs, "local_steps": options.local_steps}
        return batches.plan(
            self.dataset.partition,
            positions,
            self.seed,
            round_num,
            batch_size=options.batch_size,
            **{**usual, **changes},
        )

    def _metrics(self, round_num, names, cohort, lr, result, reported) -> dict[str, Any]:
        algorithm = self.algorithm
        steps = cohort.num_steps
        vector = 4 * self.num_parameters
        sends_statistics = self.options.norm_state != "keep_server"
        statistics = 4 * self._num_state if sends_statistics else 0
        client = algorithm.Client
        gradients = client.gradients_per_step * steps - client.spared_gradients * (steps > 0)
        passes = algorithm.extra_gradient_epochs * -(
            -cohort.num_examples // self.options.batch_size
        )
        train_losses = result.clients.loss[reported]
        skipped = not (reported.any() or algorithm.acts_alone)
        vectors_down = len(names) * len(algorithm.downloads)
        vectors_up = int(reported.sum()) * len(algorithm.uploads)
        return {
            "round": round_num + 1,
            "client_ids": names,
            "num_steps": steps.tolist(),
            "lr": lr,
            "train_loss": float(train_losses.mean()) if train_losses.size else None,
            "num_reported": int(reported.sum()),
            "failed_client_ids": [names[i] for i in np.flatnonzero((steps > 0) & ~reported)],
            "skipped": skipped,
            "vectors_down": vectors_down,
            "vectors_up": vectors_up,
            "bytes_down": len(names) * self._bytes_down(len(algorithm.downloads)),
            "bytes_up": vectors_up * vector + int(reported.sum()) * statistics,
            "gradient_evaluations": int((gradients + passes).sum()),
            # Nobody reported: the server stays as it was, whatever its step would have made.
            **({"update_norm": 0.0} if skipped else self._scalars(result, reported)),
        }

    @staticmethod
    def _scalars(result: RoundResult, reported: np.ndarray) -> dict[str, float | None]:
        """The round's numbers; ``None`` for those that one client alone has none of."""
        pairs = diagnostics.OF_PAIRS if reported.sum() < 2 else ()
        return {name: None if name in pairs else value for name, value in result.scalars.items()}


def check_shapes(received: Sequence[tuple[int, ...]], variables: Sequence[keras.Variable]) -> None:
    """Refuses shapes of initial weights that are not those of the model."""
    expected = [tuple(v.shape) for v in variables]
    if list(received) != expected:
        raise InputError(
            f"The initial weights must have the shapes of the model's trainable variables. "
            f"Received: {list(received)}. Expected: {expected}."
        )


def check_weights(weights: Sequence[np.ndarray], variables: Sequence[keras.Variable]) -> None:
    """Refuses initial weights that do not fit the model."""
    check_shapes([np.shape(w) for w in weights], variables)
    for number, array in enumerate(weights):
        if not np.isfinite(array).all():
            raise InputError(
                f"The initial weights must be finite. Received: NaN or infinity in w{number}."
            )


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
