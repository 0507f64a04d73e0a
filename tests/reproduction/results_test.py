"""What is kept of runs."""

import dataclasses
import json

import pytest

import tasks  # noqa: F401  makes the data sets known
from tests.reproduction.examples import result, small_table
from tests.sweeps.pretending import complete
from tf_fedsam.errors import InputError
from tf_fedsam.reproduction import cells, results


@pytest.fixture
def found(tmp_path):
    fixed = {"data_dir": "/somewhere"}
    return cells.places(small_table(tmp_path), tmp_path / "runs", fixed=fixed)


def test_of_a_run(found):
    cell = found[0].cell
    assert results.of_run(cell.run) is None
    complete(cell.run.path, cell.resolved, accuracy=0.25)
    kept = results.of_run(cell.run)
    assert kept.summary["test_accuracy"] == 0.25
    assert kept.key == cells.key(cell.resolved.as_dict())
    assert "data_dir" not in kept.settings
    assert kept.made_by["revision"] == "unknown"


def test_what_the_last_round_measured_is_kept(found):
    cell = found[0].cell
    complete(cell.run.path, cell.resolved)
    lines = cell.run.rounds_file.read_text().splitlines()
    last = json.loads(lines[-1]) | {"sharpness": 0.5, "client_train_accuracy_mean": 0.75, "x": 1}
    cell.run.rounds_file.write_text("\n".join([*lines[:-1], json.dumps(last)]) + "\n")
    expected = {"sharpness": 0.5, "client_train_accuracy_mean": 0.75}
    assert results.of_run(cell.run).last_round == expected


def test_curves_are_kept_in_short(found):
    cell = found[0].cell
    complete(cell.run.path, cell.resolved)
    record = json.loads(cell.run.rounds_file.read_text().splitlines()[-1])
    records = [record | {"round": n, "test_accuracy": n / 200} for n in range(1, 121)]
    for one in records:
        if one["round"] % 2:  # every second round is tested
            del one["test_accuracy"]
    cell.run.rounds_file.write_text("".join(json.dumps(one) + "\n" for one in records))
    # 60 tests: every second of them, from the last on
    assert results.of_run(cell.run).curve == tuple((n, n / 200) for n in range(4, 121, 4))


@pytest.mark.parametrize(("points", "left"), [(0, 0), (1, 1), (50, 50), (51, 26), (500, 50)])
def test_thinned(points, left):
    curve = tuple((n, 0.5) for n in range(points))
    found = results.thinned(curve)
    assert len(found) == left
    assert found[-1:] == curve[-1:]


def test_runs_are_found_in_folders(found, tmp_path):
    for place in found[:2]:
        complete(place.cell.run.path, place.cell.resolved)
    (tmp_path / "runs" / "other").mkdir()
    (tmp_path / "runs" / "other" / "summary.json").write_text("{}")
    assert len(results.find_runs(tmp_path)) == 2


def test_saved_results_are_read_again(found, tmp_path):
    kept = [result(found[0], 0.5, 3), result(found[1], 0.6)]
    kept[0] = dataclasses.replace(kept[0], curve=((1, 0.25), (7, 0.5)))
    folder = tmp_path / "kept"
    written = results.save(folder, found, kept)
    assert written == ["fedavg-plain-seed0.json", "fedsam-plain-seed0.json"]
    assert list(results.read(folder).values()) == [json_round(one) for one in kept]
    assert all(path.stat().st_size < 5000 for path in folder.iterdir())


def test_results_with_a_name_of_the_first_version(found, tmp_path):
    [name] = results.save(tmp_path, found[:1], [result(found[0], 0.5)])
    content = json.loads((tmp_path / name).read_text())
    content["last_round"] = {"client_validation_accuracy_mean": 0.4, "sharpness": 1}
    (tmp_path / name).write_text(json.dumps(content))
    assert results.read(tmp_path)[name].last_round == {
        "client_test_accuracy_mean": 0.4,
        "sharpness": 1,
    }


def json_round(one):
    """As JSON has it: lists for tuples."""
    fields = {name: json.loads(json.dumps(getattr(one, name))) for name in KEYS}
    return results.Result(**fields, curve=one.curve)


KEYS = results.KEYS


def test_runs_of_other_settings_are_not_kept(found, tmp_path):
    other = results.Result({**found[0].cell.resolved.as_dict(), "lr": 0.5}, {}, {}, {})
    assert results.save(tmp_path / "kept", found, [other]) == []
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"settings": 1}', "nonsense"])
def test_other_files_are_refused(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(InputError, match="is no result of a reproduction"):
        results.read(tmp_path)
