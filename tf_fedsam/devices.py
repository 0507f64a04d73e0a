"""Where a run computes: GPUs, or logical CPU devices with one thread each.

On CPUs one client a core with one thread beats one client on all cores by two to three times for
small models, and costs nothing for large ones. Logical devices must exist before TensorFlow starts,
so launchers call :func:`make_strategy` first.
"""

import os
import re

import tensorflow as tf

from tf_fedsam.errors import InputError


def make_strategy(devices: str = "auto") -> tf.distribute.Strategy:
    """A strategy from ``auto``, ``cpu:N`` or ``gpu:N``.

    ``auto`` takes all visible GPUs, else as many logical CPU devices as there are cores.
    """
    match = re.fullmatch(r"auto|(cpu|gpu)(?::(\d+))?", devices.strip().lower())
    if match is None or match[2] in ("0", "00"):
        raise InputError(
            f"devices must be auto, cpu:N or gpu:N with N >= 1. Received: {devices!r}. "
            f"Try --devices=cpu:2."
        )
    gpus = tf.config.list_physical_devices("GPU")
    kind = match[1] or ("gpu" if gpus else "cpu")
    if kind == "gpu":
        count = int(match[2] or len(gpus))
        if not 1 <= count <= len(gpus):
            raise InputError(
                f"devices={devices} asks for {max(count, 1)} GPUs. TensorFlow sees {len(gpus)}. "
                f"Use --devices=auto or --devices=cpu:{available_cores()}."
            )
        for gpu in gpus:
            tf.config.experimental.set_memory_growth(gpu, True)
        return tf.distribute.MirroredStrategy([f"GPU:{i}" for i in range(count)])
    count = int(match[2] or available_cores())
    if count > 256:
        raise InputError(f"devices must be cpu:1 to cpu:256. Received: {devices!r}.")
    _make_logical_cpus(count)
    return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(count)])


def available_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _make_logical_cpus(count: int) -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration()] * count
    try:
        tf.config.threading.set_intra_op_parallelism_threads(1 if count > 1 else 0)
        tf.config.set_logical_device_configuration(cpu, logical)
    except RuntimeError:
        have = len(tf.config.list_logical_devices("CPU"))
        if have < count:
            raise InputError(
                f"TensorFlow has already started with {have} logical CPU devices; {count} were "
                f"asked for. Call make_strategy before anything else that uses TensorFlow."
            ) from None
