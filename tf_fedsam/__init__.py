"""Federated learning with flat minima, simulated in TensorFlow and Keras 3.

process = tf_fedsam.LearningProcess(model_fn, tf_fedsam.find_algorithm("mofedsam")(), dataset)
state = process.initialize()
state, metrics = process.next(state, client_ids)
"""

from tf_fedsam import tree
from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.algorithms.registry import find as find_algorithm
from tf_fedsam.client import ClientModel
from tf_fedsam.data.federated_dataset import Examples, FederatedDataset, Preprocess
from tf_fedsam.devices import make_strategy
from tf_fedsam.errors import InputError
from tf_fedsam.options import TrainingOptions
from tf_fedsam.process import LearningProcess, ModelWeights, State

__version__ = "0.1.0"

__all__ = [
    "Algorithm",
    "ClientModel",
    "Examples",
    "FederatedDataset",
    "InputError",
    "LearningProcess",
    "ModelWeights",
    "Preprocess",
    "State",
    "TrainingOptions",
    "find_algorithm",
    "make_strategy",
    "tree",
]
