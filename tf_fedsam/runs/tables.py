"""What a run is about and what it came to, as tables for people."""

import pathlib
from collections.abc import Mapping
from typing import Any

from tf_fedsam import text
from tf_fedsam.algorithms.swa import SWA
from tf_fedsam.data import partition as partitions
from tf_fedsam.data import sampling
from tf_fedsam.options import TrainingOptions
from tf_fedsam.privacy import WARNING as PRIVACY_WARNING
from tf_fedsam.runs.config import ResolvedConfig
from tf_fedsam.runs.experiment import Experiment
from tf_fedsam.runs.room import Room

CLIENTS_ROWS = {
    "train": "clients' train",
    "test": "test in clients' mix",  # the test examples, dealt out to the clients
}


def start_table(experiment: Experiment, folder: pathlib.Path, room: Room) -> str:
    config, dataset, process = experiment.config, experiment.dataset, experiment.process
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
        f"{dataset.num_clients:,}, a round's from {config.client_schedule}"
        if config.sampling == "schedule"
        else f"{expected_cohort(config, dataset.num_clients)} a round, {config.sampling}"
    )
    return (
        text.table(
            [
                ("devices", replicas),
                *workers_rows(experiment),
                (
                    "data",
                    f"{config.task.title}: {experiment.num_train:,} training"
                    f"{held_out_words(experiment)} and {len(experiment.loaded.test):,} test "
                    f"examples, {dataset.num_classes} classes",
                ),
                ("source", experiment.loaded.source),
                ("clients", cohort),
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
                ("model", f"{config.model}, {process.num_parameters:,} parameters"),
                ("algorithm", f"{process.algorithm.title}{f' ({hparams})' if hparams else ''}"),
                *privacy_rows(experiment),
                (
                    "training",
                    f"{config.rounds} rounds, {work}, batch {options.batch_size}, "
                    f"{rate_words(options)}, "
                    f"weight decay {options.weight_decay:g}, clip {options.clip_norm}",
                ),
                *([("radius", radius_words(options))] if options.rho_factor(0) is not None else []),
                (
                    "seed",
                    f"{config.seed}{', deterministic ops' if config.deterministic else ''}",
                ),
                ("may need", room.row()),
                ("folder", folder),
            ]
        )
        + "\n"
    )


def privacy_rows(experiment: Experiment) -> list[tuple[str, Any]]:
    """How private the clients of the run will be, if that is asked for."""
    privacy = experiment.privacy
    return [] if privacy is None else [("privacy", privacy.words(experiment.config.rounds))]


def notes(experiment: Experiment) -> list[tuple[str, ...]]:
    """What a user must know before the run: messages, each with the settings it speaks of."""
    config = experiment.config
    told: list[tuple[str, ...]] = [] if experiment.privacy is None else [(PRIVACY_WARNING,)]
    averaging = experiment.process.algorithm
    if isinstance(averaging, SWA) and not averaging.num_collected(config.rounds):
        told.append(
            (
                f"Note: server SWA collects no model: its first cycle of {config.swa_cycle} rounds "
                f"begins with round {config.swa_start + 1} and does not end before the run does, "
                f"with round {config.rounds}. The result is the last model. Lower swa_start or "
                f"swa_cycle.\n",
                *("swa_start", "swa_cycle"),
            )
        )
    num_clients = experiment.dataset.num_clients
    if "clients" in config.probe_names and num_clients > config.accuracy_clients:
        told.append(
            (
                f"Note: there are {num_clients:,} clients, and the probe clients looks at the "
                f"training examples of accuracy_clients={config.accuracy_clients} of them, always "
                f"the same.\n",
                "accuracy_clients=",
            )
        )
    alone = cohort_warning(config, num_clients)
    return [*told, *([alone] if alone else [])]


def workers_rows(experiment: Experiment) -> list[tuple[str, str]]:
    """Who computes together, and what it costs the network."""
    engine = experiment.process.engine
    if engine.team.count == 1:
        return []
    size = engine.network_bytes(experiment.initialize().server, len(experiment.cohort(0)[0]))
    return [
        ("  workers", f"{engine.team.count} with so many devices each"),
        ("  network", f"about {text.size(size)} a round out of each worker"),
    ]


def held_out_words(experiment: Experiment) -> str:
    """How many training examples are held out, and of what."""
    held = experiment.dataset.holdout
    if held is None:
        return ""
    places = {"clients": "from each client's share", "pool": "before there were clients"}
    return f", {len(held):,} held-out ({places[experiment.config.holdout_from]})"


def rate_words(options: TrainingOptions) -> str:
    """The learning rate with its schedule and momentum."""
    words = f"lr {options.lr:g}{_schedule_words(options, 'lr')}"
    if options.local_momentum:
        kept = "kept" if options.keeps_velocity else "fresh each round"
        words += f", local momentum {options.local_momentum:g} ({kept})"
    return words


def radius_words(options: TrainingOptions) -> str:
    """The schedule of the radius."""
    return f"rho{_schedule_words(options, 'rho') or ', constant'}"


def _schedule_words(options: TrainingOptions, name: str) -> str:
    of = lambda word: getattr(options, f"{name}_{word}")  # noqa: E731
    kind, warmup = of("schedule"), of("warmup_rounds")
    words = {
        "exponential": f" x {of('decay'):g} a round",
        "step": f" x {of('step_factor'):g} every {of('step_rounds')} rounds",
        "constant": "",
    }
    to = f", {kind} to {of('final_factor'):g} of it in {options.schedule_rounds} rounds"
    rounds = f"{warmup} round{'s' if warmup > 1 else ''}"
    return words.get(kind, to) + (f" after {rounds} of warm-up" if warmup else "")


def expected_cohort(config: ResolvedConfig, num_clients: int) -> str:
    """How many clients take part in a round."""
    if config.sampling == "bernoulli":
        return f"about {config.share_of(num_clients) * num_clients:,.4g} of {num_clients:,}"
    return f"{sampling.cohort_size(num_clients, config.share_of(num_clients)):,} of {num_clients:,}"


def cohort_warning(config: ResolvedConfig, num_clients: int) -> tuple[str, ...] | None:
    """That a round has one client of several, with the settings that the warning names."""
    alone = sampling.cohort_size(num_clients, config.share_of(num_clients)) == 1
    if config.sampling != "fixed" or num_clients == 1 or not alone:
        return None
    return (
        f"Warning: one of {num_clients:,} clients takes part in a round, so that nothing is "
        f"averaged. Raise participation (it is {config.participation:g}), or use min_cohort=5.\n",
        *("participation", "min_cohort"),
    )


def results_table(title: str, summary: Mapping[str, Any], last: Mapping[str, Any]) -> str:
    """What a run came to.

    Args:
        title: of the method.
        summary: its results.
        last: its last round, with what the probes found.
    """
    return text.table(result_rows(summary, last), f"Results of {title}")


def result_rows(summary: Mapping[str, Any], last: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The results by their names for people."""
    loss, smooth = summary["test_loss"], summary["fedinit_test_accuracy"]
    rows: list[tuple[str, Any]] = [
        ("rounds", summary["rounds"]),
        ("test accuracy", f"{summary['test_accuracy']:.2%}"),
        *(
            [("  of the last model", f"{summary['test_accuracy_last']:.2%}")]
            if "test_accuracy_last" in summary
            else []
        ),
        ("  best", f"{summary['best_test_accuracy']:.2%} in round {summary['best_round']}"),
        ("  mean of last 10 tests", f"{summary['mean_last_10_test_accuracy']:.2%}"),
    ]
    if smooth is not None:
        rows.append(("  best smoothed, last 50", f"{smooth:.2%}  (FedInit's statistic)"))
    rows.append(("test loss", "not finite" if loss is None else f"{loss:.4f}"))
    if "validation_accuracy" in summary:
        rows += _held_out_rows(summary)
    if "privacy" in summary:
        rows.append(("privacy", summary["privacy"]))
    for kind, words in CLIENTS_ROWS.items():
        told = {n: last.get(f"client_{kind}_accuracy_{n}") for n in ("mean", "std", "worst_decile")}
        if told["mean"] is not None:
            some = last.get(f"client_{kind}_accuracy_clients")
            rows.append(
                (
                    words,
                    f"{told['mean']:.2%} (std {told['std']:.2%}), worst tenth "
                    f"{told['worst_decile']:.2%}{f'; {some:,} clients' if some else ''}",
                )
            )
    rows += _personal_rows(last)
    for name in ("sharpness", "m_sharpness"):
        if last.get(name) is not None:
            rows.append((name.replace("_", " "), f"{last[name]:.4g}"))
    rows += _eigenvalue_rows(last)
    if last.get("hessian_trace") is not None:
        error = last.get("hessian_trace_error") or 0.0
        rows.append(("hessian trace", f"{last['hessian_trace']:.4g} ± {error:.2g}"))
    rows += _flatness_rows(last)
    if last.get("divergence") is not None:
        rows.append(("divergence", f"{last['divergence']:.4g}"))
    if summary.get("stopped"):
        rows.append(("stopped early", summary["stopped"]["reason"]))
    for target, cost in summary["targets"].items():
        rows.append((f"to {float(target):.2%}", cost_words(cost, summary["rounds"])))
    if summary["skipped_rounds"]:
        rows.append(("skipped", f"{summary['skipped_rounds']} rounds in which nobody reported"))
    if summary["failed_reports"]:
        rows.append(("left out", f"{summary['failed_reports']} updates that were not finite"))
    sent = text.size(summary["bytes_down"]), text.size(summary["bytes_up"])
    rows += [
        ("sent", f"{sent[0]} down, {sent[1]} up"),
        ("gradients", f"{summary['gradient_evaluations']:,}"),
        (
            "time",
            f"{text.duration(summary['seconds'])} training, "
            f"{text.duration(summary['eval_seconds'])} testing",
        ),
    ]
    return rows


def _held_out_rows(summary: Mapping[str, Any]) -> list[tuple[str, Any]]:
    chosen = summary["chosen_test_accuracy"]
    test = "" if chosen is None else f", test accuracy there {chosen:.2%}"
    best = f"{summary['best_validation_accuracy']:.2%} in round {summary['chosen_round']}{test}"
    return [("held-out accuracy", f"{summary['validation_accuracy']:.2%}"), ("  best", best)]


def _personal_rows(last: Mapping[str, Any]) -> list[tuple[str, Any]]:
    names = ("before_mean", "after_mean", "after_std", "after_worst_decile")
    told = [last.get(f"personal_accuracy_{name}") for name in names]
    if any(value is None for value in told):
        return []
    before, after, std, worst = (f"{value:.2%}" for value in told)
    words = f"{before} before, {after} (std {std}) after, worst tenth {worst}"
    return [(f"{last['personal_clients']} clients, fine-tuned", words)]


def _eigenvalue_rows(last: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The largest eigenvalues of the Hessian, as many as were found."""
    names = ["hessian_eigenvalue"]
    while f"hessian_eigenvalue_{len(names) + 1}" in last:
        names.append(f"hessian_eigenvalue_{len(names) + 1}")
    found = [last[name] for name in names if last.get(name) is not None]
    many = "s" if len(found) > 1 else ""
    words = ", ".join(f"{value:.4g}" for value in found)
    return [(f"hessian eigenvalue{many}", words)] if found else []


def _flatness_rows(last: Mapping[str, Any]) -> list[tuple[str, Any]]:
    rows = []
    for kind in ("local", "global"):
        own, everyone = (last.get(f"sharpness_{kind}_on_{data}") for data in ("own", "all"))
        if own is not None and everyone is not None:
            words = f"{own:.4g} on own examples, {everyone:.4g} on all"
            rows.append((f"sharpness, {kind}", words))
    return rows


def cost_words(cost: Mapping[str, Any] | None, rounds: int) -> str:
    """What it took to reach a target."""
    if cost is None:
        return f"not in {rounds} rounds"
    sent = text.size(cost["bytes_down"] + cost["bytes_up"])
    return (
        f"round {cost['round']}: {sent} sent, {cost['gradient_evaluations']:,} gradients, "
        f"{text.duration(cost['seconds'])}"
    )
