"""Finds data sets: every file of this package that declares a ``TASK``."""

import functools
import importlib
import pkgutil

import tasks
from tasks.base import Task
from tf_fedsam.errors import unknown


@functools.cache
def all_tasks() -> dict[str, Task]:
    """The data sets, by name."""
    found = {}
    for info in pkgutil.iter_modules(tasks.__path__):
        if not info.ispkg:
            task = getattr(importlib.import_module(f"tasks.{info.name}"), "TASK", None)
            if task is not None:
                found[task.name] = task
    return dict(sorted(found.items()))


def find(name: str) -> Task:
    if name not in all_tasks():
        raise unknown("data set", name, all_tasks())
    return all_tasks()[name]
