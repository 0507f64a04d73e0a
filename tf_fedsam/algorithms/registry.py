"""Finds algorithms: every file of this package that holds one, and users' own files."""

import functools
import importlib
import inspect
import pkgutil

from tf_fedsam import algorithms, own_code
from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.algorithms.plugin import Plugin
from tf_fedsam.errors import unknown


@functools.cache
def all_algorithms() -> dict[str, type[Algorithm]]:
    """The algorithms that come with the package, by name."""
    found = {}
    for module_info in pkgutil.iter_modules(algorithms.__path__):
        module = importlib.import_module(f"{algorithms.__name__}.{module_info.name}")
        for _, value in inspect.getmembers(module, inspect.isclass):
            if (
                issubclass(value, Algorithm)
                and not issubclass(value, Plugin)
                and value.__module__ == module.__name__
                and value.name == module_info.name
            ):
                found[value.name] = value
    return dict(sorted(found.items()))


def find(name: str) -> type[Algorithm]:
    """The algorithm of this name, or of ``path/to/file.py:ClassName``."""
    if own_code.is_reference(name):
        return _from_file(name)
    if name not in all_algorithms():
        hint = "A method of your own is given as path/to/file.py:ClassName."
        raise unknown("algorithm", name, all_algorithms(), hint)
    return all_algorithms()[name]


def accounting(algorithm: Algorithm) -> tuple[str, int, int, str]:
    """Client state, vectors down, vectors up and gradients a step, as the engine counts them."""
    state = ", ".join(name.replace("_", " ") for name in algorithm.client_state) or "none"
    if algorithm.client_state_on_server:
        state += " (on the server)"
    gradients = str(algorithm.Client.gradients_per_step)
    if algorithm.extra_gradient_epochs:
        gradients += f" + {algorithm.extra_gradient_epochs} epoch"
    return state, len(algorithm.downloads), len(algorithm.uploads), gradients


def _from_file(reference: str) -> type[Algorithm]:
    module, wanted = own_code.load_module(reference, "Algorithm")
    found = {
        name: value
        for name, value in inspect.getmembers(module, inspect.isclass)
        if issubclass(value, Algorithm) and value.__module__ == module.__name__
    }
    if wanted not in found:
        raise unknown(f"algorithm class of {reference.rsplit(':')[0]}", wanted, found)
    return found[wanted]
