"""From settings to the objects of a run."""

import dataclasses
import hashlib
import json
import pathlib
from typing import Any

import numpy as np
import tensorflow as tf

from launch.flags import FREE_ON_RESUME, Settings
from tasks.base import Loaded, Request
from tf_fedsam import models
from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.algorithms.nesterov import Nesterov
from tf_fedsam.algorithms.relaxed_init import RelaxedInit
from tf_fedsam.analysis.probes import Probes
from tf_fedsam.data import noise, sampling, validation
from tf_fedsam.data import partition as partitions
from tf_fedsam.data.arrays import read_npz
from tf_fedsam.data.federated_dataset import FederatedDataset
from tf_fedsam.errors import InputError
from tf_fedsam.models.trainable import select_trainable
from tf_fedsam.options import TrainingOptions
from tf_fedsam.process import LearningProcess, State, check_weights


@dataclasses.dataclass(frozen=True)
class Experiment:
    """All that a round loop needs.

    Attributes:
        settings: as resolved.
        loaded: the data set as it was read.
        dataset: cut into clients.
        process: the learning process.
        sampler: gives the positions of a round's clients.
        initial: initial weights, or ``None`` for those of the seed.
        probes: what is measured now and then.
    """

    settings: Settings
    loaded: Loaded
    dataset: FederatedDataset
    process: LearningProcess
    sampler: sampling.Sampler
    initial: list[np.ndarray] | None
    probes: Probes

    def initialize(self) -> State:
        return self.process.initialize(self.initial)

    def cohort(self, round_num: int) -> tuple[list[Any], np.ndarray | None]:
        """The clients that report in a round, and the share of its steps each does."""
        s = self.settings
        positions = self.sampler(round_num)
        if s.dropout_rate:
            positions = sampling.unavailable(positions, s.dropout_rate, s.seed, round_num)
        fraction = None
        if s.step_fraction_min != 1:
            fraction = sampling.step_fraction(positions, s.step_fraction_min, s.seed, round_num)
        names = self.dataset.client_ids
        return [names[int(p)] for p in positions], fraction


def build(settings: Settings, strategy: tf.distribute.Strategy) -> Experiment:
    """Everything that can be wrong with the settings is found here, before anything is written."""
    options = training_options(settings)
    algorithm = make_algorithm(settings)
    loaded = load_data(settings)
    dataset = make_dataset(settings, loaded)
    sampler = make_sampler(settings, dataset)
    process = LearningProcess(
        lambda: select_trainable(
            models.build(
                settings.model, dataset.input_shape, dataset.num_classes, settings.model_options
            ),
            settings.trainable,
        ),
        algorithm,
        dataset,
        options=options,
        seed=settings.seed,
        strategy=strategy,
    )
    initial = None
    if settings.init_weights is not None:
        initial = read_weights(pathlib.Path(settings.init_weights))
        check_weights(initial, process.network.trainable_variables)
    probes = Probes(
        process,
        settings.probe_names,
        validation=validation_split(settings, dataset),
        num_examples=settings.probe_examples,
        rho=settings.sharpness_rho,
        initial=initial,
    )
    return Experiment(settings, loaded, dataset, process, sampler, initial, probes)


def validation_split(s: Settings, dataset: FederatedDataset) -> partitions.Partition | None:
    """The test examples cut into clients, if the settings ask for it."""
    if "clients" not in s.probe_names or s.validation == "none" or dataset.test is None:
        return None
    labels = dataset.test.y
    if s.validation == "fresh":
        if s.partition in ("given", "natural"):
            raise InputError(
                f"--validation=fresh draws new clients as the split does, and --partition="
                f"{s.partition} draws none. Use --validation=same or none."
            )
        plain = dataclasses.replace(s, values={**s.values, "replacement": False, "size_sigma": 0.0})
        split = lambda y, n, seed: cut(plain, y, n, seed)  # noqa: E731
        return validation.fresh(split, labels, s.validation_clients, s.seed)
    if s.validation == "auto" and len(labels) < dataset.num_clients:
        return None
    train = dataset.partition, dataset.train.y
    return validation.same(*train, labels, dataset.num_classes, s.seed)


def training_options(settings: Settings) -> TrainingOptions:
    names = [field.name for field in dataclasses.fields(TrainingOptions)]
    return TrainingOptions(**{name: getattr(settings, name) for name in names})


def make_algorithm(settings: Settings) -> Algorithm:
    """The algorithm with its plug-ins."""
    algorithm = settings.algorithm(server_lr=settings.server_lr, **settings.hparams)
    if settings.clip_scope == "official" and not algorithm.proximal:
        raise InputError(
            f"--clip_scope=official is about proximal terms, and {algorithm.name} has none. "
            f"Remove it."
        )
    if settings.relaxed_init is not None:
        algorithm = RelaxedInit(algorithm, settings.relaxed_init)
    if settings.nesterov is not None:
        algorithm = Nesterov(algorithm, settings.nesterov)
    return algorithm


def load_data(settings: Settings, labels_only: bool = False) -> Loaded:
    s = settings
    path = lambda name: None if name is None else pathlib.Path(name).expanduser()  # noqa: E731
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


def make_dataset(settings: Settings, loaded: Loaded) -> FederatedDataset:
    """The data cut into clients, with their noise."""
    s, num_classes = settings, len(loaded.class_names)
    split, names = make_partition(s, loaded)
    train, split = noise.noisy(
        loaded.train, split, num_classes, s.client_noise, s.category_noise, s.seed
    )
    return FederatedDataset(
        train,
        split,
        test=loaded.test,
        client_ids=names,
        num_classes=num_classes,
        preprocess=loaded.preprocess,
        augment=s.task.augment,
    )


def make_partition(
    settings: Settings, loaded: Loaded
) -> tuple[partitions.Partition, list[Any] | None]:
    """Which examples each client has, and the clients' names if they have some."""
    s = settings
    if s.partition not in ("given", "natural"):
        return cut(s, loaded.train.y, s.num_clients, s.seed), None
    if loaded.client_id is None:
        raise InputError(
            f"--partition={s.partition} needs the client of every example, and this data set "
            f"has none. Use another --partition, or an .npz file with client_id."
        )
    given, ids = partitions.by_client_id(loaded.client_id, s.seed)
    return given, ids.tolist()


def cut(s: Settings, labels: np.ndarray, num_clients: int, seed: int) -> partitions.Partition:
    """Cuts examples with these labels into clients by the scheme of the settings."""
    sizes = None
    if s.size_sigma:
        sizes = partitions.client_sizes(len(labels), num_clients, seed, s.size_sigma)
    if s.partition == "dirichlet":
        return partitions.dirichlet(
            labels, num_clients, s.alpha, seed, replacement=s.replacement, sizes=sizes
        )
    if s.partition == "dirichlet_classes":
        return partitions.dirichlet_classes(labels, num_clients, s.alpha, seed)
    if s.partition == "pathological":
        return partitions.pathological(
            labels,
            num_clients,
            s.classes_per_client,
            seed,
            replacement=s.replacement,
            sizes=sizes,
        )
    if s.partition == "shards":
        return partitions.shards(labels, num_clients, s.shards_per_client, seed)
    return partitions.iid(labels, num_clients, seed, sizes=sizes)


def make_sampler(settings: Settings, dataset: FederatedDataset) -> sampling.Sampler:
    s = settings
    if s.sampling == "schedule":
        rounds = sampling.load_schedule(s.client_schedule)
        schedule = sampling.from_schedule(rounds, list(dataset.client_ids))
        schedule.require(s.rounds)
        return schedule
    make = sampling.bernoulli if s.sampling == "bernoulli" else sampling.fixed
    return make(dataset.num_clients, s.participation, s.seed)


def read_weights(path: pathlib.Path) -> list[np.ndarray]:
    """Arrays ``w0, w1, ...`` of an .npz file."""
    found = read_npz(path)
    names = [f"w{i}" for i in range(len(found))]
    if set(names) != set(found) or not names:
        raise InputError(
            f"--init_weights must hold the arrays w0, w1, ... and nothing else. Received: "
            f"{', '.join(found) or 'none'} in {path}."
        )
    arrays = [found[name] for name in names]
    for name, array in zip(names, arrays, strict=True):
        if array.dtype.kind not in "fiu":
            raise InputError(f"{name} in {path} must be numbers. Received: {array.dtype}.")
    return [array.astype(np.float32) for array in arrays]


def fingerprint(settings: Settings) -> str:
    """Eight digits that tell two configurations apart."""
    decisive = {k: v for k, v in settings.as_dict().items() if k not in FREE_ON_RESUME}
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:8]
