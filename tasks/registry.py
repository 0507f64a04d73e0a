"""Finds data sets: every file of this package that declares a ``TASK``, and those of TFDS."""

import functools
import importlib
import pkgutil

import tasks
from tasks import tfds_any
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
    """The data set of that name; ``tfds:NAME`` is any image-classification set of TFDS."""
    if name.startswith(tfds_any.PREFIX):
        return tfds_any.task(name)
    if name not in all_tasks():
        raise unknown(
            "data set", name, all_tasks(), f"Or {tfds_any.PREFIX}NAME for a data set of TFDS."
        )
    return all_tasks()[name]
