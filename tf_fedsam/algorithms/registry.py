"""Finds algorithms: every file of this package that holds one, and users' own files."""

import functools
import importlib
import importlib.util
import inspect
import pathlib
import pkgutil

from tf_fedsam import algorithms
from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.errors import InputError, unknown


@functools.cache
def all_algorithms() -> dict[str, type[Algorithm]]:
    """The algorithms that come with the package, by name."""
    found = {}
    for module_info in pkgutil.iter_modules(algorithms.__path__):
        module = importlib.import_module(f"{algorithms.__name__}.{module_info.name}")
        for _, value in inspect.getmembers(module, inspect.isclass):
            if (
                issubclass(value, Algorithm)
                and value.__module__ == module.__name__
                and getattr(value, "name", None) == module_info.name
            ):
                found[value.name] = value
    return dict(sorted(found.items()))


def find(name: str) -> type[Algorithm]:
    """The algorithm of this name, or of ``path/to/file.py:ClassName``."""
    if ".py:" in name:
        return _from_file(name)
    if name not in all_algorithms():
        hint = "A method of your own is given as path/to/file.py:ClassName."
        raise unknown("algorithm", name, all_algorithms(), hint)
    return all_algorithms()[name]


def _from_file(reference: str) -> type[Algorithm]:
    file_name, class_name = reference.rsplit(":", 1)
    path = pathlib.Path(file_name)
    if not path.is_file():
        raise InputError(
            f"There is no file {file_name!r}. Expected: --algo=path/to/file.py:ClassName."
        )
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(f"{file_name} could not be loaded: {error!r}. Fix the file.") from error
    found = {
        n: c
        for n, c in inspect.getmembers(module, inspect.isclass)
        if issubclass(c, Algorithm) and c.__module__ == module.__name__
    }
    if class_name not in found:
        raise unknown(f"algorithm class in {file_name}", class_name, found)
    return found[class_name]
