"""A local step of every model: seconds and memory."""

from __future__ import annotations  # of what is loaded later

import json
import resource
import time

import numpy as np

from launch.benchmarks import tables
from launch.benchmarks.measuring import How, elsewhere
from launch.command_line.exits import DONE, FAILED
from tf_fedsam import devices, models, text
from tf_fedsam.algorithms.registry import find
from tf_fedsam.data.federated_dataset import FederatedDataset, Preprocess
from tf_fedsam.options import TrainingOptions

# Name, input, classes, batch of the papers' experiments with it, local steps that are measured.
NETWORKS = {
    "linear": ("linear", (28, 28, 1), 62, 32, 200),
    "mlp": ("mlp", (28, 28, 1), 62, 32, 200),
    "cnn": ("cnn", (28, 28, 1), 62, 32, 20),
    "lenet5": ("lenet5", (32, 32, 3), 10, 50, 20),
    "vgg11": ("vgg11", (32, 32, 3), 10, 50, 4),
    "resnet18": ("resnet18", (32, 32, 3), 10, 50, 4),
    "resnet18-cifar": ("resnet18", (32, 32, 3), 10, 50, 1),
    "resnet34": ("resnet34", (32, 32, 3), 100, 50, 2),
    "resnet50": ("resnet50", (64, 64, 3), 65, 50, 1),
    "vit_b16": ("vit_b16", (224, 224, 3), 200, 16, 1),
    "swin_s": ("swin_s", (224, 224, 3), 200, 16, 1),
    "swin_b": ("swin_b", (224, 224, 3), 200, 16, 1),
}


def steps(how: How) -> int:
    """Each model in a process of its own; one client on each device, all with as many steps.

    Seconds a step are those of a round over the steps of all its clients.
    """
    rows, code = [], DONE
    for name in how.only or NETWORKS:
        _, shape, _, batch, _ = NETWORKS[name]
        found: dict[str, dict[str, float]] = {}
        for method in ("fedavg", "fedsam"):
            args = [f"--step_of={name}:{method}", f"--devices={how.devices}"]
            args += [f"--repeats={how.repeats}"]
            args += [f"--microbatch={how.microbatch}"] if how.microbatch else []
            args += ["--remat"] if how.remat else []
            try:
                with elsewhere(*args) as ask:
                    found[method] = ask()
            except ChildProcessError as error:
                text.say(f"error: {error}")
                code = FAILED
        if len(found) < 2:
            continue
        plain, sam = found["fedavg"], found["fedsam"]
        rows.append(
            (
                name,
                "x".join(map(str, shape)),
                batch,
                f"{plain['parameters']:,}",
                f"{plain['seconds']:.3g}",
                f"{sam['seconds']:.3g}",
                f"{sam['seconds'] / plain['seconds']:.2f}",
                *(text.size(x["peak_bytes"]) for x in (plain, sam)),
            )
        )
        text.say("  ".join(map(str, rows[-1])))
    header = ("model", "input", "batch", "parameters", "FedAvg s/step", "FedSAM s/step", "ratio")
    tables.show("models", (*header, "FedAvg peak", "FedSAM peak"), rows)
    return code


def serve(what: str, how: How) -> None:
    """Seconds a local step, memory and size of one model with one method, as one line of JSON."""
    from tf_fedsam.process import LearningProcess

    name, method = what.split(":")
    model, shape, classes, batch, steps = NETWORKS[name]
    options = {"stem": "cifar"} if name.endswith("-cifar") else {}
    strategy = devices.make_strategy(how.devices)
    count = strategy.num_replicas_in_sync
    generator = np.random.default_rng(0)
    x = generator.integers(0, 256, (count * batch, *shape), dtype=np.uint8)
    owner = np.repeat(np.arange(count), batch)
    labels = generator.integers(0, classes, count * batch)
    process = LearningProcess(
        lambda: models.build(model, shape, classes, {**models.options(model), **options}),
        find(method)(),
        FederatedDataset.from_arrays(
            x, labels, owner, num_classes=classes, preprocess=Preprocess(scale=1 / 255)
        ),
        options=TrainingOptions(
            batch_size=batch,
            local_steps=steps,
            lr=1e-3,
            microbatch=how.microbatch,
            remat=how.remat,
        ),
        strategy=strategy,
    )
    state, seconds = process.initialize(), []
    for _ in range(1 + (how.repeats if steps > 1 else 1)):
        began = time.perf_counter()
        state, _ = process.next(state, range(count))
        seconds.append((time.perf_counter() - began) / steps / count)
    answer = {
        "seconds": float(np.median(seconds[1:])),  # the first one traces
        "peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "parameters": process.num_parameters,
    }
    print(json.dumps(answer), flush=True)
