"""How fast rounds are, beside a raw compiled loop of the same steps; ratios, in one run.

    python -m launch.bench        W1, W2 and W3
        --algorithms              every method, and FedAvg with SWA or DP, over
                                  FedAvg, on W1 and W2
        --checkpoints             a checkpoint each round over none
        --client_state            client state on the disk over in memory
        --deterministic           deterministic ops over TensorFlow's own choice
        --xla                     local steps compiled by XLA over without
        --analysis                tests and probes over a round of W2
        --models                  every model: a step with FedAvg and FedSAM
        --images                  images a second from files, over threads alone
        --plan --workers=100      a round on so many machines like this one

With --quick the first of them takes less than two minutes. --json=F.json keeps the numbers;
--baseline=F.json compares with those of another install.

W1: 100 clients x 600 images of 28 x 28, 10 clients a round, 5 local epochs, batch 50, a perceptron
784-200-100-10, FedAvg. W2: the same clients, a convolutional network, 1 local epoch, FedAvg.
W3: W2 with FedSAM. The images are random, so nothing is downloaded. The raw loop runs the same
number of the same SGD steps, one after another, with TensorFlow's default threads, without clients.
Rounds of the two are measured in turn, so that a noisy machine disturbs both alike.
"""

from __future__ import annotations  # of what is loaded later

from launch.command_line import start

start.begin(__name__)

import contextlib
import functools
import json
import math
import pathlib
import re
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import flags
from PIL import Image

import tf_fedsam
from launch.command_line import exits, own_flags
from launch.command_line.exits import DONE, FAILED
from tasks.formats import image_folder, images
from tf_fedsam import devices, models, paths, text
from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.algorithms.dp import DP
from tf_fedsam.algorithms.fedavg import FedAvg
from tf_fedsam.algorithms.registry import accounting, all_algorithms, find
from tf_fedsam.algorithms.swa import SWA
from tf_fedsam.analysis.probe_list import NAMES as PROBES
from tf_fedsam.data import validation
from tf_fedsam.data.federated_dataset import Examples, FederatedDataset, Preprocess
from tf_fedsam.data.partition import iid
from tf_fedsam.errors import InputError
from tf_fedsam.lazy import keras, tf
from tf_fedsam.options import TrainingOptions
from tf_fedsam.state.files import write_atomically

if TYPE_CHECKING:
    from tf_fedsam.process import LearningProcess

FLAGS = own_flags.new()


def _define() -> None:
    mine: Any = {"flag_values": FLAGS}
    yes, word, whole = flags.DEFINE_bool, flags.DEFINE_string, flags.DEFINE_integer
    yes("algorithms", False, "Every method's round over FedAvg's.", **mine)
    yes("checkpoints", False, "Rounds with a checkpoint over without.", **mine)
    yes("client_state", False, "Rounds with client state on the disk over in memory.", **mine)
    yes("deterministic", False, "What deterministic ops cost.", **mine)
    yes("xla", False, "Rounds whose local steps XLA compiles over without.", **mine)
    yes("analysis", False, "What tests, diagnostics and probes cost.", **mine)
    yes("models", False, "Seconds a step and memory of every model.", **mine)
    yes("images", False, "Images a second that are decoded from files.", **mine)
    yes("plan", False, "What a network must carry, beside the seconds of training.", **mine)
    whole("workers", 100, "With --plan: machines.", **mine)
    yes("quick", False, "At most two repeats.", **mine)
    word("json", None, "Also write the tables to this file.", **mine)
    word("baseline", None, "Compare with the tables that --json wrote.", **mine)
    whole("repeats", 5, "Measured rounds of each; the median counts.", **mine)
    word("devices", "auto", "auto, cpu:N or gpu:N.", **mine)
    flags.DEFINE_list("only", None, "With --algorithms, --models or --plan: some of them.", **mine)
    whole("microbatch", None, "With --models: as in launch.main.", **mine)
    yes("remat", False, "With --models: as in launch.main, for transformers.", **mine)
    word("step_of", None, "For itself: run steps of this model and answer on stdout.", **mine)
    word("raw", None, "For itself: run the raw loop of this work and answer on stdout.", **mine)
    word("serve", None, "For itself: run rounds of this work and answer on stdout.", **mine)


_define()
MODES = (
    *("algorithms", "checkpoints", "client_state", "deterministic", "analysis", "models"),
    *("xla", "images", "plan"),
)

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


def main(args: Sequence[str]) -> int:
    if own_flags.helped(FLAGS, args, __doc__):
        return DONE
    parse(args)
    with start.loaded(__name__):
        pass
    for work, answer in (
        (FLAGS.raw, serve_raw_loop),
        (FLAGS.serve, serve_rounds),
        (FLAGS.step_of, serve_steps),
    ):
        if work is not None:
            answer(work)
            return DONE
    then = read_tables(FLAGS.baseline) if FLAGS.baseline is not None else {}
    tables.clear()
    code = measure()
    for name, (header, rows) in tables.items():
        if name in then:
            text.say(f"\n{name}, over {FLAGS.baseline}")
            text.say(text.grid(*over(then[name], header, rows)))
    if FLAGS.json is not None:
        write_tables(FLAGS.json, args)
    return code


def measure() -> int:
    """What was asked for; gives the exit code."""
    if FLAGS.models:
        return compare_models()
    strategy = devices.make_strategy(FLAGS.devices)
    text.say(f"devices: {', '.join(strategy.extended.worker_devices)}\n")
    if FLAGS.algorithms:
        compare_algorithms(strategy)
    elif FLAGS.checkpoints:
        compare_checkpoints(strategy)
    elif FLAGS.client_state:
        compare_client_state(strategy)
    elif FLAGS.deterministic:
        compare_determinism()
    elif FLAGS.xla:
        compare_xla(strategy)
    elif FLAGS.analysis:
        compare_analysis(strategy)
    elif FLAGS.images:
        compare_decoding()
    elif FLAGS.plan:
        plan(strategy)
    else:
        compare_with_raw_loop(strategy)
    return DONE


tables: dict[str, tuple[Sequence[str], list]] = {}  # by name, what was measured


def show(name: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Prints a table and keeps it."""
    text.say(text.grid(header, rows))
    tables[name] = list(header), [[str(cell) for cell in row] for row in rows]


def write_tables(path: str, args: Sequence[str]) -> None:
    content = {
        "command": shlex.join(["python", "-m", "launch.bench", *args]),
        "version": tf_fedsam.__version__,
        "tensorflow": tf.__version__,
        "cores": devices.available_cores(),
        "tables": {name: {"header": h, "rows": rows} for name, (h, rows) in tables.items()},
    }
    write_atomically(paths.expanded(path), (json.dumps(content, indent=1) + "\n").encode())


def read_tables(path: str) -> dict[str, list[list[str]]]:
    """The rows of the tables that a file of --json holds."""
    try:
        found = json.loads(paths.regular(paths.expanded(path)).read_text())["tables"]
        return {name: [list(map(str, row)) for row in t["rows"]] for name, t in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"--baseline must be a file that --json wrote. Received: {path!r} ({error})."
        ) from None


def over(
    then: Sequence[Sequence[str]], header: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[Sequence[str], list[list[str]]]:
    """Each number over that of another measurement; rows are known by their words."""

    def number(cell: str) -> float | None:
        match = re.match(r"-?[\d,]*\.?\d+(e-?\d+)?", cell)
        return float(match[0].replace(",", "")) if match else None

    def words(row: Sequence[str]) -> tuple[str, ...]:
        return tuple(re.sub(r"[\d.,]+", "", c) if number(c) is not None else c for c in row)

    before = {words(row): row for row in then}
    compared = []
    for row in rows:
        old = before.get(words(row))
        if old is None or len(old) != len(row):
            continue
        ratios = []
        for cell, other in zip(row, old, strict=True):
            now, was = number(cell), number(other)
            ratios.append(cell if now is None or not was else f"{now / was:.2f}")
        compared.append(ratios)
    return header, compared


def parse(args: Sequence[str]) -> None:
    """Parses a command line, without the program's name, and checks it."""
    own_flags.refuse_others(own_flags.parse(FLAGS, args))
    chosen = [f"--{mode}" for mode in MODES if FLAGS[mode].value]
    if len(chosen) > 1:
        raise InputError(
            f"One thing is measured at a time. Received: {' '.join(chosen)}. Keep one of them."
        )
    if FLAGS.quick:
        FLAGS["repeats"].value = min(FLAGS.repeats, 2)
    if FLAGS["workers"].present and not FLAGS.plan:
        raise InputError("--workers needs --plan. Add it, or remove --workers.")
    for name in ("repeats", "microbatch", "workers"):
        value: Any = FLAGS[name].value
        if value is not None and value < 1:
            raise InputError(f"--{name} must be at least 1. Received: {value}.")
    if FLAGS.only is not None and not (FLAGS.models or FLAGS.algorithms or FLAGS.plan):
        raise InputError(
            "--only needs --algorithms, --models or --plan. Add one, or remove --only."
        )
    names = list(NETWORKS) if FLAGS.models else [*all_algorithms(), *VARIANTS, *PLUG_INS]
    wrong = [name for name in FLAGS.only or () if name not in names]
    if wrong:
        raise InputError(
            f"--only has unknown names. Received: {', '.join(wrong)}. Expected: {', '.join(names)}."
        )
    for name in ("microbatch", "remat"):
        if FLAGS[name].value and not (FLAGS.models or FLAGS.step_of):
            raise InputError(f"--{name} needs --models. Add it, or remove --{name}.")


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


def least(measured: dict[str, Callable[[], float]]) -> dict[str, float]:
    """The least seconds of each, run in turn."""
    runs = [{name: run() for name, run in measured.items()} for _ in range(FLAGS.repeats)]
    return {name: min(run[name] for run in runs) for name in measured}


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
    show("rounds", ("work", "method", "s a round", "raw loop", "ratio"), rows)


def compare_algorithms(strategy) -> None:
    everything = [*all_algorithms(), *VARIANTS, *PLUG_INS]
    chosen = FLAGS.only or [name for name in everything if name != "fedavg"]
    ratios: dict[str, dict[str, float]] = {}
    for work in EPOCHS:
        data = examples(work)
        took = medians({m: rounds_of(work, m, strategy, data) for m in ("fedavg", *chosen)})
        ratios[work] = {method: took[method] / took["fedavg"] for method in chosen}
    rows = [
        (m, accounting(algorithm_of(m))[3], *(f"{ratios[w][m]:.2f}" for w in EPOCHS))
        for m in chosen
    ]
    header = ("method", "gradients a step", *(f"{work}: x FedAvg" for work in EPOCHS))
    show("algorithms", header, rows)


def compare_xla(strategy) -> None:
    rows = []
    for work in EPOCHS:
        data = examples(work)
        took = medians(
            {
                name: rounds_of(work, "fedavg", strategy, data, xla=name == "xla")
                for name in ("", "xla")
            }
        )
        rows.append((work, *(f"{t:.3f}" for t in took.values()), f"{took['xla'] / took['']:.2f}"))
    show("xla", ("work", "s a round", "with XLA", "ratio"), rows)


def plan(strategy) -> None:
    """Rounds on many machines like this one: training, which is measured here, and the network.

    Seconds of training are those of a client on a device, times the clients of the device that has
    most. The network carries what the methods that run on it send, in a ring, at the given speed
    and without delay; while it does, nobody trains.
    """
    devices_here, rows = strategy.num_replicas_in_sync, []
    replicas = FLAGS.workers * devices_here
    for work in EPOCHS:
        data = examples(work)
        for method in FLAGS.only or ("fedavg", "scaffold"):
            process = process_of(work, method, strategy, data)
            one_client = seconds_a_client(process, devices_here)
            server = process.initialize().server
            for cohort in sorted({COHORT, replicas, 10 * replicas}):
                trains = one_client * math.ceil(cohort / replicas)
                sent = process.engine.network_bytes(server, cohort, replicas) if replicas > 1 else 0
                network = (8 * sent / speed for speed in NETWORK_SPEEDS.values())
                told = f"{cohort:,}", f"{trains:.3f}", text.size(sent)
                rows.append((work, find(method).title, *told, *(f"{s:.3f}" for s in network)))
    text.say(f"{FLAGS.workers} machines with {devices_here} devices each; seconds of a round")
    header = ("work", "method", "clients", "training", "each sends", *NETWORK_SPEEDS)
    show("plan", header, rows)


NETWORK_SPEEDS = {"at 1 Gbit/s": 1e9, "at 10": 1e10, "at 100": 1e11}


def seconds_a_client(process: LearningProcess, num_devices: int) -> float:
    """Of training on one device, while the others train as well."""
    state, clients = process.initialize(), 4 * num_devices

    def one_round() -> float:
        nonlocal state
        began = time.perf_counter()
        state, _ = process.next(state, range(clients))
        return time.perf_counter() - began

    return medians({"round": one_round})["round"] * num_devices / clients


def compare_analysis(strategy) -> None:
    """W2 with a test on 10,000 images and the diagnostics of every round, over W2 without.

    A round of W2 trains on 6,000 images, about as much work as a test on 18,000. Then each probe by
    itself, with its defaults.
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
    show("analysis", ("W2", "s a round", "ratio"), rows)
    took |= medians(probes_of(strategy, data, test))
    rows = [(n, f"{took[n]:.3f}", f"{took[n] / took['plain']:.2f}") for n in PROBES]
    show("probes", ("probe", "s", "rounds of W2"), rows)


def probes_of(strategy, data: Examples, test: Examples) -> dict[str, Callable[[], float]]:
    """For each probe a function that gives its seconds, after a round of W2."""
    from tf_fedsam.analysis.probes import Probes

    process = process_of("W2", "fedavg", strategy, data, test=test, keep_local_models=True)
    state, _ = process.next(process.initialize(), cohort_of(0))
    shards = validation.same(process.dataset.partition, data.y, test.y, 10, 0)

    def one(name: str) -> Callable[[], float]:
        probes = Probes(process, [name], validation=shards, shards=shards)
        return lambda: probes(state)["probe_seconds"]

    return {name: one(name) for name in PROBES}


def compare_decoding() -> None:
    """Images of files in cohorts, the next one prefetched, over the same decoder in a thread pool.

    The files are drawn, and each is decoded once a measurement. Seconds are the least of all, since
    what else a machine does can only add to them.
    """
    rows = []
    for form, side, size in DECODED:
        with tempfile.TemporaryDirectory() as folder:
            read = image_folder.reader(draw_files(pathlib.Path(folder), form, side))
            runs = {"pool": pooled, "pipeline": piped}
            took = least({name: functools.partial(run, read, size) for name, run in runs.items()})
        rows.append(
            (
                f"{form}, {side} x {side} to {size} x {size}",
                *(f"{NUM_FILES / took[name]:,.0f}" for name in ("pipeline", "pool")),
                f"{took['pool'] / took['pipeline']:.2f}",
            )
        )
    show("images", ("files", "images a second", "thread pool", "ratio"), rows)


DECODED = (("JPEG", 64, 64), ("PNG", 64, 64), ("JPEG", 256, 64), ("PNG", 32, 32))
NUM_FILES, NUM_COHORTS = 4_000, 4


def draw_files(folder: pathlib.Path, form: str, side: int) -> list[pathlib.Path]:
    """Smooth colours, which compress about as photographs do."""
    generator, files = np.random.default_rng(0), []
    for number in range(NUM_FILES):
        colours = Image.fromarray(generator.integers(0, 256, (8, 8, 3), dtype=np.uint8))
        files.append(folder / f"{number}.{form.lower()}")
        colours.resize((side, side), Image.Resampling.BICUBIC).save(files[-1], form)
    return files


def piped(read: images.Read, size: int) -> float:
    stored = images.stored(read, NUM_FILES, size)
    stored[:1]  # is built
    cohorts = np.array_split(np.random.default_rng(0).permutation(NUM_FILES), NUM_COHORTS)
    began = time.perf_counter()
    for cohort, following in zip(cohorts, [*cohorts[1:], cohorts[0]], strict=True):
        _ = stored[cohort]
        stored.prefetch(following)
    return time.perf_counter() - began


def pooled(read: images.Read, size: int) -> float:
    result = np.empty((NUM_FILES, size, size, 3), np.uint8)

    def decode(start: int) -> None:
        for number in range(start, min(start + 64, NUM_FILES)):
            result[number] = images.decode_image(*read(number), size)

    began = time.perf_counter()
    with ThreadPoolExecutor(min(8, devices.available_cores())) as pool:
        for _ in pool.map(decode, range(0, NUM_FILES, 64)):
            pass
    return time.perf_counter() - began


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
            args += ["--remat"] if FLAGS.remat else []
            try:
                with elsewhere(*args) as steps:
                    found[method] = steps()
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
    show("models", (*header, "FedAvg peak", "FedSAM peak"), rows)
    return code


def serve_steps(what: str) -> None:
    """Seconds a local step, memory and size of one model with one method, as one line of JSON."""
    from tf_fedsam.process import LearningProcess

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
            batch_size=batch,
            local_steps=steps,
            lr=1e-3,
            microbatch=FLAGS.microbatch,
            remat=FLAGS.remat,
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
    from tf_fedsam.state.checkpoint import CheckpointWriter

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
    show("checkpoints", header, rows)


def compare_client_state(strategy) -> None:
    """Rounds of W1 with SCAFFOLD, in turn with its state in memory and on the disk.

    Each has a checkpoint, and ends when that is on the disk.
    """
    from tf_fedsam.state.checkpoint import CheckpointWriter

    process = process_of("W1", "scaffold", strategy, examples("W1"))
    states = {where: process.initialize() for where in ("memory", "disk")}
    seconds: dict[str, list[float]] = {where: [] for where in states}
    pathlib.Path("runs").mkdir(exist_ok=True)
    unmeasured = NUM_CLIENTS // COHORT  # until most clients have a row
    with tempfile.TemporaryDirectory(dir="runs") as folder, contextlib.ExitStack() as stack:
        writers = {
            where: stack.enter_context(
                CheckpointWriter(pathlib.Path(folder) / where, release=where == "disk")
            )
            for where in states
        }
        for number in range(unmeasured + FLAGS.repeats):
            for where, state in states.items():
                began = time.perf_counter()
                upcoming = cohort_of(number + 1)
                states[where], _ = process.next(state, cohort_of(number), upcoming=upcoming)
                writers[where].save(states[where], {})
                writers[where].flush()
                seconds[where].append(time.perf_counter() - began)
    memory, disk = (np.asarray(seconds[where][unmeasured:]) for where in states)
    times = f"{np.median(memory):.3f}", f"{np.median(disk):.3f}"
    row = ("W1", find("scaffold").title, *times, f"{np.median(disk / memory):.3f}")
    show("client_state", ("work", "method", "in memory", "on the disk", "ratio"), [row])


def compare_determinism() -> None:
    rows = []
    for work in EPOCHS:
        same = f"--serve={work}", f"--devices={FLAGS.devices}"
        with elsewhere(*same) as usual, elsewhere(*same, "--deterministic") as deterministic:
            took = medians({"usual": usual, "deterministic": deterministic})
        ratio = took["deterministic"] / took["usual"]
        rows.append((work, *(f"{value:.3f}" for value in took.values()), f"{ratio:.2f}"))
    show("deterministic", ("work", "s a round", "deterministic", "ratio"), rows)


def run(args: Sequence[str]) -> int:
    """The launcher as a function of its arguments; gives the exit code."""
    return exits.guarded(lambda: main(args), interrupted="Nothing is saved.")


def console() -> None:
    exits.console(lambda: run(sys.argv[1:]))


if __name__ == "__main__":
    console()
