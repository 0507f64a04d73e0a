"""What a sweep is described by, and which descriptions are refused."""

import json
import pathlib

import numpy as np
import pytest

from tests.sweeps.pretending import cells_of, yaml_file
from tf_fedsam.errors import InputError
from tf_fedsam.sweeps.description import axes_of_texts, describe


def test_forms_are_equal(tmp_path):
    """Texts as of flags, a mapping, YAML, a dict in Python, a ConfigDict: the same cells."""
    texts = {
        "algos": ["fedavg", "fedsam"],
        "datasets": ["glyphs", "mnist"],
        "seeds": ["0", "1"],
        "grid": ["lr=0.001,0.1", "hparams.rho=0.5,0.05", "replacement=true,false"],
        "fixed": {"rounds": "8", "model_options.hidden_units": "(30, 20)", "targets": "0.5,0.6"},
    }
    content = {
        "algos": ["fedavg", "fedsam"],
        "datasets": ["glyphs", "mnist"],
        "seeds": [0, 1],
        "settings": {
            "rounds": 8,
            "model_options": {"hidden_units": [30, 20]},
            "targets": [0.5, 0.6],
        },
        "grid": {
            "lr": [0.001, 0.1],
            "hparams": {"rho": [0.5, 0.05]},
            "replacement": [True, False],
        },
    }
    # YAML takes 1e-3, without a dot, for a text.
    (tmp_path / "as_yaml.yaml").write_text(json.dumps(content).replace("0.001", "1e-3"))
    (tmp_path / "as_dict.py").write_text(f"sweep = {content!r}\n")
    (tmp_path / "as_config.py").write_text(
        "import ml_collections\n\n\ndef get_config():\n"
        f"    return ml_collections.ConfigDict({content!r})\n"
    )
    arrays = {
        "seeds": np.arange(2),
        "grid": {**content["grid"], "lr": np.asarray([0.001, 0.1])},
    }
    expected = {c.name: c.resolved.as_dict() for c in cells_of(tmp_path, **texts)[0]}
    assert len(expected) == 2 * 2 * (1 + 2) * 2 * 2  # data, rates, methods, replacement, seeds
    files = ("as_yaml.yaml", "as_dict.py", "as_config.py", "as_config.py:get_config")
    for source in (content, content | arrays, *(str(tmp_path / name) for name in files)):
        cells, _ = cells_of(tmp_path, source)
        assert {c.name: c.resolved.as_dict() for c in cells} == expected


def test_folder(tmp_path):
    file = yaml_file(tmp_path, "algos: [fedavg]")
    assert describe(file).out == pathlib.Path("sweeps/sweep")
    assert describe(file, out="else").out == pathlib.Path("else")
    assert describe({"algos": ["fedavg"], "out": "there"}).out == pathlib.Path("there")


def test_values_as_texts():
    axes = axes_of_texts(["lr=0.1,none", "hidden_units=50,20;10", "hparams.beta=@qu2022"])
    assert axes["lr"].choices == ({"lr": "0.1"}, {"lr": None})
    assert axes["hidden_units"].choices == ({"hidden_units": "50,20"}, {"hidden_units": "10"})
    assert axes["hparams.beta"].algos == ("mofedsam",)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({}, "algos must be a list of names. Received: none. Try algos=fedavg,fedsam."),
        ({"algos": ["fedavg", "fedavg"]}, "each once. Received: fedavg,fedavg"),
        ({"algos": ["fedavg"], "seeds": ["a"]}, "seeds must be a list of whole numbers"),
        ({"algos": ["fedavg"], "out": ""}, "Expected: out=FOLDER"),
        ({"source": "nothing.yaml"}, "nothing.yaml cannot be read: No such file"),
        ({"source": "nothing.py"}, "there is no file"),
        ({"source": "nothing.txt"}, "must be a .yaml or a .py file"),
        ({"source": {"algos": ["fedavg"], "lr": 1}}, "Unknown key of the sweep 'lr'"),
        ({"source": {"algos": ["fedavg"], "grid": 1}}, "grid of the sweep must be a mapping"),
    ],
)
def test_bad_descriptions(options, part):
    with pytest.raises(InputError) as error:
        describe(**{"out": "somewhere", **options})
    assert part in str(error.value)


@pytest.mark.parametrize(
    ("texts", "part"),
    [
        (["lr"], "grid must be NAME=VALUE,VALUE"),
        (["lr=1", "lr=2"], "grid has a name twice"),
        (["seed=1,2"], "seed cannot be a setting or a grid. Use seeds instead"),
        (["lr=@who"], "lr=@who does not exist. Expected"),
    ],
)
def test_bad_texts(texts, part):
    with pytest.raises(InputError) as error:
        axes_of_texts(texts)
    assert part in str(error.value)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("[fedavg]", "must hold a mapping"),
        ("", "must hold a mapping from names. Received: None"),
        ("algos: [fedavg]\nalgo: [x]", "Unknown key"),
        ("algos: fedavg", "algos must be a list of names. Received: 'fedavg'"),
        ("algos: [fedavg]\nseeds: 3", "seeds must be a list of whole numbers. Received: 3"),
        ("algos: [fedavg]\nseeds: [0, true]", "whole numbers"),
        ("algos: [fedavg]\ngrid: {lr: 0.1}", "lr must be a list of values"),
        ("algos: [fedavg]\ngrid: {lr: []}", "lr must be a list of values"),
        ("algos: [fedavg]\ngrid: [lr]", "grid of the file must be a mapping"),
        ("algos: [fedavg]\ngrid: {lr: [{a: {b: 1}}]}", "no setting can have"),
        ("algos: [fedavg]\nsettings: {lr: 2020-01-01}", "no setting can have"),
        ("algos: [fedavg]\nsettings: {lr: 1}\ngrid: {lr: [2]}", "says twice what lr is"),
        ("algos: [fedavg]\nsettings: {dataset: x}", "Use datasets instead"),
        ("algos: [fedavg]\nper_algo: {fedsam: {}}", "Unknown name in per_algo 'fedsam'"),
        ("algos: [fedavg]\nper_algo: {fedavg: {lr: 1}}", "mapping of settings and grid"),
        ("algos: [fedavg]\ngrid: {lr: [1]}\ngrid: {lr: [2]}", "has 'grid' twice"),
        ("algos: [fedavg", "is not YAML"),
        ("algos: !!python/object/apply:os.getcwd []", "is not YAML"),
        ("a: " + "[" * 1500, "is not YAML"),
    ],
)
def test_bad_files(tmp_path, text, part):
    with pytest.raises(InputError) as error:
        describe(yaml_file(tmp_path, text))
    assert part in str(error.value)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("x = 1", "has no get_config or sweep"),
        ("sweep = [1]", "has no get_config or sweep"),
        ("def get_config():\n    return 1 / 0", "get_config() failed: ZeroDivisionError"),
    ],
)
def test_bad_python_files(tmp_path, text, part):
    (tmp_path / "bad.py").write_text(text)
    with pytest.raises(InputError) as error:
        describe(str(tmp_path / "bad.py"))
    assert part in str(error.value)
