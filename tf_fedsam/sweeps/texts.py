"""What a user reads before and after a sweep."""

import pathlib
from collections.abc import Sequence

from tf_fedsam import text
from tf_fedsam.sweeps import cells as making
from tf_fedsam.sweeps import results
from tf_fedsam.sweeps.cells import Cell
from tf_fedsam.sweeps.display import exit_words
from tf_fedsam.sweeps.runner import DONE, FAILED, Job

_SHOWN_FOLDERS, _SHOWN_FAILURES = 5, 10


def start_text(cells: Sequence[Cell], num_same: int, out: pathlib.Path) -> str:
    """What the sweep is, and what of it is there already."""
    done = sum(cell.is_complete() for cell in cells)
    begun = sum(cell.run.config_exists() for cell in cells) - done
    facts = [
        ("algorithms", ", ".join(dict.fromkeys(cell.algo for cell in cells))),
        ("data sets", ", ".join(dict.fromkeys(cell.dataset for cell in cells))),
        ("seeds", ", ".join(dict.fromkeys(str(cell.seed) for cell in cells))),
        ("varied", ", ".join(results.varied(cells)) or "nothing else"),
        (
            "cells",
            f"{len(cells)}: {done} done, {begun} begun, {len(cells) - done - begun} new"
            + (f" ({num_same} the same as another left out)" if num_same else ""),
        ),
        ("folder", out),
    ]
    notes = [f"Note: {note}" for note in making.tuned_notes(cells)]
    names = {cell.name for cell in cells}
    others = [path.name for path in sorted(out.glob("*/")) if _is_other_run(path, names)]
    if others:
        more = len(others) - _SHOWN_FOLDERS
        notes.append(
            f"Note: {out} also holds runs that are not of this sweep, which are left alone: "
            f"{', '.join(others[:_SHOWN_FOLDERS])}{f' and {more} more' if more > 0 else ''}."
        )
    return "\n".join([text.table(facts), *notes, ""])


def _is_other_run(folder: pathlib.Path, names: set[str]) -> bool:
    return folder.name not in names and (folder / "config.json").exists()


def cells_text(jobs: Sequence[Job]) -> str:
    """The cells with their commands."""
    lines = []
    for job in jobs:
        state = "begun" if job.cell.run.config_exists() else "new"
        lines += [
            f"{'done' if job.status == DONE else state:<6}{job.cell.name}",
            f"      {job.command}",
        ]
    return "\n".join(lines)


def end_text(jobs: Sequence[Job], again: str, elsewhere: str = "rows()") -> str:
    """Results, failures, and what is missing.

    Args:
        jobs: of the sweep.
        again: how to run what is missing.
        elsewhere: what has all settings, if they are too many for a table.
    """
    failed = [job for job in jobs if job.status == FAILED]
    num_done = sum(job.status == DONE for job in jobs)
    parts = [""]
    if num_done:
        parts += [str(results.table([job.cell for job in jobs], elsewhere)), ""]
    for job in failed[:_SHOWN_FAILURES]:
        parts += [
            f"Failed: {job.cell.name}, {exit_words(job.exit_code)} after "
            f"{job.attempts} attempt{'s' if job.attempts > 1 else ''}",
            *(f"    {line}" for line in reason(job.error)),
            f"  log    {job.log}",
            f"  alone  {job.command}",
            "",
        ]
    if len(failed) > _SHOWN_FAILURES:
        more = [job.cell.name for job in failed[_SHOWN_FAILURES:]]
        parts += [f"Failed, too: {', '.join(more)}", ""]
    if num_done < len(jobs):
        stopped = len(jobs) - num_done - len(failed)
        words = [f"{len(failed)} failed"] if failed else []
        words += [f"{stopped} not finished"] if stopped else []
        parts.append(f"{num_done} of {len(jobs)} cells are done, {', '.join(words)}. {again}")
    return "\n".join(parts)


def reason(error: str) -> list[str]:
    """Of a cell's last lines its error message, if there is one."""
    lines = error.splitlines()
    messages = [i for i, line in enumerate(lines) if line.startswith("error: ")]
    return lines[messages[-1] :] if messages else lines
