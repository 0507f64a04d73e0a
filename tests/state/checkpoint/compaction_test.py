"""Which rows are written, and that it never becomes too many."""

import itertools

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from tf_fedsam.state.checkpoint import compaction
from tf_fedsam.state.checkpoint.compaction import RowFile, plan
from tf_fedsam.state.checkpoint.format import DataFile

ROW_BYTES = 100


class Disk:
    """Files of rows as plans make them, without the files."""

    def __init__(self):
        self.files: list[RowFile] = []
        self.stamps: dict[int, int] = {}
        self._count = itertools.count()
        self._names = itertools.count()

    def change(self, positions) -> None:
        for position in positions:
            self.stamps[int(position)] = next(self._count)

    def save(self, **options) -> compaction.Plan:
        done = plan(self.files, self.stamps, ROW_BYTES, **options)
        self.files = [*done.kept]
        if done.written:
            assert len(set(done.written)) == len(done.written)
            file = DataFile(str(next(self._names)), ROW_BYTES * len(done.written), "")
            self.files.append(RowFile(file, {p: self.stamps[p] for p in done.written}))
        assert self.content() == self.stamps
        return done

    def content(self) -> dict[int, int]:
        content: dict[int, int] = {}
        for file in self.files:
            content |= file.stamps
        return content

    @property
    def num_rows(self) -> int:
        return sum(len(file.stamps) for file in self.files)


def uniform(generator, i, cohort):
    return generator.choice(300, cohort, replace=False)


def in_turn(generator, i, cohort):
    return (np.arange(cohort) + i * cohort) % 300


def some_often(generator, i, cohort):
    return np.abs(generator.normal(0, 15, cohort)).astype(int) % 300


@pytest.mark.parametrize("who", [uniform, in_turn, some_often])
@pytest.mark.parametrize("cohort", [3, 30, 150])
@pytest.mark.parametrize("at_first", [0, 300])
def test_work_and_room_are_bounded(monkeypatch, who, cohort, at_first):
    """Also if there is one large file at first, out of which rows move bit by bit."""
    monkeypatch.setattr(compaction, "MOVED_BYTES", 0)
    generator, disk = np.random.default_rng(0), Disk()
    disk.change(range(at_first))
    disk.save()
    num_written = num_changed = 0
    for i in range(15 * 300 // cohort):
        disk.change(who(generator, i, cohort))
        done = disk.save()
        assert len(done.moved) <= len(done.changed) <= cohort
        assert disk.num_rows <= 3 * len(disk.stamps)
        num_written += len(done.written)
        num_changed += len(done.changed)
    assert num_written <= 1.5 * num_changed


def test_nothing_changed_nothing_written():
    disk = Disk()
    disk.change(range(5))
    assert disk.save().written == [0, 1, 2, 3, 4]
    assert disk.save().written == []


def test_rows_move_out_of_the_emptiest_file_bit_by_bit(monkeypatch):
    monkeypatch.setattr(compaction, "MOVED_BYTES", 0)
    disk = Disk()
    for changed in (range(10), range(7), range(3)):
        disk.change(changed)
        assert disk.save().moved == []
    assert disk.num_rows == 20  # 10 + 7 + 3, no more than twice as many as clients
    # The next row is one too many. Up to date are 3 of 10, 4 of 7 and 2 of 3.
    for moved, num_rows in ((7, 22), (8, 24), (9, 16)):  # 2 more each time; then the 10 can go
        disk.change([0])
        done = disk.save()
        assert (done.changed, done.moved, disk.num_rows) == ([0], [moved], num_rows)


def test_small_files_are_merged(monkeypatch):
    monkeypatch.setattr(compaction, "MAX_SMALL_FILES", 8)
    disk = Disk()
    for i in range(100):
        disk.change([i])
        disk.save()
        assert len(disk.files) <= 8


def test_large_files_are_not_merged(monkeypatch):
    monkeypatch.setattr(compaction, "MAX_SMALL_FILES", 8)
    monkeypatch.setattr(compaction, "SMALL_BYTES", 5 * ROW_BYTES)
    disk = Disk()
    for i in range(20):
        disk.change(range(5 * i, 5 * i + 5))
        assert not disk.save().moved
    assert len(disk.files) == 20


def test_nothing_moves_if_it_must_not():
    disk = Disk()
    for _ in range(5):
        disk.change([0, 1, 2])
        disk.save()
        disk.change([2])
        disk.save(moving=False)
    disk.change([0])
    assert disk.save(moving=False).written == [0]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    data=st.data(),
    moved_rows=st.integers(0, 5),
    max_small=st.integers(2, 6),
    small_rows=st.integers(0, 5),
)
def test_any_history(data, moved_rows, max_small, small_rows):
    """Clients change, go back to what they were, or are gone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "MOVED_BYTES", moved_rows * ROW_BYTES)
        patch.setattr(compaction, "MAX_SMALL_FILES", max_small)
        patch.setattr(compaction, "SMALL_BYTES", small_rows * ROW_BYTES)
        disk, earlier = Disk(), [{}]
        for _ in range(data.draw(st.integers(1, 12))):
            if data.draw(st.integers(0, 4)):
                disk.change(data.draw(st.sets(st.integers(0, 9), max_size=4)))
            else:
                disk.stamps = dict(data.draw(st.sampled_from(earlier)))
            earlier.append(dict(disk.stamps))
            done = disk.save(moving=data.draw(st.booleans()))
            assert len(done.moved) <= max(len(done.changed), moved_rows)
