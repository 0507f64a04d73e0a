"""Figures for papers: which there are, how wide, and what is in their tables."""

import csv
import io
import json

import numpy as np
import pytest
from PIL import Image

import tf_fedsam
from tests.analysis.landscape.paraboloids import survey
from tests.comparison.fake_runs import make_run, make_sweep
from tests.report.pages import last_accuracy
from tf_fedsam.analysis.landscape.results import write
from tf_fedsam.errors import InputError
from tf_fedsam.report import printed, surfaces
from tf_fedsam.report.measures import CHARTS

CURVES = {
    *("test_accuracy", "test_accuracy_by_bytes", "test_accuracy_by_gradient_evaluations"),
    *("test_accuracy_by_seconds", "train_loss", "test_loss", "global_train_loss"),
    *("flatness_distance", "dispersion", "sharpness", "hessian_eigenvalue"),
    *("update_cosine", "momentum_cosine", "update_norm", "perturbation_norm"),
}
CLIENTS = {"clients_train", "clients_test"}
SURFACES = {"contour", "surface", "line", "between"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two methods with two seeds, and the surfaces of two runs, as PNG."""
    folder = tmp_path_factory.mktemp("printed")
    runs = make_sweep(folder / "runs", ("fedavg", "fedsam"), 2, probe_every=5)
    (folder / "surfaces").mkdir()
    write(survey(folder, between=True), folder / "surfaces", tensorboard=False)
    comparison = tf_fedsam.compare(runs)
    comparison.figures(folder / "png", ["png"], landscapes=[folder / "surfaces"])
    return folder


@pytest.fixture
def one_figure(monkeypatch):
    """Only the first figure is drawn, which is enough for some tests."""
    monkeypatch.setattr(printed, "CHARTS", {})
    monkeypatch.setattr(printed, "X_AXES", {"round": printed.X_AXES["round"]})


def rows(path):
    return list(csv.DictReader(io.StringIO(path.read_text())))


def test_every_figure_has_its_data(made):
    names = CURVES | CLIENTS | SURFACES
    files = {path.name for path in (made / "png").iterdir()}
    assert files == {f"{name}.{end}" for name in names for end in ("png", "csv")}


def test_a_figure_is_a_column_wide(made):
    """3.35 inches of 300 dots, and something is drawn in the methods' colours."""
    for name in sorted(CURVES | CLIENTS | SURFACES):
        with Image.open(made / f"png/{name}.png") as image:
            assert image.width == pytest.approx(3.35 * 300, abs=1), name
            assert image.height < 2.5 * image.width
    with Image.open(made / "png/test_accuracy.png") as image:
        pixels = np.asarray(image.convert("RGB")).reshape(-1, 3)
    for colour in ((0x00, 0x72, 0xB2), (0x6B, 0x6B, 0x6B)):  # FedSAM and FedAvg
        assert (pixels == colour).all(axis=1).sum() > 200


def test_twins_are_one_figure(tmp_path, one_figure, monkeypatch):
    """Dispersion is the flatness distance in all rounds: no second file of it."""
    run = make_run(tmp_path / "run")
    log = run / "rounds.jsonl"
    records = [json.loads(line) for line in log.read_text().splitlines()]
    same = [{**r, "dispersion": r["flatness_distance"]} for r in records]
    log.write_text("".join(json.dumps(r) + "\n" for r in same))
    drift = {"Flatness and drift": CHARTS["Flatness and drift"]}
    monkeypatch.setattr(printed, "CHARTS", drift)
    files = tf_fedsam.compare(run).figures(tmp_path / "out", ["svg"])
    assert "flatness_distance.svg" in {file.name for file in files}
    assert not [file for file in files if "dispersion" in file.name]


def test_data_of_curves(made):
    """Means and sample deviations of the logs, two seeds of 20 rounds."""
    found = [row for row in rows(made / "png/test_accuracy.csv") if row["series"] == "FedSAM"]
    assert [float(row["round"]) for row in found] == list(range(1, 21))
    last = [last_accuracy(made / f"runs/fedsam-{seed}") for seed in (0, 1)]
    assert float(found[-1]["mean"]) == pytest.approx(np.mean(last))
    assert float(found[-1]["std"]) == pytest.approx(np.std(last, ddof=1))
    assert (found[-1]["algorithm"], found[-1]["seeds"]) == ("fedsam", "2")
    by_bytes = rows(made / "png/test_accuracy_by_bytes.csv")
    assert float(by_bytes[-1]["MB sent, down and up"]) == pytest.approx(20 * 6 * 0.8)


def test_data_of_clients(made):
    """Shares of the clients that add up to one, in twenty bins."""
    found = [row for row in rows(made / "png/clients_train.csv") if row["series"] == "FedAvg"]
    assert len(found) == 20
    assert sum(float(row["share of clients"]) for row in found) == pytest.approx(1)
    assert (float(found[0]["from"]), float(found[-1]["to"])) == (0, 1)


def test_surfaces_in_every_format(made, tmp_path):
    drawn = [surfaces.read_surfaces(made / "surfaces")]
    files = printed.write(
        [], tmp_path, formats=["pdf", "svg"], style="sans", width="one", surfaces=drawn
    )
    names = {f"{name}.{kind}" for name in SURFACES for kind in ("pdf", "svg", "csv")}
    assert {file.name for file in files} == names
    assert (tmp_path / "surface.pdf").read_bytes().startswith(b"%PDF")
    assert "<svg" in (tmp_path / "surface.svg").read_text()


def test_data_of_surfaces(made):
    tables = {"contour": "surface_2d", "surface": "surface_2d", "line": "line_1d"}
    for name, table in {**tables, "between": "between"}.items():
        expected = (made / f"surfaces/{table}.csv").read_text()
        assert (made / f"png/{name}.csv").read_text() == expected


def test_formats_styles_and_widths(tmp_path, one_figure):
    """Of a plain log with dollars and underscores in a label, twice the same bytes."""
    for name in ("_$a$", "b^2"):
        make_run(tmp_path / "runs" / name, algo="fedsam", hparams={"rho": name}, plain=True)
    comparison = tf_fedsam.compare(tmp_path / "runs")
    kinds = ("pdf", "svg", "png")
    both = [
        comparison.figures(tmp_path / place, kinds, style="sans", width="two") for place in "ab"
    ]
    assert [p.name for p in both[0]] == [f"test_accuracy.{e}" for e in (*kinds, "csv")]
    for first, second in zip(*both, strict=True):
        assert first.read_bytes() == second.read_bytes()
    by_name = {path.name: path.read_bytes() for path in both[0]}
    assert by_name["test_accuracy.pdf"].startswith(b"%PDF")
    assert b"DejaVuSans" in by_name["test_accuracy.pdf"]
    assert b"/Type3" not in by_name["test_accuracy.pdf"]  # publishers refuse such fonts
    assert b'width="496.8pt"' in by_name["test_accuracy.svg"]  # 6.9 inches of 72 points
    assert b"<text" not in by_name["test_accuracy.svg"]
    serif = comparison.figures(tmp_path / "c", "pdf")
    assert b"STIX" in serif[0].read_bytes()


def test_files_of_several_problems(tmp_path, one_figure):
    make_run(tmp_path / "runs/a", plain=True)
    make_run(tmp_path / "runs/b", plain=True, rounds=5)
    comparison = tf_fedsam.compare(tmp_path / "runs")
    files = comparison.figures(tmp_path / "f", "png")
    assert {p.name.partition("_")[0] for p in files} == {"problem1", "problem2"}
    for place, section in enumerate(comparison.sections, 1):
        problem = rows(tmp_path / f"f/problem{place}_test_accuracy.csv")[0]["problem"]
        assert problem.endswith(f"{section.group.problem['rounds']} rounds")


def test_a_spreadsheet_sees_no_formula(tmp_path, one_figure):
    make_run(tmp_path / "runs/a", algo="=1+1", plain=True)
    tf_fedsam.compare(tmp_path / "runs").figures(tmp_path / "f", "png")
    assert rows(tmp_path / "f/test_accuracy.csv")[0]["algorithm"] == "'=1+1"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"formats": ["gif"]}, "format must be some of pdf, svg, png. Received: gif"),
        ({"formats": []}, "format must be some of"),
        ({"formats": ["pdf"], "style": "comic"}, "style must be serif or sans"),
        ({"formats": ["pdf"], "width": "1"}, "width must be one or two"),
    ],
)
def test_what_there_is_not(given, words):
    with pytest.raises(InputError, match=words):
        printed.check(**{"style": "serif", "width": "one", **given})


def test_a_place_that_is_no_folder(tmp_path, one_figure):
    (tmp_path / "file").touch()
    comparison = tf_fedsam.compare(make_run(tmp_path / "a", plain=True))
    with pytest.raises(InputError, match="cannot be written"):
        comparison.figures(tmp_path / "file", "png")
