"""A round on many machines."""

from __future__ import annotations  # of what is loaded later

import math
import time
from typing import TYPE_CHECKING

from launch.benchmarks import tables, works
from launch.benchmarks.measuring import How, medians
from tf_fedsam import text
from tf_fedsam.algorithms.registry import find

if TYPE_CHECKING:
    from tf_fedsam.process import LearningProcess


NETWORK_SPEEDS = {"at 1 Gbit/s": 1e9, "at 10": 1e10, "at 100": 1e11}


def plan(how: How) -> None:
    """Rounds on many machines like this one: training, which is measured here, and the network.

    Seconds of training are those of a client on a device, times the clients of the device that has
    most. The network carries what the methods that run on it send, in a ring, at the given speed
    and without delay; while it does, nobody trains.
    """
    strategy = how.strategy()
    devices_here, rows = strategy.num_replicas_in_sync, []
    replicas = how.workers * devices_here
    for work in works.EPOCHS:
        data = works.examples(work)
        for method in how.only or ("fedavg", "scaffold"):
            process = works.process_of(work, method, strategy, data)
            one_client = seconds_a_client(process, devices_here, how.repeats)
            server = process.initialize().server
            for cohort in sorted({works.COHORT, replicas, 10 * replicas}):
                trains = one_client * math.ceil(cohort / replicas)
                sent = process.engine.network_bytes(server, cohort, replicas) if replicas > 1 else 0
                network = (8 * sent / speed for speed in NETWORK_SPEEDS.values())
                told = f"{cohort:,}", f"{trains:.3f}", text.size(sent)
                rows.append((work, find(method).title, *told, *(f"{s:.3f}" for s in network)))
    text.say(f"{how.workers} machines with {devices_here} devices each; seconds of a round")
    header = ("work", "method", "clients", "training", "each sends", *NETWORK_SPEEDS)
    tables.show("plan", header, rows)


def seconds_a_client(process: LearningProcess, num_devices: int, repeats: int) -> float:
    """Of training on one device, while the others train as well."""
    state, clients = process.initialize(), 4 * num_devices

    def one_round() -> float:
        nonlocal state
        began = time.perf_counter()
        state, _ = process.next(state, range(clients))
        return time.perf_counter() - began

    return medians({"round": one_round}, repeats)["round"] * num_devices / clients
