"""What is added up over the clients of a round."""

from typing import Any, NamedTuple

import tensorflow as tf

from tf_fedsam import diagnostics, tree
from tf_fedsam.algorithms.base import Aggregate, Algorithm, Vectors
from tf_fedsam.engine.client_training import Trained
from tf_fedsam.tree import Tree


class ClientTable(NamedTuple):
    """What is told of each client of a cohort, one entry a client; 0 if it did not report.

    Attributes:
        reported: 1 for a client that did.
        loss: mean loss of its local steps.
        delta_norm: norm of its update.
        move_square: squared distance of its model to the global one before the round.
        moved: 1 if its update is not zero.
        perturbation_norm: norm of the shift in its last local step.
    """

    reported: Any
    loss: Any
    delta_norm: Any
    move_square: Any
    moved: Any
    perturbation_norm: Any


class Sums(NamedTuple):
    """Sums over the clients that reported.

    Attributes:
        mean: summands times the client's aggregation weight.
        total: summands.
        scalar: single numbers times the aggregation weight.
        statistics: BatchNorm statistics.
        moves: what the diagnostics need; empty without them.
        weight: aggregation weights.
        count: how many clients reported.
        table: [cohort, columns of ``ClientTable``], each client in a row of its own.
    """

    mean: Vectors
    total: Vectors
    scalar: dict[str, tf.Tensor]
    statistics: Tree
    moves: Vectors
    weight: tf.Tensor
    count: tf.Tensor
    table: tf.Tensor

    def columns(self) -> ClientTable:
        return ClientTable(*tf.unstack(self.table, axis=1))

    def aggregate(self) -> Aggregate:
        """What the server step is given."""
        share = tf.math.divide_no_nan(1.0, self.weight)
        return Aggregate(
            mean={name: tree.scale(share, v) for name, v in self.mean.items()},
            total=self.total,
            scalar={name: share * v for name, v in self.scalar.items()},
            num_reporting=self.count,
        )

    def mean_statistics(self) -> Tree:
        return tree.scale(tf.math.divide_no_nan(1.0, self.count), self.statistics)


def zeros(
    algorithm: Algorithm,
    weights: Tree,
    statistics: Tree,
    cohort_size: int | tf.Tensor,
    diagnose: bool,
) -> Sums:
    """The sums over nobody."""
    return Sums(
        mean={name: tree.zeros_like(weights) for name in algorithm.means},
        total={name: tree.zeros_like(weights) for name in algorithm.totals},
        scalar={name: tf.zeros([]) for name in algorithm.mean_scalars},
        statistics=tree.zeros_like(statistics),
        moves=diagnostics.zeros(weights) if diagnose else {},
        weight=tf.zeros([]),
        count=tf.zeros([]),
        table=tf.zeros([cohort_size, len(ClientTable._fields)]),
    )


def add(
    sums: Sums,
    trained: Trained,
    *,
    number: tf.Tensor,
    weight: tf.Tensor,
    reported: tf.Tensor,
    weights: Tree,
) -> Sums:
    """The sums with one client more.

    Args:
        sums: those so far.
        trained: what the client left behind.
        number: of the client in the cohort.
        weight: its aggregation weight.
        reported: whether it counts.
        weights: the global model before the round.
    """
    weight, one = tf.where(reported, weight, 0.0), tf.where(reported, 1.0, 0.0)

    done: Tree = []

    def plus(totals: Any, values: Any, factor: tf.Tensor) -> Any:
        add_one = lambda total, value: total + tf.math.multiply_no_nan(value, factor)  # noqa: E731
        with tf.control_dependencies(done[-1:]):
            flat = tree.one_by_one(add_one, tf.nest.flatten(totals), tf.nest.flatten(values))
        done.extend(flat)
        return tf.nest.pack_sequence_as(totals, flat)

    summands = trained.summands
    mean = plus(sums.mean, {name: summands[name] for name in sums.mean}, weight)
    total = plus(sums.total, {name: summands[name] for name in sums.total}, one)
    scalar = plus(sums.scalar, {name: summands[name] for name in sums.scalar}, weight)
    statistics = plus(sums.statistics, trained.statistics, one)
    moves, measured = sums.moves, (tf.zeros([]), tf.zeros([]))
    if moves:
        with tf.control_dependencies(done[-1:]):
            moves, measured = diagnostics.add(moves, weights, trained.weights, trained.delta, one)
    row = ClientTable(
        one, trained.loss, tree.norm(trained.delta), *measured, trained.perturbation_norm
    )
    return Sums(
        mean=mean,
        total=total,
        scalar=scalar,
        statistics=statistics,
        moves=moves,
        weight=sums.weight + weight,
        count=sums.count + one,
        table=tf.tensor_scatter_nd_update(
            sums.table, [[number]], tf.where(reported, tf.stack(row), 0.0)[None]
        ),
    )
