"""How many models' worth of memory a round takes; counted in a process of its own."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux")

COUNT = """
import sys, threading, time
import keras, numpy as np
from tf_fedsam import devices
from tf_fedsam.algorithms.registry import find
from tf_fedsam.data.federated_dataset import FederatedDataset
from tf_fedsam.options import TrainingOptions
from tf_fedsam.process import LearningProcess

method, diagnostics, width = sys.argv[1], sys.argv[2] == "True", 1581
strategy = devices.make_strategy("cpu:1")

def memory():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

def network():
    layers = [keras.layers.Dense(width) for _ in range(8)]
    return keras.Sequential([keras.Input((width,)), *layers, keras.layers.Dense(10)])

def most():
    while not done:
        peak[0] = max(peak[0], memory())
        time.sleep(0.001)

def rounds(model, x, num):
    data = FederatedDataset.from_arrays(x, np.arange(40) % 10, np.arange(40) % 4)
    options = TrainingOptions(batch_size=5, local_steps=2, diagnostics=diagnostics)
    process = LearningProcess(model, find(method)(), data, options=options, strategy=strategy)
    state = process.initialize()
    for i in range(num):
        state, _ = process.next(state, [2 * i % 4, 2 * i % 4 + 1])
    return process

small = lambda: keras.Sequential([keras.Input((3,)), keras.layers.Dense(10)])
rounds(small, np.zeros((40, 3), np.float32), 1)  # what TensorFlow itself needs
before, peak, done = memory(), [0], []
watch = threading.Thread(target=most)
watch.start()
process = rounds(network, np.ones((40, width), np.float32), 2)
done.append(True)
watch.join()
print((peak[0] - before) / (4 * process.num_parameters))
"""


def models(method, diagnostics=False):
    """The peak of two rounds of two clients on one device, in models."""
    command = [sys.executable, "-c", COUNT, method, str(diagnostics)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    return float(result.stdout)


@pytest.mark.parametrize(
    ("method", "most"), [("fedavg", 5.5), ("fedsam", 6), ("mofedsam", 8.5), ("scaffold", 17)]
)
def test_peaks(method, most):
    assert models(method) < most


def test_diagnostics_take_two_more():
    assert models("fedavg", diagnostics=True) < models("fedavg") + 2.7
