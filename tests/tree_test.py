"""Arithmetic on trees against NumPy on the one flat vector that a tree stands for."""

import numpy as np
import pytest
import tensorflow as tf

from tf_fedsam import tree

SHAPES = ((2, 3), (), (4,))
# The flat vectors; 3-4-5 triangles make lengths that are exact in float32.
A = np.array([3, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0], np.float32)
B = np.array([1, -2, 0.5, 3, -1, 2, 4, 0, -0.25, 8, 1], np.float32)


def as_tree(flat):
    parts = np.split(np.asarray(flat, np.float32), [6, 7])
    return [tf.constant(p.reshape(s)) for p, s in zip(parts, SHAPES, strict=True)]


def as_flat(a):
    assert [tuple(x.shape) for x in a] == list(SHAPES)
    return np.concatenate([x.numpy().reshape(-1) for x in a])


def same(a, expected):
    np.testing.assert_array_equal(as_flat(a), np.asarray(expected, np.float32))


def test_element_by_element():
    a, b = as_tree(A), as_tree(B)
    same(tree.add(a, b), A + B)
    same(tree.sub(a, b), A - B)
    same(tree.mul(a, b), A * B)
    same(tree.scale(-2.0, b), -2 * B)
    same(tree.axpy(0.5, a, b), 0.5 * A + B)
    same(tree.zeros_like(b), np.zeros(11))


def test_zeros_are_zero_whatever_was_there():
    same(tree.zeros_like(as_tree(np.full(11, np.nan))), np.zeros(11))


@pytest.mark.parametrize(
    "function",
    [
        tree.add,
        tree.sub,
        tree.mul,
        tree.dot,
        lambda a, b: tree.axpy(1.0, a, b),
        lambda a, b: tree.one_by_one(tf.add, a, b),
    ],
)
def test_trees_of_different_lengths_are_refused(function):
    with pytest.raises(ValueError, match="zip"):
        function(as_tree(A), as_tree(B)[:2])


def test_lengths_and_angles_run_over_all_tensors():
    a, b = as_tree(A), as_tree(B)
    # 3 of the first tensor and 4 of the same; a length tensor by tensor would need no square root.
    assert float(tree.norm(a)) == 5
    assert float(tree.norm(as_tree([3] + 5 * [0] + [4] + 4 * [0]))) == 5  # over two tensors
    # 3 * 1 + 4 * 2 = 11.
    assert float(tree.dot(a, b)) == 11
    # |b|^2 = 1 + 4 + 1/4 + 9 + 1 + 4 + 16 + 1/16 + 64 + 1 = 100.3125.
    assert float(tree.dot(b, b)) == 100.3125
    assert float(tree.cosine(a, b)) == pytest.approx(11 / (5 * 100.3125**0.5), rel=1e-6)
    assert float(tree.cosine(a, tree.scale(-7.0, a))) == pytest.approx(-1, rel=1e-6)


def test_the_angle_to_nothing_is_0():
    zero = as_tree(np.zeros(11))
    assert float(tree.cosine(as_tree(A), zero)) == 0
    assert float(tree.cosine(zero, zero)) == 0


def test_resize():
    # From length 5 to length 10, to 0, and turned around.
    same(tree.resize(as_tree(A), 10.0), 2 * A)
    same(tree.resize(as_tree(A), 0.0), 0 * A)
    same(tree.resize(as_tree(A), tf.constant(-5.0)), -A)
    same(tree.resize(as_tree(A), tf.constant(5, tf.int32)), A)


def test_nothing_has_no_direction_to_resize():
    same(tree.resize(as_tree(np.zeros(11)), 10.0), np.zeros(11))


def test_clip():
    """By min(1, max_norm / |a|): of length 5 to 2.5, and left alone at 5 and below."""
    same(tree.clip(as_tree(A), 2.5), A / 2)
    same(tree.clip(as_tree(A), 5.0), A)
    same(tree.clip(as_tree(A), 1e9), A)
    same(tree.clip(as_tree(np.zeros(11)), 1.0), np.zeros(11))  # 1 / 0 is infinite, so 1


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38])
def test_what_cannot_be_clipped_is_noticed(bad):
    """Two elements of 3e38 are finite, and the square of their length is not."""
    wrong = B.copy()
    wrong[[2, 9]] = bad
    assert np.isnan(as_flat(tree.clip(as_tree(wrong), 1.0))).all()


def test_one_tensor_after_another():
    a, b = as_tree(A), as_tree(B)
    same(tree.one_by_one(lambda x, y: 2 * x - y, a, b), 2 * A - B)
    assert float(tree.norm_of(tf.subtract, a, b)) == float(tree.norm(tree.sub(a, b)))

    @tf.function
    def run():
        done = tree.one_by_one(tf.multiply, a, b)
        after = [list(tensor.op.control_inputs) for tensor in done]
        assert after == [[], *([tensor.op] for tensor in done[:-1])]
        return done

    same(run(), A * B)


def test_flat_and_back():
    a = as_tree(B)
    assert tree.sizes(a) == [6, 1, 4]
    np.testing.assert_array_equal(tree.flatten(a), B)
    same(tree.unflatten(tree.flatten(a), a), B)
    # The shapes may come from anything that has shapes.
    same(tree.unflatten(tf.constant(B), [tf.Variable(tf.zeros(s)) for s in SHAPES]), B)


def test_flat_vectors_of_another_length_are_refused():
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        tree.unflatten(tf.zeros(12), as_tree(A))


def test_in_a_graph():
    """The same numbers compiled, with zeros that are made when they are needed."""

    @tf.function
    def compiled(a, b):
        return tree.clip(tree.axpy(2.0, tree.resize(a, 10.0), tree.zeros_like(b)), 10.0)

    same(compiled(as_tree(A), as_tree(B)), 2 * A)  # 2 * 2 A has length 20, clipped to 10
