"""Finds algorithms: every file of this package that holds one, and users' own files."""

import dataclasses
import functools
import importlib
import inspect
import pkgutil

from tf_fedsam import algorithms, own_code
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
                and value.name == module_info.name
            ):
                found[value.name] = value
    return dict(sorted(found.items()))


def find(name: str) -> type[Algorithm]:
    """The algorithm of this name, or of ``path/to/file.py:ClassName``."""
    if own_code.is_reference(name):
        return _checked(own_code.load_class(name, Algorithm, "Algorithm"), name)
    if name not in all_algorithms():
        hint = "A method of your own is given as path/to/file.py:ClassName."
        raise unknown("algorithm", name, all_algorithms(), hint)
    return all_algorithms()[name]


def _checked(algorithm: type[Algorithm], where: str) -> type[Algorithm]:
    """Refuses hyper-parameters that could not be set one by one."""
    if not dataclasses.is_dataclass(algorithm.Hparams):
        raise InputError(
            f"Hparams of {where} must be a dataclass. Received: {algorithm.Hparams!r}. Put "
            f"@dataclasses.dataclass(frozen=True) above it."
        )
    for field in dataclasses.fields(algorithm.Hparams):
        if field.default is dataclasses.MISSING:
            raise InputError(
                f"The hyper-parameter {field.name} of {where} must have a plain default. Received: "
                f"none. Write, for example, {field.name}: float = 0.1."
            )
    return algorithm


def accounting(algorithm: Algorithm) -> tuple[str, int, int, str]:
    """Client state, vectors down, vectors up and gradients a step, as the engine counts them."""
    kept = (*algorithm.client_state, *(f"{name} (on the server)" for name in algorithm.server_rows))
    state = ", ".join(kept).replace("_", " ") or "none"
    gradients = str(algorithm.Client.gradients_per_step)
    if algorithm.Client.forwards_per_step:
        gradients += f" + {algorithm.Client.forwards_per_step} forward"
    if algorithm.extra_gradient_epochs:
        gradients += f" + {algorithm.extra_gradient_epochs} epoch"
    return state, len(algorithm.downloads), len(algorithm.uploads), gradients
