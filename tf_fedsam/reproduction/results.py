"""What is kept of a run that stands in a table: its settings and results, a few kilobytes."""

import dataclasses
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tf_fedsam.errors import InputError
from tf_fedsam.reproduction.cells import Place, file_name, key
from tf_fedsam.reproduction.tables import FLATNESS
from tf_fedsam.runs.folder import RunFolder, with_new_names
from tf_fedsam.state.files import write_atomically

# Of the last round, what the papers tell of clients, and how flat the model is.
OF_LAST_ROUND = (
    *("client_train_accuracy_mean", "client_train_accuracy_std"),
    *("client_test_accuracy_mean", "client_test_accuracy_std"),
    *("global_train_accuracy", *FLATNESS),
)
KEYS = ("settings", "summary", "last_round", "made_by")
MOST_POINTS = 50  # of a curve that is kept


@dataclasses.dataclass(frozen=True)
class Result:
    """A complete run.

    Attributes:
        settings: resolved, as its ``config.json`` has them, but for where its data lie.
        summary: its ``summary.json``.
        last_round: some of what was measured after the last round.
        made_by: versions, revision of the code, and a fingerprint of the data.
        curve: test accuracy by round, at most ``MOST_POINTS``; the first results that were kept
            have none.
    """

    settings: Mapping[str, Any]
    summary: Mapping[str, Any]
    last_round: Mapping[str, Any]
    made_by: Mapping[str, Any]
    curve: Sequence[tuple[int, float]] = ()

    @property
    def key(self) -> str:
        return key(self.settings)


def of_run(folder: RunFolder) -> Result | None:
    """What is kept of a run; ``None`` if it is not complete."""
    summary = folder.summary()
    if not summary or not folder.config_exists():
        return None
    config, records = folder.config(), folder.records()
    last = records[-1] if records else {}
    settings = {n: v for n, v in config["settings"].items() if n not in ("data_dir", "data_file")}
    source = config.get("source") or {}
    return Result(
        settings,
        summary,
        {name: last[name] for name in OF_LAST_ROUND if last.get(name) is not None},
        {
            "versions": config.get("versions") or {},
            "revision": source.get("revision", "unknown"),
            "changed": source.get("dirty", "unknown"),
            "inputs": {n: v for n, v in config["inputs"].items() if n == "data"},
        },
        thinned([(r["round"], r["test_accuracy"]) for r in records if "test_accuracy" in r]),
    )


def thinned(points: Sequence[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    """Every so many points, the last among them."""
    step = -(-len(points) // MOST_POINTS) or 1
    return tuple(points[::-1][::step][::-1])


def find_runs(folder: pathlib.Path) -> list[Result]:
    """The complete runs in a folder and the folders in it."""
    found = [of_run(RunFolder(path.parent)) for path in sorted(folder.rglob("summary.json"))]
    return [result for result in found if result is not None]


def save(folder: pathlib.Path, found: Iterable[Place], results: Sequence[Result]) -> list[str]:
    """Writes the results that are for a place, a file each; gives the names of the files."""
    by_key = {result.key: result for result in results}
    written = []
    for place in found:
        result = by_key.get(key(place.cell.resolved.as_dict()))
        name = f"{file_name(place.cell.name)}.json"
        if result is None or name in written:
            continue
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(dataclasses.asdict(result), indent=1, sort_keys=True)
        write_atomically(folder / name, f"{text}\n".encode())
        written.append(name)
    return written


def read(folder: pathlib.Path) -> dict[str, Result]:
    """The results that were written, by the names of their files.

    Raises:
        InputError: for a file that is something else.
    """
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            content = json.loads(path.read_text())
            known = {name: with_new_names(content[name]) for name in KEYS}
            curve = tuple((int(n), float(value)) for n, value in content.get("curve", ()))
            result = Result(**known, curve=curve)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise InputError(
                f"{path} is no result of a reproduction: {type(error).__name__} {error}. Expected: "
                f"a file with {', '.join(KEYS)}. Put it back, or delete it."
            ) from None
        found[path.name] = result
    return found
