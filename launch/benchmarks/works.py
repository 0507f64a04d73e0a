"""W1, W2 and W3, the work that rounds are measured on; see ``launch.bench``."""

from __future__ import annotations  # of what is loaded later

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.algorithms.dp import DP
from tf_fedsam.algorithms.fedavg import FedAvg
from tf_fedsam.algorithms.registry import all_algorithms, find
from tf_fedsam.algorithms.swa import SWA
from tf_fedsam.data.federated_dataset import Examples, FederatedDataset, Preprocess
from tf_fedsam.data.partition import iid
from tf_fedsam.lazy import keras
from tf_fedsam.options import TrainingOptions

if TYPE_CHECKING:
    from tf_fedsam.process import LearningProcess

NUM_CLIENTS, CLIENT_SIZE, COHORT, BATCH = 100, 600, 10, 50
# Methods that take fewer gradients at another hyper-parameter, measured as well.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "fedgloss-sgd": ("fedgloss", {"rho_local": 0.0}),
}
EPOCHS = {"W1": 5, "W2": 1}
IMAGE = {"W1": (784,), "W2": (28, 28, 1)}
PLUG_INS: dict[str, Callable[[], Algorithm]] = {
    "fedavg+swa": lambda: SWA(FedAvg(), cycle=1, start=0),  # collects after every round
    "fedavg+dp": lambda: DP(FedAvg(), clip_norm=0.2, noise_multiplier=0.95, divisor=COHORT),
}


def methods() -> list[str]:
    """All that can be measured over FedAvg."""
    return [*all_algorithms(), *VARIANTS, *PLUG_INS]


def network(work: str) -> keras.Model:
    layers = keras.layers
    if work == "W1":
        hidden = [layers.Dense(200, activation="relu"), layers.Dense(100, activation="relu")]
    else:
        hidden = [
            layers.Conv2D(32, 3, activation="relu"),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
        ]
    return keras.Sequential([keras.Input(IMAGE[work]), *hidden, layers.Dense(10)])


def examples(work: str) -> Examples:
    generator = np.random.default_rng(0)
    n = NUM_CLIENTS * CLIENT_SIZE
    x = generator.integers(0, 256, (n, *IMAGE[work]), dtype=np.uint8)
    return Examples(x, generator.integers(0, 10, n))


def process_of(
    work: str,
    method: str,
    strategy,
    data: Examples,
    diagnostics: bool = True,
    test: Examples | None = None,
    keep_local_models: bool = False,
    xla: bool = False,
) -> LearningProcess:
    from tf_fedsam.process import LearningProcess

    return LearningProcess(
        lambda: network(work),
        algorithm_of(method),
        FederatedDataset(
            data,
            iid(len(data), NUM_CLIENTS, seed=0),
            test=test,
            preprocess=Preprocess(scale=1 / 255),
        ),
        options=TrainingOptions(
            batch_size=BATCH,
            local_epochs=EPOCHS[work],
            weight_decay=0.0,
            clip_norm=None,
            lr=0.01,
            diagnostics=diagnostics,
            keep_local_models=keep_local_models,
            xla=xla,
        ),
        strategy=strategy,
    )


def algorithm_of(method: str) -> Algorithm:
    if method in PLUG_INS:
        return PLUG_INS[method]()
    name, hparams = VARIANTS.get(method, (method, {}))
    return find(name)(**hparams)


def cohort_of(round_num: int) -> np.ndarray:
    return np.random.default_rng(round_num).choice(NUM_CLIENTS, COHORT, replace=False)


def rounds_of(
    work: str, method: str, strategy, data: Examples, **options: Any
) -> Callable[[], float]:
    """A function that runs one more round and gives its seconds."""
    process = process_of(work, method, strategy, data, **options)
    state = process.initialize()

    def one_round() -> float:
        nonlocal state
        cohort = cohort_of(state.round_num)
        began = time.perf_counter()
        state, _ = process.next(state, cohort)
        return time.perf_counter() - began

    return one_round
