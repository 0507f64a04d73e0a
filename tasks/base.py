"""What the files of data sets share."""

import numpy as np

from tf_fedsam import rng
from tf_fedsam.errors import InputError
from tf_fedsam.runs.task import STREAM_BYTES, Loaded, Request, Task

__all__ = ["STREAM_BYTES", "Loaded", "Request", "Task", "refuse", "subset_positions"]


def refuse(request: Request, name: str, *unused: str) -> None:
    """Refuses the parts of a request that a data set would have to ignore."""
    for field in unused:
        value = getattr(request, field)
        if value is not None:
            raise InputError(
                f"{field} has no meaning for dataset={name}. Received: {value}. Remove it.",
                *(field, "dataset"),
            )


def subset_positions(
    num_train: int, num_test: int, request: Request
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Which training and test examples ``request.subset`` keeps, ascending; ``None`` for all.

    Training and test examples keep the proportion they have in the data set; which ones is drawn
    uniformly without replacement and depends on the seed alone.
    """
    total = num_train + num_test
    if request.subset is None or request.subset == total:
        return None, None
    if not 2 <= request.subset <= total:
        raise InputError(
            f"subset counts training and test examples together. Received: {request.subset}. "
            f"Expected: 2 to {total}, which is all.",
            "subset",
        )
    kept = min(max(round(request.subset * num_train / total), 1), request.subset - 1)
    draw = lambda part, n, count: np.sort(  # noqa: E731
        rng.generator(request.seed, f"subset.{part}").choice(n, count, replace=False)
    )
    return draw("train", num_train, kept), draw("test", num_test, request.subset - kept)
