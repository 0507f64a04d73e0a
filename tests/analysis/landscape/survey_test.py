"""What is computed, and how far it is. Of real runs: tests/analysis/landscape/study_test.py."""

import dataclasses
import sys

import numpy as np
import pytest

from tests.analysis.landscape.paraboloids import survey
from tests.runs.callbacks.progress_test import Terminal
from tf_fedsam.analysis.landscape import survey as surveys
from tf_fedsam.analysis.landscape.store import PointStore
from tf_fedsam.analysis.landscape.survey import Progress, compute


@pytest.fixture
def half_known(tmp_path, monkeypatch):
    """A survey of which the second run is not known; gives the points that are evaluated."""
    evaluated = []

    class Losses:
        def __init__(self, network, examples, preprocess, batch_size):
            self.batch_size = batch_size

        def __call__(self, plane, points):
            evaluated.extend(points)
            return np.full((len(points), 2), 0.5)

    monkeypatch.setattr(surveys, "LossFunction", Losses)
    found = survey(tmp_path)
    found.data.preprocess = None
    empty = dataclasses.replace(found.around[1], store=PointStore(tmp_path / "new.npz"))
    return dataclasses.replace(found, around=[found.around[0], empty]), evaluated


def test_only_what_is_missing(half_known, capsys):
    """1 + 16 + 9 + 25 points, of which 0 and four of the ring and eight of the line come twice."""
    found, evaluated = half_known
    compute(found)
    wanted = found.around[1].points
    assert sorted(evaluated) == sorted(set(wanted))
    out = capsys.readouterr().out
    num = len(set(wanted))
    assert out.splitlines()[0] == f"{num:,} points are known from before."
    assert f"point {2 * num:>5}/{2 * num}  sharp" in out
    evaluated.clear()
    compute(found)
    assert evaluated == []
    assert "nothing is computed" in capsys.readouterr().out


def test_silently(half_known, capsys):
    found, evaluated = half_known
    compute(found, verbose=False)
    assert evaluated
    assert capsys.readouterr().out == ""


def test_works_are_those_around_and_between(tmp_path):
    found = survey(tmp_path, between=True)
    assert [work.name for work in found.works] == ["flat", "sharp", "flat to sharp"]


class TestProgress:
    def test_a_line_from_time_to_time(self, capsys, monkeypatch):
        """After ten seconds, and at the end."""
        clock = iter([0.0, 4.0, 9.9, 10.0, 10.0, 12.0, 12.5])
        monkeypatch.setattr(surveys.time, "monotonic", lambda: next(clock))
        progress = Progress(10, 50)
        progress.begin("flat")
        for count in (10, 10, 10):
            progress.advance(count)
        progress.advance(10)
        progress.close()
        assert capsys.readouterr().out.splitlines() == [
            "point    40/50  flat",
            "point    50/50  flat",
        ]

    def test_a_bar_on_a_terminal(self, monkeypatch):
        written = Terminal()
        monkeypatch.setattr(sys, "stdout", written)
        progress = Progress(10, 50)
        progress.begin("flat")
        progress.advance(40)
        progress.close()
        assert "50/50" in written.getvalue()
        assert "flat" in written.getvalue()
