"""Where a run computes. The tests run on three logical CPU devices, see conftest.py."""

import os
import subprocess
import sys

import pytest
import tensorflow as tf

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


class TestClientsPerDevice:
    def test_logical_cpus(self, monkeypatch):
        monkeypatch.setattr(devices, "available_cores", lambda: 1)
        assert names(devices.make_strategy("auto", clients_per_device=3)) == [
            *("CPU:0", "CPU:1", "CPU:2"),
        ]
        assert len(names(devices.make_strategy("cpu:1", clients_per_device=2))) == 2

    @pytest.fixture
    def gpus(self, monkeypatch):
        """Two GPUs of 10 and 12 GB, as TensorFlow and NVIDIA's tool would tell of them."""
        found, made = ["first", "second"], {}
        listed = lambda kind=None: found if kind == "GPU" else []  # noqa: E731
        monkeypatch.setattr(tf.config, "list_physical_devices", listed)
        monkeypatch.setattr(tf.config, "set_logical_device_configuration", made.__setitem__)
        done = subprocess.CompletedProcess([], 0, "10000\n12000\n")
        monkeypatch.setattr(subprocess, "run", lambda *args, **options: done)
        monkeypatch.setattr(tf.distribute, "MirroredStrategy", lambda *args, **o: (*args, o))
        return made

    def test_logical_gpus(self, gpus):
        """Nine tenths of the smaller one's memory in four parts; sums without NCCL."""
        found, options = devices.make_strategy("gpu:2", clients_per_device=4)
        assert found == [f"GPU:{i}" for i in range(8)]
        assert isinstance(options["cross_device_ops"], tf.distribute.ReductionToOneDevice)
        assert set(gpus) == {"first", "second"}
        assert [logical.memory_limit for logical in gpus["second"]] == [2250] * 4

    def test_one_gpu_of_two(self, gpus):
        found, _ = devices.make_strategy("gpu:1", clients_per_device=2)
        assert (found, set(gpus)) == (["GPU:0", "GPU:1"], {"first"})

    def test_workers_use_whole_gpus(self, gpus):
        with pytest.raises(InputError, match=r"Received: clients_per_device=2 with strategy="):
            devices.make_strategy("gpu", "multi_worker", clients_per_device=2)

    def test_memory_that_nobody_tells(self, gpus, monkeypatch):
        def missing(*args, **options):
            raise FileNotFoundError("nvidia-smi")

        monkeypatch.setattr(subprocess, "run", missing)
        with pytest.raises(InputError, match=r"nvidia-smi does not tell .* Remove it"):
            devices.make_strategy("gpu", clients_per_device=2)

    def test_too_late(self, gpus, monkeypatch):
        def started(*args):
            raise RuntimeError

        monkeypatch.setattr(tf.config, "set_logical_device_configuration", started)
        with pytest.raises(InputError, match="already started"):
            devices.make_strategy("gpu", clients_per_device=2)
