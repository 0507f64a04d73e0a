"""A round's clients and their batches, as the compiled round takes them."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tf_fedsam.data.batches import Cohort


class Entry(NamedTuple):
    """A client of the cohort, or in ``CohortInputs`` all of them, one entry a client.

    Attributes:
        order_start: where the client's part of ``order`` begins.
        num_examples: its examples.
        num_steps: local steps it is to do; 0 for a client without examples.
        weight: its aggregation weight; 0 for a client that does no step.
        seed: of its dropout and augmentation.
        seen: whether it has taken part before.
    """

    order_start: tf.Tensor
    num_examples: tf.Tensor
    num_steps: tf.Tensor
    weight: tf.Tensor
    seed: tf.Tensor
    seen: tf.Tensor


class CohortInputs(NamedTuple):
    """A cohort and who trains it.

    Attributes:
        order: examples in the order they are visited, client after client, epoch after epoch.
        clients: the clients.
        members: [replicas, most clients of a replica], their numbers in the cohort; -1 is nobody.
        num_members: how many clients each replica has.
    """

    order: tf.Tensor
    clients: Entry
    members: tf.Tensor
    num_members: tf.Tensor

    @property
    def size(self) -> tf.Tensor:
        """How many clients there are."""
        return tf.shape(self.clients.weight)[0]

    def client(self, number: tf.Tensor) -> Entry:
        """One client, by its number in the cohort."""
        return Entry(*(values[number] for values in self.clients))


def make(cohort: Cohort, seen: np.ndarray, weighting: str, members: list[np.ndarray]):
    """The arrays of a round.

    Args:
        cohort: the clients and their batches.
        seen: whether each has taken part before.
        weighting: "uniform", or by number of "samples".
        members: for each replica the clients it trains.
    """
    weights = cohort.num_examples if weighting == "samples" else np.ones(len(seen))
    width = max(map(len, members))
    padded = [np.pad(m, (0, width - len(m)), constant_values=-1) for m in members]
    return CohortInputs(
        order=cohort.order.astype(np.int32),
        clients=Entry(
            order_start=cohort.order_start.astype(np.int32),
            num_examples=cohort.num_examples.astype(np.int32),
            num_steps=cohort.num_steps.astype(np.int32),
            weight=np.where(cohort.num_steps > 0, weights, 0).astype(np.float32),
            seed=cohort.seeds.astype(np.int32),
            seen=seen.astype(bool),
        ),
        members=np.stack(padded).astype(np.int32),
        num_members=np.asarray([len(m) for m in members], np.int32),
    )


def signature(num_replicas: int) -> CohortInputs:
    """Of any cohort."""
    whole, number = tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.float32)
    return CohortInputs(
        order=whole,
        clients=Entry(whole, whole, whole, number, whole, tf.TensorSpec([None], tf.bool)),
        members=tf.TensorSpec([num_replicas, None], tf.int32),
        num_members=tf.TensorSpec([num_replicas], tf.int32),
    )
