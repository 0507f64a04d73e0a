"""Several machines: one process a worker, all running the same program.

Each worker runs the whole loop on the same settings. Inside a round TensorFlow adds up what their
devices have computed, so that every worker has the same state after it. What is not part of a
compiled round the workers agree on through a :class:`Team`. Worker 0, the chief, is the one that
writes.

Where the workers are is told by ``TF_CONFIG`` in the environment, by SLURM or by Kubernetes.
"""

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_fedsam.errors import InputError, TellableError

PORT = 8888
Whereabouts = tuple[dict[str, list[str]], str, int]
CHUNK = 1 << 22  # numbers that are told to all workers at a time
EXAMPLE = (
    '{"cluster": {"worker": ["host0:2222", "host1:2222"]}, "task": {"type": "worker", "index": 0}}'
)
# What TensorFlow raises when it can no longer reach a worker.
LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
    tf.errors.InternalError,
)


class WorkerLostError(TellableError, RuntimeError):
    """Another worker has gone; the message says which, if that can be told."""


class Team:
    """The workers of a strategy; one, if it is not for several.

    Args:
        strategy: of this worker.

    Attributes:
        count: how many workers there are.
        number: of this one, from 0.
    """

    def __init__(self, strategy: tf.distribute.Strategy):
        self.count, self.number = 1, 0
        if is_multi_worker(strategy):
            resolver = strategy.cluster_resolver
            jobs = resolver.cluster_spec().as_dict()
            self.count = sum(len(jobs.get(job, ())) for job in ("chief", "worker"))
            behind_chief = resolver.task_type == "worker" and "chief" in jobs
            self.number = int(resolver.task_id or 0) + (1 if behind_chief else 0)
        self._local = strategy.num_replicas_in_sync // self.count
        self._gather = _gathering(strategy) if self.count > 1 else None

    @property
    def is_chief(self) -> bool:
        return self.number == 0

    def gather(self, numbers: Sequence[int] | np.ndarray) -> np.ndarray:
        """As many whole numbers from each worker, a row a worker."""
        mine = np.asarray(numbers, np.int32)
        if self._gather is None:
            return mine[None]
        with naming_lost(self):
            every = self._gather(tf.constant(mine), tf.constant(True)).numpy()
        return every.reshape(self.count, self._local, -1)[:, 0]

    def any(self, mine: bool) -> bool:
        """Whether it is so for any worker."""
        return bool(self.gather([mine]).any())

    def told_by_chief(self, numbers: np.ndarray) -> np.ndarray:
        """The chief's flat array of 4-byte numbers, bit for bit; those of the others are ignored.

        All workers must know its length.
        """
        if self._gather is None:
            return numbers
        parts = []
        for begin in range(0, len(numbers), CHUNK):
            part = np.ascontiguousarray(numbers[begin : begin + CHUNK]).view(np.int32)
            with naming_lost(self):
                told = self._gather(tf.constant(part), tf.constant(self.is_chief))
            parts.append(told.numpy()[: len(part)].view(numbers.dtype))
        return np.concatenate(parts) if parts else numbers

    def messages(self, mine: Any) -> list[Any]:
        """What each worker has to say; anything that JSON can hold."""
        if self._gather is None:
            return [mine]
        content = np.frombuffer(json.dumps(mine).encode(), np.uint8).astype(np.int32)
        longest = int(self.gather([len(content)]).max())
        padded = np.pad(content, (0, longest - len(content)), constant_values=ord(" "))
        rows = self.gather(padded)
        return [json.loads(row.astype(np.uint8).tobytes()) for row in rows]

    def after_chief(self, action: Callable[[], Any]) -> Any:
        """What an action of the chief gives, which JSON must be able to hold.

        If it fails there, the chief fails as it would alone, and the others say that it did.
        """
        if self.count == 1:
            return action()
        told: dict[str, Any] = {}
        failure: Exception | None = None
        if self.is_chief:
            try:
                told = {"value": action()}
            except Exception as error:
                failure = error
                told = {"error": str(error), "input": isinstance(error, InputError)}
        told = self.messages(told)[0]
        if failure is not None:
            raise failure
        if "error" in told:
            kind = InputError if told["input"] else WorkerLostError
            raise kind(f"Worker 0 could not go on: {told['error']}")
        return told["value"]


def is_multi_worker(strategy: tf.distribute.Strategy) -> bool:
    """Whether a strategy is for several workers."""
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


def gathered(strategy: tf.distribute.Strategy, value: Any) -> tf.Tensor:
    """The rows of all replicas of all workers, one after another; in a graph."""
    return strategy.gather(value, axis=0)


def _gathering(strategy: tf.distribute.Strategy) -> Callable:
    @tf.function(
        autograph=False,
        input_signature=[tf.TensorSpec([None], tf.int32), tf.TensorSpec([], tf.bool)],
    )
    def gather(numbers, speaks):
        def own():
            return tf.cond(speaks, lambda: numbers, lambda: numbers[:0])

        return gathered(strategy, strategy.run(own))

    return gather


@contextlib.contextmanager
def naming_lost(team: Team, saved: Callable[[], str] = str) -> Iterator[None]:
    """An error of TensorFlow that means that a worker has gone becomes a message.

    Args:
        team: the workers.
        saved: what to say about the state of the run.
    """
    try:
        yield
    except LOST as error:
        if team.count == 1:
            raise
        who = sorted({int(task) for task in re.findall(r"task:(\d+)", str(error))} - {team.number})
        name = f"Worker {who[0]}" if len(who) == 1 else "Another worker"
        raise WorkerLostError(
            f"{name} of {team.count} does not answer any more, so worker {team.number} stops too. "
            f"{saved()}Give the same command on every worker again."
        ) from error


def make_strategy(
    cluster: str, devices: Sequence[str], num_gpus: int
) -> tf.distribute.MultiWorkerMirroredStrategy:
    """Joins the other workers, and waits until all of them are there.

    Args:
        cluster: who tells where they are: ``tf_config``, ``slurm`` or ``kubernetes``.
        devices: of this worker, such as ``["CPU:0", "CPU:1"]``.
        num_gpus: how many GPUs TensorFlow sees here.
    """
    gpus = sum("GPU" in device for device in devices)
    if gpus and gpus != num_gpus:
        raise InputError(
            f"A worker uses all GPUs it can see. Received: devices=gpu:{gpus} where there are "
            f"{num_gpus}. Hide the others with CUDA_VISIBLE_DEVICES.",
            "devices",
        )
    jobs, kind, index = whereabouts(cluster)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(jobs),
        task_type=kind,
        task_id=index,
        num_accelerators={"GPU": gpus} if gpus else {},
        rpc_layer="grpc",
    )
    try:
        with _local_cpus(len(devices)) if not gpus else contextlib.nullcontext():
            return tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
    except RuntimeError as error:
        if "program startup" not in str(error):
            raise
        raise InputError(
            "Workers are joined before anything else uses TensorFlow, and it has been used. Start "
            "each worker as a program of its own."
        ) from None


@contextlib.contextmanager
def _local_cpus(count: int) -> Iterator[None]:
    """TensorFlow would take one CPU device of a worker, however many there are."""
    from tensorflow.python.distribute import collective_all_reduce_strategy as collective

    def local(extended, cluster_resolver, worker_device):
        del extended, cluster_resolver
        return tuple(f"{worker_device}/device:CPU:{i}" for i in range(count)), "CPU"

    place = collective.CollectiveAllReduceExtended
    usual = place._initialize_local_devices
    place._initialize_local_devices = local
    try:
        yield
    finally:
        place._initialize_local_devices = usual


def whereabouts(cluster: str) -> Whereabouts:
    """Addresses of all workers by job, and which of them this is.

    Raises:
        InputError: if nobody says, or what they say makes no sense.
    """
    return {"tf_config": _tf_config, "slurm": _slurm, "kubernetes": _kubernetes}[cluster]()


def _tf_config() -> Whereabouts:
    text = os.environ.get("TF_CONFIG", "")
    try:
        content = json.loads(text)
        jobs, task = content["cluster"], content["task"]
        jobs = {job: list(jobs[job]) for job in ("chief", "worker") if jobs.get(job)}
        kind, index = task["type"], int(task["index"])
        valid = isinstance(jobs[kind][index], str) and all(
            isinstance(address, str) and ":" in address
            for addresses in jobs.values()
            for address in addresses
        )
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        valid = False
    if not valid:
        raise InputError(
            f"strategy=multi_worker needs the environment variable TF_CONFIG, which names all "
            f"workers and which of them this is. Received: {text or 'nothing'!r:.300}. Expected: "
            f"{EXAMPLE}, with index 1 on host1.",
            "strategy",
        )
    return jobs, kind, index


def _slurm() -> Whereabouts:
    try:
        # It deals out GPUs as well and fails if there are none. srun deals them out already, so
        # the numbers given here mean nothing.
        num_tasks = int(os.environ["SLURM_STEP_NUM_TASKS"])
        found = tf.distribute.cluster_resolver.SlurmClusterResolver(
            port_base=PORT, gpus_per_node=num_tasks, gpus_per_task=1, auto_set_gpu=False
        )
        jobs = found.cluster_spec().as_dict()
    except (RuntimeError, ValueError, KeyError) as error:
        raise InputError(
            f"cluster=slurm reads where the workers are from SLURM's environment, which does not "
            f"tell it: {error}. Start the command with srun.",
            "cluster",
        ) from None
    return jobs, found.task_type, found.task_id


def _kubernetes() -> Whereabouts:
    try:
        index = int(os.environ["JOB_COMPLETION_INDEX"])
    except (KeyError, ValueError):
        raise InputError(
            "cluster=kubernetes is for the pods of an indexed Job, whose number is in "
            "JOB_COMPLETION_INDEX. Received: no such variable, or no number. Set completionMode: "
            "Indexed.",
            "cluster",
        ) from None
    try:
        found = tf.distribute.cluster_resolver.KubernetesClusterResolver(tf_server_port=PORT)
        jobs = found.cluster_spec().as_dict()
    except ImportError:
        raise InputError(
            "cluster=kubernetes needs the package kubernetes: pip install kubernetes.", "cluster"
        ) from None
    except Exception as error:  # the client's own, which need not be installed
        raise InputError(
            f"cluster=kubernetes cannot ask the cluster where the workers are: {error}. Allow the "
            f"pod's service account to list pods.",
            "cluster",
        ) from None
    return jobs, "worker", index
