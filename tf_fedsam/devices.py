"""Where a run computes: GPUs, or logical CPU devices with one thread each.

On CPUs one client a core with one thread beats one client on all cores by two to three times for
small models, and costs nothing for large ones. Logical devices must exist before TensorFlow starts,
so launchers call :func:`make_strategy` first.
"""

from __future__ import annotations

import os
import re

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
    devices: str = "auto", strategy: str = "mirrored", cluster: str = "tf_config"
) -> tf.distribute.Strategy:
    """A strategy from ``auto``, ``cpu:N`` or ``gpu:N``.

    ``auto`` takes all visible GPUs, else as many logical CPU devices as there are cores, or as
    there are already if TensorFlow has started, as it may have in a notebook.

    Args:
        devices: of this machine, or of this worker.
        strategy: ``mirrored``, or ``multi_worker`` to join other workers.
        cluster: who tells where these are: ``tf_config``, ``slurm`` or ``kubernetes``.
    """
    found = _local_devices(devices)
    if strategy == "multi_worker":
        from tf_fedsam import workers  # loads TensorFlow

        return workers.make_strategy(cluster, found, len(tf.config.list_physical_devices("GPU")))
    return tf.distribute.MirroredStrategy(found)


def _local_devices(devices: str) -> list[str]:
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
        for gpu in gpus:
            tf.config.experimental.set_memory_growth(gpu, True)
        return [f"GPU:{i}" for i in range(count)]
    count = number or min(available_cores(), MOST_CPUS)
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
