"""Which settings of a run make its problem, and which the way it is solved.

Both follow from the roles that the settings are declared with. A setting that is not declared, as
a run of a later version may have it, decides how the problem is solved.
"""

from typing import Any

from tf_fedsam.comparison.compared_run import ComparedRun
from tf_fedsam.runs.config import SAVED, SETTINGS, of_role
from tf_fedsam.runs.settings import File, Role

PROBLEM = tuple(name for name in of_role(Role.PROBLEM) if name in SAVED)
# Where and how a run is computed and looked at; which data it reads is told by their fingerprint.
INDECISIVE = of_role(Role.SEED, Role.SOURCE, Role.MEASURING, Role.EXECUTION)
_OF_DATA = ("train_examples", "test_examples", "num_classes", "input_shape")
SIZES = (*_OF_DATA, "num_parameters")
_FINGERPRINTS = ("data", "split")  # inputs that no setting names


def problem(run: ComparedRun) -> dict[str, Any]:
    """What the run is to solve: settings, content of files that they name, sizes."""
    data = run.config.get("data")
    data = data if isinstance(data, dict) else {}
    settings = {name: run.settings.get(name) for name in PROBLEM}
    return {
        **_by_content(settings, run, [n for n in _files(run) if n in PROBLEM]),
        **{name: data.get(name) for name in _OF_DATA},
        "num_parameters": run.config.get("num_parameters"),
    }


def decisive(run: ComparedRun) -> dict[str, Any]:
    """How the run solves it: all other settings that count, flat."""
    flat = {
        name: value
        for name, value in run.settings.items()
        if name not in (*PROBLEM, *INDECISIVE, "hparams")
    }
    flat |= {f"hparams.{name}": v for name, v in run.settings.get("hparams", {}).items()}
    return _by_content(flat, run, [n for n in _files(run) if n not in PROBLEM])


def _files(run: ComparedRun) -> list[str]:
    """Settings that name a file whose content is known."""
    return [name for name in run.config.get("inputs", {}) if name not in _FINGERPRINTS]


def _by_content(values: dict[str, Any], run: ComparedRun, files: list[str]) -> dict[str, Any]:
    """The values with files by their content; where code is kept is a part of its name."""
    values = dict(values)
    for name in files:
        values[f"content of {name}"] = run.config["inputs"][name]
        if name not in SETTINGS or SETTINGS[name].file is not File.CODE:
            values.pop(name, None)
    return values
