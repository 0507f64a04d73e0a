"""What can be wrong with cells apart from their settings: their folders and their data."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from tf_fedsam import paths
from tf_fedsam.data import sampling
from tf_fedsam.errors import InputError
from tf_fedsam.runs.config import SETTINGS, ResolvedConfig, of_group
from tf_fedsam.runs.experiment import load_data, look_at_weights, training_split
from tf_fedsam.runs.settings import File, Group, Role
from tf_fedsam.runs.task import Request
from tf_fedsam.sweeps.cells import Cell
from tf_fedsam.sweeps.problems import Problems

# What decides which data are read, apart from the seed.
_READ = (
    "dataset",
    *(
        field.name
        for field in dataclasses.fields(Request)
        if field.name in SETTINGS and SETTINGS[field.name].role is not Role.SEED
    ),
)
_SPLIT = (
    *of_group(Group.DATA),
    *(setting.name for setting in SETTINGS.values() if setting.file is File.INPUT),
)


def check_folders(cells: Sequence[Cell]) -> None:
    """Refuses folders that hold other runs."""
    problems = Problems()
    for cell in cells:
        run = cell.run
        try:
            inputs = run.config()["inputs"] if run.config_exists() else {}
            run.check(cell.resolved.as_dict(), inputs)
        except InputError as error:
            problems.add(error)
    problems.refuse()


def check_data(cells: Sequence[Cell]) -> None:
    """Reads the labels of each data set once and makes each split for one seed.

    What is to be downloaded is so before two cells want it at the same time.
    """
    problems = Problems()
    for of_data in _alike(cells, _READ):
        try:
            loaded = load_data(of_data[0].resolved, labels_only=True)
        except (InputError, OSError) as error:
            problems.add(_told(error), *(cell.name for cell in of_data))
            continue
        for same in _alike(of_data, _SPLIT):
            try:
                training_split(same[0].resolved, loaded)
                _read_inputs(same[0].resolved)
            except (InputError, OSError) as error:
                problems.add(_told(error), *(cell.name for cell in same))
    problems.refuse()


def _alike(cells: Iterable[Cell], names: Sequence[str]) -> list[list[Cell]]:
    """The cells, those together that have the same values of some settings."""
    found: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in cells:
        found.setdefault(tuple(getattr(cell.resolved, name) for name in names), []).append(cell)
    return list(found.values())


def _read_inputs(config: ResolvedConfig) -> None:
    if config.client_schedule is not None:
        sampling.load_schedule(config.client_schedule)
    if config.init_weights is not None:
        look_at_weights(paths.expanded(config.init_weights))


def _told(error: InputError | OSError) -> InputError | str:
    return error if isinstance(error, InputError) else str(error)
