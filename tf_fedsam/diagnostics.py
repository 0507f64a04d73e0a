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

OF_PAIRS = ("dispersion", "update_cosine")  # need two clients to mean something


def zeros(weights: Tree) -> Vectors:
    """What is summed over clients, before the first."""
    return {"move": tree.zeros_like(weights), "unit": tree.zeros_like(weights)}


def add(
    sums: Vectors, weights: Tree, local: Tree, delta: Tree, one: tf.Tensor
) -> tuple[Vectors, tuple[tf.Tensor, tf.Tensor]]:
    """The sums with a client more, its squared distance to the global model, and 1 if it moved.

    Args:
        sums: those so far.
        weights: the global model before the round.
        local: the local model after its last step.
        delta: the client's update, from where it started.
        one: 1 if the client counts, else 0.
    """
    length = tree.norm(delta)
    per_length = tf.math.divide_no_nan(1.0, length)

    def add_move(total, w, w_i):
        return total + tf.math.multiply_no_nan(w_i - w, one)

    def add_unit(total, d):
        return total + tf.math.multiply_no_nan(per_length * d, one)

    distance = tree.norm_of(tf.subtract, local, weights)
    with tf.control_dependencies([distance]):
        move = tree.one_by_one(add_move, sums["move"], weights, local)
    with tf.control_dependencies(move[-1:]):
        unit = tree.one_by_one(add_unit, sums["unit"], delta)
    return {"move": move, "unit": unit}, (tf.square(distance), tf.cast(length > 0, tf.float32))


def of_round(
    sums: Vectors,
    squares: tf.Tensor,
    moving: tf.Tensor,
    count: tf.Tensor,
    before: Tree,
    after: Tree,
) -> dict[str, tf.Tensor]:
    """The round's numbers.

    Args:
        sums: of the clients that reported.
        squares: each client's squared distance to the global model; 0 if it did not report.
        moving: 1 for each client that moved and reported.
        count: how many reported.
        before: the global model that the round began with.
        after: the one it made.
    """
    share = tf.math.divide_no_nan(1.0, count)
    mean = tree.norm_of(lambda move: share * move, sums["move"])
    away = tree.norm_of(lambda move, w, new: share * move - (new - w), sums["move"], before, after)
    spread = tf.math.divide_no_nan(tf.reduce_sum(squares), count)
    dispersion = tf.maximum(spread - tf.square(mean), 0.0)
    agreement = tf.square(tree.norm(sums["unit"])) - tf.reduce_sum(moving)
    return {
        "dispersion": dispersion,
        "flatness_distance": dispersion + tf.square(away),
        "update_cosine": tf.math.divide_no_nan(agreement, count * (count - 1)),
    }


def momentum_cosine(sums: Vectors, momentum: Tree, count: tf.Tensor) -> tf.Tensor:
    """The mean cosine of the updates to the momentum; 0 if that is zero."""
    along = tree.dot(sums["unit"], momentum)
    return tf.math.divide_no_nan(along, count * tree.norm(momentum))
