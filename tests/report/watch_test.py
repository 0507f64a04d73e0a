"""Runs that go on are seen, and what cannot be done yet is told once."""

import shutil

import pytest

from tests.comparison.fake_runs import make_run
from tf_fedsam.errors import InputError
from tf_fedsam.report import watch as module
from tf_fedsam.report.watch import snapshot, watch


def test_what_is_a_change(tmp_path):
    runs = tmp_path / "runs"
    seen = [snapshot([runs])]
    run = make_run(runs / "a", done=3, plain=True)
    seen.append(snapshot([runs]))
    assert snapshot([runs]) == seen[-1]
    with (run / "rounds.jsonl").open("a") as log:
        log.write("{}")
    seen.append(snapshot([runs]))
    (run / "summary.json").write_text("{}")
    seen.append(snapshot([runs]))
    (tmp_path / "land").mkdir()
    seen.append(snapshot([runs], [tmp_path / "land"]))
    (tmp_path / "land/landscape.json").write_text("{}")
    seen.append(snapshot([runs], [tmp_path / "land"]))
    shutil.rmtree(run)
    seen.append(snapshot([runs]))
    assert len(set(seen[:-1])) == len(seen) - 1
    assert seen[-1] == seen[0]  # nothing, again


def test_it_acts_on_changes_until_it_is_interrupted(tmp_path, monkeypatch):
    """Four looks: nothing yet, twice; a run; the same run. Then Ctrl-C."""
    acts, said, looks = [], [], []

    def act(live):
        acts.append(live)
        if live and not (tmp_path / "runs").exists():
            raise InputError("No run in there.")

    def sleep(seconds):
        assert seconds == 5
        looks.append(seconds)
        if len(looks) == 2:
            make_run(tmp_path / "runs/a", plain=True)
        if len(looks) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(module.time, "sleep", sleep)
    watch([tmp_path / "runs"], act, seconds=5, say=said.append)
    assert acts == [True, True, False]
    assert said == ["Waiting: No run in there."]


def test_other_errors_end_it(tmp_path):
    def act(live):
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        watch([tmp_path], act, seconds=1, say=print)
