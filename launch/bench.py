"""How fast rounds are, beside a raw compiled loop of the same steps; ratios, in one run.

    python -m launch.bench        W1, W2 and W3
        --algorithms              every method, and FedAvg with SWA or DP, over
                                  FedAvg, on W1 and W2, or --works=W1,W2,W4
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
W3: W2 with FedSAM. W4: the papers' network for CIFAR-10, ResNet-18 with group normalisation, on
images of 32 x 32 x 3, with weight decay and clipping as there: 2 of 4 clients a round, each with 25
local steps of batch 50 in place of the papers' 50, so what a client or a round costs beside its
steps counts more. All methods of a work are in memory together: 14 on W4 took 13 GB. The images are
random, so nothing is downloaded. The raw loop runs the same number of the same SGD steps, one after
another, with TensorFlow's default threads, without clients. Rounds of the two are measured in turn,
so that a noisy machine disturbs both alike.
"""

from launch.command_line import start

start.begin(__name__)

import dataclasses
import sys
from collections.abc import Callable, Sequence
from typing import Any

from absl import flags

from launch.benchmarks import analysis, images, models, plan, rounds, states, tables, works
from launch.benchmarks.measuring import How
from launch.command_line import exits, own_flags
from launch.command_line.exits import DONE
from tf_fedsam import text
from tf_fedsam.errors import InputError

FLAGS = own_flags.new()
# What flags ask for; some give an exit code.
MODES: dict[str, Callable[[How], int | None]] = {
    "algorithms": rounds.of_methods,
    "checkpoints": states.checkpoints,
    "client_state": states.client_state,
    "deterministic": rounds.deterministic,
    "xla": rounds.xla,
    "analysis": analysis.analysis,
    "models": models.steps,
    "images": images.decoded,
    "plan": plan.plan,
}


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
    flags.DEFINE_list("works", None, "With --algorithms: of W1,W2,W4; W1,W2 if unset.", **mine)
    whole("microbatch", None, "With --models: as in launch.main.", **mine)
    yes("remat", False, "With --models: as in launch.main, for transformers.", **mine)
    word("step_of", None, "For itself: run steps of this model and answer on stdout.", **mine)
    word("raw", None, "For itself: run the raw loop of this work and answer on stdout.", **mine)
    word("serve", None, "For itself: run rounds of this work and answer on stdout.", **mine)


_define()


def main(args: Sequence[str]) -> int:
    if own_flags.helped(FLAGS, args, __doc__):
        return DONE
    how = parse(args)
    with start.loaded(__name__):
        pass
    if serve(how):
        return DONE
    then = tables.read(FLAGS.baseline) if FLAGS.baseline is not None else {}
    tables.kept.clear()
    code = measure(how)
    for name, (header, rows) in tables.kept.items():
        if name in then:
            text.say(f"\n{name}, over {FLAGS.baseline}")
            text.say(text.grid(*tables.over(then[name], header, rows)))
    if FLAGS.json is not None:
        tables.write(FLAGS.json, args)
    return code


def serve(how: How) -> bool:
    """Answers another process of this program, if there is one that asks."""
    if FLAGS.raw is not None:
        rounds.serve_raw_loop(FLAGS.raw)
    elif FLAGS.serve is not None:
        rounds.serve(FLAGS.serve, how)
    elif FLAGS.step_of is not None:
        models.serve(FLAGS.step_of, how)
    else:
        return False
    return True


def measure(how: How) -> int:
    """What was asked for; gives the exit code."""
    chosen = next((mode for mode in MODES if FLAGS[mode].value), None)
    return (MODES[chosen] if chosen else rounds.over_raw_loop)(how) or DONE


def parse(args: Sequence[str]) -> How:
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
    names = list(models.NETWORKS) if FLAGS.models else works.methods()
    wrong = [name for name in FLAGS.only or () if name not in names]
    if wrong:
        raise InputError(
            f"--only has unknown names. Received: {', '.join(wrong)}. Expected: {', '.join(names)}."
        )
    if FLAGS.works is not None and not FLAGS.algorithms:
        raise InputError("--works needs --algorithms. Add it, or remove --works.")
    if wrong := [work for work in FLAGS.works or () if work not in works.WORKS]:
        raise InputError(
            f"--works has unknown names. Received: {', '.join(wrong)}. "
            f"Expected: {', '.join(works.WORKS)}."
        )
    for name in ("microbatch", "remat"):
        if FLAGS[name].value and not (FLAGS.models or FLAGS.step_of):
            raise InputError(f"--{name} needs --models. Add it, or remove --{name}.")
    own = [field.name for field in dataclasses.fields(How)]
    return How(**{name: FLAGS[name].value or getattr(How, name) for name in own})


def run(args: Sequence[str]) -> int:
    """The launcher as a function of its arguments; gives the exit code."""
    return exits.guarded(lambda: main(args), interrupted="Nothing is saved.")


def console() -> None:
    exits.console(lambda: run(sys.argv[1:]))


if __name__ == "__main__":
    console()
