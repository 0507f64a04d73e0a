"""What tests, diagnostics and probes cost."""

from __future__ import annotations  # of what is loaded later

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from launch.benchmarks import tables, works
from launch.benchmarks.measuring import How, medians
from tf_fedsam.analysis.probe_list import NAMES as PROBES
from tf_fedsam.data import validation
from tf_fedsam.data.federated_dataset import Examples

if TYPE_CHECKING:
    from tf_fedsam.process import LearningProcess


def analysis(how: How) -> None:
    """W2 with a test on 10,000 images and the diagnostics of every round, over W2 without.

    A round of W2 trains on 6,000 images, about as much work as a test on 18,000. Then each probe by
    itself, with its defaults.
    """
    strategy = how.strategy()
    data, images = works.examples("W2"), 10_000
    test = Examples(data.x[:images], data.y[:images])
    plain = works.process_of("W2", "fedavg", strategy, data, diagnostics=False)
    whole = works.process_of("W2", "fedavg", strategy, data)
    states = {"plain": plain.initialize(), "rounds": whole.initialize()}

    def run(process: LearningProcess, name: str) -> float:
        began = time.perf_counter()
        states[name], _ = process.next(states[name], works.cohort_of(states[name].round_num))
        return time.perf_counter() - began

    def evaluate() -> float:
        began = time.perf_counter()
        whole.evaluate(states["rounds"], test)
        return time.perf_counter() - began

    took = medians(
        {
            "plain": lambda: run(plain, "plain"),
            "rounds": lambda: run(whole, "rounds"),
            "test": evaluate,
        },
        how.repeats,
    )
    seconds = {
        "W2 alone": took["plain"],
        "with diagnostics": took["rounds"],
        "and a test every 5 rounds": took["rounds"] + took["test"] / 5,
        "and a test every round": took["rounds"] + took["test"],
    }
    rows = [(n, f"{s:.3f}", f"{s / took['plain']:.3f}") for n, s in seconds.items()]
    tables.show("analysis", ("W2", "s a round", "ratio"), rows)
    took |= medians(probes_of(strategy, data, test), how.repeats)
    rows = [(n, f"{took[n]:.3f}", f"{took[n] / took['plain']:.2f}") for n in PROBES]
    tables.show("probes", ("probe", "s", "rounds of W2"), rows)


def probes_of(strategy, data: Examples, test: Examples) -> dict[str, Callable[[], float]]:
    """For each probe a function that gives its seconds, after a round of W2."""
    from tf_fedsam.analysis.probes import Probes

    process = works.process_of("W2", "fedavg", strategy, data, test=test, keep_local_models=True)
    state, _ = process.next(process.initialize(), works.cohort_of(0))
    shards = validation.same(process.dataset.partition, data.y, test.y, 10, 0)

    def one(name: str) -> Callable[[], float]:
        probes = Probes(process, [name], validation=shards, shards=shards)
        return lambda: probes(state)["probe_seconds"]

    return {name: one(name) for name in PROBES}
