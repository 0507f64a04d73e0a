"""Files of rows."""

import contextlib
import dataclasses
import errno
import hashlib
import io
import os

import numpy as np
import pytest

from tests.state.checkpoint import states
from tests.state.checkpoint.saving import flip
from tf_fedsam.state.checkpoint import rows
from tf_fedsam.state.checkpoint.format import BrokenError
from tf_fedsam.state.client_store import ClientStore

WIDTH = 9


@pytest.fixture
def written(tmp_path):
    """A folder with one file of the rows of clients 7, 3 and 5, the store, and the file."""
    clients = ClientStore(states.LENGTHS)
    states.scatter(clients, [3, 5, 7], 1)
    return tmp_path, clients, rows.write(tmp_path / "clients-00000001.bin", clients, [7, 3, 5])


def vectors(clients, position) -> bytes:
    return b"".join(clients.row(position)[name].tobytes() for name in ("dual", "last"))


def test_the_bytes_of_a_file(written):
    folder, clients, file = written
    index, data, spare = b"", b"", bytes(36)
    for position in (7, 3, 5):
        row = vectors(clients, position)
        start = np.int64(position).tobytes()
        index += start + hashlib.sha256(start + row).digest()
        data += row
        spare = bytes(a ^ b for a, b in zip(spare, row, strict=True))
    assert (folder / file.name).read_bytes() == index + spare + data + index
    assert file.num_bytes == 3 * rows.row_bytes(WIDTH) + 36 == 3 * (2 * 40 + 4 * 9) + 36
    assert file.num_spare == 1
    assert file.sha256 == hashlib.sha256(index).hexdigest()


@pytest.mark.parametrize("entries", [[], [0], [2], [0, 2], [0, 1, 2]])
def test_some_rows_are_read(written, entries):
    folder, clients, file = written
    index = rows.read_index(folder, file, WIDTH)
    assert index["position"].tolist() == [7, 3, 5]
    found = [
        (position, row.tobytes(), restored)
        for position, row, restored in rows.read(folder, file, index, entries)
    ]
    wanted = [[7, 3, 5][entry] for entry in entries]
    assert found == [(position, vectors(clients, position), False) for position in wanted]


def test_only_what_is_read_is_checked(written):
    folder, _, file = written
    for row in (1, 2):
        flip(folder / file.name, 3 * 40 + 36 + 36 * row)
    index = rows.read_index(folder, file, WIDTH)
    assert [row.position for row in rows.read(folder, file, index, [0])] == [7]
    found = rows.read(folder, file, index, [0, 1, 2])
    assert next(found).position == 7
    with pytest.raises(
        BrokenError, match=r"vectors of clients 3, 5 .* in clients-00000001\.bin are damaged"
    ):
        next(found)


def test_a_row_of_another_client_is_refused(written):
    """The two rows are whole, but each is where the other should be."""
    folder, _, file = written
    data = (folder / file.name).read_bytes()
    (folder / file.name).write_bytes(data[:156] + data[192:228] + data[156:192] + data[228:])
    index = rows.read_index(folder, file, WIDTH)
    with pytest.raises(BrokenError, match="client 7"):
        list(rows.read(folder, file, index, [0]))


@pytest.mark.parametrize("num_rows", [1, 2, 16, 17, 40])
def test_one_row_of_a_group_is_restored(tmp_path, num_rows):
    """Rows side by side are of other groups; two of one group are lost."""
    clients = ClientStore(states.LENGTHS)
    states.scatter(clients, range(num_rows), 1)
    file = rows.write(tmp_path / "clients-00000001.bin", clients, range(num_rows))
    path = tmp_path / file.name
    index = rows.read_index(tmp_path, file, WIDTH)
    spare = -(-num_rows // 16)
    assert file.num_spare == rows.num_spare(num_rows) == spare
    original = path.read_bytes()
    start = 40 * num_rows + 36 * spare

    def damage(number):
        flip(path, start + 36 * number + number % 36)

    every = range(num_rows)
    for first in every:
        hit = range(first, min(first + spare, num_rows))
        for number in hit:
            damage(number)
        found = list(rows.read(tmp_path, file, index, every))
        assert [row.position for row in found] == [*every]
        assert [row.numbers.tobytes() for row in found] == [vectors(clients, p) for p in every]
        assert [row.position for row in found if row.restored] == [*hit]
        if first + spare < num_rows:
            damage(first + spare)
            with pytest.raises(BrokenError, match=f"clients {first}, {first + spare} "):
                list(rows.read(tmp_path, file, index, every))
        path.write_bytes(original)
    path.write_bytes(original[: start + 36 * (num_rows - spare)])  # the last rows are cut off
    found = list(rows.read(tmp_path, file, index, every))
    assert [row.numbers.tobytes() for row in found] == [vectors(clients, p) for p in every]


def test_a_row_that_the_disk_refuses_is_restored(written, monkeypatch):
    folder, clients, file = written
    index = rows.read_index(folder, file, WIDTH)

    class BadSector(io.BytesIO):
        def read(self, size=-1):
            if self.tell() == 3 * 40 + 36 + 36:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return super().read(size)

    stream = BadSector((folder / file.name).read_bytes())
    monkeypatch.setattr(rows, "opened", lambda *args: contextlib.nullcontext(stream))
    found = list(rows.read(folder, file, index, [0, 1, 2]))
    assert [row.restored for row in found] == [False, True, False]
    assert found[1].numbers.tobytes() == vectors(clients, 3)


def test_files_without_spare_rows_are_read(written):
    """As format 2 had them."""
    folder, clients, file = written
    data = (folder / file.name).read_bytes()
    (folder / file.name).write_bytes(data[:120] + data[156:])
    old = dataclasses.replace(file, num_bytes=file.num_bytes - 36, num_spare=0)
    index = rows.read_index(folder, old, WIDTH)
    found = [row.numbers.tobytes() for row in rows.read(folder, old, index, [0, 1, 2])]
    assert found == [vectors(clients, position) for position in (7, 3, 5)]
    flip(folder / file.name, 120)
    with pytest.raises(BrokenError, match="client 7"):
        list(rows.read(folder, old, index, [0, 1, 2]))


def test_many_clients_are_named_by_the_first():
    assert rows.named([3]) == "client 3 (counted from 0)"
    assert rows.named([*range(7)]) == "clients 0, 1, 2, 3, 4 and 2 more (counted from 0)"


def test_another_width_is_refused(written):
    folder, _, file = written
    with pytest.raises(BrokenError, match="whole rows"):
        rows.read_index(folder, file, WIDTH + 1)


def test_rows_without_numbers(tmp_path):
    clients = ClientStore({"nothing": 0})
    clients.scatter(np.array([4]), {"nothing": np.zeros((1, 0), np.float32)}, np.array([True]))
    file = rows.write(tmp_path / "clients-00000001.bin", clients, [4])
    index = rows.read_index(tmp_path, file, 0)
    assert [row.numbers.size for row in rows.read(tmp_path, file, index, [0])] == [0]
