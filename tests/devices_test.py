"""Where a run computes. The tests run on three logical CPU devices, see conftest.py."""

import os
import subprocess
import sys

import pytest

from tf_fedsam import devices
from tf_fedsam.errors import InputError


def names(strategy) -> list[str]:
    return [d.rpartition("device:")[2] for d in strategy.extended.worker_devices]


@pytest.mark.parametrize("given", ["cpu:2", " CPU:2 ", "cpu:02"])
def test_so_many_cpus(given):
    assert names(devices.make_strategy(given)) == ["CPU:0", "CPU:1"]


@pytest.mark.parametrize(
    "given",
    [
        *("", "cpu:", "cpu:0", "cpu:00", "cpu:000", "gpu:0", "cpu:-1", "cpu:1.5"),
        *("tpu", "2", "cpu:2,3", "cpu:\u0663", "cpu:" + 5000 * "9"),
    ],
)
def test_bad_values(given):
    with pytest.raises(InputError, match="devices must be auto, cpu:N or gpu:N") as caught:
        devices.make_strategy(given)
    assert f"Received: {given!r}" in str(caught.value)
    assert "--devices=cpu:2" in caught.value.with_flags()


def test_absurdly_many():
    with pytest.raises(InputError, match="cpu:1 to cpu:256"):
        devices.make_strategy("cpu:257")


def test_gpus_that_are_not_there(monkeypatch):
    monkeypatch.setattr(devices, "available_cores", lambda: 8)
    for given, asked in (("gpu", 1), ("gpu:2", 2)):
        with pytest.raises(InputError, match=f"asks for {asked} GPUs. TensorFlow sees 0") as caught:
            devices.make_strategy(given)
        assert "devices=cpu:8" in str(caught.value)


def test_more_than_tensorflow_started_with():
    with pytest.raises(InputError, match=r"already started with 3 .* 4 were asked for"):
        devices.make_strategy("cpu:4")


@pytest.mark.parametrize("given", ["auto", "cpu"])
def test_auto_takes_what_there_is(given, monkeypatch):
    """TensorFlow has started with three: more cores are no error, fewer are all that is used."""
    monkeypatch.setattr(devices, "available_cores", lambda: 8)
    assert len(names(devices.make_strategy(given))) == 3
    monkeypatch.setattr(devices, "available_cores", lambda: 1)
    assert names(devices.make_strategy(given)) == ["CPU:0"]


def test_cores_are_those_that_this_process_may_use(monkeypatch):
    assert devices.available_cores() == len(os.sched_getaffinity(0))
    monkeypatch.delattr(os, "sched_getaffinity")  # as on macOS
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert devices.available_cores() == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert devices.available_cores() == 1


def test_devices_are_made_before_tensorflow_starts():
    """As many as are asked for, more than there are cores, with one thread each."""
    script = (
        "import tensorflow as tf\n"
        "from tf_fedsam.devices import make_strategy\n"
        "print(make_strategy('cpu:5').num_replicas_in_sync,\n"
        "      tf.config.threading.get_intra_op_parallelism_threads())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["5", "1"]
