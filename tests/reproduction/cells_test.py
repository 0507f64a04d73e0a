"""From tables to runs."""

import pathlib

import pytest

import tasks  # noqa: F401  makes the data sets known
from tests.reproduction.examples import small_table
from tf_fedsam.errors import InputError
from tf_fedsam.reproduction import cells, tables
from tf_fedsam.runs.config import RunConfig

OUT = pathlib.Path("out")


@pytest.mark.parametrize("name", tables.names())
def test_every_run_of_every_table_can_be(name):
    """Algorithms, hyper-parameters, models and settings exist and go together."""
    table = tables.find(name)
    found = cells.places(table, OUT)
    assert {p.row for p in found} == set(table.rows)
    assert {p.column for p in found} == set(table.columns)
    assert not any(place.changed for place in found)
    runs = cells.cells(found)
    assert len({cell.name for cell in runs}) == len(runs)
    keys = [cells.key(cell.resolved.as_dict()) for cell in runs]
    assert len(set(keys)) == len(keys)


def test_order_and_names(tmp_path):
    found = cells.places(small_table(tmp_path), OUT)
    names = [cell.name for cell in cells.cells(found)]
    # six methods: seed 0 of both columns, then seed 1 of the one that has it
    assert len(names) == 18
    assert names[0] == "fedavg-plain-seed0"
    assert names[6] == "fedavg-mixed-seed0"
    assert names[12:] == [name.replace("seed0", "seed1") for name in names[:6]]
    assert found[0].cell.run.path == OUT / names[0]


def test_values_reach_the_runs(tmp_path):
    table = small_table(tmp_path)
    found = cells.places(
        table, OUT, rows=table.chosen_rows(["FedSAM"]), columns=table.chosen_columns(["mixed"])
    )
    assert len(found) == 1
    config = found[0].cell.resolved
    assert (config.algo, config.hparams["rho"], config.alpha) == ("fedsam", 0.05, 0.3)
    assert (config.rounds, config.model, config.targets) == (7, "linear", "0.5")


def test_places_that_ask_for_the_same_run_share_it():
    table = tables.find("fedwmsam_table3")
    found = cells.places(table, OUT)
    runs = cells.cells(found)
    assert len(runs) == len(table.rows)
    assert len(found) == len(table.rows) * len(table.columns)
    assert runs[0].resolved.target_accuracies == (0.7, 0.72, 0.74, 0.76, 0.78)


def test_fixed_settings_win_and_are_told(tmp_path):
    table = small_table(tmp_path)
    found = cells.places(table, OUT, fixed={"rounds": 2, "data_dir": "/data", "devices": "cpu:2"})
    assert found[0].cell.resolved.rounds == 2
    assert found[0].changed == {"rounds": 7}  # where the data lie changes no result


def test_key_is_of_what_decides():
    def key(**values):
        return cells.key(RunConfig(dataset="glyphs", **values).resolve().as_dict())

    plain = key()
    assert plain == key(data_dir="/x") == key(devices="cpu:2") == key(probes="none")
    assert plain == key(label_smoothing=0.0)  # a later setting with its default
    different = [key(seed=1), key(lr=0.2), key(algo="fedsam"), key(label_smoothing=0.1)]
    assert len({plain, *different}) == 5


def test_wrong_settings_are_refused(tmp_path):
    table = small_table(tmp_path)
    with pytest.raises(InputError, match="Unknown setting 'lrr'"):
        cells.places(table, OUT, fixed={"lrr": 1})


@pytest.mark.parametrize(
    ("name", "expected"),
    [("FedAvg+RI-A", "fedavg+ri-a"), ("alpha_step=0.01", "alpha_step=0.01"), ("a b/c", "a_b_c")],
)
def test_file_names(name, expected):
    assert cells.file_name(name) == expected
