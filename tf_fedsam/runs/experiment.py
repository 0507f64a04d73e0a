"""From the description of a run to its objects.

experiment = build(RunConfig(dataset="glyphs", algo="fedsam"))
state = experiment.initialize()
for t in range(10):
    clients, step_fraction = experiment.cohort(t)
    state, metrics = experiment.process.next(state, clients, step_fraction)
"""

import dataclasses
import pathlib
import time
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_fedsam import devices, losses, models, paths
from tf_fedsam.analysis.probes import Probes
from tf_fedsam.data import augment, holdout, noise, normalise, sampling, validation
from tf_fedsam.data import partition as partitions
from tf_fedsam.data.arrays import read_headers, read_npz
from tf_fedsam.data.federated_dataset import Examples, FederatedDataset
from tf_fedsam.data.partition import Partition
from tf_fedsam.errors import InputError
from tf_fedsam.models.trainable import select_trainable
from tf_fedsam.own_code import is_reference
from tf_fedsam.privacy import Privacy
from tf_fedsam.process import LearningProcess, State, check_shapes, check_weights
from tf_fedsam.runs.algorithm import make_algorithm
from tf_fedsam.runs.config import ResolvedConfig, RunConfig
from tf_fedsam.runs.task import Loaded, Request, Task


@dataclasses.dataclass(frozen=True)
class Experiment:
    """All that a round loop needs.

    Attributes:
        config: with everything filled in.
        loaded: the data set as it was read.
        dataset: cut into clients.
        process: the learning process.
        sampler: gives the positions of a round's clients.
        initial: initial weights, or ``None`` for those of the seed.
        probes: what is measured now and then.
        privacy: how private the run is; ``None`` without the plug-in.
    """

    config: ResolvedConfig
    loaded: Loaded
    dataset: FederatedDataset
    process: LearningProcess
    sampler: sampling.Sampler
    initial: list[np.ndarray] | None
    probes: Probes
    privacy: Privacy | None = None

    def initialize(self) -> State:
        return self.process.initialize(self.initial)

    def cohort(self, round_num: int) -> tuple[list[Any], np.ndarray | None]:
        """The clients that report in a round, and the share of its steps each does."""
        s = self.config
        positions = self.sampler(round_num)
        if s.dropout_rate:
            positions = sampling.available(positions, s.dropout_rate, s.seed, round_num)
        fraction = None
        if s.step_fraction_min != 1:
            fraction = sampling.step_fraction(positions, s.step_fraction_min, s.seed, round_num)
        names = self.dataset.client_ids
        return [names[int(p)] for p in positions], fraction

    @property
    def num_train(self) -> int:
        """Training examples there are, without those that are held out of the clients."""
        held = self.dataset.holdout
        inside = held is not None and self.config.holdout_from == "clients"
        return len(self.dataset.train) - (len(held) if held is not None and inside else 0)

    def dropped(self, round_num: int) -> list[Any]:
        """The clients that were sampled for a round and do not report."""
        s, sampled = self.config, self.sampler(round_num)
        left = sampling.available(sampled, s.dropout_rate, s.seed, round_num)
        names = self.dataset.client_ids
        return [names[int(p)] for p in np.setdiff1d(sampled, left)]

    def class_counts(self, most: int | None = None) -> np.ndarray:
        """Training examples of each class, by client; of the first ``most`` clients, if given."""
        dataset = self.dataset
        return dataset.partition.class_counts(dataset.train.y, dataset.num_classes, end=most)

    def round(self, state: State) -> tuple[State, dict[str, Any]]:
        """A round and, when they are due, a test of the global model and the probes."""
        config, (clients, step_fraction) = self.config, self.cohort(state.round_num)
        following = state.round_num + 1
        upcoming = self.cohort(following)[0] if following < config.rounds else ()
        dropped = self.dropped(state.round_num) if config.dropout_rate else ()
        state, record = self.process.next(state, clients, step_fraction, upcoming, dropped)
        last = state.round_num == config.rounds
        if last or state.round_num % config.eval_every == 0:
            record |= self.test(state)
        if last or (config.probe_every and state.round_num % config.probe_every == 0):
            record |= self.probe(state)
        return state, record

    def test(self, state: State) -> dict[str, Any]:
        """The global model on test and held-out examples, by the names of the log.

        If the model that training goes on from is not the one that is reported, both are tested.
        """
        began = time.perf_counter()
        tested = self.process.evaluate(state)
        record: dict[str, Any] = {
            "test_loss": tested["loss"],
            "test_accuracy": tested["accuracy"],
        }
        if self.dataset.holdout is not None:
            held_out = self.process.evaluate(state, self.dataset.holdout)
            record |= {f"validation_{name}": value for name, value in held_out.items()}
        if self.process.reported(state) is not state:
            last = self.process.evaluate(state, last=True)
            record |= {"test_loss_last": last["loss"], "test_accuracy_last": last["accuracy"]}
        if self.privacy is not None and self.privacy.sampling_rate is not None:
            record["epsilon"] = self.privacy.epsilon(state.round_num)
        return {**record, "eval_seconds": time.perf_counter() - began}

    def probe(self, state: State) -> dict[str, Any]:
        """What the probes of the run find."""
        return self.probes(state) if self.probes.names else {}


def build(
    config: RunConfig,
    *,
    task: Task | None = None,
    strategy: tf.distribute.Strategy | None = None,
) -> Experiment:
    """Everything that can be wrong with a config is found here, before anything is written.

    Args:
        config: of the run.
        task: the data set; by default the one of that name.
        strategy: where to compute; by default what ``config.devices`` says.
    """
    config = config.resolve(task)
    if config.deterministic:
        tf.config.experimental.enable_op_determinism()
    strategy = strategy or devices.make_strategy(
        config.devices, config.strategy, config.cluster, config.clients_per_device
    )
    options = config.training_options()
    algorithm = make_algorithm(config)
    loaded = load_data(config)
    dataset = make_dataset(config, loaded)
    sampler = make_sampler(config, dataset)
    if config.dp_clip_norm is not None:
        algorithm = make_algorithm(config, divisor(config, dataset, sampler))
    process = LearningProcess(
        lambda: build_network(config, dataset.input_shape, dataset.num_classes),
        algorithm,
        dataset,
        options=options,
        seed=config.seed,
        strategy=strategy,
        loss=losses.cross_entropy(config.label_smoothing),
    )
    initial = None
    if config.init_weights is not None:
        variables = process.network.trainable_variables
        initial = read_weights(paths.expanded(config.init_weights), variables)
        check_weights(initial, variables)
    probes = Probes(
        process,
        config.probe_names,
        validation=validation_split(config, dataset),
        shards=personal_shards(config, dataset),
        num_examples=config.probe_examples,
        rho=config.sharpness_rho,
        m=config.sharpness_batch,
        initial=initial,
        **probe_settings(config),
    )
    privacy = None if config.dp_clip_norm is None else make_privacy(config, process)
    return Experiment(config, loaded, dataset, process, sampler, initial, probes, privacy)


def build_network(
    config: RunConfig, input_shape: tuple[int, ...], num_classes: int, *, pretrained: bool = True
) -> keras.Model:
    """The network of a run, with what trains of it.

    Args:
        config: of the run.
        input_shape: of an example.
        num_classes: number of labels.
        pretrained: whether its values count; if not, nothing pretrained is read for them.
    """
    options = dict(config.model_options)
    if not (pretrained or is_reference(config.model)):
        options.pop("pretrained", None)
    network = models.build(config.model, input_shape, num_classes, options)
    return select_trainable(network, config.trainable)


def validation_split(s: ResolvedConfig, dataset: FederatedDataset) -> Partition | None:
    """The test examples cut into clients, if the settings ask for it."""
    if "clients" not in s.probe_names or s.validation == "none" or dataset.test is None:
        return None
    labels = dataset.test.y
    if s.validation == "fresh":
        if s.partition in ("given", "natural"):
            raise InputError(
                f"validation=fresh draws new clients as the split does, and partition="
                f"{s.partition} draws none. Use validation=same or none.",
                *("validation", "partition"),
            )
        plain = dataclasses.replace(s, replacement=False, size_sigma=0.0)
        split = lambda y, n, seed: cut(plain, y, n, seed)  # noqa: E731
        return validation.fresh(split, labels, s.validation_clients, s.seed)
    if s.validation == "auto" and len(labels) < dataset.num_clients:
        return None
    train = dataset.partition, dataset.train.y
    return validation.same(*train, labels, dataset.num_classes, s.seed)


def personal_shards(s: ResolvedConfig, dataset: FederatedDataset) -> Partition | None:
    """The test examples cut into the training clients, for the probe that fine-tunes."""
    if "personal" not in s.probe_names:
        return None
    if dataset.test is None or len(dataset.test) < dataset.num_clients:
        raise InputError(
            f"probes=personal needs a test example for each of the {dataset.num_clients} clients. "
            f"Received: {0 if dataset.test is None else len(dataset.test)} test examples. Leave "
            f"that probe out, or use fewer clients.",
            "probes",
        )
    labels = dataset.train.y, dataset.test.y
    return validation.same(dataset.partition, *labels, dataset.num_classes, s.seed)


def probe_settings(s: ResolvedConfig) -> dict[str, Any]:
    """The settings of the probes of the run; those of others are ``None``."""
    found = {
        "accuracy_clients": s.accuracy_clients,
        "num_clients": s.probe_clients,
        "num_eigenvalues": s.eigenvalues,
        "num_trace_vectors": s.trace_vectors,
        "personal_epochs": s.personal_epochs,
    }
    return {name: value for name, value in found.items() if value is not None}


def divisor(config: ResolvedConfig, dataset: FederatedDataset, sampler: sampling.Sampler) -> float:
    """What the private sum of a round's updates is divided by, the same in every round."""
    if config.sampling == "bernoulli":
        return config.participation * dataset.num_clients
    sizes = {len(sampler(t)) for t in range(config.rounds if config.client_schedule else 1)}
    if len(sizes) > 1:
        raise InputError(
            f"dp_clip_norm needs the same number of clients in every round of client_schedule. "
            f"Received: from {min(sizes)} to {max(sizes)}. Make them the same.",
            *("dp_clip_norm", "client_schedule"),
        )
    return float(sizes.pop())


def make_privacy(config: ResolvedConfig, process: LearningProcess) -> Privacy:
    """What can be said of the privacy of a run with the plug-in."""
    if config.step_fraction_min != 1 and process.algorithm.equal_steps:
        raise InputError(
            f"dp_clip_norm on {process.algorithm.name}, which divides updates by their number of "
            f"local steps, needs the same number on every client. Received: step_fraction_min="
            f"{config.step_fraction_min:g}. Remove it, or use another method.",
            *("dp_clip_norm", "step_fraction_min="),
        )
    noise, num_clients = config.dp_noise_multiplier, process.dataset.num_clients
    if config.dp_clip_scope == "tensor":  # the whole update may be longer than the clip norm
        noise /= len(process.algorithm.spec.shapes) ** 0.5
    delta = config.dp_delta
    if delta is None:
        delta = 1 / max(num_clients, 2)
    rate = config.participation if config.sampling == "bernoulli" else None
    privacy = Privacy(noise, rate, delta)
    privacy.epsilon(config.rounds)  # says now if the accountant is missing
    return privacy


def load_data(config: ResolvedConfig, labels_only: bool = False) -> Loaded:
    s = config
    path = lambda name: None if name is None else paths.expanded(name)  # noqa: E731
    return s.task.load(
        Request(
            path(s.data_file),
            path(s.data_dir),
            s.seed,
            s.subset,
            s.image_size,
            s.stream,
            labels_only,
        )
    )


def make_dataset(config: ResolvedConfig, loaded: Loaded) -> FederatedDataset:
    """The data cut into clients, with their noise, and what is held out of them."""
    s, num_classes = config, len(loaded.class_names)
    shape = loaded.train.x.shape[1:]
    preprocess = normalise.normalised(loaded.preprocess, s.normalise, shape[-1])
    loaded, held_out = without_pool_holdout(s, loaded)
    split, names = make_partition(s, loaded)
    held = held_entries(s, loaded.train.y, split)
    first = None if held is None else holdout.first_entries(split)
    train, split = noise.noisy(
        loaded.train, split, num_classes, s.client_noise, s.category_noise, s.seed
    )
    if held is not None and first is not None:
        # With the noise of the client that they are taken from, as it would have trained on them.
        held_out = train.take(split.indices[first[held[first]]])
        split = holdout.without(split, held)
    return FederatedDataset(
        train,
        split,
        test=loaded.test,
        holdout=held_out,
        client_ids=names,
        num_classes=num_classes,
        preprocess=preprocess,
        augment=augment.chosen(s.augment, s.task.augment, shape, preprocess.black),
    )


def without_pool_holdout(config: ResolvedConfig, loaded: Loaded) -> tuple[Loaded, Examples | None]:
    """The data without what is held out before there are clients, and that."""
    s = config
    if not s.holdout or s.holdout_from != "pool":
        return loaded, None
    held = holdout.of_pool(loaded.train.y, s.holdout, s.seed)
    rest = np.delete(np.arange(len(loaded.train)), held)
    owners = None if loaded.client_id is None else loaded.client_id[rest]
    left = dataclasses.replace(loaded, train=loaded.train.take(rest), client_id=owners)
    return left, loaded.train.take(held)


def held_entries(config: ResolvedConfig, labels: np.ndarray, split: Partition) -> np.ndarray | None:
    """Which entries of a split are held out of the clients' shares, if some are."""
    s = config
    if not s.holdout or s.holdout_from != "clients":
        return None
    return holdout.of_clients(split, labels, s.holdout, s.seed)


def training_split(config: ResolvedConfig, loaded: Loaded) -> tuple[Loaded, Partition, Any]:
    """What clients train on, without images: the data, the split, and the clients' names.

    Of both, what is held out is left out.
    """
    loaded, _ = without_pool_holdout(config, loaded)
    split, names = make_partition(config, loaded)
    held = held_entries(config, loaded.train.y, split)
    return loaded, split if held is None else holdout.without(split, held), names


def make_partition(config: ResolvedConfig, loaded: Loaded) -> tuple[Partition, list[Any] | None]:
    """Which examples each client has, and the clients' names if they have some."""
    s = config
    if s.partition not in ("given", "natural"):
        return cut(s, loaded.train.y, s.num_clients, s.seed), None
    if loaded.client_id is None:
        raise InputError(
            f"partition={s.partition} needs the client of every example, and this data set "
            f"has none. Use another partition, or an .npz file with client_id.",
            "partition",
        )
    given = partitions.by_client_id(loaded.client_id, s.seed)
    return given, list(given.client_ids or ())


def cut(s: ResolvedConfig, labels: np.ndarray, num_clients: int, seed: int) -> Partition:
    """Cuts examples with these labels into clients by the scheme of the config."""
    options = {name: getattr(s, name) for name in partitions.SCHEMES[s.partition].options}
    return partitions.make(s.partition, labels, num_clients, seed, **options)


def make_sampler(config: ResolvedConfig, dataset: FederatedDataset) -> sampling.Sampler:
    s = config
    if s.sampling == "schedule":
        rounds = sampling.load_schedule(s.client_schedule)
        schedule = sampling.from_schedule(rounds, list(dataset.client_ids))
        schedule.require(s.rounds)
        return schedule
    share = s.share_of(dataset.num_clients)
    if s.sampling == "fixed":
        return sampling.fixed(dataset.num_clients, share, s.seed)
    private = s.dp_clip_norm is not None
    return sampling.bernoulli(dataset.num_clients, share, s.seed, may_be_empty=private)


def look_at_weights(path: pathlib.Path) -> list[tuple[int, ...]]:
    """The shapes of the arrays ``w0, w1, ...`` of an .npz file, which are not read."""
    found = read_headers(path)
    names = [f"w{i}" for i in range(len(found))]
    if set(names) != set(found) or not names:
        raise InputError(
            f"init_weights must hold the arrays w0, w1, ... and nothing else. Received: "
            f"{', '.join(found) or 'none'} in {path}.",
            "init_weights",
        )
    for name in names:
        if found[name].dtype.kind not in "fiu":
            raise InputError(f"{name} in {path} must be numbers. Received: {found[name].dtype}.")
    return [found[name].shape for name in names]


def read_weights(path: pathlib.Path, variables: Sequence[keras.Variable]) -> list[np.ndarray]:
    """Values of variables from arrays ``w0, w1, ...``, read once it is known that they fit."""
    check_shapes(look_at_weights(path), variables)
    found = read_npz(path)
    return [found[f"w{i}"].astype(np.float32) for i in range(len(found))]
