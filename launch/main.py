"""Trains one algorithm on one data set.

    python -m launch.main --algo=mofedsam --dataset=glyphs

Every setting that is left out comes from the data set and the algorithm. The same command again
goes on where it stopped. An algorithm's own hyper-parameters are --hparams.NAME=VALUE, a model's
options --model_options.NAME=VALUE.
"""

from launch import interrupts

if __name__ == "__main__":
    interrupts.quit_while_loading()

import os
import pathlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import app, flags

from launch import exits, provenance, repeat, terminal
from launch import flags as settings_flags
from launch.exits import DONE, FAILED
from launch.experiment import Experiment, build, fingerprint
from launch.flags import FREE_ON_RESUME, Settings
from launch.watch import ADVICE, Watch
from tf_fedsam import devices, export
from tf_fedsam.algorithms.registry import accounting, all_algorithms
from tf_fedsam.analysis.results import summarise, with_totals
from tf_fedsam.data import partition as partitions
from tf_fedsam.data.federated_dataset import FederatedDataset
from tf_fedsam.errors import InputError
from tf_fedsam.process import State
from tf_fedsam.state.checkpoint import CheckpointError, CheckpointWriter, load_latest
from tf_fedsam.state.lock import RunLock
from tf_fedsam.state.run_folder import RunFolder, differences, without_nan
from tf_fedsam.summaries import TensorBoard

SPLIT_CLIENTS = 200  # clients whose classes are counted in the config

settings_flags.define()
flags.adopt_module_key_flags(settings_flags)


def main(argv: Sequence[str]) -> int:
    del argv
    if flags.FLAGS.list_algorithms:
        terminal.say(algorithm_table())
        return DONE
    settings = settings_flags.resolve(flags.FLAGS)
    if settings.deterministic:
        tf.config.experimental.enable_op_determinism()
    strategy = devices.make_strategy(settings.devices)
    experiment = build(settings, strategy)
    config = make_config(experiment)
    run = RunFolder(output_folder(settings))
    check_folder = lambda: run.check(settings.as_dict(), FREE_ON_RESUME, config["inputs"])  # noqa: E731
    check_folder()
    if flags.FLAGS.from_config is not None:
        compare_with_original(repeat.config_of(flags.FLAGS.from_config), config)
    terminal.say(start_table(experiment, run))
    with RunLock(run.path):
        check_folder()  # somebody may have been here in between
        return train(experiment, run, config)


def train(experiment: Experiment, run: RunFolder, config: dict[str, Any]) -> int:
    """The round loop, from the last checkpoint if there is one."""
    settings = experiment.settings
    state, records = restore(experiment, run)
    if state.round_num >= settings.rounds and run.is_complete(state.round_num):
        summary = summarise(records, settings.target_accuracies)
        if summary["targets"] != run.summary().get("targets"):
            run.write_summary(summary)
        terminal.say(results_table(experiment, run, summary, records[-1]))
        return DONE
    run.begin()
    config = resumed(run, config, state.round_num) if run.config_exists() else config
    run.write_config(config)
    if not records:
        export.save_weights(
            experiment.process.get_model_weights(state).trainable,
            run.path / "initial_weights.npz",
        )
    board = TensorBoard(run.tensorboard, terminal.say)
    board.start(config, class_counts(experiment.dataset), experiment.loaded.class_names)
    board.write(records)
    checkpoints = CheckpointWriter(
        run.checkpoints, settings.keep_checkpoints, logs=[run.rounds_file]
    )
    progress = terminal.Progress(len(records), settings.rounds)
    watch, saved = Watch(settings.max_failed_rounds, records), state.round_num
    try:
        with interrupts.noted() as stop:
            while state.round_num < settings.rounds and not stop.made and not watch.hopeless:
                state, record = one_round(experiment, state)
                record = with_totals(record, records)
                run.append(record)
                records.append(record)
                board.write([record])
                if state.round_num % settings.checkpoint_every == 0:
                    checkpoints.save(state, {"log_bytes": run.log_bytes()})
                    saved = state.round_num
                progress.update(record, watch.see(record))
        if state.round_num > saved:
            checkpoints.save(state, {"log_bytes": run.log_bytes()})
            saved = state.round_num
    except KeyboardInterrupt:
        pass  # the second one: what was given to be saved counts
    except (OSError, InputError) as error:
        checkpoints.close()
        raise failure(error, saved) from error
    finally:
        progress.close()
    checkpoints.close()
    board.close()
    if watch.hopeless:
        raise HopelessError(
            f"Nobody reported in the last {watch.failed_rounds} rounds, so training stops after "
            f"round {state.round_num}; the checkpoint is saved. {ADVICE} Such a change needs "
            f"another --output_dir; to go on all the same, raise --max_failed_rounds."
        )
    if saved < settings.rounds:
        terminal.say(
            f"\nStopped after round {saved} of {settings.rounds}; everything is saved. "
            f"Go on with the same command:\n  {settings_flags.command()}"
        )
        return FAILED
    finish(experiment, run, state, records)
    return DONE


class HopelessError(RuntimeError):
    """Training has come to nothing; the message says what to do."""


def failure(error: OSError | InputError, saved: int) -> OSError:
    """A disk or a file that fails in the middle of training, in the user's words."""
    if isinstance(error, InputError):
        what, fix = str(error).removesuffix("."), "put it right"
    else:
        what = f"Could not use {error.filename or 'the disk'}: {error.strerror or error}"
        fix = "make room or make the folder writable"
    good = (
        f"The checkpoint after round {saved} is intact: {fix}, then give the same command again, "
        f"which goes on from there"
        if saved
        else f"There is no checkpoint yet: {fix}, then start again"
    )
    return OSError(f"{what}. {good}.")


def one_round(experiment: Experiment, state: State) -> tuple[State, dict[str, Any]]:
    """A round and, when they are due, a test of the global model and the probes."""
    settings = experiment.settings
    clients, step_fraction = experiment.cohort(state.round_num)
    following = state.round_num + 1
    upcoming = experiment.cohort(following)[0] if following < settings.rounds else ()
    state, record = experiment.process.next(state, clients, step_fraction, upcoming)
    due = state.round_num % settings.eval_every == 0 or state.round_num == settings.rounds
    if due:
        began = time.perf_counter()
        tested = experiment.process.evaluate(state)
        record["test_loss"], record["test_accuracy"] = tested["loss"], tested["accuracy"]
        record["eval_seconds"] = time.perf_counter() - began
    last, every = state.round_num == settings.rounds, settings.probe_every
    if experiment.probes.names and (last or (every and state.round_num % every == 0)):
        record |= experiment.probes(state)
    return state, without_nan(record)


def restore(experiment: Experiment, run: RunFolder) -> tuple[State, list[dict[str, Any]]]:
    """The state to go on from and the log up to there."""
    fresh = experiment.initialize()
    found = load_latest(run.checkpoints, fresh, terminal.say) if run.config_exists() else None
    if found is None:
        return fresh, run.cut_log(0)
    state, extra = found
    records = run.cut_log(extra["log_bytes"])
    if len(records) != state.round_num:
        raise InputError(
            f"{run.rounds_file} has {len(records)} rounds. Expected: the {state.round_num} of the "
            f"checkpoint. It was changed: put it back, or choose another folder."
        )
    if state.round_num < experiment.settings.rounds:
        terminal.say(f"Going on after round {state.round_num} of {experiment.settings.rounds}.\n")
    return state, records


def resumed(run: RunFolder, config: dict[str, Any], round_num: int) -> dict[str, Any]:
    """The config of a run that goes on: as it began, with the settings of now and what changed."""
    before = run.config()
    settings = before["settings"]
    changed = {
        name: [settings.get(name), value]
        for name, value in config["settings"].items()
        if name in FREE_ON_RESUME and settings.get(name) != value
    }
    now = {name: config[name] for name in ("command", "devices", "versions", "source")}
    note_differences(before, now, "The run began with other code or versions")
    entry = {"after_round": round_num, "changed_settings": changed, **now}
    return {
        **before,
        "settings": config["settings"],
        "resumes": [*before.get("resumes", []), entry],
    }


def compare_with_original(original: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    """Refuses to repeat a run with other inputs; says what else may make the result differ."""
    different = differences(original["inputs"], config["inputs"])
    if different:
        raise InputError(
            f"The run cannot be repeated: what it read is not what is there now. Different "
            f"content: {'; '.join(different)}. Put back what it read."
        )
    note_differences(original, config, "The run was made with other code or versions")
    if any(r.get("devices") != original.get("devices") for r in original.get("resumes", [])):
        terminal.say("Note: the run changed its devices on the way; that is not repeated.")


def note_differences(before: Mapping[str, Any], now: Mapping[str, Any], what: str) -> None:
    """Says that the code is not the same, which need not be wrong."""
    names = ("versions", "source")
    old, new = ({k: v for n in names for k, v in c.get(n, {}).items()} for c in (before, now))
    if old != new:
        different = "; ".join(differences(old, new))
        terminal.say(f"Note: {what}, so the last bits may differ. {different}.\n")


def finish(experiment: Experiment, run: RunFolder, state: State, records: list[dict]) -> None:
    """Exports the model and says how it went; the summary comes last and makes it complete."""
    process = experiment.process
    weights = process.get_model_weights(state)
    export.save_weights(weights.trainable, run.path / "final_weights.npz")
    export.save_model(process.get_model(state), experiment.dataset.preprocess, run.path)
    summary = summarise(records, experiment.settings.target_accuracies)
    run.write_summary(summary)
    terminal.say(results_table(experiment, run, summary, records[-1]))


def make_config(experiment: Experiment) -> dict[str, Any]:
    """Everything that was used, for ``config.json``."""
    settings, dataset, process = experiment.settings, experiment.dataset, experiment.process
    return {
        "command": settings_flags.command(),
        "working_folder": os.getcwd(),
        "settings": settings.as_dict(),
        "algorithm": process.algorithm.describe() | {"server_lr": process.algorithm.server_lr},
        "data": {
            "source": experiment.loaded.source,
            "train_examples": len(dataset.train),
            "test_examples": len(experiment.loaded.test),
            "input_shape": list(dataset.input_shape),
            "num_classes": dataset.num_classes,
            "class_names": list(experiment.loaded.class_names),
            "preprocess": vars(dataset.preprocess),
        },
        "partition": {
            "scheme": dataset.partition.scheme,
            "num_clients": dataset.num_clients,
            "with_replacement": dataset.partition.with_replacement,
            "fingerprint": dataset.partition.fingerprint(),
        },
        "split": {"class_counts": class_counts(dataset)[:SPLIT_CLIENTS].tolist()},
        "num_parameters": process.num_parameters,
        "devices": list(process.engine.strategy.extended.worker_devices),
        "inputs": provenance.fingerprints(experiment),
        "versions": provenance.versions(),
        "source": provenance.source(),
    }


def class_counts(dataset: FederatedDataset) -> np.ndarray:
    return dataset.partition.class_counts(dataset.train.y, dataset.num_classes)


def output_folder(settings: Settings) -> pathlib.Path:
    if settings.output_dir is not None:
        return pathlib.Path(settings.output_dir).expanduser()
    method = pathlib.Path(settings.algo).stem if ".py:" in settings.algo else settings.algo
    data = re.sub(r"\W+", "-", settings.dataset)
    name = f"{data}-{method}-seed{settings.seed}-{fingerprint(settings)}"
    return pathlib.Path("runs") / name


def start_table(experiment: Experiment, run: RunFolder) -> str:
    settings, dataset, process = experiment.settings, experiment.dataset, experiment.process
    numbers = partitions.statistics(dataset.partition, dataset.train.y, dataset.num_classes)
    hparams = ", ".join(f"{k}={v}" for k, v in process.algorithm.describe().items())
    kinds = process.engine.strategy.extended.worker_devices
    replicas = ", ".join(d.split("device:")[-1].removeprefix("/") for d in kinds)
    options = process.options
    work = (
        f"{options.local_epochs} local epochs"
        if options.local_steps is None
        else f"{options.local_steps} local steps"
    )
    cohort = (
        f"from {settings.client_schedule}"
        if settings.sampling == "schedule"
        else f"{settings.participation:.0%} a round, {settings.sampling}"
    )
    return (
        terminal.table(
            [
                ("devices", replicas),
                (
                    "data",
                    f"{settings.task.title}: {len(dataset.train):,} training and "
                    f"{len(experiment.loaded.test):,} test examples, {dataset.num_classes} classes",
                ),
                ("source", experiment.loaded.source),
                ("clients", f"{dataset.num_clients:,}, {cohort}"),
                ("split", dataset.partition.scheme),
                (
                    "  sizes",
                    f"min {numbers['size_min']}, median {numbers['size_median']:g}, "
                    f"max {numbers['size_max']} examples",
                ),
                (
                    "  classes",
                    f"min {numbers['classes_min']}, median {numbers['classes_median']:g}, "
                    f"max {numbers['classes_max']} on a client",
                ),
                ("model", f"{settings.model}, {process.num_parameters:,} parameters"),
                ("algorithm", f"{process.algorithm.title}{f' ({hparams})' if hparams else ''}"),
                (
                    "training",
                    f"{settings.rounds} rounds, {work}, batch {options.batch_size}, "
                    f"lr {options.lr:g} x {options.lr_decay:g} a round, "
                    f"weight decay {options.weight_decay:g}, clip {options.clip_norm}",
                ),
                (
                    "seed",
                    f"{settings.seed}{', deterministic ops' if settings.deterministic else ''}",
                ),
                ("folder", run.path),
            ]
        )
        + "\n"
    )


def results_table(
    experiment: Experiment, run: RunFolder, summary: Mapping[str, Any], last: Mapping[str, Any]
) -> str:
    """What a run came to.

    Args:
        experiment: what was run.
        run: its folder.
        summary: its results.
        last: its last round, with what the probes found.
    """
    loss, smooth = summary["test_loss"], summary["fedinit_test_accuracy"]
    rows = [
        ("rounds", summary["rounds"]),
        ("test accuracy", f"{summary['test_accuracy']:.2%}"),
        ("  best", f"{summary['best_test_accuracy']:.2%} in round {summary['best_round']}"),
        ("  mean of last 10 tests", f"{summary['mean_last_10_test_accuracy']:.2%}"),
    ]
    if smooth is not None:
        rows.append(("  best smoothed, last 50", f"{smooth:.2%}  (FedInit's statistic)"))
    rows.append(("test loss", "not finite" if loss is None else f"{loss:.4f}"))
    for kind in ("train", "validation"):
        told = {n: last.get(f"client_{kind}_accuracy_{n}") for n in ("mean", "std", "worst_decile")}
        if told["mean"] is not None:
            rows.append(
                (
                    f"clients' {kind}",
                    f"{told['mean']:.2%} (std {told['std']:.2%}), worst tenth "
                    f"{told['worst_decile']:.2%}",
                )
            )
    for name in ("sharpness", "hessian_eigenvalue", "divergence"):
        if last.get(name) is not None:
            rows.append((name.replace("_", " "), f"{last[name]:.4g}"))
    for target, cost in summary["targets"].items():
        rows.append((f"to {float(target):.2%}", cost_words(cost, summary["rounds"])))
    if summary["skipped_rounds"]:
        rows.append(("skipped", f"{summary['skipped_rounds']} rounds in which nobody reported"))
    if summary["failed_reports"]:
        rows.append(("left out", f"{summary['failed_reports']} updates that were not finite"))
    sent = terminal.size(summary["bytes_down"]), terminal.size(summary["bytes_up"])
    rows += [
        ("sent", f"{sent[0]} down, {sent[1]} up"),
        ("gradients", f"{summary['gradient_evaluations']:,}"),
        (
            "time",
            f"{terminal.duration(summary['seconds'])} training, "
            f"{terminal.duration(summary['eval_seconds'])} testing",
        ),
    ]
    files = [
        ("global model", f"{run.path / 'saved_model'}  (tf.saved_model.load)"),
        ("", f"{run.path / 'model.keras'}  (keras.models.load_model)"),
        ("log", run.rounds_file),
    ]
    return "\n".join(
        [
            "",
            terminal.table(rows, f"Results of {experiment.process.algorithm.title}"),
            "",
            terminal.table(files),
            "",
            "See the curves, or compare runs on one page:",
            f"  tensorboard --logdir={run.path.parent}",
            f"  python -m launch.report {run.path.parent} --out=report.html",
        ]
    )


def cost_words(cost: Mapping[str, Any] | None, rounds: int) -> str:
    """What it took to reach a target."""
    if cost is None:
        return f"not in {rounds} rounds"
    sent = terminal.size(cost["bytes_down"] + cost["bytes_up"])
    return (
        f"round {cost['round']}: {sent} sent, {cost['gradient_evaluations']:,} gradients, "
        f"{terminal.duration(cost['seconds'])}"
    )


def algorithm_table() -> str:
    """What ``--list_algorithms`` prints, and the table of the README."""
    header = ("--algo", "client state", "down", "up", "gradients a step", "what it does", "paper")
    rows = [(a.name, *accounting(a()), a.summary, a.paper) for a in all_algorithms().values()]
    return terminal.grid(header, rows)


def run(args: Sequence[str]) -> int:
    """Runs a command line, without the program's name, and gives its exit code."""
    return guarded(lambda: main(settings_flags.parse(["launch.main", *args])))


def guarded(action: Callable[[], int]) -> int:
    return exits.guarded(action, failures=(CheckpointError, HopelessError, OSError))


def console() -> None:
    """The command ``tf-fedsam``."""
    exits.console(lambda: guarded(lambda: app.run(main, flags_parser=settings_flags.parse)))


if __name__ == "__main__":
    console()
