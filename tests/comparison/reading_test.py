"""Runs are read from their folders, or left out with a reason."""

import json
import os

import pytest

from tests.comparison.fake_runs import make_run
from tf_fedsam.comparison.reading import Skipped, read_run, read_runs
from tf_fedsam.errors import InputError


def changed(folder, file, **values):
    content = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps({**content, **values}))
    return folder


def test_complete_and_not(tmp_path):
    assert read_run(make_run(tmp_path / "a")).complete
    going = read_run(make_run(tmp_path / "b", done=3))
    assert (going.complete, going.stopped, len(going.records)) == (False, "", 3)


def test_a_run_that_stopped_early_is_complete(tmp_path):
    run = read_run(make_run(tmp_path / "a", done=7, stopped="80 % in round 7", stop_at=0.8))
    assert (run.complete, run.stopped, len(run.records)) == (True, "80 % in round 7", 7)


def test_stopped_in_the_last_round_is_not_early(tmp_path):
    assert read_run(make_run(tmp_path / "a", rounds=5, done=5, stopped="x")).stopped == ""


@pytest.mark.parametrize(
    "stopped",
    [
        None,
        "enough",
        {"reason": "x"},
        {"reason": "x", "wanted": {"rounds": 9, "stop_at": None}},  # 20 are asked for now
        {"reason": "x", "wanted": {"rounds": 20, "stop_at": 0.5}},
    ],
)
def test_too_few_rounds_without_a_reason(tmp_path, stopped):
    folder = make_run(tmp_path / "a", done=7, stopped="x")
    changed(folder, "summary.json", stopped=stopped)
    with pytest.raises(InputError, match=r"has 7 rounds and its config\.json says 20"):
        read_run(folder)


@pytest.mark.parametrize("name", ["config.json", "rounds.jsonl", "summary.json"])
def test_a_pipe_is_not_waited_for(name, tmp_path):
    folder = make_run(tmp_path / "a")
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(InputError, match=rf"{name} is no ordinary file"):
        read_run(folder)


def test_a_reason_is_one_line_of_harmless_characters(tmp_path):
    folder = make_run(tmp_path / "a", done=7, stopped="a\n\x1b[31mb")
    assert read_run(folder).stopped == "a \ufffd[31mb"


def test_a_summary_of_another_log(tmp_path):
    folder = changed(make_run(tmp_path / "a"), "summary.json", test_accuracy=0.99)
    with pytest.raises(InputError, match=r"summary\.json is not that of"):
        read_run(folder)


def test_what_cannot_be_read_is_left_out(tmp_path):
    good, going, bad = (make_run(tmp_path / n, done=d) for n, d in (("a", 20), ("b", 3), ("c", 20)))
    (bad / "config.json").write_text("{")
    runs, skipped = read_runs({good: "", going: "failed: full", bad: ""})
    assert [run.name for run in runs] == [str(good)]
    assert skipped[0] == Skipped(str(going), "failed: full (after round 3)")
    assert skipped[1].name == str(bad)
    with pytest.raises(InputError, match="None of 1 runs can be reported"):
        read_runs({bad: ""})
