"""The files and the object that a look leaves, of surfaces that are known."""

import json

import pytest

from tests.analysis.landscape.paraboloids import survey
from tf_fedsam.analysis.landscape import results
from tf_fedsam.analysis.landscape.results import PICTURES, TABLES, write


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    (folder / "out").mkdir()
    return write(survey(folder, between=True), folder / "out", tensorboard=False)


def test_files(found):
    names = [path.name for path in found.files]
    assert names == [*PICTURES, *TABLES, "landscape.json"]
    assert {p.name for p in found.folder.iterdir()} == set(names)
    for name, png in found.pngs.items():
        assert (found.folder / f"{name}.png").read_bytes() == png
        assert png.startswith(b"\x89PNG")


def test_description(found):
    """Numbers as in drawing_test.py; which settings they were made with."""
    content = json.loads((found.folder / "landscape.json").read_text())
    flat, sharp = content["runs"]
    assert [flat["label"], sharp["label"]] == ["flat", "sharp"]
    assert (flat["rise"], sharp["rise"]) == pytest.approx((0.25, 0.75))
    assert (flat["algo"], flat["rounds"]) == ("fedavg", 3)
    assert content["between"][0]["barrier"] == 1.0
    assert content["settings"]["ring_radius"] == 0.5
    assert content["settings"]["examples"] == 40
    assert [p["file"] for p in content["pictures"]] == list(PICTURES)


def test_report(found):
    lines = found.report().splitlines()
    assert lines[1].split() == ["run", "loss", "accuracy", "mean", "loss", "at", "0.5", "rise"]
    assert lines[3].split() == ["flat", "0.5000", "75.00%", "0.7500", "+0.2500"]
    assert lines[4].split() == ["sharp", "0.5000", "75.00%", "1.2500", "+0.7500"]
    assert "flat  sharp  1.0000" in found.report()
    assert str(found.folder / "contour.png") in found.report()


def test_in_a_notebook(found):
    page = found._repr_html_()
    assert "<td>+0.7500</td>" in page
    assert page.count("<img src='data:image/png;base64,") == len(PICTURES)
    assert repr(found) == f"Landscape({str(found.folder)!r}, flat, sharp)"


def test_files_of_other_settings_go(tmp_path):
    """What is described is what is there."""
    (tmp_path / "out").mkdir()
    for name in (*PICTURES, *TABLES, "mine.txt"):
        (tmp_path / "out" / name).write_text("old")
    found = write(survey(tmp_path, dimensions=(1,)), tmp_path / "out", tensorboard=False)
    there = {p.name for p in (tmp_path / "out").iterdir()}
    assert there == {"line.png", "line_1d.csv", "landscape.json", "mine.txt"}
    assert [p.name for p in found.files] == ["line.png", "line_1d.csv", "landscape.json"]


def test_numbers_that_json_cannot_hold(tmp_path):
    (tmp_path / "out").mkdir()
    surveyed = survey(tmp_path, dimensions=(1,))
    store = surveyed.around[0].store
    store.add([(0.0, 0.0)], [[float("inf"), 0.1]])
    write(surveyed, tmp_path / "out", tensorboard=False)
    content = json.loads((tmp_path / "out/landscape.json").read_text())
    assert content["runs"][0]["loss"] is None


def test_the_description_comes_last(tmp_path, monkeypatch):
    """Stopped in between, nothing describes files that are not there."""
    (tmp_path / "out").mkdir()
    surveyed = survey(tmp_path, dimensions=(1,))
    write(surveyed, tmp_path / "out", tensorboard=False)

    def failing(path, content):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(results, "write_atomically", failing)
    with pytest.raises(OSError, match="No space"):
        write(surveyed, tmp_path / "out", tensorboard=False)
    assert not (tmp_path / "out/landscape.json").exists()
