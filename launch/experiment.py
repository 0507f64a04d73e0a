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
from tf_fedsam.data import partition as partitions
from tf_fedsam.data import sampling
from tf_fedsam.data.arrays import read_npz
from tf_fedsam.data.federated_dataset import FederatedDataset
from tf_fedsam.errors import InputError
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
    """

    settings: Settings
    loaded: Loaded
    dataset: FederatedDataset
    process: LearningProcess
    sampler: sampling.Sampler
    initial: list[np.ndarray] | None

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
        lambda: models.build(
            settings.model, dataset.input_shape, dataset.num_classes, settings.model_options
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
    return Experiment(settings, loaded, dataset, process, sampler, initial)


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


def load_data(settings: Settings) -> Loaded:
    path = lambda name: None if name is None else pathlib.Path(name).expanduser()  # noqa: E731
    return settings.task.load(
        Request(path(settings.data_file), path(settings.data_dir), settings.seed)
    )


def make_dataset(settings: Settings, loaded: Loaded) -> FederatedDataset:
    """The data cut into clients."""
    s, labels = settings, loaded.train.y
    names = None
    if s.partition in ("given", "natural"):
        if loaded.client_id is None:
            raise InputError(
                f"--partition={s.partition} needs the client of every example, and this data set "
                f"has none. Use another --partition, or an .npz file with client_id."
            )
        split, ids = partitions.by_client_id(loaded.client_id, s.seed)
        names = ids.tolist()
    else:
        split = _split(s, labels)
    return FederatedDataset(
        loaded.train,
        split,
        test=loaded.test,
        client_ids=names,
        num_classes=len(loaded.class_names),
        preprocess=loaded.preprocess,
        augment=s.task.augment,
    )


def _split(s: Settings, labels: np.ndarray) -> partitions.Partition:
    sizes = None
    if s.size_sigma:
        sizes = partitions.client_sizes(len(labels), s.num_clients, s.seed, s.size_sigma)
    if s.partition == "dirichlet":
        return partitions.dirichlet(
            labels, s.num_clients, s.alpha, s.seed, replacement=s.replacement, sizes=sizes
        )
    if s.partition == "dirichlet_classes":
        return partitions.dirichlet_classes(labels, s.num_clients, s.alpha, s.seed)
    if s.partition == "pathological":
        return partitions.pathological(
            labels,
            s.num_clients,
            s.classes_per_client,
            s.seed,
            replacement=s.replacement,
            sizes=sizes,
        )
    if s.partition == "shards":
        return partitions.shards(labels, s.num_clients, s.shards_per_client, s.seed)
    return partitions.iid(labels, s.num_clients, s.seed, sizes=sizes)


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
