"""Federated learning with flat minima, simulated in TensorFlow and Keras 3.

    import tasks, tf_fedsam

    config = tf_fedsam.RunConfig(dataset="glyphs", algo="fedsam", rounds=20)
    run = tf_fedsam.run(config, "runs/mine")

or round by round:

    experiment = tf_fedsam.build(config)
    state = experiment.initialize()
    state, metrics = experiment.process.next(state, experiment.cohort(0)[0])

Names are imported when they are first used, so that ``import tf_fedsam`` does not load TensorFlow.
"""

import importlib
import os
from typing import Any

__version__ = "0.3.0"

# TensorFlow reads this when it is first imported. oneDNN's kernels make ResNets and transformers on
# a CPU two to four times faster and leave small models as they are; TensorFlow turns them on by
# itself only on some CPUs.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

_PLACES = {
    "Algorithm": "tf_fedsam.algorithms.base",
    "CSVLogger": "tf_fedsam.runs.callbacks",
    "Callback": "tf_fedsam.runs.callbacks",
    "ClientModel": "tf_fedsam.client",
    "Comparison": "tf_fedsam.report.compare",
    "Examples": "tf_fedsam.data.federated_dataset",
    "Experiment": "tf_fedsam.runs.experiment",
    "FederatedDataset": "tf_fedsam.data.federated_dataset",
    "InputError": "tf_fedsam.errors",
    "Landscape": "tf_fedsam.analysis.landscape.results",
    "LearningProcess": "tf_fedsam.process",
    "MLflow": "tf_fedsam.runs.callbacks",
    "ModelWeights": "tf_fedsam.process",
    "Patience": "tf_fedsam.runs.callbacks",
    "Preprocess": "tf_fedsam.data.federated_dataset",
    "Run": "tf_fedsam.runs.run",
    "RunConfig": "tf_fedsam.runs.config",
    "State": "tf_fedsam.process",
    "StopAt": "tf_fedsam.runs.callbacks",
    "SweepResult": "tf_fedsam.sweeps.sweep",
    "Task": "tf_fedsam.runs.task",
    "TrainingOptions": "tf_fedsam.options",
    "WandB": "tf_fedsam.runs.callbacks",
    "add_task": "tf_fedsam.runs.task:add",
    "build": "tf_fedsam.runs.experiment",
    "compare": "tf_fedsam.report.compare",
    "describe": "tf_fedsam.runs.describe",
    "find_algorithm": "tf_fedsam.algorithms.registry:find",
    "landscape": "tf_fedsam.analysis.landscape.study",
    "make_strategy": "tf_fedsam.devices",
    "run": "tf_fedsam.runs.run",
    "sweep": "tf_fedsam.sweeps.sweep",
    "tree": "tf_fedsam.tree:",
}

__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, colon, inner = _PLACES[name].partition(":")
    found = importlib.import_module(module)
    value = found if colon and not inner else getattr(found, inner or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
