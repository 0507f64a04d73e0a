"""One diverging client never spoils the model; a run in which all fail ends with advice."""

import numpy as np
import pytest

from tests.launch.main_test import log, weights
from tests.launch.running import records, run, toy_args
from tf_fedsam.data import federated_dataset
from tf_fedsam.runs.experiment import Experiment

pytestmark = pytest.mark.no_cover

# 1e30 times a gradient of that size overflows float32 in the first step.
EXTREME = np.float32(1e30)


@pytest.fixture(autouse=True)
def any_scale(monkeypatch):
    """Inputs of such sizes in one part of the data only would be refused."""
    monkeypatch.setattr(federated_dataset, "MAX_SCALE_RATIO", np.inf)


def inputs(*clients):
    """The toy's inputs with extreme values on some clients, whose sizes are 4, 9, 13 and 14."""
    x = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    x[np.isin(np.repeat([0, 1, 2, 3], [4, 9, 13, 14]), clients)] = EXTREME
    return x


@pytest.mark.parametrize("algo", ["fedsmoo", "mimelite"])
def test_a_failing_client_is_named_and_has_no_weight(algo, capsys, tmp_path):
    """With client 2 failing in every round, the model is that of the other clients alone."""
    args = [f"--algo={algo}", "--participation=1", "--clip_norm=0", "--rounds=3"]
    result = run(capsys, *toy_args(tmp_path, x_train=inputs(2)), *args)
    assert result.code == 0, result.err
    for record in records(tmp_path / "run"):
        assert record["failed_client_ids"] == [2]
        assert record["num_reported"] == 3
        assert not record["skipped"]
        line = f"Round {record['round']}: not finite, so left out: the update of client 2."
        assert line in result.out
    assert "3 updates that were not finite" in result.out
    final = weights(tmp_path / "run/final_weights.npz")
    assert all(np.isfinite(w).all() for w in final)
    assert np.abs(final[0] - weights(tmp_path / "run/initial_weights.npz")[0]).max() > 1e-3


def test_if_all_fail_the_round_is_skipped_and_the_run_ends(capsys, tmp_path):
    args = [*toy_args(tmp_path, x_train=inputs(0, 1, 2, 3)), "--clip_norm=0", "--algo=fedavgm"]
    args += ["--max_failed_rounds=3", "--rounds=9", "--checkpoint_every=100"]
    result = run(capsys, *args)
    assert result.code == 1
    assert "Round 1: nobody reported. It is skipped, the model stays as it was." in result.out
    assert "Nobody reported in the last 3 rounds" in result.err
    assert "training stops after round 3; the checkpoint is saved" in result.err
    assert "--lr" in result.err
    assert "Traceback" not in result.err
    done = records(tmp_path / "run")
    assert [(r["skipped"], r["num_reported"], r["update_norm"]) for r in done] == [(True, 0, 0)] * 3
    assert [len(r["failed_client_ids"]) for r in done] == [2, 2, 2]
    # The model is tested as it is, and JSON has no word for what is not finite.
    assert {r["test_loss"] for r in done} == {done[0]["test_loss"]}
    before = log(tmp_path / "run")
    again = run(capsys, *args)  # no further round, the same message
    assert (again.code, again.err) == (1, result.err)
    assert log(tmp_path / "run") == before
    result = run(capsys, *args, "--max_failed_rounds=4")
    assert result.code == 1
    assert "training stops after round 4" in result.err


def test_divergence_of_the_global_model_is_told_when_it_happens(capsys, tmp_path):
    """Test examples whose loss overflows: told once, with advice, and written as null."""
    x_test = np.full((12, 5), 1e38, np.float32) * np.float32([1, -1, 1, 1, 1])
    result = run(capsys, *toy_args(tmp_path, x_test=x_test), "--lr=30", "--clip_norm=0")
    assert result.code == 0, result.err
    assert result.out.count("the global model has diverged, its test loss is not finite") == 1
    assert "Lower --lr" in result.out
    assert [r["test_loss"] for r in records(tmp_path / "run")] == [None, None]
    assert "NaN" not in (tmp_path / "run/rounds.jsonl").read_text()
    assert "not finite" in result.out


def test_a_bug_is_not_hidden(capsys, tmp_path, monkeypatch):
    """Only what a user can act upon becomes a message."""

    def broken(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(Experiment, "round", broken)
    with pytest.raises(ZeroDivisionError):
        run(capsys, *toy_args(tmp_path))
