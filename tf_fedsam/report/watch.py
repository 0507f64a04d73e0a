"""Does something again whenever runs have gone on."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from tf_fedsam import paths
from tf_fedsam.comparison.finding import Place, find_runs
from tf_fedsam.errors import InputError

FILES = ("config.json", "rounds.jsonl", "summary.json")


def watch(
    places: Sequence[Place],
    act: Callable[[bool], None],
    *,
    seconds: float,
    say: Callable[[str], None],
    landscapes: Sequence[Any] = (),
) -> None:
    """Calls ``act(True)`` at once and after every change, and ``act(False)`` when interrupted.

    What cannot be done yet is told, once, and tried again when something has changed.

    Args:
        places: run folders, or folders that contain some; they need not hold a run yet.
        act: told whether there is more to come.
        seconds: between looks.
        say: tells the user something.
        landscapes: folders of loss surfaces, which are watched, too.
    """
    before: Any = None
    told = ""
    try:
        while True:
            now = snapshot(places, landscapes)
            if now != before:
                before = now
                try:
                    act(True)
                    told = ""
                except InputError as error:
                    if str(error) != told:
                        told = str(error)
                        say(f"Waiting: {told}")
            time.sleep(seconds)
    except KeyboardInterrupt:
        act(False)


def snapshot(places: Sequence[Place], landscapes: Sequence[Any] = ()) -> Any:
    """Something that is another thing after a run was added, has gone on or has ended."""
    try:
        runs = find_runs(places)
    except InputError:
        runs = {}
    files = [path / name for path in runs for name in FILES]
    files += [paths.expanded(place) / "landscape.json" for place in landscapes]
    return tuple(sorted(runs.values())), tuple(_state(file) for file in files)


def _state(file: Any) -> tuple[Any, ...]:
    try:
        found = file.stat()
    except OSError:
        return (str(file),)
    return str(file), found.st_mtime_ns, found.st_size
