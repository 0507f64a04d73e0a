"""The launcher that compares runs on a page."""

import json
import math
import re
import shlex
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from launch import report as launcher
from tests.comparison.fake_runs import make_run, make_sweep
from tests.launch.running import run as run_main
from tests.launch.running import toy_args
from tests.report.pages import MAIN, Page, landscape, last_accuracy

pytestmark = pytest.mark.no_cover


def report(capsys, tmp_path, *args, code=0):
    """The page and what was printed."""
    page = tmp_path / "report.html"
    result = launcher.run([f"--out={page}", *map(str, args)])
    captured = capsys.readouterr()
    assert (result, captured.err) == (code, "")
    return page.read_text(), captured.out


def test_the_comparison(capsys, tmp_path):
    """Numbers worked out from the logs by themselves; t is 4.303 for three seeds."""
    folder = make_sweep(tmp_path / "runs", ("fedavg", "fednsam"), 3, probe_every=5)
    text, out = report(capsys, tmp_path, folder, "--targets=0.3,0.99")
    last = {
        algo: np.asarray([last_accuracy(folder / f"{algo}-{seed}") for seed in range(3)])
        for algo in ("fedavg", "fednsam")
    }
    mean, std = 100 * last["fednsam"].mean(), 100 * last["fednsam"].std(ddof=1)
    pairs = 100 * (last["fednsam"] - last["fedavg"])
    half = 4.302653 * pairs.std(ddof=1) / math.sqrt(3)
    page = Page(text)
    assert page.column(MAIN, "Last, %")["FedNSAM"] == f"{mean:.2f} ± {std:.2f}"
    difference = page.column(MAIN, "Difference, points")
    assert difference["FedNSAM"] == f"{pairs.mean():+.2f} ± {half:.2f}, n=3"
    assert difference["FedAvg baseline"] == "baseline"
    assert page.column(MAIN, "Seeds")["FedNSAM"] == "3"
    assert page.column(MAIN, "Rounds to 99 %")["FedNSAM"] == ">20"
    assert re.fullmatch(r"[\d.]+( ± [\d.]+)?", page.column(MAIN, "Rounds to 30 %")["FedNSAM"])
    assert f"<strong>{mean:.2f} " in text
    assert "no evidence" in page.text
    assert "picked by test accuracy" not in page.text  # nothing was tuned
    words = (
        "6 runs of 2 series with the seeds 0, 1, 2",
        "20 rounds",
        "MNIST",
        "30 clients",
        "10 %",
    )
    assert all(w in page.text for w in words)
    assert f"FedNSAM  3      {mean:.2f} ± {std:.2f}" in out
    assert f"{pairs.mean():+.2f} ± {half:.2f} (n=3)" in out
    assert f"python -m webbrowser {shlex.quote(str(tmp_path / 'report.html'))}" in out


def test_going_stopped_and_broken_runs(capsys, tmp_path):
    """A run that is being written, and every way to be broken; the rest is reported."""
    folder = make_sweep(tmp_path / "runs", ("fedavg",), 2, plain=True)
    going = make_run(folder / "going", algo="fedsam", done=7)
    with (going / "rounds.jsonl").open("a") as log:
        log.write('{"round": 8, "test_acc')
    (folder / "logs").mkdir()
    (folder / "logs" / "a.log").write_text("x")

    def broken(name, file, content):
        path = make_run(folder / name, seed=9)
        if content is None:
            (path / file).unlink()
        else:
            (path / file).write_bytes(content)

    broken("b1", "config.json", b"{")
    broken("b2", "config.json", None)
    broken("b3", "config.json", b'{"settings": {}, "inputs": {}}')
    broken("b4", "rounds.jsonl", b'{"round": 2}\n')
    broken("b5", "rounds.jsonl", b"[" * 100_000 + b"\n")
    broken("b6", "summary.json", b"{")
    broken("b7", "rounds.jsonl", None)
    broken("b8", "summary.json", b'{"rounds": 20, "test_accuracy": 0.99}')
    broken("b9", "config.json", b"\xff\xfe")
    text, out = report(capsys, tmp_path, folder)
    page = Page(text)
    assert set(page.column(MAIN, "Seeds")) == {
        "FedAvg",
        "FedSAM (unfinished) 7 of 20 rounds",
    }
    assert "9 runs are not in this report" in page.text
    for number, reason in (
        *((1, "could not be read"), (2, "could not be read"), (3, "no setting algo")),
        *((4, "not a log of rounds"), (5, "not a log of rounds"), (6, "cannot be read")),
        *((7, "no tested round yet"), (8, "its summary.json is not that of"), (9, "could not be")),
    ):
        assert re.search(rf"/b{number}: .*{reason}", page.text)
        assert re.search(rf"/b{number}: .*{reason}", out)


def test_what_a_sweep_says(capsys, tmp_path):
    """A failed run is left out with its last words; one that never began is named."""
    folder = make_sweep(tmp_path / "runs", ("fedavg",), 2, plain=True)
    make_run(folder / "bad", algo="fedsam", done=4)
    cells = [
        {"folder": "fedavg-0", "status": "done", "error": ""},
        {"folder": "bad", "status": "failed", "error": "Traceback\nerror: the disk is full\n"},
        {"folder": "never", "status": "failed", "error": ""},
        {"folder": "../../elsewhere", "status": "failed", "error": ""},
        {"folder": "waits", "status": "waiting"},
    ]
    (folder / "sweep.json").write_text(json.dumps({"cells": cells}))
    page = Page(report(capsys, tmp_path, folder)[0])
    assert list(page.column(MAIN, "Seeds")) == ["FedAvg"]
    assert "bad: failed: error: the disk is full (after round 4)" in page.text
    assert "never: failed: no message" in page.text
    assert "elsewhere" not in page.text
    (folder / "sweep.json").write_text("[]")
    assert "FedSAM (unfinished)" in report(capsys, tmp_path, folder)[0]


def test_only_unfinished_runs(capsys, tmp_path):
    make_run(tmp_path / "a", done=1)
    text, out = report(capsys, tmp_path, tmp_path / "a")
    assert "FedAvg (unfinished)" in out
    assert "Difference, points" not in Page(text).tables[MAIN][0]


def test_baseline_flag(capsys, tmp_path):
    folder = make_sweep(tmp_path / "runs", seeds=2, plain=True)
    page = Page(report(capsys, tmp_path, folder, "--baseline=FedSAM")[0])
    assert page.column(MAIN, "Difference, points")["FedSAM baseline"] == "baseline"
    assert "Differences are to FedSAM" in page.text


def test_the_same_run_counts_once(capsys, tmp_path):
    first = make_run(tmp_path / "runs" / "a")
    shutil.copytree(first, tmp_path / "runs" / "copy")
    page = Page(report(capsys, tmp_path, first, first, tmp_path / "runs")[0])
    assert page.column(MAIN, "Seeds") == {"FedAvg": "1"}
    assert "copy: the same settings and seed as" in page.text


def test_a_run_of_the_main_launcher(capsys, tmp_path):
    """What launch.main leaves today can be read, all of it."""
    result = run_main(capsys, *toy_args(tmp_path))
    assert result.code == 0
    text, _ = report(capsys, tmp_path, tmp_path / "run")
    page = Page(text)
    assert page.tables["Every run"][1][3] == "complete"
    accuracy = last_accuracy(tmp_path / "run")
    assert page.column(MAIN, "Last, %") == {"FedAvg": f"{100 * accuracy:.2f}"}
    assert "Confusion" in page.text
    assert "Split" in page.text


def test_a_run_that_stopped_at_an_accuracy(capsys, tmp_path):
    """One of 12 test examples is enough to stop at."""
    assert run_main(capsys, *toy_args(tmp_path), "--stop_at=0.08").code == 0
    text, out = report(capsys, tmp_path, tmp_path / "run")
    state = Page(text).tables["Every run"][1][3]
    assert re.fullmatch(r"1 of 2 rounds, stopped early: test accuracy .* at least 8\.00% .*", state)
    assert "FedAvg, seed 0, stopped early after 1 round: test accuracy" in out


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: folder / "none", "has no landscape.json"),
        (lambda folder: landscape(folder, file="b.png"), "No such file"),
        (lambda folder: landscape(folder, file="../secret.png"), "outside of the folder"),
        (lambda folder: landscape(folder, content=b"<svg onload=alert(1)>"), "cannot identify"),
    ],
)
def test_bad_pictures(capsys, tmp_path, make, words):
    run = make_run(tmp_path / "a")
    Image.new("RGB", (4, 4)).save(tmp_path / "secret.png")
    out = tmp_path / "o.html"
    assert launcher.run([str(run), f"--out={out}", f"--landscape={make(tmp_path)}"]) == 2
    assert words in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "No folder was given"),
        (["{tmp}/none"], "There is no folder"),
        (["{tmp}/empty"], "No run in"),
        (["{tmp}/broken"], "None of 1 runs can be reported"),
        (["{tmp}/a", "--targets=70"], "--targets must be test accuracies in (0, 1]"),
        (["{tmp}/a", "--targets=x"], "--targets must be test accuracies in (0, 1]"),
        (["{tmp}/a", "--baseline=fedagv"], "Did you mean 'fedavg' or 'FedAvg'?"),
        (["{tmp}/a", "--max_curves=0"], "--max_curves must be 1 to 32"),
        (["{tmp}/a", "--out={tmp}"], "--out must be a file"),
        (["{tmp}/a", "--out={tmp}/no/x.html"], "there is no folder"),
        (["{tmp}/a", "--csv={tmp}/r.html"], "is the file of another flag"),
        (["{tmp}/a", "--nonsense=1"], "nonsense"),
        (["{tmp}/a", "--max_curves=x"], "max_curves"),
        (["{tmp}/a", "--format=gif"], "--format must be some of pdf, svg, png. Received: gif"),
        (["{tmp}/a", "--style=comic"], "--style must be serif or sans"),
        (["{tmp}/a", "--width=3"], "--width must be one or two"),
        (["{tmp}/none", "--watch"], "There is no folder"),
        (["{tmp}/a", "--watch", "--every=0"], "every"),
    ],
)
def test_bad_input(capsys, tmp_path, args, words):
    make_run(tmp_path / "a")
    (tmp_path / "empty").mkdir()
    (make_run(tmp_path / "broken" / "b") / "config.json").write_text("{")
    before = sorted(tmp_path.rglob("*"))
    code = launcher.run([f"--out={tmp_path}/r.html", *(a.format(tmp=tmp_path) for a in args)])
    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "")
    assert captured.err.startswith("error: ")
    assert words in captured.err
    assert sorted(tmp_path.rglob("*")) == before


def test_figures(capsys, tmp_path):
    make_run(tmp_path / "a", rounds=4, plain=True)
    out = tmp_path / "figures"
    args = (f"--figures={out}", "--format=svg,png", "--style=sans", "--width=two")
    _, said = report(capsys, tmp_path, tmp_path / "a", *args)
    ends = {path.suffix for path in out.iterdir()}
    assert ends == {".svg", ".png", ".csv"}
    count = len(list(out.glob("*.csv")))
    assert f"{out} ({count}, each with its data as CSV)" in " ".join(said.split())


@pytest.mark.usefixtures("usual_signals")
def test_watching(tmp_path):
    """A process that makes the page anew after a round, and ends well when interrupted."""
    run = make_run(tmp_path / "a", rounds=9, done=1, plain=True)
    page = tmp_path / "r.html"
    command = [sys.executable, "-m", "launch.report", str(tmp_path / "a"), f"--out={page}"]
    with subprocess.Popen(
        [*command, "--watch", "--every=0.2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        said = iter(process.stdout.readline, "")
        assert any("1 run, 1 series" in line for line in said)
        assert "1 of 9 rounds" in page.read_text()
        assert 'http-equiv="refresh"' in page.read_text()
        log = json.loads((run / "rounds.jsonl").read_text())
        with (run / "rounds.jsonl").open("a") as file:
            file.write(json.dumps({**log, "round": 2}) + "\n")
        assert any("1 run, 1 series" in line for line in said)
        assert "2 of 9 rounds" in page.read_text()
        process.send_signal(signal.SIGINT)
        try:
            rest, err = process.communicate(timeout=100)
        finally:
            process.kill()  # leaving the block waits for it
    assert (process.returncode, err) == (0, "")
    assert "python -m webbrowser" in rest
    assert 'http-equiv="refresh"' not in page.read_text()


def test_help(capsys):
    assert launcher.run(["--help"]) == 0
    out = capsys.readouterr().out
    assert "--baseline" in out
    assert "python -m launch.report runs" in out


def test_from_the_command_line(tmp_path):
    make_run(tmp_path / "a")
    command = [
        sys.executable,
        "-m",
        "launch.report",
        str(tmp_path / "a"),
        f"--out={tmp_path}/r.html",
    ]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    assert "FedAvg" in result.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"a", "r.html"}
