"""What is kept for a client between rounds, as flat rows: one vector a name and client."""

from collections.abc import Mapping

import tensorflow as tf

from tf_fedsam import tree
from tf_fedsam.algorithms.base import Algorithm, Round, Vectors
from tf_fedsam.options import TrainingOptions
from tf_fedsam.tree import Tree

MODEL_STATE = "model_state"  # the BatchNorm statistics, the server's or a client's own
LOCAL_MODEL = "local_model"  # a client's last local model, if these are kept
LOCAL_VELOCITY = "local_velocity"  # of a client's local momentum, if it is kept

Rows = Mapping[str, tf.Tensor]


def lengths(algorithm: Algorithm, server: Vectors, options: TrainingOptions) -> dict[str, int]:
    """The lengths of a client's rows, given the server's vectors before round 0."""
    row = algorithm.row_defaults(server)
    sent = algorithm.download(server, row, Round(tf.constant(0), tf.constant(0.0), num_clients=1))
    state = algorithm.client_defaults(sent | known_beforehand(algorithm, server))
    kept = {**row, **state}
    if options.norm_state == "local" and server[MODEL_STATE]:
        kept[MODEL_STATE] = server[MODEL_STATE]
    if options.keep_local_models:
        kept[LOCAL_MODEL] = server["weights"]
    if options.keeps_velocity:
        kept[LOCAL_VELOCITY] = server["weights"]
    return {name: sum(tree.sizes(vector)) for name, vector in kept.items()}


def known_beforehand(algorithm: Algorithm, server: Vectors) -> Vectors:
    """What every client has known since before round 0."""
    return {name: server[name] for name in algorithm.beforehand}


def restore(rows: Rows, seen: tf.Tensor, defaults: Vectors) -> Vectors:
    """The vectors that the defaults name: a client's own rows if it has any."""
    return {
        name: tf.cond(
            seen,
            lambda row=rows[name], like=default: tree.unflatten(row, like),
            lambda default=default: list(default),
        )
        for name, default in defaults.items()
    }


def row(vector: Tree, old: tf.Tensor, reported: tf.Tensor) -> tf.Tensor:
    """The row of a vector, or the old one of a client that did not report."""
    return tf.cond(reported, lambda: tree.flatten(vector), lambda: old)
