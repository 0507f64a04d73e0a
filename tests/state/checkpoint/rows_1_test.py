"""Checkpoints of format 1 are read, and the next one is of today's format."""

import hashlib
import json
import sys

import numpy as np
import pytest

from tests.state.checkpoint import states
from tests.state.checkpoint.saving import (
    expected,
    extra_of,
    flip,
    listing,
    load,
    save,
    three_states,
)
from tests.state.checkpoint.states import fresh
from tf_fedsam.process import State
from tf_fedsam.state.checkpoint import CheckpointError, CheckpointWriter, load_latest, rows_1


def _file(folder, name: str, data: bytes) -> dict:
    (folder / name).write_bytes(data)
    return {"name": name, "num_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _rows(folder, number: int, clients, positions) -> dict:
    data = np.asarray(positions, np.int64).tobytes()
    for position in positions:
        data += b"".join(vector.tobytes() for vector in clients.row(position).values())
    return _file(folder, f"clients-{number:08d}.bin", data)


def write_format_1(folder, result) -> None:
    """The checkpoints after 2 and 3 rounds as the first version wrote them."""
    folder.mkdir()
    first, second, third = result
    row_files = [_rows(folder, 1, first.clients, range(6))]
    for number, state, changed in ((2, second, [0]), (3, third, [1])):
        row_files.append(_rows(folder, number, state.clients, changed))
        tensors = [tensor.numpy() for vector in state.server.values() for tensor in vector]
        data = b"".join(tensor.tobytes() for tensor in tensors)
        body = {
            "format": f"tf_fedsam checkpoint 1, {sys.byteorder} endian",
            "round_num": state.round_num,
            "extra": extra_of(state),
            "layout": [
                [name, [[tensor.dtype.name, list(tensor.shape)] for tensor in vector]]
                for name, vector in state.server.items()
            ],
            "client_layout": [["dual", 6], ["last", 3]],
            "server": _file(folder, f"server-{number:08d}.bin", data),
            "clients": row_files,
        }
        text = json.dumps(body, sort_keys=True, separators=(",", ":"))
        checksum = hashlib.sha256(text.encode()).hexdigest()
        (folder / f"checkpoint-{number:08d}.json").write_text(
            json.dumps({"sha256": checksum, "checkpoint": body}, indent=1)
        )


@pytest.fixture
def old(tmp_path):
    result = three_states()
    write_format_1(tmp_path / "old", result)
    return tmp_path / "old", result


@pytest.mark.parametrize("chunk_bytes", [80, 1 << 24])  # two rows of 4 * 9 bytes; all at once
def test_old_checkpoints_are_read(old, chunk_bytes, monkeypatch):
    monkeypatch.setattr(rows_1, "CHUNK_BYTES", chunk_bytes)
    folder, (_, second, third) = old
    assert load(folder) == expected(third)
    flip(folder / "clients-00000003.bin", 20)
    warnings = []
    assert load(folder, warnings.append) == expected(second)
    assert "clients-00000003.bin is corrupted" in warnings[0]
    flip(folder / "clients-00000001.bin", 20)
    with pytest.raises(CheckpointError, match=r"clients-00000001\.bin is corrupted"):
        load(folder, warnings.append)


def test_the_run_goes_on_in_the_new_format(old):
    folder, (_, _, third) = old
    state = load_latest(folder, fresh(), print)[0]
    states.scatter(state.clients, [5], 4)
    fourth = State(4, third.server, state.clients)
    with CheckpointWriter(folder) as writer:
        save(writer, fourth)
        assert [name for name in listing(folder) if name.startswith("checkpoint")] == [
            "checkpoint-00000003.json",
            "checkpoint-00000004.json",
        ]
        assert load(folder) == expected(fourth)
        save(writer, fourth)
    assert load(folder) == expected(fourth)
    formats = {json.loads(p.read_text())["checkpoint"]["format"] for p in folder.glob("*.json")}
    assert formats == {f"tf_fedsam checkpoint 3, {sys.byteorder} endian"}
    (folder / "checkpoint-00000005.json").unlink()
    assert load(folder) == expected(fourth)
