"""Folders and data of cells, looked at before anything runs."""

import json

import pytest

from tests.launch.running import toy_file
from tests.sweeps.pretending import cells_of, complete
from tf_fedsam.errors import InputError
from tf_fedsam.sweeps import checks


def toy_cells(tmp_path, **options):
    fixed = {"data_file": str(toy_file(tmp_path)), "model": "linear", "partition": "given"}
    fixed |= options.pop("fixed", {})
    return cells_of(tmp_path, datasets=["npz"], fixed=fixed, **options)[0]


def test_a_folder_of_another_run(tmp_path):
    (before,) = toy_cells(tmp_path, algos=["fedavg"])
    complete(before.run.path, before.resolved)
    checks.check_folders([before])
    with pytest.raises(InputError, match=r"lr: 0.1 there, 0.7 now"):
        checks.check_folders(toy_cells(tmp_path, algos=["fedavg"], fixed={"lr": 0.7}))


def test_data_that_are_not_there(tmp_path):
    cells = toy_cells(tmp_path, algos=["fedavg", "fedsam"], seeds=[0, 1])
    checks.check_data(cells)
    (tmp_path / "toy.npz").unlink()
    with pytest.raises(InputError) as error:
        checks.check_data(cells)
    assert "toy.npz" in str(error.value)
    assert str(error.value).count("\n- ") == 1
    assert "in fedavg-npz-seed0, fedsam-npz-seed0, fedavg-npz-seed1" in str(error.value)


def test_every_split_is_made_once(tmp_path, monkeypatch):
    """Two splits, three methods, two seeds: the data are read once and cut twice."""
    read, cut = [], []
    for name, calls in (("load_data", read), ("training_split", cut)):
        real = getattr(checks, name)
        monkeypatch.setattr(
            checks, name, lambda *a, real=real, calls=calls, **k: calls.append(a) or real(*a, **k)
        )
    cells, _ = cells_of(
        tmp_path,
        {
            "algos": ["fedavg", "fedsam", "mofedsam"],
            "datasets": ["npz"],
            "seeds": [0, 1],
            "settings": {"data_file": str(toy_file(tmp_path))},
            "grid": {"split": [{"partition": "given"}, {"partition": "iid", "num_clients": 4}]},
        },
    )
    checks.check_data(cells)
    assert (len(cells), len(read), len(cut)) == (12, 1, 2)


def test_a_split_that_cannot_be(tmp_path):
    cells, _ = cells_of(
        tmp_path,
        algos=["fedavg"],
        datasets=["npz"],
        grid=["num_clients=4,400"],
        fixed={"data_file": str(toy_file(tmp_path)), "partition": "iid"},
    )
    with pytest.raises(InputError) as error:
        checks.check_data(cells)
    assert "in fedavg-npz-num_clients400-seed0" in str(error.value)
    assert "num_clients4-seed0" not in str(error.value)


def test_files_that_settings_name(tmp_path):
    schedule = tmp_path / "times.json"
    fixed = {"sampling": "schedule", "client_schedule": str(schedule)}
    cells = toy_cells(tmp_path, algos=["fedavg"], fixed=fixed)
    with pytest.raises(InputError, match=r"times.json.*cannot be read"):
        checks.check_data(cells)
    schedule.write_text(json.dumps([[0, 1]]))
    checks.check_data(cells)
    weights = {"init_weights": str(tmp_path / "none.npz")}
    with pytest.raises(InputError, match=r"none.npz"):
        checks.check_data(toy_cells(tmp_path, algos=["fedavg"], fixed=weights))
