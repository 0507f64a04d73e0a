"""The plan of a round's batches, and reading one of them."""

import numpy as np
import tensorflow as tf

from tf_fedsam.data import batches
from tf_fedsam.data.partition import iid

Y = np.arange(50) % 3
SPLIT = iid(50, 4, 0, sizes=[20, 1, 13, 7])


def planned(positions, round_num=0, seed=0, **options):
    options = {"batch_size": 6, "local_epochs": 2, **options}
    return batches.plan(SPLIT, np.asarray(positions), seed, round_num, **options)


def test_a_batch_read_is_the_batch_planned():
    cohort = planned([0, 1, 3])
    x = tf.constant(np.arange(50)[:, None])
    for entry in range(3):
        client = {
            "order_start": tf.constant(cohort.order_start[entry], tf.int32),
            "num_examples": tf.constant(cohort.num_examples[entry], tf.int32),
            "seed": tf.constant(cohort.seeds[entry], tf.int32),
        }
        expected = batches.client_batches(cohort, entry, 6)
        assert len(expected) == int(cohort.num_steps[entry])
        for step, indices in enumerate(expected):
            inputs, labels = batches.read(
                x,
                tf.constant(Y),
                tf.constant(cohort.order, tf.int32),
                client,
                tf.constant(step),
                batch_size=6,
                preprocess=lambda raw: raw * 10,
                augment=lambda batch, seed: tf.concat(
                    [batch, tf.cast(seed[None] + 0 * tf.cast(batch, tf.int32), tf.int64)], axis=1
                ),
            )
            # Preprocessed, then augmented with the client's seed and the step.
            np.testing.assert_array_equal(inputs[:, 0], 10 * indices)
            np.testing.assert_array_equal(inputs[:, 1], cohort.seeds[entry])
            np.testing.assert_array_equal(inputs[:, 2], step)
            np.testing.assert_array_equal(labels, Y[indices])


def test_batches_of_an_epoch():
    # 20 examples in batches of 6: 4 steps, the last of 2; without any there is still one.
    assert [int(batches.per_epoch(tf.constant(n), 6)) for n in (0, 1, 6, 7, 20)] == [1, 1, 1, 2, 4]
    sizes = [len(batch) for batch in batches.client_batches(planned([0]), 0, 6)]
    assert sizes == [6, 6, 6, 2] * 2


def test_a_client_has_the_same_batches_whoever_else_is_there():
    alone, together = planned([2]), planned([0, 2, 3])
    for a, b in zip(
        batches.client_batches(alone, 0, 6), batches.client_batches(together, 1, 6), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    assert alone.seeds[0] == together.seeds[1]


def test_rounds_and_seeds_have_orders_of_their_own():
    orders = {tuple(planned([0], t, seed).order) for t, seed in ((0, 0), (1, 0), (0, 1))}
    assert len(orders) == 3
    for order in orders:
        for epoch in np.split(np.asarray(order), 2):
            np.testing.assert_array_equal(np.sort(epoch), np.sort(SPLIT.client(0)))


def test_number_of_steps():
    # 4, 1 and 3 batches an epoch.
    assert planned([0, 1, 2]).num_steps.tolist() == [8, 2, 6]
    assert planned([0, 1, 2], local_steps=5).num_steps.tolist() == [5, 5, 5]
    fraction = np.array([0.5, 0.1, 0.4])
    # 4, at least one, and 2.4 rounded up: not less than the share. 0.3 * 10 is 3, not 4.
    assert planned([0, 1, 2], step_fraction=fraction).num_steps.tolist() == [4, 1, 3]
    thirds = planned([0], local_steps=10, step_fraction=np.array([0.3]))
    assert thirds.num_steps.tolist() == [3]


def test_nobody():
    """A private round may have no clients."""
    cohort = planned([])
    assert len(cohort.order) == len(cohort.num_steps) == len(cohort.seeds) == 0
    assert cohort.order.dtype == np.int64
