"""A round that is only tried: the models its clients would train, and nothing is changed by it.

The clients do exactly what they do in a round, in a second compiled one that gives out their local
models and BatchNorm statistics as rows.
"""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from tf_fedsam import tree
from tf_fedsam.algorithms.base import Vectors
from tf_fedsam.engine.kept import LOCAL_MODEL, MODEL_STATE
from tf_fedsam.tree import Tree


def with_models(
    rows: Mapping[str, np.ndarray], server: Vectors, count: int
) -> dict[str, np.ndarray]:
    """The rows of some clients, with room for what a rehearsal gives out.

    Args:
        rows: what was kept for the clients.
        server: the server's vectors; clients without statistics of their own begin with its.
        count: how many clients.
    """
    room = {LOCAL_MODEL: np.zeros((count, sum(tree.sizes(server["weights"]))), np.float32)}
    if server[MODEL_STATE]:
        statistics = tree.flatten(server[MODEL_STATE]).numpy()
        room[MODEL_STATE] = np.tile(statistics, (count, 1))
    return {**room, **rows}


def models(
    rows: Mapping[str, np.ndarray], reported: np.ndarray, server: Vectors
) -> list[Vectors | None]:
    """The clients' models from the rows after a rehearsal, as a server would hold them.

    Args:
        rows: after the round.
        reported: which clients' training ended with finite numbers; ``None`` for the others.
        server: whose trees have the models' shapes.
    """

    def of(name: str, entry: int, like: Tree) -> Tree:
        return tree.unflatten(tf.constant(rows[name][entry]), like) if like else []

    return [
        {
            "weights": of(LOCAL_MODEL, entry, server["weights"]),
            MODEL_STATE: of(MODEL_STATE, entry, server[MODEL_STATE]),
        }
        if reported[entry]
        else None
        for entry in range(len(reported))
    ]
