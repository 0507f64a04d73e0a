"""Loads a user's own file: ``path/to/file.py:Name``."""

import importlib.util
import sys
import traceback
import zlib
from pathlib import Path
from types import ModuleType

from tf_fedsam.errors import InputError


def is_reference(name: str) -> bool:
    """Whether a name points into a file."""
    return name.endswith(".py") or ".py:" in name


def load_module(reference: str, what: str) -> tuple[ModuleType, str]:
    """Runs the file of a reference; returns its module and the name after the colon."""
    file, _, wanted = reference.rpartition(":") if ".py:" in reference else (reference, "", "")
    path = Path(file).expanduser()
    if not path.is_file():
        raise InputError(
            f"{what} {reference!r}: there is no file {str(path.absolute())!r}. "
            f"Expected path/to/file.py:Name; check the path."
        )
    # A name of its own, so that files of the same name do not replace each other.
    module_name = f"{path.stem}_{zlib.crc32(str(path.resolve()).encode()):08x}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:  # for types only: never so for a .py file
        raise InputError(f"{what} {reference!r}: Python cannot run {path.name}.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses and Keras' registry look it up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[module_name]
        raise InputError(
            f"{what} {reference!r}: running the file failed: {describe(error)}"
        ) from error
    return module, wanted


def describe(error: Exception) -> str:
    """Type and message of an error in a user's code, and the line where it arose."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" (line {frames[-1].lineno} of {Path(frames[-1].filename).name})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"
