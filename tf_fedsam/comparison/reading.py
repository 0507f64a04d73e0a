"""Runs read from their folders, and those that cannot be, with the reason."""

import json
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from tf_fedsam import paths
from tf_fedsam.comparison.compared_run import ComparedRun, checked
from tf_fedsam.errors import InputError
from tf_fedsam.runs.folder import RunFolder, stopped_as_wanted
from tf_fedsam.text import printable

SHOWN_REASONS = 5


class Skipped(NamedTuple):
    """A run that is left out."""

    name: str
    reason: str


def read_runs(found: Mapping[pathlib.Path, str]) -> tuple[list[ComparedRun], list[Skipped]]:
    """The runs that can be compared, and those that cannot.

    Args:
        found: run folders with what a sweep says about them.
    """
    runs: list[ComparedRun] = []
    skipped: list[Skipped] = []
    for path, note in found.items():
        try:
            run = read_run(path)
        except InputError as error:
            skipped.append(Skipped(str(path), note or str(error)))
            continue
        if note and not run.complete:
            skipped.append(Skipped(str(path), f"{note} (after round {len(run.records)})"))
        else:
            runs.append(run)
    if not runs:
        each = [f"{s.name}: {s.reason.removesuffix('.')}" for s in skipped[:SHOWN_REASONS]]
        left = len(skipped) - SHOWN_REASONS
        more = f"; and {left} more" if left > 0 else ""
        raise InputError(
            f"None of {len(skipped)} runs can be reported. {printable('; '.join(each))}{more}. "
            f"Give other folders, or wait until a run has tested its model."
        )
    return runs, skipped


def read_run(path: pathlib.Path) -> ComparedRun:
    """A run from its folder.

    Raises:
        InputError: if it cannot be compared, with the reason.
    """
    folder = RunFolder(path)
    try:
        config, records = folder.config(), folder.records()
        file = paths.regular(folder.summary_file)
        summary = json.loads(file.read_text()) if file.exists() else None
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"it cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None
    if summary is None:
        return checked(str(path), config, records, complete=False)
    stopped = _why_stopped(summary, config["settings"])
    run = checked(str(path), config, records, complete=True, stopped=stopped)
    _check_summary(run, summary)
    folder.check_log()
    return run


def _why_stopped(summary: Any, settings: Mapping[str, Any]) -> str:
    """Why a run has fewer rounds than it was to have, if its summary tells that of this run."""
    stopped = summary.get("stopped") if isinstance(summary, dict) else None
    if not isinstance(stopped, dict) or summary.get("rounds") == settings.get("rounds"):
        return ""
    return printable(str(stopped.get("reason"))) if stopped_as_wanted(stopped, settings) else ""


def _check_summary(run: ComparedRun, summary: Any) -> None:
    mine = {name: run.results[name] for name in ("rounds", "test_accuracy")}
    theirs = {n: summary.get(n) for n in mine} if isinstance(summary, dict) else None
    if mine != theirs:
        raise InputError("its summary.json is not that of its rounds.jsonl: one was changed")
    rounds = run.settings["rounds"]
    if mine["rounds"] != rounds and not (run.stopped and mine["rounds"] < rounds):
        raise InputError(
            f"it has {mine['rounds']} rounds and its config.json says {rounds}: one was changed"
        )
