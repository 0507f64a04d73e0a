"""Devices: each has a copy of the client model and trains a share of every cohort."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_fedsam import workers
from tf_fedsam.client import ClientModel, frozen_weights
from tf_fedsam.data import arrays
from tf_fedsam.data.federated_dataset import Examples


class Placement:
    """The replicas of a strategy.

    Args:
        strategy: its replicas share a cohort.
    """

    def __init__(self, strategy: tf.distribute.Strategy):
        self.strategy = strategy
        self.team = workers.Team(strategy)
        self.num_replicas = strategy.num_replicas_in_sync

    def make_client(
        self, make: Callable[[], ClientModel], frozen: Sequence[np.ndarray]
    ) -> ClientModel:
        """A client model whose variables differ from replica to replica.

        Args:
            make: makes it.
            frozen: values of the frozen weights, the same on every replica.
        """
        with self.strategy.scope(), tf.variable_creator_scope(_replica_local):
            client = make()
        variables = frozen_weights(client.network)

        @tf.function(autograph=False)
        def assign():
            for variable, value in zip(variables, frozen, strict=True):
                variable.assign(value)

        if variables:
            self.strategy.run(assign)
        return client

    def put(self, examples: Examples) -> tuple[Any, Any]:
        """Inputs and labels on every device; logical CPU devices share one copy."""
        y = examples.y.astype(np.int32)
        if all("CPU" in d.upper() for d in self.strategy.extended.worker_devices):
            return arrays.as_tensor(np.asarray(examples.x)), tf.constant(y)
        put = self.strategy.experimental_distribute_values_from_function
        return put(lambda _: tf.constant(examples.x)), put(lambda _: tf.constant(y))

    def shares(self, num_steps: np.ndarray) -> list[np.ndarray]:
        """The clients of each replica, by their numbers in the cohort.

        The longest first, always to the replica with least to do.
        """
        load = np.zeros(self.num_replicas, np.int64)
        replica = np.zeros(len(num_steps), np.int64)
        for client in np.argsort(-num_steps, kind="stable"):
            replica[client] = np.argmin(load)
            load[replica[client]] += max(int(num_steps[client]), 1)
        return [np.flatnonzero(replica == r) for r in range(self.num_replicas)]

    def run(self, function: Callable, *args: Any) -> Any:
        """Runs a function on every replica, in a graph."""
        return self.strategy.run(function, args=args)

    def replica(self) -> tf.Tensor:
        """The number of the replica, in a function that it runs."""
        return tf.distribute.get_replica_context().replica_id_in_sync_group

    def total(self, values: Any) -> Any:
        """The sums over replicas of all tensors of a structure."""
        add = lambda value: self.strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None)  # noqa: E731
        return tf.nest.map_structure(add, values)

    def each(self, value: Any) -> tuple[tf.Tensor, ...]:
        """The rows of each replica, in the replicas' order."""
        if self.team.count > 1:
            return (workers.gathered(self.strategy, value),)
        return self.strategy.experimental_local_results(value)


def ring_bytes(num_replicas: int, summed: int, gathered: int) -> int:
    """What each worker sends to others, in a ring of all replicas.

    Args:
        num_replicas: of all workers together.
        summed: bytes that are added up over replicas: a ring takes them round twice.
        gathered: bytes of all replicas together that every worker gets.
    """
    share = (num_replicas - 1) / num_replicas
    return round(share * (2 * summed + gathered))


@contextlib.contextmanager
def without_graph_rewrites():
    """Runs compiled functions as they were traced.

    On CPUs TensorFlow's memory optimizer turns sums of large tensors into temporary variables whose
    names clash in a loop within a loop ("Resource ... tmp_var already exists"). It cannot be
    switched off by itself, and rounds are as fast without any rewrites.
    """
    options = tf.config.optimizer
    before = options.get_experimental_options().get("disable_meta_optimizer", False)
    options.set_experimental_options({"disable_meta_optimizer": True})
    try:
        yield
    finally:
        options.set_experimental_options({"disable_meta_optimizer": before})


def _replica_local(next_creator, **options):
    """Variables that differ from replica to replica and are never synchronised."""
    options["synchronization"] = tf.VariableSynchronization.ON_READ
    options["aggregation"] = tf.VariableAggregation.ONLY_FIRST_REPLICA
    return next_creator(**options)
