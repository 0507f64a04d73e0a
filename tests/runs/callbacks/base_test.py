"""Callbacks: when they are called, what they may do, how they are given."""

import pytest

import tf_fedsam
from tests.launch.main_test import assert_same_run
from tests.launch.running import records, toy_args
from tests.launch.running import run as run_command
from tests.runs.run_test import toy_config


class Diary(tf_fedsam.Callback):
    def __init__(self, stop_in=0):
        self.lines, self._stop_in = [], stop_in

    def on_run_begin(self):
        self.lines.append(("begin", len(self.training.records)))

    def on_round_begin(self, round):
        self.lines.append(("round", round))

    def on_round_end(self, round, record, state):
        self.lines.append(("end", round, state.round_num))
        record["twice_the_round"] = 2 * round
        if round == self._stop_in:
            self.training.stop("the diary is full")

    def on_run_end(self):
        self.lines.append(("closed",))


def test_order_and_own_numbers(tmp_path):
    diary = Diary()
    run = tf_fedsam.run(toy_config(tmp_path), tmp_path / "run", callbacks=[diary], verbose=False)
    assert diary.lines == [
        *(("begin", 0), ("round", 1), ("end", 1, 1), ("round", 2), ("end", 2, 2), ("closed",)),
    ]
    assert [r["twice_the_round"] for r in run.records] == [2, 4]
    assert [r["twice_the_round"] for r in records(tmp_path / "run")] == [2, 4]


def test_stopped_early_is_complete(tmp_path):
    """The last round is tested and probed; the same call again does not train."""
    config = toy_config(tmp_path, rounds=9, eval_every=5)
    first = Diary(stop_in=3)
    run = tf_fedsam.run(config, tmp_path / "run", callbacks=[first], verbose=False)
    assert run.complete
    assert [r["round"] for r in run.records] == [1, 2, 3]
    assert "test_accuracy" not in run.records[1]
    assert run.records[2]["test_accuracy"] == run.summary["test_accuracy"]
    assert run.records[2]["sharpness"] is not None
    assert run.summary["stopped"]["reason"] == "the diary is full"
    assert "stopped early" in run.results()
    again = Diary()
    assert tf_fedsam.run(config, tmp_path / "run", callbacks=[again], verbose=False).complete
    assert again.lines == []
    longer = tf_fedsam.run(config.with_values({"rounds": 10}), tmp_path / "run", verbose=False)
    assert len(longer.records) == 10
    assert "stopped" not in longer.summary
    whole = tf_fedsam.run(config.with_values({"rounds": 10}), tmp_path / "other", verbose=False)
    for here, there in zip(longer.weights(), whole.weights(), strict=True):
        assert (here == there).all()


def test_an_error_in_a_callback_is_not_hidden(tmp_path):
    class Broken(tf_fedsam.Callback):
        def on_round_end(self, round, record, state):
            if round == 2:
                raise ZeroDivisionError

    diary, config = Diary(), toy_config(tmp_path, rounds=3)
    with pytest.raises(ZeroDivisionError):
        tf_fedsam.run(config, tmp_path / "run", callbacks=[diary, Broken()], verbose=False)
    assert diary.lines[-1] == ("closed",)
    tf_fedsam.run(config, tmp_path / "run", verbose=False)  # goes on after round 1
    tf_fedsam.run(config, tmp_path / "whole", verbose=False)
    final = [tf_fedsam.Run(tmp_path / name).weights() for name in ("run", "whole")]
    assert all((a == b).all() for a, b in zip(*final, strict=True))


def test_from_the_command_line(capsys, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import tf_fedsam\n"
        "class Bell(tf_fedsam.Callback):\n"
        "    def on_round_end(self, round, record, state):\n"
        "        record['rung'] = round\n"
    )
    args = [*toy_args(tmp_path), f"--callback={tmp_path / 'mine.py'}:Bell"]
    assert run_command(capsys, *args).code == 0
    assert [r["rung"] for r in records(tmp_path / "run")] == [1, 2]
    wrong = run_command(capsys, *toy_args(tmp_path), f"--callback={tmp_path / 'mine.py'}:Ball")
    assert wrong.code == 2
    assert "Did you mean 'Bell'" in wrong.err


def test_callbacks_change_nothing(tmp_path):
    config = toy_config(tmp_path, algo="fedsmoo")
    plain = tf_fedsam.run(config, tmp_path / "plain", verbose=False)

    class Quiet(tf_fedsam.Callback):
        pass

    other = tf_fedsam.run(config, tmp_path / "other", callbacks=[Quiet()], verbose=False)
    assert_same_run(plain.folder, other.folder)
