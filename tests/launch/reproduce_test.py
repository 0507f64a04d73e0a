"""The command line of reproductions."""

import functools
import pathlib
import re

import pytest
from absl.testing import flagsaver

from launch import reproduce
from tests.launch.running import Result
from tests.launch.sweep_test import of_flags
from tests.reproduction.examples import small_table
from tests.sweeps.pretending import install
from tf_fedsam.reproduction import costs, tables

pytestmark = pytest.mark.usefixtures("usual_signals")
PAGE = "<!-- measured: fedsam_table1 plain -->\n<!-- end -->\n"


def run(capsys, *args) -> Result:
    with flagsaver.flagsaver():
        code = reproduce.run([str(a) for a in args])
    captured = capsys.readouterr()
    return Result(code, captured.out, captured.err)


@pytest.fixture
def pretend(monkeypatch):
    return functools.partial(install, monkeypatch, of_args=of_flags)


@pytest.fixture
def small(tmp_path, monkeypatch):
    """One small table in the place of all, and a folder to work in."""
    table = small_table(tmp_path)
    monkeypatch.setattr(tables, "names", lambda: [table.name])
    monkeypatch.setattr(tables, "find", lambda name: table)
    monkeypatch.setattr(costs, "EXAMPLES", costs.EXAMPLES | {"glyphs": (900, 1000)})
    monkeypatch.setattr(costs, "timing", lambda: {"mlp": 0.001, "lenet5": 0.05})
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.md").write_text(PAGE)
    return table


def test_runs_resumes_and_compares(capsys, small, pretend, tmp_path):
    started = pretend().started
    args = ["--table=fedsam_table1", "--columns=plain", "--rows=FedAvg,scaffold", "--seeds=0,1"]
    result = run(capsys, *args)
    assert (result.code, result.err) == (0, "")
    names = [f"{name}-plain-seed{s}" for s in (0, 1) for name in ("fedavg", "fedlesam", "scaffold")]
    assert started == names
    out = tmp_path / "reproductions/fedsam_table1"
    assert re.search(r"FedAvg +60\.00 ± 0\.50 +50\.00 ± 0\.00 +2 +-10\.00", result.out)
    assert (
        "| FedAvg | 60.00 ± 0.50 | 50.00 ± 0.00 | 2 | -10.00 | no |"
        in (out / "table.md").read_text()
    )
    assert "<td>50.00 ± 0.00</td>" in (out / "table.html").read_text()
    assert run(capsys, *args).code == 0
    assert started == names  # nothing is run twice


def test_a_run_that_failed_is_missing(capsys, small, pretend):
    pretend(codes={"fedavg-plain-seed0": [1]})
    result = run(capsys, "--table=fedsam_table1", "--columns=plain", "--rows=FedAvg", "--seeds=0")
    assert result.code == 1
    assert "The same command runs what is missing" in result.out
    assert "not run" in result.out


def test_what_stands_behind_goes_to_the_runs(capsys, small, pretend):
    pretend()
    args = ["--table=fedsam_table1", "--columns=mixed", "--rows=FedAvg", "--out=trial", "--"]
    result = run(capsys, *args, "--rounds=2", "--devices=cpu:2")
    assert result.code == 0
    assert "which has rounds=7: the numbers cannot be compared" in result.out


def test_dry_run(capsys, small, pretend):
    started = pretend().started
    result = run(capsys, "--table=fedsam_table1", "--rows=FedSAM", "--dry_run")
    assert result.code == 0
    assert result.out.count("python -m launch.main --algo=fedsam --dataset=glyphs") == 3
    assert "--hparams.rho=0.05" in result.out
    assert not started


def test_list(capsys, small):
    result = run(capsys, "--list")
    assert result.code == 0
    assert "fedsam_table1: FedSAM, Table 1: a small one" in result.out
    assert "FedCM: it is too good" in result.out
    # six methods with three runs each
    assert "18 runs on glyphs: " in result.out
    assert "estimate" not in run(capsys, "--list", "--notiming").out


def test_collect_write_and_check(capsys, small, pretend, tmp_path):
    pretend()
    run(capsys, "--table=fedsam_table1", "--columns=plain", "--rows=FedAvg")
    files = ["--kept=kept", "--page=page.md"]
    result = run(capsys, "--collect=reproductions", "--write", *files)
    assert result.code == 0, result.err
    assert "fedsam_table1: kept 2 results" in result.out
    assert len(list((tmp_path / "kept/fedsam_table1").iterdir())) == 2
    assert run(capsys, "--check", *files).code == 0
    page = pathlib.Path("page.md")
    assert "50.00 ± 0.00" in page.read_text()
    page.write_text(page.read_text().replace("50.00 ± 0.00", "60.10 ± 0.00"))
    result = run(capsys, "--check", *files)
    assert result.code == 1
    assert "60.10" in result.out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "Nothing to do"),
        (["--tabel=x"], "See --help"),
        (["--table=fedsam_table1", "--columns=maxed"], "Unknown column"),
        (["--table=fedsam_table1", "--rows=FedAvgg"], "Unknown row"),
        (["--table=fedsam_table1", "--seeds=a"], "--seeds must be whole numbers"),
        (["--table=fedsam_table1", "--statistic=worst"], "--statistic must be one of"),
        (["--table=fedsam_table1", "--", "--algo=fedavg"], "--algo is given by the sweep"),
        (["--table=fedsam_table1", "--", "--lr=-1"], "lr"),
        (["--collect=nowhere"], "has no complete run"),
        (["word"], "Every argument is a flag"),
    ],
)
def test_bad_input(capsys, small, args, message):
    result = run(capsys, *args)
    assert result.code == 2
    assert message in result.err


def test_unknown_table(capsys):
    result = run(capsys, "--table=fedsam_table3")
    assert result.code == 2
    assert "Unknown --table 'fedsam_table3'" in result.err
