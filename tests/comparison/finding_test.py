"""Run folders are found where they are."""

import json

import pytest

from tests.comparison.fake_runs import make_run
from tf_fedsam.comparison.finding import DEPTH, find_runs
from tf_fedsam.errors import InputError
from tf_fedsam.runs.run import Run


def test_run_folders_and_folders_that_contain_some(tmp_path):
    first, second = make_run(tmp_path / "a"), make_run(tmp_path / "sweeps" / "s" / "b")
    assert list(find_runs([str(first), tmp_path / "sweeps"])) == [first, second]
    assert list(find_runs([tmp_path, first, second])) == [first, second]  # each once


def test_run_objects(tmp_path):
    assert list(find_runs([Run(make_run(tmp_path / "a"))])) == [tmp_path / "a"]


def test_only_so_deep_and_nothing_hidden(tmp_path):
    deep = tmp_path.joinpath(*"abc"[:DEPTH])
    make_run(deep)
    make_run(tmp_path / ".hidden")
    make_run(tmp_path.joinpath(*"wxyz"))
    assert list(find_runs([tmp_path])) == [deep]


def test_what_a_sweep_says(tmp_path):
    make_run(tmp_path / "good")
    make_run(tmp_path / "bad", done=2)
    cells = [
        {"folder": "good", "status": "done"},
        {"folder": "bad", "status": "failed", "error": "Traceback\nerror: full\n\n"},
        {"folder": "never", "status": "failed"},
        {"folder": "waits", "status": "waiting"},
        {"folder": "../other", "status": "failed"},
    ]
    (tmp_path / "sweep.json").write_text(json.dumps({"cells": cells}))
    assert find_runs([tmp_path]) == {
        tmp_path / "bad": "failed: error: full",
        tmp_path / "good": "",
        tmp_path / "never": "failed: no message",
    }


def test_nothing_there(tmp_path):
    for places, words in (
        ([], "No run was given"),
        ([tmp_path / "none"], "There is no folder"),
        ([tmp_path], "No run in"),
    ):
        with pytest.raises(InputError, match=words):
            find_runs(places)
