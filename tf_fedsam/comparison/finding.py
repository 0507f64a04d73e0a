"""Run folders, found in folders that contain some, such as that of a sweep."""

import json
import os
import pathlib
from collections.abc import Sequence
from typing import Any

from tf_fedsam import paths
from tf_fedsam.errors import InputError

DEPTH = 3  # levels of folders in which runs are looked for
MOST_WORDS = 300  # characters of a sweep's message that are told
Place = str | os.PathLike  # runs are paths, too


def find_runs(places: Sequence[Place]) -> dict[pathlib.Path, str]:
    """Run folders with, if a sweep says so, what became of them.

    Args:
        places: run folders, folders that contain some, or runs.
    """
    if not places:
        raise InputError(
            "No run was given. Expected: run folders, folders that contain some, or runs."
        )
    found: dict[pathlib.Path, str] = {}
    seen = set()
    folders = [paths.expanded(place) for place in places]
    for path in folders:
        if not path.is_dir():
            raise InputError(
                f"There is no folder {path}. Expected: a run folder, or one that contains some."
            )
        for run, note in _look(path, DEPTH).items():
            if run.resolve() not in seen:
                seen.add(run.resolve())
                found[run] = note
    if not found:
        raise InputError(
            f"No run in {', '.join(map(str, folders))}. Expected: folders with "
            f"config.json and rounds.jsonl, as a run leaves them, at most {DEPTH} levels down."
        )
    return found


def _look(path: pathlib.Path, depth: int) -> dict[pathlib.Path, str]:
    if any((path / name).exists() for name in ("config.json", "rounds.jsonl")):
        return {path: ""}
    if not depth:
        return {}
    found: dict[pathlib.Path, str] = {}
    try:
        inner = sorted(p for p in path.iterdir() if p.is_dir() and not p.name.startswith("."))
    except OSError:
        inner = []
    for one in inner:
        found |= _look(one, depth - 1)
    for name, note in _fates(path / "sweep.json").items():
        run = path / name
        if run.parent == path and (run in found or note):
            found[run] = note
    return found


def _fates(file: pathlib.Path) -> dict[str, str]:
    """Folders of a sweep whose run failed, and its last words; empty for those that did not."""
    try:
        cells = json.loads(paths.regular(file).read_text())["cells"]
        return {
            str(cell["folder"]): f"failed: {_last_line(cell.get('error'))}"
            if cell.get("status") == "failed"
            else ""
            for cell in cells
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}  # a file of that name that is no sweep's


def _last_line(text: Any) -> str:
    lines = [line for line in str(text or "").splitlines() if line.strip()]
    return lines[-1].strip()[:MOST_WORDS] if lines else "no message"
