"""Names of folders, made from settings: they stay as they are for ever."""

import glob
import pathlib
import re
from collections.abc import Mapping
from typing import Any

from tf_fedsam.own_code import is_reference
from tf_fedsam.runs.config import GROUPED, SETTINGS, ResolvedConfig, RunConfig
from tf_fedsam.runs.settings import File, Role

LEFT_OUT = "none"
LONGEST = 150
ROLES = (Role.PROBLEM, Role.METHOD, Role.TUNING)  # of the settings that a name tells of


def output_folder(config: ResolvedConfig) -> pathlib.Path:
    """The folder of a run that was given none.

    It tells what is not as the data set and the method have it by default. The fingerprint at its
    end decides: a run that is there under other words, as an earlier version chose them, stays.
    """
    data, method = re.sub(r"\W+", "-", config.dataset), config.algo
    if is_reference(method):
        method = pathlib.Path(method).stem
    start, end = f"{data}-{method}", f"-seed{config.seed}-{config.fingerprint()}"
    folder = pathlib.Path("runs")
    earlier = folder.glob(f"{glob.escape(start)}*{end}/config.json")
    if found := sorted(file.parent for file in earlier):
        return found[0]
    said = start
    for word in words(changed(config)):
        if len(said) + 1 + len(word) + len(end) <= LONGEST:  # half a word could be misread
            said += f"-{word}"
    return folder / f"{said}{end}"


def changed(config: ResolvedConfig) -> dict[str, Any]:
    """What of a run is not as its data set, method and model have it by default."""
    task = config.task
    names: dict[str, Any] = {"dataset": config.dataset, "algo": config.algo}
    usual = RunConfig(**names).resolve(task)
    kinds: dict[str, Any] = {n: getattr(config, n) for n in ("lr_schedule", "rho_schedule")}
    scheduled = RunConfig(**names, **kinds, rounds=config.rounds).resolve(task)
    same_model = RunConfig(**names, model=config.model).resolve(task)
    found: dict[str, Any] = {}
    for setting in SETTINGS.values():
        name = setting.name
        if setting.free or setting.role not in ROLES or name in names:
            continue
        if name in GROUPED:
            before = getattr(same_model, name)
            own = getattr(config, name).items()
            other = {n: v for n, v in own if n not in before or before[n] != v}
            found |= {_full_name(name, n): v for n, v in other.items()}
        elif getattr(config, name) not in _without_asking(name, usual, scheduled):
            found[name] = getattr(config, name)
    return found


def _without_asking(name: str, usual: ResolvedConfig, scheduled: ResolvedConfig) -> tuple[Any, ...]:
    """What a setting is by itself, also as a part of a schedule that was asked for."""
    by_itself = None if name.endswith("_schedule") else getattr(scheduled, name)
    return None, getattr(usual, name), by_itself


def _full_name(group: str, inner: str) -> str:
    """``hparams.rho``; ``hidden_units`` is a setting itself."""
    is_short_form = inner in SETTINGS and SETTINGS[inner].goes_into == group
    return inner if is_short_form else f"{group}.{inner}"


def words(values: Mapping[str, Any]) -> list[str]:
    """Settings and their values for the name of a folder, in an order of their own."""
    return sorted(short(name) + _after(plain(name, value)) for name, value in values.items())


def shortened(name: str, fingerprint: str) -> str:
    """A name that a file system takes; a long one ends with the fingerprint of its settings."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 9]}-{fingerprint}"


def short(name: str) -> str:
    """``rho`` for ``hparams.rho``, unless a setting has that name, too."""
    inner = name.partition(".")[2]
    return inner if inner and inner not in SETTINGS else name


def plain(name: str, value: Any) -> str:
    """A value for the name of a folder."""
    if value is None:
        return LEFT_OUT
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return f"{value:g}" if isinstance(value, float) else str(value)
    text = "x".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    if name in SETTINGS and SETTINGS[name].file in (File.DATA, File.INPUT):
        text = pathlib.Path(text).stem
    elif is_reference(text):
        file, _, inner = text.rpartition(":")
        text = f"{pathlib.Path(file).stem}-{inner}"
    return re.sub(r"[^\w.+]+", "-", text).strip("-") or LEFT_OUT


def _after(value: str) -> str:
    return value if re.match(r"-?\d", value) else f"-{value}"
