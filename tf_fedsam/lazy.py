"""TensorFlow and Keras, loaded when they are first used.

    from tf_fedsam.lazy import keras, tf

What a run may be, its settings, methods, models and data sets, is then known without loading them,
which takes seconds: help, tables and messages about mistakes come at once. A module that is to be
known this way says ``from __future__ import annotations``, for annotations such as ``tf.Tensor``,
and uses both inside functions only.
"""

import importlib
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import keras
    import tensorflow as tf
else:

    class _Lazy(types.ModuleType):
        """Has the attributes of the module of its name."""

        def __getattr__(self, name: str) -> Any:
            return getattr(importlib.import_module(self.__name__), name)

    keras = _Lazy("keras")
    tf = _Lazy("tensorflow")

__all__ = ["keras", "tf"]
