"""Losses of single examples, the same in training, evaluation and analysis.

A loss is a function ``(labels, logits) -> losses`` of integer labels [batch] and float32 logits
[batch, classes] that gives one number an example, [batch].
"""

from __future__ import annotations

from collections.abc import Callable

from tf_fedsam import checks
from tf_fedsam.errors import InputError
from tf_fedsam.lazy import keras, tf

Loss = Callable[["tf.Tensor", "tf.Tensor"], "tf.Tensor"]


def cross_entropy(label_smoothing: float = 0.0) -> Loss:
    """Softmax cross-entropy.

        loss = -sum_c target_c * log softmax(logits)_c
        target_c = (1 - label_smoothing) * [c is the label] + label_smoothing / num_classes

    Args:
        label_smoothing: share of the target that all classes have alike, in [0, 1).
    """
    checks.number("label_smoothing", label_smoothing, "[0, 1)")

    def plain(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)

    def smoothed(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        num_classes = logits.shape[-1]
        other = label_smoothing / num_classes
        target = tf.one_hot(labels, num_classes, 1 - label_smoothing + other, other)
        return tf.nn.softmax_cross_entropy_with_logits(target, logits)

    return smoothed if label_smoothing else plain


def per_example(loss: Loss | keras.losses.Loss | None, num_classes: int) -> Loss:
    """The loss as a function of single examples.

    Args:
        loss: such a function, a Keras loss, whose reduction is left out, or ``None`` for plain
            cross-entropy.
        num_classes: of the logits.
    """
    if loss is None:
        return cross_entropy()
    if isinstance(loss, keras.losses.Loss) and getattr(loss, "from_logits", True) is False:
        raise InputError(
            f"loss must be made for logits, which is what models give here. Received: "
            f"{type(loss).__name__}(from_logits=False). Make it with from_logits=True."
        )
    function: Loss = loss.call if isinstance(loss, keras.losses.Loss) else loss
    _check(function, num_classes)
    return function


def _check(loss: Loss, num_classes: int) -> None:
    """Refuses what does not give a number for each example, before a round is compiled."""
    if not callable(loss):
        raise InputError(
            f"loss must be a function (labels, logits) -> [batch] or a Keras loss. "
            f"Received: {loss!r}."
        )
    received = tf.convert_to_tensor(loss(tf.constant([0, 1]), tf.zeros([2, num_classes]))).shape
    if tuple(received) != (2,):
        raise InputError(
            f"loss must give one number for each example, without a mean over them. "
            f"Received: shape {tuple(received)} for 2 examples, expected (2,)."
        )
