"""Small states whose every bit counts."""

import numpy as np
import tensorflow as tf

from tf_fedsam.process import State
from tf_fedsam.state.client_store import ClientStore

# NaN with a payload, -0, infinity, the smallest denormal, 1, -pi: as bits of float32.
SPECIAL = np.array([0x7FC12345, 0x80000000, 0x7F800000, 1, 0x3F800000, 0xC0490FDB], np.uint32)
LENGTHS = {"dual": 6, "last": 3}


def bits(seed: int, size: int) -> np.ndarray:
    """Any bit patterns of float32, special ones among them."""
    generator = np.random.default_rng(seed)
    values = generator.integers(0, 2**32, size, np.uint32)
    values[: len(SPECIAL)] = generator.permutation(SPECIAL)[:size]
    return values.view(np.float32)


def server(seed: int) -> dict[str, list[tf.Tensor]]:
    vectors = {
        name: [tf.constant(bits(seed + i, 6).reshape(2, 3)), tf.constant(bits(seed + 10 * i, 2))]
        for i, name in enumerate(["weights", "momentum"], 1)
    }
    odd = [
        tf.constant(seed, tf.int64),
        tf.constant([], tf.float32),
        tf.constant([seed % 2 == 0, True]),
        tf.constant([[1 + 1 / 128], [seed]], tf.bfloat16),
    ]
    return {**vectors, "model_state": odd, "none": []}


def fresh() -> State:
    return State(0, server(1), ClientStore(LENGTHS))


def scatter(clients: ClientStore, positions, seed: int) -> None:
    """New rows for these clients, a function of the seed and the client."""
    matrices = {
        name: np.stack([bits(1000 * seed + 10 * p + i, length) for p in positions])
        for i, (name, length) in enumerate(LENGTHS.items())
    }
    clients.scatter(np.asarray(positions), matrices, np.ones(len(positions), bool))


def content(state: State) -> dict:
    """Everything in a state, as bytes."""
    clients = state.clients
    return {
        "round": state.round_num,
        "server": [
            (name, [(t.dtype.name, tuple(t.shape), t.numpy().tobytes()) for t in tensors])
            for name, tensors in state.server.items()
        ],
        "lengths": clients.lengths,
        "rows": {
            p: {name: row.tobytes() for name, row in clients.row(p).items()}
            for p in clients.positions
        },
    }
