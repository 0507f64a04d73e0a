"""What several workers must have in common before they begin."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tf_fedsam.errors import InputError
from tf_fedsam.process import State
from tf_fedsam.runs.config import SETTINGS
from tf_fedsam.runs.settings import Role
from tf_fedsam.state.client_store import ClientStore
from tf_fedsam.workers import Team

SHOWN = 5


def agree(team: Team, config: Mapping[str, Any], weights: str) -> None:
    """Refuses workers that would not compute the same.

    Args:
        team: the workers.
        config: of this worker, as it is written to ``config.json``.
        weights: a fingerprint of the initial weights.

    Raises:
        InputError: on all workers, if one of them differs from the chief.
    """
    if team.count == 1:
        return
    each = team.messages({**_decisive(config), "initial weights": weights})
    for number, other in enumerate(each):
        names = [n for n in {**each[0], **other} if other.get(n) != each[0].get(n)]
        if names:
            told = "; ".join(
                f"{n}: {other.get(n)!r:.40} and not {each[0].get(n)!r:.40}" for n in names[:SHOWN]
            )
            raise InputError(
                f"Worker {number} is not like worker 0: {told}. Give the same command on every "
                f"worker, with the same data, files and versions."
            )


def _decisive(config: Mapping[str, Any]) -> dict[str, Any]:
    """All that decides what is computed; where the data lie may differ."""
    settings = {
        name: value
        for name, value in config["settings"].items()
        if SETTINGS[name].role is not Role.SOURCE
    }
    code = {"code": config["source"]["fingerprint"]}
    return {**settings, **config["inputs"], **config["versions"], **code}


def shared_state(team: Team, state: State, positions: list[int], round_num: int) -> State:
    """The chief's state, on every worker.

    Args:
        team: the workers.
        state: the chief's; of the others one with vectors of the same shapes.
        positions: the clients that the chief has rows of.
        round_num: the chief's next round.
    """
    if team.count == 1 or round_num == 0:
        return state
    server = {
        name: [_shared_tensor(team, tensor) for tensor in tensors]
        for name, tensors in state.server.items()
    }
    clients = state.clients
    if not team.is_chief:
        clients = ClientStore(state.clients.lengths)
    width = sum(clients.lengths.values())
    for position in positions:
        row = np.zeros(width, np.float32)
        if team.is_chief:
            row = np.concatenate([clients.row(position)[name] for name in clients.lengths])
        told = team.told_by_chief(row)
        if not team.is_chief:
            clients.restore(position, told)
    return State(round_num, server, clients)


def _shared_tensor(team: Team, tensor: tf.Tensor) -> tf.Tensor:
    array = tensor.numpy()
    told = team.told_by_chief(np.ascontiguousarray(array).reshape(-1))
    return tf.constant(told.reshape(array.shape))
