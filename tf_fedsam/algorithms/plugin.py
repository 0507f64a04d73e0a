"""A plug-in wraps an algorithm and is used like one; what it does not change is the inner one's."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tf_fedsam.algorithms.base import Algorithm
else:
    Algorithm = object  # with no attributes and methods of its own, so that all are the inner one's


class Plugin(Algorithm):
    """An algorithm around an algorithm.

    A plug-in defines the methods and sets the facts that it changes, and asks ``inner`` for the
    rest. A plug-in with vectors of its own on the server hides them from ``inner`` where it has to.
    """

    def __init__(self, inner: "Algorithm"):
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # not set yet
            raise AttributeError(name)
        return getattr(self.inner, name)
