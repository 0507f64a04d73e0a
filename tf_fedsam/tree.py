"""Arithmetic on trees: lists of tensors in the order of a model's trainable variables.

Norms, units and dot products run over all tensors of a tree together, as if they were one flat
vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tf_fedsam.lazy import tf

Tree = list["tf.Tensor"]


def add(a: Tree, b: Tree) -> Tree:
    return [x + y for x, y in zip(a, b, strict=True)]


def sub(a: Tree, b: Tree) -> Tree:
    return [x - y for x, y in zip(a, b, strict=True)]


def mul(a: Tree, b: Tree) -> Tree:
    """Element by element."""
    return [x * y for x, y in zip(a, b, strict=True)]


def scale(factor, a: Tree) -> Tree:
    return [factor * x for x in a]


def axpy(factor, a: Tree, b: Tree) -> Tree:
    """``factor * a + b``."""
    return [factor * x + y for x, y in zip(a, b, strict=True)]


def zeros_like(a: Tree) -> Tree:
    """Zeros made when they are needed: ``tf.zeros_like`` would become constants of the graph."""
    return [tf.raw_ops.ZerosLike(x=x) for x in a]


def dot(a: Tree, b: Tree) -> tf.Tensor:
    return tf.add_n([tf.reduce_sum(x * y) for x, y in zip(a, b, strict=True)])


def norm(a: Tree) -> tf.Tensor:
    return tf.linalg.global_norm(a)


def norm_of(function: Callable[..., tf.Tensor], *trees: Tree) -> tf.Tensor:
    """The norm of what the function makes of the trees' tensors, never all of it at a time."""
    halves = one_by_one(lambda *tensors: tf.nn.l2_loss(function(*tensors)), *trees)
    return tf.sqrt(2.0 * tf.reduce_sum(tf.stack(halves)))


def resize(a: Tree, length) -> Tree:
    """``a`` scaled to the given length; a zero tree stays zero."""
    return scale(tf.math.divide_no_nan(tf.cast(length, a[0].dtype), norm(a)), a)


def cosine(a: Tree, b: Tree) -> tf.Tensor:
    """Cosine of the angle between two trees; 0 if either is zero."""
    return tf.math.divide_no_nan(dot(a, b), norm(a) * norm(b))


def clip(a: Tree, max_norm: float) -> Tree:
    """``a * min(1, max_norm / |a|)``; all NaN if the norm is not finite, so that it is noticed."""
    length = norm(a)
    factor = tf.minimum(1.0, max_norm / length)
    return scale(tf.where(tf.math.is_finite(length), factor, float("nan")), a)


def one_by_one(function: Callable[..., tf.Tensor], *trees: Tree) -> Tree:
    """A function of the trees' tensors, one after another: temporaries of one tensor at a time."""
    done: Tree = []
    for tensors in zip(*trees, strict=True):
        with tf.control_dependencies(done[-1:]):
            done.append(function(*tensors))
    return done


def sizes(a: Sequence[tf.Tensor]) -> list[int]:
    return [int(x.shape.num_elements()) for x in a]


def flatten(a: Tree) -> tf.Tensor:
    return tf.concat([tf.reshape(x, [-1]) for x in a], axis=0)


def unflatten(flat: tf.Tensor, like: Sequence[tf.Tensor]) -> Tree:
    parts = tf.split(flat, sizes(like))
    return [tf.reshape(part, x.shape) for part, x in zip(parts, like, strict=True)]
