"""Where a run computes: GPUs, or logical CPU devices with one thread each.

On CPUs one client a core with one thread beats one client on all cores by two to three times for
small models, and costs nothing for large ones. Logical devices must exist before TensorFlow starts,
so launchers call :func:`make_strategy` first.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from typing import Any

from tf_fedsam.errors import InputError
from tf_fedsam.lazy import tf

MOST_CPUS = 256


def parse(devices: str) -> tuple[str | None, int | None]:
    """Kind and number of devices that a text asks for; ``None`` where it leaves that open."""
    match = re.fullmatch(r"auto|(cpu|gpu)(?::0*([1-9][0-9]{0,5}))?", devices.strip().lower())
    if match is None:
        raise InputError(
            f"devices must be auto, cpu:N or gpu:N with N >= 1. Received: {devices!r}. "
            f"Try devices=cpu:2.",
            "devices",
        )
    kind, count = match[1], None if match[2] is None else int(match[2])
    if kind == "cpu" and count is not None and count > MOST_CPUS:
        raise InputError(
            f"devices must be cpu:1 to cpu:{MOST_CPUS}. Received: {devices!r}.", "devices"
        )
    return kind, count


def make_strategy(
    devices: str = "auto",
    strategy: str = "mirrored",
    cluster: str = "tf_config",
    clients_per_device: int = 1,
) -> tf.distribute.Strategy:
    """A strategy from ``auto``, ``cpu:N`` or ``gpu:N``.

    ``auto`` takes all visible GPUs, else as many logical CPU devices as there are cores, or as
    there are already if TensorFlow has started, as it may have in a notebook.

    Args:
        devices: of this machine, or of this worker.
        strategy: ``mirrored``, or ``multi_worker`` to join other workers.
        cluster: who tells where these are: ``tf_config``, ``slurm`` or ``kubernetes``.
        clients_per_device: logical devices that each of them is cut into.
    """
    found = _local_devices(devices, clients_per_device)
    shared_gpus = clients_per_device > 1 and "GPU" in found[0]
    if strategy == "multi_worker":
        if shared_gpus:
            raise InputError(
                f"Workers use whole GPUs. Received: clients_per_device={clients_per_device} with "
                f"strategy=multi_worker. Remove clients_per_device.",
                *("clients_per_device", "strategy="),
            )
        from tf_fedsam import workers  # loads TensorFlow

        return workers.make_strategy(cluster, found, len(tf.config.list_physical_devices("GPU")))
    # NCCL, which MirroredStrategy would take, knows only one device of a GPU.
    over = tf.distribute.ReductionToOneDevice() if shared_gpus else None
    return tf.distribute.MirroredStrategy(found, cross_device_ops=over)


def _local_devices(devices: str, each: int) -> list[str]:
    asked, number = parse(devices)
    gpus = tf.config.list_physical_devices("GPU")
    kind = asked or ("gpu" if gpus else "cpu")
    if kind == "gpu":
        count = number or len(gpus)
        if not 1 <= count <= len(gpus):
            raise InputError(
                f"devices={devices} asks for {max(count, 1)} GPUs. TensorFlow sees {len(gpus)}. "
                f"Use devices=auto or devices=cpu:{available_cores()}.",
                "devices",
            )
        if each > 1:
            _cut_gpus(gpus[:count], each)
        else:
            for gpu in gpus:
                tf.config.experimental.set_memory_growth(gpu, True)
        return [f"GPU:{i}" for i in range(count * each)]
    count = min((number or available_cores()) * each, MOST_CPUS)
    have = _make_logical_cpus(count)
    if have < count and number is None:
        count = have
    elif have < count:
        raise InputError(
            f"TensorFlow has already started with {have} logical CPU devices; {count} were asked "
            f"for. Ask for them before anything else uses TensorFlow, or set devices=cpu:{have}.",
            "devices",
        )
    return [f"CPU:{i}" for i in range(count)]


def available_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _make_logical_cpus(count: int) -> int:
    """Makes them unless TensorFlow has started; gives how many there are."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration()] * count
    try:
        tf.config.threading.set_intra_op_parallelism_threads(1 if count > 1 else 0)
        tf.config.set_logical_device_configuration(cpu, logical)
    except RuntimeError:
        return len(tf.config.list_logical_devices("CPU"))
    return count


def _cut_gpus(gpus: Sequence[Any], each: int) -> None:
    """Cuts GPUs into logical ones that share their memory equally."""
    megabytes = int(0.9 * _gpu_megabytes()) // each
    logical = [tf.config.LogicalDeviceConfiguration(memory_limit=megabytes)] * each
    try:
        for gpu in gpus:
            tf.config.set_logical_device_configuration(gpu, logical)
    except RuntimeError:
        raise InputError(
            f"TensorFlow has already started. Received: clients_per_device={each}. Ask for it "
            f"before anything else uses TensorFlow.",
            "clients_per_device",
        ) from None


def _gpu_megabytes() -> int:
    """The memory of the smallest GPU; TensorFlow does not tell before it has started."""
    command = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        return min(int(line) for line in told.stdout.split())
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise InputError(
            f"clients_per_device must know how much memory the GPUs have, and nvidia-smi does not "
            f"tell ({error}). Remove it.",
            "clients_per_device",
        ) from None
