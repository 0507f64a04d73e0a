"""Rounds over other ways to do the same steps."""

from __future__ import annotations  # of what is loaded later

import json
import sys
import time
from collections.abc import Callable

import numpy as np

from launch.benchmarks import tables, works
from launch.benchmarks.measuring import How, elsewhere, medians
from tf_fedsam import devices
from tf_fedsam.algorithms.registry import accounting
from tf_fedsam.lazy import tf


def over_raw_loop(how: How) -> None:
    """W1 and W2 over a raw loop of the same steps, and W3 over W2."""
    strategy, rows = how.strategy(), []
    for work, methods in (("W1", ("fedavg",)), ("W2", ("fedavg", "fedsam"))):
        data = works.examples(work)
        with elsewhere(f"--raw={work}") as raw:
            measured: dict[str, Callable[[], float]] = {"raw": raw}
            measured |= {m: works.rounds_of(work, m, strategy, data) for m in methods}
            took = medians(measured, how.repeats)
        rows.append(
            (
                work,
                "FedAvg",
                f"{took['fedavg']:.3f}",
                f"{took['raw']:.3f}",
                f"{took['fedavg'] / took['raw']:.2f} x the raw loop",
            )
        )
        if "fedsam" in took:
            rows.append(
                (
                    "W3",
                    "FedSAM",
                    f"{took['fedsam']:.3f}",
                    "",
                    f"{took['fedsam'] / took['fedavg']:.2f} x W2",
                )
            )
    tables.show("rounds", ("work", "method", "s a round", "raw loop", "ratio"), rows)


def of_methods(how: How) -> None:
    """Every method over FedAvg."""
    strategy = how.strategy()
    chosen = how.only or [name for name in works.methods() if name != "fedavg"]
    ratios: dict[str, dict[str, float]] = {}
    for work in how.works:
        data = works.examples(work)
        measured = {m: works.rounds_of(work, m, strategy, data) for m in ("fedavg", *chosen)}
        took = medians(measured, how.repeats)
        ratios[work] = {method: took[method] / took["fedavg"] for method in chosen}
    rows = [
        (m, accounting(works.algorithm_of(m))[3], *(f"{ratios[w][m]:.2f}" for w in how.works))
        for m in chosen
    ]
    header = ("method", "gradients a step", *(f"{work}: x FedAvg" for work in how.works))
    tables.show("algorithms", header, rows)


def deterministic(how: How) -> None:
    """Deterministic ops over TensorFlow's own choice."""
    rows = []
    for work in works.EPOCHS:
        same = f"--serve={work}", f"--devices={how.devices}"
        with elsewhere(*same) as usual, elsewhere(*same, "--deterministic") as fixed:
            took = medians({"usual": usual, "deterministic": fixed}, how.repeats)
        ratio = took["deterministic"] / took["usual"]
        rows.append((work, *(f"{value:.3f}" for value in took.values()), f"{ratio:.2f}"))
    tables.show("deterministic", ("work", "s a round", "deterministic", "ratio"), rows)


def xla(how: How) -> None:
    """Local steps that XLA compiles over such that it does not."""
    strategy, rows = how.strategy(), []
    for work in works.EPOCHS:
        data = works.examples(work)
        measured = {
            name: works.rounds_of(work, "fedavg", strategy, data, xla=compiled)
            for name, compiled in (("usual", False), ("xla", True))
        }
        took = medians(measured, how.repeats)
        ratio = took["xla"] / took["usual"]
        rows.append((work, *(f"{value:.3f}" for value in took.values()), f"{ratio:.2f}"))
    tables.show("xla", ("work", "s a round", "with XLA", "ratio"), rows)


def serve(work: str, how: How) -> None:
    """Runs one round for every line on stdin, with deterministic ops if the flag says so."""
    if how.deterministic:
        tf.config.experimental.enable_op_determinism()
    strategy = devices.make_strategy(how.devices)
    one_round = works.rounds_of(work, "fedavg", strategy, works.examples(work))
    for _ in sys.stdin:
        print(json.dumps(one_round()), flush=True)


def serve_raw_loop(work: str) -> None:
    """Runs the steps of one round for every line on stdin; a process of its own, since threads and
    logical devices can only be set once."""
    data, model = works.examples(work), works.network(work)
    x, y = tf.constant(data.x), tf.constant(data.y.astype(np.int32))
    variables = [v.value for v in model.trainable_variables]
    steps = works.COHORT * works.EPOCHS[work] * works.CLIENT_SIZE // works.BATCH

    @tf.function(autograph=False)
    def run(order):
        def step(k):
            indices = tf.slice(order, [k * works.BATCH], [works.BATCH])
            inputs = tf.cast(tf.gather(x, indices), tf.float32) * (1 / 255)
            with tf.GradientTape() as tape:
                logits = model(inputs, training=True)
                labels = tf.gather(y, indices)
                loss = tf.reduce_mean(
                    tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
                )
            for variable, g in zip(variables, tape.gradient(loss, variables), strict=True):
                variable.assign_sub(0.01 * g)
            return (k + 1,)

        return tf.while_loop(lambda k: k < steps, step, (0,), parallel_iterations=1)

    generator = np.random.default_rng(0)
    for _ in sys.stdin:
        order = tf.constant(generator.integers(0, len(data), steps * works.BATCH).astype(np.int32))
        began = time.perf_counter()
        run(order)[0].numpy()
        print(json.dumps(time.perf_counter() - began), flush=True)
