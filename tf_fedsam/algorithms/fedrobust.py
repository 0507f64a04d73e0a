"""FedRobust: every client trains against the worst affine shift of its inputs.

Reisizadeh et al., Robust Federated Learning: The Case of Affine Distribution Shifts, NeurIPS 2020,
arXiv:2006.08907.

    client:  on inputs A_i x + b_i, one gradient for w, A and b together:
             w_i <- w_i - lr * g_w
             A_i <- A_i + perturbation_lr * (g_A - 2 * penalty * (A_i - I))      ascent
             b_i <- b_i + perturbation_lr * (g_b - 2 * penalty * b_i)
    server:  FedAvg on w; A_i and b_i never leave the client

transform="full" has A act on the whole flattened input (at most 1024 numbers), "channel" on the
last axis only, with an offset for every pixel; "auto" takes "full" where it fits.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.client import ClientModel
from tf_fedsam.errors import InputError
from tf_fedsam.hparams import Checked, hparam
from tf_fedsam.lazy import tf

LARGEST_FULL_INPUT = 1024


class FedRobustClient(ClientModel):
    def __init__(self, network, hparams, local_step):
        super().__init__(network, hparams, local_step)
        shape = tuple(network.inputs[0].shape[1:])
        self.shift = self.local_vector("affine_shift", identity(shape, hparams.transform))

    def begin_round(self):
        if self.round.data is not None:
            self.set_local(self.shift, self.round.state["affine_shift"])

    def train_step(self, data):
        batch = self.unpack(data)
        matrix, offset = self.read_local(self.shift)
        gradient, (to_matrix, to_offset) = self.input_gradient(
            batch, lambda x: transform(x, matrix, offset), [matrix, offset]
        )
        rate, penalty = self.hparams.perturbation_lr, 2 * self.hparams.penalty
        away = matrix - tf.eye(matrix.shape[0])
        self.set_local(
            self.shift,
            [
                matrix + rate * (to_matrix - penalty * away),
                offset + rate * (to_offset - penalty * offset),
            ],
        )
        return self.step(batch, gradient)


class FedRobust(Algorithm):
    name = "fedrobust"
    title = "FedRobust"
    paper = "Reisizadeh et al. 2020, arXiv:2006.08907"
    summary = "local steps against the worst affine shift of the inputs"
    Client = FedRobustClient
    client_state: tuple[str, ...] = ("affine_shift",)

    @dataclasses.dataclass(frozen=True)
    class Hparams(Checked):
        perturbation_lr: float = hparam(
            0.1, "[0, inf)", "Learning rate of the ascent on A_i and b_i; 0 is FedAvg."
        )
        penalty: float = hparam(1.0, "[0, inf)", "How dear it is for A_i and b_i to go away.")
        transform: str = hparam(
            "auto",
            {
                "auto": "full where it fits",
                "full": "A_i acts on the whole input, of at most 1024 numbers",
                "channel": "A_i acts on the channels, b_i on every pixel",
            },
            "What A_i acts on.",
            paper="full",
        )

    def setup(self, spec):
        super().setup(spec)
        size = int(np.prod(spec.input_shape))
        if self.hparams.transform == "full" and size > LARGEST_FULL_INPUT:
            raise InputError(
                f"transform=full keeps a {size} x {size} matrix for every client; inputs may have "
                f"at most {LARGEST_FULL_INPUT} numbers. Received: {spec.input_shape}. "
                f"Use transform=channel.",
                "hparams.transform",
            )

    def client_defaults(self, known):
        values = identity(self.spec.input_shape, self.hparams.transform)
        return {"affine_shift": [tf.constant(v) for v in values]}

    def report(self, client, outcome):
        return {"delta": outcome.delta}, {"affine_shift": client.read_local(client.shift)}


def identity(shape: tuple[int, ...], kind: str) -> list[np.ndarray]:
    """The transform that changes nothing: the unit matrix and no offset."""
    size = int(np.prod(shape))
    full = kind == "full" or (kind == "auto" and size <= LARGEST_FULL_INPUT)
    return [np.eye(size if full else shape[-1], dtype=np.float32), np.zeros(shape, np.float32)]


def transform(x: tf.Tensor, matrix: tf.Tensor, offset: tf.Tensor) -> tf.Tensor:
    """``A x + b`` on a batch; A acts on the whole input or, if it is smaller, on the last axis."""
    shape = [-1, *offset.shape]
    rows = tf.reshape(x, [-1, matrix.shape[0]])
    return tf.reshape(tf.matmul(rows, matrix, transpose_b=True), shape) + offset
