"""What is told of a method, a data set, a model, a probe, a setting."""

import pytest

import tasks
from tf_fedsam import models
from tf_fedsam.algorithms.registry import all_algorithms
from tf_fedsam.analysis.probe_list import PROBES
from tf_fedsam.errors import InputError
from tf_fedsam.runs import describe as module
from tf_fedsam.runs import task
from tf_fedsam.runs.config import SETTINGS
from tf_fedsam.runs.describe import describe, hyper_parameters, reflowed, value

assert tasks

NAMES = [*all_algorithms(), *task.all_tasks(), *models.names(), *PROBES, *SETTINGS]


@pytest.mark.parametrize("name", NAMES)
def test_everything_that_has_a_name(name):
    told = describe(name)
    assert name in told
    for line in told.splitlines():
        assert len(line) <= 80, line


def test_a_method():
    """FedWMSAM: 1 gradient a step, model and momentum down, update up, a row on the server."""
    told = describe("fedwmsam")
    lines = [line.strip() for line in told.splitlines()]
    for words in (
        "paper             Huang et al. 2025 (NeurIPS)",
        "gradients a step  1",
        "vectors down, up  2, 1 of the model's size, a client and round",
        "client state      control (on the server)",
        "w_i <- w_i - lr * (alpha * g(w_i + e) + (1 - alpha) * D_i)",
        "hparams.rho         Radius of the perturbation; 0 is none.",
        "number, 0.01 by default",
        "valid: at least 0",
        "in the paper: 0.01; 0.1 in code",
        "descent: downhill, as its code does",
        "momentum: cos(D, D_i)",
    ):
        assert words in lines
    assert repr(told) == str(told)
    assert "No hyper-parameters of its own." in describe("scaffold")


def test_defaults_of_data_sets():
    beta = {t.declaration.name: t for t in hyper_parameters(all_algorithms()["mofedsam"])}["beta"]
    assert beta.declaration.default == 0.1
    assert beta.elsewhere["glyphs"] == 0.3
    assert "number, 0.1 by default (0.3 on glyphs)" in describe("mofedsam")


def test_a_data_set():
    told = describe("glyphs")
    assert "an embedded stand-in for EMNIST" in told
    assert "mofedsam  hparams.beta=0.3" in told
    assert "rounds        60" in told
    assert "kmnist of TFDS" in describe("tfds:kmnist")


def test_a_model():
    told = " ".join(describe("mlp").split())
    assert "model_options.hidden_units" in told
    assert "200,200 by default" in told
    assert "a tuple of whole numbers of at least 1" in told
    assert "valid: torch or keras" in told


def test_a_probe_and_a_setting():
    assert "keep_local_models=true" in describe("divergence")
    assert "eigenvalues=5, trace_vectors=10" in describe("hessian")
    told = describe("classes_per_client")
    assert "partition=pathological" in told
    assert "0.1 on cifar10" in " ".join(describe("alpha").split())
    assert "auto, always or never" in describe("stream")


def test_a_method_of_a_users_own(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        '"""Mine: as FedAvg."""\nimport dataclasses\n'
        "from tf_fedsam.algorithms.base import Algorithm\n"
        "class Mine(Algorithm):\n    summary = 'mine'\n"
        "    @dataclasses.dataclass(frozen=True)\n    class Hparams:\n        rate: float = 0.3\n"
    )
    told = describe(f"{path}:Mine")
    assert "Mine: as FedAvg." in told
    assert "hparams.rate  number, 0.3 by default" in told


def test_names_that_do_not_exist():
    with pytest.raises(
        InputError, match=r"Unknown name 'fedwsam'\. Did you mean 'fedwmsam'.*a model"
    ):
        describe("fedwsam")


def test_values():
    received = [value(v) for v in (True, (3, 4), None, "", 0.5, "x")]
    assert received == ["true", "3,4", "none", '""', "0.5", "x"]


def test_formulas_stay_as_they_are():
    words = "one\ntwo\n\n    a = b\n    c = d\n\n" + "word " * 30
    assert reflowed(words).startswith("one two\n\n    a = b\n    c = d\n\nword word")
    assert max(map(len, reflowed(words).splitlines())) <= 80
    assert module.KINDS[float] == "number"


@pytest.mark.parametrize("name", ["rho", "hparams.rho"])
def test_a_hyper_parameter_of_several_methods(name):
    told = str(describe(name))
    methods = [line.split()[1] for line in told.splitlines() if line.startswith("  method")]
    assert {"fedsam", "fednsam", "mofedsam"} <= set(methods)
    assert "fedavg" not in methods
    assert told.count("hparams.rho") == len(methods)
