"""Files of YAML and JSON that describe runs."""

import json

import pytest

from tf_fedsam.errors import InputError
from tf_fedsam.runs.config import RunConfig
from tf_fedsam.runs.config_files import read_mapping


@pytest.mark.parametrize("suffix", [".yaml", ".yml", ".json"])
def test_a_mapping(suffix, tmp_path):
    path = tmp_path / f"run{suffix}"
    path.write_text(json.dumps({"lr": 0.1, "hparams": {"rho": 1}}))
    assert read_mapping(path) == {"lr": 0.1, "hparams": {"rho": 1}}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("learning_rate: 1\n", "learning_rate"),
        ("- 1\n", "mapping"),
        ("lr: 1\nlr: 2\n", "twice"),
        ("lr: [1\n", "not YAML"),
        ("lr: fast\n", "fast"),
    ],
)
def test_refused(text, word, tmp_path):
    (tmp_path / "run.yaml").write_text(text)
    with pytest.raises(InputError, match=word):
        RunConfig.load(tmp_path / "run.yaml")


def test_no_file(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        RunConfig.load(tmp_path / "none.yaml")
    with pytest.raises(InputError, match=r"\.yaml"):
        RunConfig.load(tmp_path / "run.txt")
