"""How fast rounds are, beside a raw compiled loop of the same steps; ratios, in one run.

    python -m launch.bench                        W1, W2 and W3
    python -m launch.bench --algorithms           every method over FedAvg, on W1 and W2
    python -m launch.bench --checkpoints          a checkpoint each round over none
    python -m launch.bench --deterministic        deterministic ops over TensorFlow's own choice
    python -m launch.bench --analysis             tests and diagnostics each round over none, on W2
    python -m launch.bench --models               every model: a step of FedAvg and FedSAM, memory

W1: 100 clients x 600 images of 28 x 28, 10 clients a round, 5 local epochs, batch 50, a perceptron
784-200-100-10, FedAvg. W2: the same clients, a convolutional network, 1 local epoch, FedAvg.
W3: W2 with FedSAM. The images are random, so nothing is downloaded. The raw loop runs the same
number of the same SGD steps, one after another, with TensorFlow's default threads, without clients.
Rounds of the two are measured in turn, so that a noisy machine disturbs both alike.
"""

import contextlib
import json
import pathlib
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl import flags

from launch import exits, terminal
from launch.exits import DONE, FAILED
from tf_fedsam import devices, models
from tf_fedsam.algorithms.registry import all_algorithms, find
from tf_fedsam.data.federated_dataset import Examples, FederatedDataset, Preprocess
from tf_fedsam.data.partition import iid
from tf_fedsam.errors import InputError
from tf_fedsam.options import TrainingOptions
from tf_fedsam.process import LearningProcess
from tf_fedsam.state.checkpoint import CheckpointWriter

FLAGS = flags.FlagValues()  # its own: some names mean something else in launch.main


def _define() -> None:
    mine: Any = {"flag_values": FLAGS}
    yes, text, whole = flags.DEFINE_bool, flags.DEFINE_string, flags.DEFINE_integer
    yes("algorithms", False, "Every method's round over FedAvg's.", **mine)
    yes("checkpoints", False, "Rounds with a checkpoint over without.", **mine)
    yes("deterministic", False, "What deterministic ops cost.", **mine)
    yes("analysis", False, "What tests and diagnostics of a round cost.", **mine)
    yes("models", False, "Seconds a step and memory of every model.", **mine)
    whole("repeats", 5, "Measured rounds of each; the median counts.", **mine)
    text("devices", "auto", "auto, cpu:N or gpu:N.", **mine)
    flags.DEFINE_list("only", None, "With --algorithms or --models: some of them.", **mine)
    whole("microbatch", None, "With --models: as in launch.main.", **mine)
    text("step_of", None, "For itself: run steps of this model and answer on stdout.", **mine)
    text("raw", None, "For itself: run the raw loop of this work and answer on stdout.", **mine)
    text("serve", None, "For itself: run rounds of this work and answer on stdout.", **mine)


_define()
MODES = ("algorithms", "checkpoints", "deterministic", "analysis", "models")

NUM_CLIENTS, CLIENT_SIZE, COHORT, BATCH = 100, 600, 10, 50
EPOCHS = {"W1": 5, "W2": 1}
IMAGE = {"W1": (784,), "W2": (28, 28, 1)}


def main(args: Sequence[str]) -> int:
    parse(args)
    for work, answer in (
        (FLAGS.raw, serve_raw_loop),
        (FLAGS.serve, serve_rounds),
        (FLAGS.step_of, serve_steps),
    ):
        if work is not None:
            answer(work)
            return DONE
    if FLAGS.models:
        return compare_models()
    strategy = devices.make_strategy(FLAGS.devices)
    terminal.say(f"devices: {', '.join(strategy.extended.worker_devices)}\n")
    if FLAGS.algorithms:
        compare_algorithms(strategy)
    elif FLAGS.checkpoints:
        compare_checkpoints(strategy)
    elif FLAGS.deterministic:
        compare_determinism()
    elif FLAGS.analysis:
        compare_analysis(strategy)
    else:
        compare_with_raw_loop(strategy)
    return DONE


def parse(args: Sequence[str]) -> None:
    """Parses a command line, without the program's name, and checks it."""
    for name in FLAGS:
        FLAGS[name].unparse()
    try:
        rest = FLAGS(["launch.bench", *args])[1:]
    except flags.Error as error:
        raise InputError(f"{str(error).rstrip('.')}. See --help for all flags.") from None
    if rest:
        raise InputError(f"Every argument is a flag, --name=value. Received: {' '.join(rest)!r}.")
    chosen = [f"--{mode}" for mode in MODES if FLAGS[mode].value]
    if len(chosen) > 1:
        raise InputError(
            f"One thing is measured at a time. Received: {' '.join(chosen)}. Keep one of them."
        )
    for name in ("repeats", "microbatch"):
        value: Any = FLAGS[name].value
        if value is not None and value < 1:
            raise InputError(f"--{name} must be at least 1. Received: {value}.")
    if FLAGS.only is not None and not (FLAGS.models or FLAGS.algorithms):
        raise InputError("--only needs --algorithms or --models. Add one, or remove --only.")
    names = list(NETWORKS) if FLAGS.models else list(all_algorithms())
    wrong = [name for name in FLAGS.only or () if name not in names]
    if wrong:
        raise InputError(
            f"--only has unknown names. Received: {', '.join(wrong)}. Expected: {', '.join(names)}."
        )
    if FLAGS.microbatch is not None and not (FLAGS.models or FLAGS.step_of):
        raise InputError("--microbatch needs --models. Add it, or remove --microbatch.")


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
    work: str, method: str, strategy, data: Examples, diagnostics: bool = True
) -> LearningProcess:
    return LearningProcess(
        lambda: network(work),
        find(method)(),
        FederatedDataset(
            data, iid(len(data), NUM_CLIENTS, seed=0), preprocess=Preprocess(scale=1 / 255)
        ),
        options=TrainingOptions(
            batch_size=BATCH,
            local_epochs=EPOCHS[work],
            weight_decay=0.0,
            clip_norm=None,
            lr=0.01,
            diagnostics=diagnostics,
        ),
        strategy=strategy,
    )


def cohort_of(round_num: int) -> np.ndarray:
    return np.random.default_rng(round_num).choice(NUM_CLIENTS, COHORT, replace=False)


def rounds_of(work: str, method: str, strategy, data: Examples) -> Callable[[], float]:
    """A function that runs one more round and gives its seconds."""
    process = process_of(work, method, strategy, data)
    state = process.initialize()

    def one_round() -> float:
        nonlocal state
        cohort = cohort_of(state.round_num)
        began = time.perf_counter()
        state, _ = process.next(state, cohort)
        return time.perf_counter() - began

    return one_round


def serve_raw_loop(work: str) -> None:
    """Runs the steps of one round for every line on stdin; a process of its own, since threads and
    logical devices can only be set once."""
    data, model = examples(work), network(work)
    x, y = tf.constant(data.x), tf.constant(data.y.astype(np.int32))
    variables = [v.value for v in model.trainable_variables]
    steps = COHORT * EPOCHS[work] * CLIENT_SIZE // BATCH

    @tf.function(autograph=False)
    def run(order):
        def step(k):
            indices = tf.slice(order, [k * BATCH], [BATCH])
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
        order = tf.constant(generator.integers(0, len(data), steps * BATCH).astype(np.int32))
        began = time.perf_counter()
        run(order)[0].numpy()
        print(json.dumps(time.perf_counter() - began), flush=True)


def serve_rounds(work: str) -> None:
    """Runs one round for every line on stdin, with deterministic ops if the flag says so."""
    if FLAGS.deterministic:
        tf.config.experimental.enable_op_determinism()
    strategy = devices.make_strategy(FLAGS.devices)
    one_round = rounds_of(work, "fedavg", strategy, examples(work))
    for _ in sys.stdin:
        print(json.dumps(one_round()), flush=True)


@contextlib.contextmanager
def elsewhere(*args: str) -> Iterator[Callable[[], Any]]:
    """Work in its own process; each call asks for one answer."""
    command = ["-m", "launch.bench", *args]
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            bufsize=0,
        ) as process,
    ):

        def ask() -> Any:
            assert process.stdin is not None
            assert process.stdout is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(b"\n")
            line = process.stdout.readline()
            if line:
                return json.loads(line)
            code = process.wait()
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip().splitlines()
            reason = said[-1] if said else "it said nothing"
            if code == -signal.SIGKILL:
                reason = "it was killed, most likely because the machine ran out of memory"
            raise ChildProcessError(f"{shlex.join(command)} failed: {reason}")

        try:
            yield ask
        finally:
            process.kill()


def medians(measured: dict[str, Callable[[], float]]) -> dict[str, float]:
    """Runs all in turn, after one unmeasured round each."""
    for run in measured.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in measured}
    for _ in range(FLAGS.repeats):
        for name, run in measured.items():
            seconds[name].append(run())
    return {name: float(np.median(values)) for name, values in seconds.items()}


def compare_with_raw_loop(strategy) -> None:
    rows = []
    for work, methods in (("W1", ("fedavg",)), ("W2", ("fedavg", "fedsam"))):
        data = examples(work)
        with elsewhere(f"--raw={work}") as raw:
            measured: dict[str, Callable[[], float]] = {"raw": raw}
            measured |= {m: rounds_of(work, m, strategy, data) for m in methods}
            took = medians(measured)
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
    terminal.say(terminal.grid(("work", "method", "s a round", "raw loop", "ratio"), rows))


def compare_algorithms(strategy) -> None:
    chosen = FLAGS.only or [name for name in all_algorithms() if name != "fedavg"]
    ratios: dict[str, dict[str, float]] = {}
    for work in EPOCHS:
        data = examples(work)
        took = medians({m: rounds_of(work, m, strategy, data) for m in ("fedavg", *chosen)})
        ratios[work] = {method: took[method] / took["fedavg"] for method in chosen}
    rows = [
        (m, find(m).Client.gradients_per_step, *(f"{ratios[w][m]:.2f}" for w in EPOCHS))
        for m in chosen
    ]
    header = ("method", "gradients a step", *(f"{work}: x FedAvg" for work in EPOCHS))
    terminal.say(terminal.grid(header, rows))


def compare_analysis(strategy) -> None:
    """W2 with a test on 10,000 images and the diagnostics of every round, over W2 without.

    A round of W2 trains on 6,000 images, about as much work as a test on 18,000.
    """
    data, images = examples("W2"), 10_000
    test = Examples(data.x[:images], data.y[:images])
    plain = process_of("W2", "fedavg", strategy, data, diagnostics=False)
    whole = process_of("W2", "fedavg", strategy, data)
    states = {"plain": plain.initialize(), "rounds": whole.initialize()}

    def run(process: LearningProcess, name: str) -> float:
        began = time.perf_counter()
        states[name], _ = process.next(states[name], cohort_of(states[name].round_num))
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
        }
    )
    seconds = {
        "W2 alone": took["plain"],
        "with diagnostics": took["rounds"],
        "and a test every 5 rounds": took["rounds"] + took["test"] / 5,
        "and a test every round": took["rounds"] + took["test"],
    }
    rows = [(n, f"{s:.3f}", f"{s / took['plain']:.3f}") for n, s in seconds.items()]
    terminal.say(terminal.grid(("W2", "s a round", "ratio"), rows))


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


def compare_models() -> int:
    """Each model in a process of its own; one client on each device, all with as many steps.

    Seconds a step are those of a round over the steps of all its clients.
    """
    rows, code = [], DONE
    for name in FLAGS.only or NETWORKS:
        _, shape, _, batch, _ = NETWORKS[name]
        found: dict[str, dict[str, float]] = {}
        for method in ("fedavg", "fedsam"):
            args = [f"--step_of={name}:{method}", f"--devices={FLAGS.devices}"]
            args += [f"--repeats={FLAGS.repeats}"]
            args += [f"--microbatch={FLAGS.microbatch}"] if FLAGS.microbatch else []
            try:
                with elsewhere(*args) as steps:
                    found[method] = steps()
            except ChildProcessError as error:
                terminal.say(f"error: {error}")
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
                *(terminal.size(x["peak_bytes"]) for x in (plain, sam)),
            )
        )
        terminal.say("  ".join(map(str, rows[-1])))
    header = ("model", "input", "batch", "parameters", "FedAvg s/step", "FedSAM s/step", "ratio")
    terminal.say(terminal.grid((*header, "FedAvg peak", "FedSAM peak"), rows))
    return code


def serve_steps(what: str) -> None:
    """Seconds a local step, memory and size of one model with one method, as one line of JSON."""
    name, method = what.split(":")
    model, shape, classes, batch, steps = NETWORKS[name]
    options = {"stem": "cifar"} if name.endswith("-cifar") else {}
    strategy = devices.make_strategy(FLAGS.devices)
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
            batch_size=batch, local_steps=steps, lr=1e-3, microbatch=FLAGS.microbatch
        ),
        strategy=strategy,
    )
    state, seconds = process.initialize(), []
    for _ in range(1 + (FLAGS.repeats if steps > 1 else 1)):
        began = time.perf_counter()
        state, _ = process.next(state, range(count))
        seconds.append((time.perf_counter() - began) / steps / count)
    answer = {
        "seconds": float(np.median(seconds[1:])),  # the first one traces
        "peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "parameters": process.num_parameters,
    }
    print(json.dumps(answer), flush=True)


def compare_checkpoints(strategy) -> None:
    """Rounds without and with a checkpoint, in turn; the ratio is the median over such pairs.

    Here a round with a checkpoint ends when that is on the disk, though training would go on
    meanwhile, so the ratio is an upper bound. How long training really waits stands beside it.
    """
    rows = []
    pathlib.Path("runs").mkdir(exist_ok=True)  # on the disk that runs are on
    for work, method in (("W1", "fedavg"), ("W2", "fedavg"), ("W1", "scaffold")):
        process = process_of(work, method, strategy, examples(work))
        state = process.initialize()
        seconds: dict[bool, list[float]] = {False: [], True: []}
        waits: list[float] = []
        with (
            tempfile.TemporaryDirectory(dir="runs") as folder,
            CheckpointWriter(pathlib.Path(folder)) as checkpoints,
        ):
            for _ in range(1 + FLAGS.repeats):
                for saving, measured in seconds.items():
                    began = time.perf_counter()
                    state, _ = process.next(state, cohort_of(state.round_num))
                    if saving:
                        called = time.perf_counter()
                        checkpoints.save(state, {})
                        waits.append(time.perf_counter() - called)
                        checkpoints.flush()
                    measured.append(time.perf_counter() - began)
        without, with_ = (np.asarray(seconds[s][1:]) for s in (False, True))  # the first traces
        ratio = np.median(with_ / without)
        times = f"{np.median(without):.3f}", f"{np.median(with_):.3f}"
        wait = f"{1000 * np.median(waits):.2f} ms"
        rows.append((work, find(method).title, *times, f"{ratio:.3f}", wait))
    header = ("work", "method", "s a round", "with checkpoint", "ratio", "training waits")
    terminal.say(terminal.grid(header, rows))


def compare_determinism() -> None:
    rows = []
    for work in EPOCHS:
        same = f"--serve={work}", f"--devices={FLAGS.devices}"
        with elsewhere(*same) as usual, elsewhere(*same, "--deterministic") as deterministic:
            took = medians({"usual": usual, "deterministic": deterministic})
        ratio = took["deterministic"] / took["usual"]
        rows.append((work, *(f"{value:.3f}" for value in took.values()), f"{ratio:.2f}"))
    terminal.say(terminal.grid(("work", "s a round", "deterministic", "ratio"), rows))


def run(args: Sequence[str]) -> int:
    """The launcher as a function of its arguments; gives the exit code."""
    if {"--help", "--helpshort", "-h"} & set(args):
        terminal.say(f"{__doc__}\n{FLAGS.get_help(include_special_flags=False)}")
        return DONE
    return exits.guarded(lambda: main(args), interrupted="Nothing is saved.")


def console() -> None:
    exits.console(lambda: run(sys.argv[1:]))


if __name__ == "__main__":
    console()
