"""Names of default folders; those of a sweep's cells: tests/sweeps/names_test.py."""

import pytest

import tasks
from tf_fedsam.runs.config import RunConfig
from tf_fedsam.runs.names import LONGEST, changed, output_folder, shortened, words

assert tasks


def name(**values):
    return output_folder(RunConfig(**values).resolve()).as_posix()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, "glyphs-fedavg-seed0"),
        ({"alpha": 0.3, "rounds": 3, "devices": "cpu:1"}, "glyphs-fedavg-seed0"),  # as it is anyway
        ({"alpha": 0.1, "seed": 4}, "glyphs-fedavg-alpha0.1-seed4"),
        ({"partition": "iid"}, "glyphs-fedavg-partition-iid-seed0"),  # alpha is then for nothing
        ({"algo": "fedsam", "hparams": {"rho": 0.05}}, "glyphs-fedsam-rho0.05-seed0"),
        ({"algo": "mofedsam", "hparams": {"beta": 0.3}}, "glyphs-mofedsam-seed0"),  # glyphs' own
        ({"algo": "mofedsam", "hparams": {"beta": 0.1}}, "glyphs-mofedsam-beta0.1-seed0"),
        ({"algo": "fedcm", "hparams": {"alpha": 0.5}}, "glyphs-fedcm-hparams.alpha0.5-seed0"),
        ({"model": "cnn"}, "glyphs-fedavg-model-cnn-seed0"),  # and its options as they are
        ({"hidden_units": (50, 20)}, "glyphs-fedavg-hidden_units50x20-seed0"),
        ({"lr": 0.05, "nesterov": 0.9}, "glyphs-fedavg-lr0.05-nesterov0.9-seed0"),
        ({"dataset": "tfds:cats"}, "tfds-cats-fedavg-seed0"),
        ({"lr_schedule": "cosine"}, "glyphs-fedavg-lr_schedule-cosine-seed0"),  # its end as usual
        (
            {"lr_schedule": "cosine", "lr_final_factor": 0.1},
            "glyphs-fedavg-lr_final_factor0.1-lr_schedule-cosine-seed0",
        ),
    ],
)
def test_default_folders(values, expected):
    found = name(**values)
    assert found == f"runs/{expected}-{RunConfig(**values).resolve().fingerprint()}"


def test_what_is_changed():
    config = RunConfig(model="resnet18", model_options={"stem": "cifar"}, local_steps=3).resolve()
    assert changed(config) == {"model": "resnet18", "model_options.stem": "cifar", "local_steps": 3}


def test_long_names_keep_their_ends():
    """No word is cut, num_clients1 being another run than num_clients10.

    27 letters of glyphs-fedavg-num_clients10, 11 of -trainable- and 15 of the end leave 97 of 150.
    """
    for length, fits in ((96, True), (97, True), (98, False), (120, False)):
        long = name(trainable="a" * length, num_clients=10)
        assert long.startswith("runs/glyphs-fedavg-num_clients10-")
        assert len(long) <= LONGEST + len("runs/")
        assert (f"-trainable-{'a' * length}-seed0-" in long) == fits
    assert "-seed0-" in name(trainable="a" * 300)
    assert name(trainable="a" * 300) != name(trainable="a" * 301)
    assert (shortened("x", "12345678"), len(shortened("x" * 200, "12345678"))) == ("x", LONGEST)


def test_a_run_that_is_there_stays_where_it_is(tmp_path, monkeypatch):
    """Under a name that tells less, or that tells it with other words."""
    monkeypatch.chdir(tmp_path)
    usual = name(alpha=0.1)
    end = usual[-15:]
    for words_then in ("", "-dirichlet0.1"):
        folder = tmp_path / f"runs/glyphs-fedavg{words_then}{end}"
        folder.mkdir(parents=True)
        assert name(alpha=0.1) == usual  # nothing of a run is in it
        (folder / "config.json").write_text("{}")
        assert name(alpha=0.1) == folder.relative_to(tmp_path).as_posix()
        assert name(alpha=0.2) != name(alpha=0.1)
        (folder / "config.json").unlink()
    assert words({"hparams.rho": 0.5, "lr": 1.0}) == ["lr1", "rho0.5"]
