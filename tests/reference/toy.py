"""A small federated classification problem in float64 NumPy, with hand-written gradients.

Softmax regression, or a multi-layer perceptron with one hidden tanh layer, on clients that differ
in their labels, their features and their sizes. The loss is not quadratic, so that an identity
between two methods which only holds for quadratics does not pass by accident.

A batch is an array of row numbers of `x` and `y`: other code can be fed with the same examples in
the same order.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence

import numpy as np

from tests.reference.methods import Problem

Indices = np.ndarray
LayerShapes = list[tuple[int, int]]


@dataclasses.dataclass(kw_only=True)
class ToyProblem(Problem):
    """A `Problem` whose data and losses are within reach.

    Attributes:
        x: inputs, shape (n, *input_shape).
        y: integer labels, shape (n,).
        client_indices: the rows of every client.
        layer_shapes: (inputs, outputs) of every dense layer. The flat weights are
            [kernel1 row by row, bias1, kernel2, bias2].
        num_classes: number of classes.
        loss: (w, batch) -> mean cross-entropy.
        joint_loss: (w, Lambda, delta, batch) -> mean cross-entropy of Lambda x + delta.
        disagreement: (w, teacher, batch, temperature) -> mean KL(s(teacher) || s(w)).
    """

    x: np.ndarray
    y: np.ndarray
    client_indices: list[Indices]
    layer_shapes: LayerShapes
    num_classes: int
    loss: Callable[[np.ndarray, Indices], float]
    joint_loss: Callable[[np.ndarray, np.ndarray, np.ndarray, Indices], float]
    disagreement: Callable[[np.ndarray, np.ndarray, Indices, float], float]


def unflatten(w: np.ndarray, shapes: LayerShapes) -> list[tuple[np.ndarray, np.ndarray]]:
    """The (kernel, bias) of every layer, as views of the flat vector."""
    layers, offset = [], 0
    for rows, columns in shapes:
        kernel = w[offset : offset + rows * columns].reshape(rows, columns)
        offset += rows * columns
        layers.append((kernel, w[offset : offset + columns]))
        offset += columns
    return layers


def loss_and_gradients(
    w: np.ndarray, shapes: LayerShapes, inputs: np.ndarray, labels: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Mean cross-entropy of the dense network, its gradient in w and its gradient in the inputs.

    Args:
        w: flat weights.
        shapes: the dense layers; tanh between them, softmax after the last.
        inputs: shape (n, inputs of the first layer).
        labels: shape (n,).
    """
    activations, logits = forward(w, shapes, inputs)
    shifted = logits - logits.max(axis=1, keepdims=True)
    n, rows = len(labels), np.arange(len(labels))
    totals = np.exp(shifted).sum(axis=1)
    loss = float(np.log(totals).sum() - shifted[rows, labels].sum()) / n

    signal = softmax(logits)
    signal[rows, labels] -= 1.0
    return loss, *backward(w, shapes, activations, signal / n)


def forward(
    w: np.ndarray, shapes: LayerShapes, inputs: np.ndarray
) -> tuple[list[np.ndarray], np.ndarray]:
    """The inputs of every layer, and the logits."""
    layers = unflatten(w, shapes)
    activations = [inputs]
    for kernel, bias in layers[:-1]:
        activations.append(np.tanh(activations[-1] @ kernel + bias))
    kernel, bias = layers[-1]
    return activations, activations[-1] @ kernel + bias


def backward(
    w: np.ndarray, shapes: LayerShapes, activations: list[np.ndarray], signal: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Gradients in w and in the inputs, given the gradient in the logits."""
    layers = unflatten(w, shapes)
    pieces: list[np.ndarray] = []
    for number in reversed(range(len(layers))):
        kernel, _ = layers[number]
        pieces = [(activations[number].T @ signal).ravel(), signal.sum(axis=0), *pieces]
        signal = signal @ kernel.T
        if number > 0:
            signal *= 1 - activations[number] ** 2
    return np.concatenate(pieces), signal


def softmax(logits: np.ndarray) -> np.ndarray:
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def disagreement(
    w: np.ndarray, teacher: np.ndarray, shapes: LayerShapes, inputs: np.ndarray, temperature: float
) -> tuple[float, np.ndarray]:
    """Mean KL(s(teacher) || s(w)), s = softmax(logits / temperature), and its gradient in w."""
    activations, logits = forward(w, shapes, inputs)
    ours = softmax(logits / temperature)
    theirs = softmax(forward(teacher, shapes, inputs)[1] / temperature)
    kl = float((theirs * (np.log(theirs) - np.log(ours))).sum()) / len(inputs)
    signal = (ours - theirs) / (temperature * len(inputs))
    return kl, backward(w, shapes, activations, signal)[0]


def transform_inputs(x: np.ndarray, Lambda: np.ndarray, delta: np.ndarray) -> np.ndarray:
    """Lambda x + delta, flattened to one row per example.

    Lambda acts on the whole flattened input if it has its size, and on the last axis otherwise
    (where the two readings overlap, for one pixel, they agree).
    """
    n, size = len(x), x[0].size
    blocks = x.reshape(n, size // len(Lambda), len(Lambda))
    return (blocks @ Lambda.T).reshape(n, size) + delta.ravel()


def joint_gradients(
    w: np.ndarray,
    shapes: LayerShapes,
    x: np.ndarray,
    labels: np.ndarray,
    Lambda: np.ndarray,
    delta: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradients of the mean cross-entropy of Lambda x + delta in w, Lambda and delta."""
    n, size = len(x), x[0].size
    _, g_w, signal = loss_and_gradients(w, shapes, transform_inputs(x, Lambda, delta), labels)
    blocks = (n, size // len(Lambda), len(Lambda))
    g_Lambda = np.einsum("npc,npd->cd", signal.reshape(blocks), x.reshape(blocks))
    return g_w, g_Lambda, signal.sum(axis=0).reshape(delta.shape)


def toy_problem(
    num_clients: int = 6,
    seed: int = 0,
    sizes: Sequence[int] | None = None,
    batch_size: int = 4,
    epochs: int = 2,
    hidden: int | None = None,
    num_classes: int = 3,
    input_shape: tuple[int, ...] = (4,),
    batches: Callable[[int, int], list[Indices]] | None = None,
) -> ToyProblem:
    """Builds the problem.

    Args:
        num_clients: number of clients.
        seed: of the data, of the initial weights and of the batches.
        sizes: examples per client, zero allowed; by default 4, 9, 14, 8, 13, 7, 12, 6, ...
        batch_size: the last batch of an epoch may be smaller.
        epochs: local passes per round.
        hidden: None for softmax regression, else the number of hidden tanh units.
        num_classes: number of classes.
        input_shape: shape of one input.
        batches: (round, client) -> list of arrays of rows of x, in place of the permutations.
    """
    if sizes is None:
        sizes = [4 + (5 * client) % 11 for client in range(num_clients)]
    if len(sizes) != num_clients:
        raise ValueError(f"{len(sizes)} sizes for {num_clients} clients.")
    rng = np.random.default_rng(seed)
    features, total = int(np.prod(input_shape)), sum(sizes)

    # Every client prefers some labels and sees the features with an offset of its own.
    centres = rng.normal(size=(num_classes, features))
    rows = np.split(rng.permutation(total), np.cumsum(sizes)[:-1])
    x, y = np.zeros((total, features)), np.zeros(total, dtype=np.int64)
    for own in rows:
        preference = rng.dirichlet(np.full(num_classes, 0.5))
        y[own] = rng.choice(num_classes, size=len(own), p=preference)
        offset = 0.5 * rng.normal(size=features)
        x[own] = 0.5 * centres[y[own]] + offset + 0.7 * rng.normal(size=(len(own), features))
    flat, x = x, x.reshape(total, *input_shape)

    widths = [features, num_classes] if hidden is None else [features, hidden, num_classes]
    shapes = list(itertools.pairwise(widths))
    initial, is_kernel, fibres, size = [], [], [], 0
    for fan_in, fan_out in shapes:
        initial += [
            rng.normal(size=fan_in * fan_out) / np.sqrt(fan_in),
            0.1 * rng.normal(size=fan_out),
        ]
        is_kernel += [np.ones(fan_in * fan_out, bool), np.zeros(fan_out, bool)]
        # One fibre for every input of a kernel, and the whole bias.
        for num_fibres in (fan_in, 1):
            entries = size + np.arange(num_fibres * fan_out)
            fibres.append(entries.reshape(num_fibres, fan_out))
            size += len(entries)
    is_head = np.arange(size) >= fibres[-2].min()

    @functools.cache
    def permuted_batches(t: int, client: int) -> list[Indices]:
        cut = []
        for epoch in range(epochs):
            order = np.random.default_rng([seed, t, client, epoch]).permutation(rows[client])
            order.flags.writeable = False  # the cached batches are shared
            cut += [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
        return cut

    def evaluate(w: np.ndarray, batch: Indices) -> tuple[float, np.ndarray, np.ndarray]:
        return loss_and_gradients(w, shapes, flat[batch], y[batch])

    def against(w: np.ndarray, teacher: np.ndarray, batch: Indices, temperature: float):
        return disagreement(w, teacher, shapes, flat[batch], temperature)

    def joint_loss(w: np.ndarray, Lambda: np.ndarray, delta: np.ndarray, batch: Indices) -> float:
        return loss_and_gradients(w, shapes, transform_inputs(x[batch], Lambda, delta), y[batch])[0]

    return ToyProblem(
        gradient=lambda w, batch: evaluate(w, batch)[1],
        batches=permuted_batches if batches is None else batches,
        full_data=lambda client: rows[client],
        num_examples=lambda client: len(rows[client]),
        num_clients=num_clients,
        initial=np.concatenate(initial),
        kernel_mask=np.concatenate(is_kernel),
        joint_gradient=lambda w, Lambda, delta, batch: joint_gradients(
            w, shapes, x[batch], y[batch], Lambda, delta
        ),
        input_shape=input_shape,
        disagreement_gradient=lambda *arguments: against(*arguments)[1],
        fibres=fibres,
        head_mask=is_head,
        x=x,
        y=y,
        client_indices=rows,
        layer_shapes=shapes,
        num_classes=num_classes,
        loss=lambda w, batch: evaluate(w, batch)[0],
        joint_loss=joint_loss,
        disagreement=lambda *arguments: against(*arguments)[0],
    )
