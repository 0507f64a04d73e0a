"""Three small checkpoints, and ways to damage them."""

import json
import os

from tests.state.checkpoint import states
from tests.state.checkpoint.states import content, fresh, scatter
from tf_fedsam.process import State
from tf_fedsam.state.checkpoint import load_latest
from tf_fedsam.state.checkpoint.format import checksum
from tf_fedsam.state.client_store import ClientStore


def unexpected(message):
    raise AssertionError(f"warned: {message}")


def load(folder, warn=unexpected):
    """Content and extra of what is loaded."""
    found = load_latest(folder, fresh(), warn)
    return found and (content(found[0]), found[1])


def three_states() -> list[State]:
    """The states after 1, 2 and 3 rounds: six clients, then one of them changed, then another."""
    clients = ClientStore(states.LENGTHS)
    result = []
    for round_num, changed in enumerate([range(6), [0], [1]], 1):
        scatter(clients, list(changed), round_num)
        result.append(State(round_num, states.server(round_num), clients.copy()))
    return result


def extra_of(state) -> dict:
    return {"log_bytes": 10 * state.round_num}


def expected(state):
    return content(state), extra_of(state)


def save(writer, state):
    writer.save(state, extra_of(state))
    writer.flush()


def listing(folder):
    return sorted(os.listdir(folder))


THREE_SAVED = [
    "checkpoint-00000002.json",
    "checkpoint-00000003.json",
    "clients-00000001.bin",
    "clients-00000002.bin",
    "clients-00000003.bin",
    "server-00000002.bin",
    "server-00000003.bin",
]


def flip(path, offset, mask=0x40):
    data = bytearray(path.read_bytes())
    data[offset] ^= mask
    path.write_bytes(data)


def as_folder(path):
    path.unlink()
    path.mkdir()


CORRUPTIONS = {
    "empty": lambda path: path.write_bytes(b""),
    "half": lambda path: os.truncate(path, path.stat().st_size // 2),
    "one byte short": lambda path: os.truncate(path, path.stat().st_size - 1),
    "one byte long": lambda path: path.write_bytes(path.read_bytes() + b"x"),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "first byte": lambda path: flip(path, 0),
    "middle byte": lambda path: flip(path, path.stat().st_size // 2),
    "last byte": lambda path: flip(path, -1),
    "a folder": as_folder,
    "a broken link": lambda path: (path.unlink(), path.symlink_to("nowhere")),
    "missing": os.unlink,
}


def forge(path, change):
    """Changes a manifest and makes its checksum right again."""
    document = json.loads(path.read_bytes())
    document["checkpoint"] = change(document["checkpoint"])
    document["sha256"] = checksum(document["checkpoint"])
    path.write_text(json.dumps(document))
