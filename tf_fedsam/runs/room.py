"""What a run may come to take in memory and on the disk, and whether there is so much."""

import contextlib
import dataclasses
import math
import pathlib
import shutil
from collections.abc import Iterator

import numpy as np

from tf_fedsam import text
from tf_fedsam.data import arrays, files, sampling
from tf_fedsam.data.federated_dataset import Examples, FederatedDataset
from tf_fedsam.process import State
from tf_fedsam.runs.callbacks.checkpoints import UNSAVED_BYTES
from tf_fedsam.runs.experiment import Experiment
from tf_fedsam.state.checkpoint.rows import GROUP

FLOAT_BYTES = 4
SAVED_MODELS = 3  # initial and final weights, network.keras
# Vectors as long as the model that a device holds while it trains: weights before and now,
# gradient, update, sums, diagnostics, and what TensorFlow has not given back. Peaks of runs were at
# 10 (vgg11) to 13 (vit_b16 in microbatches), activations of a batch not counted.
TRAINING_MODELS = 12
ADVICE_MEMORY = (
    "Use client_state=disk, fewer clients (num_clients) or fewer rounds, a method without client "
    "state, a smaller model, devices=cpu:1, or stream=always for images in files."
)
ADVICE_DISK = "Choose a folder on another disk, fewer clients (num_clients), or a smaller model."


@dataclasses.dataclass(frozen=True)
class Room:
    """Bytes that a run may need.

    Attributes:
        data: the examples in memory, or what is kept of those in files.
        client_state: what all clients that may take part keep, and a wave's once more; if it is
            on the disk, that of some waves.
        training: the server's vectors and those of the devices that train. Activations, which
            depend on the batch, are not counted.
        saved: on the disk: checkpoints and exports.
        free_memory, free_disk: what there is; ``None`` if that cannot be told.
    """

    data: int
    client_state: int
    training: int
    saved: int
    free_memory: int | None
    free_disk: int | None

    @property
    def memory(self) -> int:
        return self.data + self.client_state + self.training

    def row(self) -> str:
        """For the start table."""
        state = f", client state {text.size(self.client_state)}" if self.client_state else ""
        parts = f"data {text.size(self.data)}{state}, training {text.size(self.training)}"
        free = [_of(self.free_memory), _of(self.free_disk)]
        return (
            f"memory {text.size(self.memory)}{free[0]} ({parts}), disk "
            f"{text.size(self.saved)}{free[1]}"
        )

    def warnings(self) -> list[tuple[str, ...]]:
        """What there is too little of, with advice and the settings it names."""
        told: list[tuple[str, ...]] = []
        if self.free_memory is not None and self.memory > self.free_memory:
            told.append(
                (
                    f"Warning: the run may come to need {text.size(self.memory)} of memory, and "
                    f"{text.size(self.free_memory)} are free. {ADVICE_MEMORY}\n",
                    *("client_state=", "num_clients", "devices=", "stream="),
                )
            )
        if self.free_disk is not None and self.saved > self.free_disk:
            told.append(
                (
                    f"Warning: the run may come to need {text.size(self.saved)} on the disk, and "
                    f"{text.size(self.free_disk)} are free. {ADVICE_DISK}\n",
                    "num_clients",
                )
            )
        return told


def on_disk(experiment: Experiment) -> bool:
    """Whether the clients' state of a run is on the disk between rounds."""
    config = experiment.config
    if config.client_state != "auto" or config.strategy == "multi_worker":
        return config.client_state == "disk"
    free = free_memory()
    row = FLOAT_BYTES * sum(experiment.initialize().clients.lengths.values())
    return free is not None and 2 * row * _taking_part(experiment) > free


def estimate(
    experiment: Experiment, state: State, folder: pathlib.Path, on_disk: bool = False
) -> Room:
    """Upper bounds, from sizes alone.

    Args:
        experiment: what is to be run.
        state: before the first round.
        folder: of the run; it need not exist.
        on_disk: whether client state is on the disk.
    """
    config, dataset = experiment.config, experiment.dataset
    num_replicas = experiment.process.engine.strategy.num_replicas_in_sync
    parts = (dataset.train, dataset.test, dataset.holdout)
    data = sum(_held(part) for part in parts if part is not None)
    cohort, taking_part = _cohort(experiment), _taking_part(experiment)
    row = FLOAT_BYTES * sum(state.clients.lengths.values())
    server = sum(
        FLOAT_BYTES * int(np.prod(tensor.shape))
        for tree in state.server.values()
        for tensor in tree
    )
    model = FLOAT_BYTES * experiment.process.num_parameters
    exports = (SAVED_MODELS + len(config.export_forms)) * model
    rows = 2 * taking_part  # as many again are out of date
    spare = rows // min(GROUP, max(cohort, 1)) + 1
    saved = (config.keep_checkpoints + 1) * server + row * (rows + spare) + exports
    free = free_memory()
    kept = row * taking_part
    at_once = min(cohort, taking_part, experiment.process.engine.wave(state.clients.lengths))
    if on_disk:  # what is being saved and is to be saved, moved within the files, and read ahead
        of_cohort = row * min(cohort, taking_part)
        kept = min(kept, 2 * max(of_cohort, UNSAVED_BYTES)) + of_cohort + row * at_once
    return Room(
        data=data,
        # Rows of a wave are gathered for it, and come back from it.
        client_state=kept + 2 * row * at_once,
        training=server + TRAINING_MODELS * model * num_replicas,
        saved=saved,
        free_memory=None if free is None else free + _loaded(dataset),
        free_disk=free_disk(folder),
    )


def _cohort(experiment: Experiment) -> int:
    """The most clients of a round."""
    config, num_clients = experiment.config, experiment.dataset.num_clients
    if config.sampling != "fixed":
        return num_clients
    return sampling.cohort_size(num_clients, config.share_of(num_clients))


def _taking_part(experiment: Experiment) -> int:
    """The most clients of all rounds."""
    return min(experiment.dataset.num_clients, _cohort(experiment) * experiment.config.rounds)


def _held(examples: Examples) -> int:
    """Bytes that examples come to take."""
    size = math.prod(examples.x.shape) * examples.x.dtype.itemsize
    if isinstance(examples.x, np.ndarray):
        # As an array, and where the devices read them, which may be the same place.
        shared = arrays.memory_of(examples.x) is not None
        return (1 if shared else 2) * size + 2 * examples.y.nbytes
    return min(2 * size, 2 * files.DEFAULT_CACHE_BYTES) + examples.y.nbytes


def _loaded(dataset: FederatedDataset) -> int:
    """Bytes of the examples that are in memory by now, and so missing from what is free."""
    parts = (dataset.train, dataset.test)
    return sum(
        array.nbytes
        for part in parts
        if part is not None
        for array in (part.x, part.y)
        if isinstance(array, np.ndarray)
    )


def free_memory() -> int | None:
    """Bytes that a process can still have, on Linux."""
    try:
        lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    if not found:
        return None
    return min([1024 * int(found[0]), *_left_by_limits()])


# Of a container: what it may have, what it has, and what of this can be given back at once (pages
# of files), in control groups of version 2 and 1.
_LIMITS = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    (
        "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes",
        "memory/memory.stat",
        "total_inactive_file",
    ),
)


def _left_by_limits(groups: pathlib.Path = pathlib.Path("/sys/fs/cgroup")) -> Iterator[int]:
    for limit, used, statistics, name in _LIMITS:
        with contextlib.suppress(OSError, ValueError, KeyError):  # no such group; no limit: "max"
            allowed, taken = (int((groups / file).read_text()) for file in (limit, used))
            lines = (groups / statistics).read_text().splitlines()
            given_back = int(dict(line.split() for line in lines)[name])
            yield max(0, allowed - taken + given_back)


def free_disk(folder: pathlib.Path) -> int | None:
    """Bytes that can still be written where a folder is, or will be."""
    existing = folder.absolute()
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    try:
        return shutil.disk_usage(existing).free
    except OSError:
        return None


def _of(free: int | None) -> str:
    return "" if free is None else f" of {text.size(free)} free"
