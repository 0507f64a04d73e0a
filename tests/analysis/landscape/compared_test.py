"""Which runs can be looked at side by side, and what they are called."""

import shutil

import numpy as np
import pytest

from tests.analysis.landscape.made_runs import change_config
from tf_fedsam.analysis.landscape import compared
from tf_fedsam.analysis.landscape.plane import Solution
from tf_fedsam.errors import InputError
from tf_fedsam.models import registry


def with_settings(run, **settings):
    change_config(run, lambda config: config["settings"].update(settings))
    return run


@pytest.fixture
def pair(made, tmp_path):
    """Twice the same run."""
    for name in ("first", "second"):
        shutil.copytree(made / "avg", tmp_path / name)
    return tmp_path / "first", tmp_path / "second"


def labels(*runs):
    return [each.label for each in compared.read_all(runs)]


def test_the_settings_of_data_and_model():
    """What the fields of a config are that a loss depends on, by their groups and roles."""
    assert {"dataset", "data_dir", "stream", "partition", "category_noise"} < set(compared.DATA)
    assert "seed" in compared.DATA
    assert not {"lr", "algo", "rounds", "model"} & set(compared.DATA)
    assert {"model", "model_options", "trainable"} <= set(compared.MODEL)
    assert not {"precision", "norm_state", "init_weights"} & set(compared.MODEL)


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("lr", 0.5, "lr=0.5"),
        ("rounds", 7, "rounds=7"),
        ("precision", "bfloat16", "precision=bfloat16"),
        ("weighting", "samples", "weighting=samples"),
        ("devices", "cpu:1", None),
        ("deterministic", True, None),
        ("eval_every", 2, None),
        ("stream", "never", None),
    ],
)
def test_labels_tell_what_decides_a_run(pair, setting, value, told):
    with_settings(pair[1], **{setting: value})
    if told is None:
        assert labels(*pair) == ["fedavg (first)", "fedavg (second)"]
    else:
        assert labels(*pair)[1] == f"fedavg {told}"


def test_hyper_parameters_are_told_among_runs_of_a_method(pair, runs):
    for run, rho in zip(pair, (0.1, 0.2), strict=True):
        with_settings(run, algo="fedsam", hparams={"rho": rho})
    assert labels(*pair) == ["fedsam rho=0.1", "fedsam rho=0.2"]
    assert labels(pair[0], runs / "avg") == ["fedsam", "fedavg"]


def test_runs_that_cannot_be_told_apart_are_numbered(pair, tmp_path):
    shutil.copytree(pair[0], tmp_path / "more" / "first")
    assert labels(pair[0], tmp_path / "more" / "first") == [
        "1: fedavg (first)",
        "2: fedavg (first)",
    ]


def test_options_that_make_no_other_function(pair):
    """Weights of models that began differently can be compared; those of other parts cannot."""
    with_settings(pair[1], model_options={"init": "keras"})
    assert len(labels(*pair)) == 2
    assert "init" not in compared.architecture(compared.read(pair[1]))
    with_settings(pair[1], trainable="head")
    with pytest.raises(InputError, match="Different: trainable, 'all' and 'head'"):
        labels(*pair)


def test_options_of_an_own_model_all_count(runs):
    (model,) = (compared.read(runs / "own").problem.model,)
    assert registry.inert_options(model) == frozenset()
    assert compared.architecture(compared.read(runs / "own"))["units"] == 6


def test_a_solution_that_diverged(made, monkeypatch):
    read = compared.read(made / "avg")
    network = read.run.model()
    assert np.isfinite(compared.read_solution(network, read).weights[0]).all()
    wrong = Solution([np.full(2, np.nan, np.float32)], [])
    monkeypatch.setattr(Solution, "of", lambda network: wrong)
    with pytest.raises(InputError, match="is not finite: the run diverged"):
        compared.read_solution(network, read)
