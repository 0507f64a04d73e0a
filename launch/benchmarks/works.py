"""W1, W2, W3 and W4, the work that rounds are measured on; see ``launch.bench``."""

from __future__ import annotations  # of what is loaded later

import dataclasses
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tf_fedsam import models
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
IMAGE = {"W1": (784,), "W2": (28, 28, 1), "W4": (32, 32, 3)}
PLUG_INS: dict[str, Callable[[], Algorithm]] = {
    "fedavg+swa": lambda: SWA(FedAvg(), cycle=1, start=0),  # collects after every round
    "fedavg+dp": lambda: DP(FedAvg(), clip_norm=0.2, noise_multiplier=0.95, divisor=COHORT),
}


@dataclasses.dataclass(frozen=True)
class Size:
    """How much a work is.

    Attributes:
        clients: there are.
        examples: of each.
        cohort: clients in a round.
        epochs: local ones.
        decay: of the weights.
        clip: norm that gradients are clipped to.
    """

    clients: int
    examples: int
    cohort: int
    epochs: int
    decay: float = 0.0
    clip: float | None = None


# The papers' network: half of their 50 local steps, of a fifth of their 10 clients a round. There
# are only as many clients as give a choice: methods keep copies of the network for each.
OF_PAPERS = {"W4": Size(4, 1250, 2, 1, decay=1e-3, clip=10.0)}
WORKS = (*EPOCHS, *OF_PAPERS)


def size(work: str) -> Size:
    return OF_PAPERS.get(work) or Size(NUM_CLIENTS, CLIENT_SIZE, COHORT, EPOCHS[work])


def methods() -> list[str]:
    """All that can be measured over FedAvg."""
    return [*all_algorithms(), *VARIANTS, *PLUG_INS]


def network(work: str) -> keras.Model:
    if work in OF_PAPERS:
        return models.build("resnet18", IMAGE[work], 10)
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
    n = size(work).clients * size(work).examples
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

    own = size(work)
    return LearningProcess(
        lambda: network(work),
        algorithm_of(method),
        FederatedDataset(
            data,
            iid(len(data), own.clients, seed=0),
            test=test,
            preprocess=Preprocess(scale=1 / 255),
        ),
        options=TrainingOptions(
            batch_size=BATCH,
            local_epochs=own.epochs,
            weight_decay=own.decay,
            clip_norm=own.clip,
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


def cohort_of(round_num: int, work: str = "W1") -> np.ndarray:
    own = size(work)
    return np.random.default_rng(round_num).choice(own.clients, own.cohort, replace=False)


def rounds_of(
    work: str, method: str, strategy, data: Examples, **options: Any
) -> Callable[[], float]:
    """A function that runs one more round and gives its seconds."""
    process = process_of(work, method, strategy, data, **options)
    state = process.initialize()

    def one_round() -> float:
        nonlocal state
        cohort = cohort_of(state.round_num, work)
        began = time.perf_counter()
        state, _ = process.next(state, cohort)
        return time.perf_counter() - began

    return one_round
