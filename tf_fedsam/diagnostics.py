"""Cheap numbers of a round: how far apart the local models end, and whether the clients agree.

Over the m clients i that reported, with w the global model before the round and w_new after it:

    dispersion         mean_i |w_i - mean_j w_j|^2
    flatness_distance  mean_i |w_i - w_new|^2
    update_cosine      mean of cos(delta_i, delta_j) over all pairs i != j
    momentum_cosine    mean of cos(delta_i, M), M the server's momentum that the round began with
    perturbation_norm  mean of the norm of the shift from the local weights to where the gradient
                       is taken, in each client's last local step

Neither needs all local models at once. With d_i = w_i - w and u_i = delta_i / |delta_i|:

    dispersion         = mean_i |d_i|^2 - |mean_i d_i|^2
    flatness_distance  = dispersion + |mean_i d_i - (w_new - w)|^2
    update_cosine      = (|sum_i u_i|^2 - m) / (m * (m - 1))
    momentum_cosine    = (sum_i u_i) . M / (m * |M|)
"""

import tensorflow as tf

from tf_fedsam import tree
from tf_fedsam.algorithms.base import Vectors
from tf_fedsam.tree import Tree

COLUMNS = ("move_square", "moved", "perturbation_norm")


def zeros(weights: Tree) -> Vectors:
    """What is summed over clients, before the first."""
    return {"move": tree.zeros_like(weights), "unit": tree.zeros_like(weights)}


def of_client(weights: Tree, local: Tree, delta: Tree) -> tuple[Vectors, list[tf.Tensor]]:
    """A client's summands and its values of the first two ``COLUMNS``.

    Args:
        weights: the global model before the round.
        local: the local model after its last step.
        delta: the client's update, from where it started.
    """
    move = tree.sub(local, weights)
    length = tree.norm(delta)
    unit = tree.scale(tf.math.divide_no_nan(1.0, length), delta)
    return {"move": move, "unit": unit}, [
        tf.square(tree.norm(move)),
        tf.cast(length > 0, tf.float32),
    ]


def of_round(
    sums: Vectors, columns: dict[str, tf.Tensor], count: tf.Tensor, moved: Tree
) -> dict[str, tf.Tensor]:
    """The round's numbers.

    Args:
        sums: of the clients that reported.
        columns: the cohort's ``COLUMNS``, 0 for clients that did not report.
        count: how many reported.
        moved: how the global model moved.
    """
    mean = tree.scale(tf.math.divide_no_nan(1.0, count), sums["move"])
    spread = tf.math.divide_no_nan(tf.reduce_sum(columns["move_square"]), count)
    dispersion = tf.maximum(spread - tf.square(tree.norm(mean)), 0.0)
    agreement = tf.square(tree.norm(sums["unit"])) - tf.reduce_sum(columns["moved"])
    return {
        "dispersion": dispersion,
        "flatness_distance": dispersion + tf.square(tree.norm(tree.sub(mean, moved))),
        "update_cosine": tf.math.divide_no_nan(agreement, count * (count - 1)),
    }


def momentum_cosine(sums: Vectors, momentum: Tree, count: tf.Tensor) -> tf.Tensor:
    """The mean cosine of the updates to the momentum; 0 if that is zero."""
    along = tree.dot(sums["unit"], momentum)
    return tf.math.divide_no_nan(along, count * tree.norm(momentum))
