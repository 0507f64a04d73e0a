"""Devices: each has a copy of the client model and trains a share of every cohort."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig
from tensorflow.python.eager import context

from tf_fedsam import workers
from tf_fedsam.client import ClientModel, frozen_weights
from tf_fedsam.data import arrays
from tf_fedsam.data.federated_dataset import Examples


class Placement:
    """The replicas of a strategy.

    Args:
        strategy: its replicas share a cohort.

    Attributes:
        team: the workers.
        num_replicas: of all workers together.
        on_cpus: whether they are logical CPU devices.
    """

    def __init__(self, strategy: tf.distribute.Strategy):
        self.strategy = strategy
        self.team = workers.Team(strategy)
        self.num_replicas = strategy.num_replicas_in_sync
        self.on_cpus = any("CPU" in d.upper() for d in strategy.extended.worker_devices)

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
        if self.on_cpus:
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

    def rewrites(self) -> contextlib.AbstractContextManager[None]:
        """What TensorFlow may do to the graphs of functions that are called in this context.

        Its memory optimizer turns sums of large tensors into temporary variables whose names clash
        in a loop within a loop ("Resource ... tmp_var already exists"). Where all devices are GPUs,
        it alone is switched off, since the layouts and fused kernels of the others matter there.
        On CPUs rounds are as fast without any rewrites, and their bits depend on less.
        """
        return _without_rewrites() if self.on_cpus else _without_memory_rewrites()

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
def _without_rewrites() -> Iterator[None]:
    """Runs compiled functions as they were traced."""
    options = tf.config.optimizer
    before = options.get_experimental_options().get("disable_meta_optimizer", False)
    options.set_experimental_options({"disable_meta_optimizer": True})
    try:
        yield
    finally:
        options.set_experimental_options({"disable_meta_optimizer": before})


@contextlib.contextmanager
def _without_memory_rewrites() -> Iterator[None]:
    """Runs compiled functions with all of TensorFlow's rewrites but those that save memory.

    TensorFlow has no public name for this one, only for all of them together.
    """
    now = context.context()
    before = now.function_call_options
    config = now.config
    config.graph_options.rewrite_options.memory_optimization = RewriterConfig.NO_MEM_OPT
    now.function_call_options = context.FunctionCallOptions(before.executor_type, config)
    try:
        yield
    finally:
        now.function_call_options = before


def _replica_local(next_creator, **options):
    """Variables that differ from replica to replica and are never synchronised."""
    options["synchronization"] = tf.VariableSynchronization.ON_READ
    options["aggregation"] = tf.VariableAggregation.ONLY_FIRST_REPLICA
    return next_creator(**options)
