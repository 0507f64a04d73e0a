"""The launcher that compares runs on a page."""

import base64
import csv
import hashlib
import html
import html.parser
import io
import itertools
import json
import math
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from launch import report as launcher
from tests.launch.fake_runs import make_run, make_sweep
from tests.launch.running import run as run_main
from tests.launch.running import toy_args

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH")


def report(capsys, tmp_path, *args, code=0):
    """The page and what was printed."""
    page = tmp_path / "report.html"
    result = launcher.run([f"--out={page}", *map(str, args)])
    captured = capsys.readouterr()
    assert (result, captured.err) == (code, "")
    return page.read_text(), captured.out


class Page(html.parser.HTMLParser):
    """Elements, tables and text of a page."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.tables, self.text = [], {}, ""
        self._cell, self._caption, self._inside = None, None, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._inside.append(tag)
        if tag == "caption":
            self._caption = ""
        elif tag == "tr":
            self.tables.setdefault(self._caption, []).append([])
        elif tag in ("td", "th"):
            self._cell = ""

    def handle_endtag(self, tag):
        self._inside = self._inside[: len(self._inside) - self._inside[::-1].index(tag) - 1]
        if tag in ("td", "th"):
            self.tables[self._caption][-1].append(" ".join(self._cell.split()))
            self._cell = None

    def handle_data(self, data):
        if not {"script", "style"} & set(self._inside):
            self.text += data
        if self._cell is not None:
            self._cell += data
        elif self._inside and self._inside[-1] == "caption":
            self._caption += data

    def column(self, caption, name):
        """Values of a column by the row's name."""
        head, *rows = self.tables[caption]
        return {row[0]: row[head.index(name)] for row in rows}

    def attributes(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]


MAIN = "Test accuracy and what it took"


def last_accuracy(folder):
    return json.loads((folder / "rounds.jsonl").read_text().splitlines()[-1])["test_accuracy"]


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
    assert f"python -m webbrowser {tmp_path / 'report.html'}" in out


def test_everything_is_on_the_page(capsys, tmp_path):
    text, _ = report(capsys, tmp_path, make_sweep(tmp_path / "runs", seeds=2, probe_every=5))
    page = Page(text)
    assert page.elements[0][0] == "html"
    titles = [label["aria-label"] for label in page.attributes("svg") if "aria-label" in label]
    for start in (
        "Test accuracy by round: FedNSAM ends at ",
        "Test accuracy by traffic",
        "Test accuracy by gradients",
        "Test accuracy by time",
        "Train loss by round",
        "Flatness distance by round",
        "Dispersion by round",
        "Sharpness by round",
        "Largest Hessian eigenvalue by round",
        "Cosine between updates by round",
        "Cosine to the momentum by round",
        "Clients by accuracy on each client's own training examples, FedAvg: mean ",
        "Confusion matrix of FedAvg. Most frequent mistakes: ",
        "Split of seed 0: 30 clients with 200 examples of ",
        "Split of seed 1",
    ):
        assert sum(title.startswith(start) for title in titles) == 1, start
    assert {"Every run", "Whole runs", "Differences of all four accuracies"} <= set(page.tables)
    assert "python -m launch.main --algo=fednsam --dataset=mnist --seed=1" in page.text
    assert "tensorflow 2.20.0" in page.text
    assert "/device:CPU:1" in page.text
    accuracy = "Accuracy on each client's own training examples"
    assert set(page.tables[accuracy][0]) == {
        "Series",
        "Mean, %",
        "Std over clients, %",
        "Worst tenth, %",
    }


def test_logs_without_diagnostics(capsys, tmp_path):
    text, _ = report(capsys, tmp_path, make_sweep(tmp_path / "runs", seeds=1, plain=True))
    page = Page(text)
    assert "no interval, 1 seed" in page.column(MAIN, "Difference, points")["FedSAM"]
    assert "All runs have the same seed" in page.text
    assert "Vectors" not in page.tables["Whole runs"][0]
    assert "Confusion" not in page.text
    assert "Train loss by round" in page.text


def test_the_page_needs_nothing_but_itself(capsys, tmp_path):
    pictures = landscape(tmp_path)
    folder = make_sweep(tmp_path / "runs", seeds=1)
    text, _ = report(capsys, tmp_path, folder, f"--landscape={pictures}")
    assert "http:" not in text
    assert "https:" not in text
    page = Page(text)
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"link", "iframe", "object", "embed", "form", "base", "audio", "video"}
    for _, attrs in page.elements:
        for name in ("src", "href"):
            assert attrs.get(name, "#").startswith(("#", "data:image/png;base64,"))
    (policy,) = [a["content"] for a in page.attributes("meta") if "http-equiv" in a]
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}'" in policy
    assert "url(" not in re.sub(r"url\(#\w+\)", "", text)


def test_pictures_have_words(capsys, tmp_path):
    folder = make_sweep(tmp_path / "runs", seeds=2, probe_every=5)
    page = Page(report(capsys, tmp_path, folder, f"--landscape={landscape(tmp_path)}")[0])
    drawings = page.attributes("svg")
    assert len(drawings) > 20
    for drawing in drawings:
        hidden = drawing.get("aria-hidden") == "true"
        assert hidden or (drawing["role"] == "img" and len(drawing["aria-label"]) > 10)
    (image,) = page.attributes("img")
    assert image["alt"] == "FedSAM is <flatter>"
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1
    assert all(b - a <= 1 or (a, b) == (1, 3) for a, b in itertools.pairwise(levels))


EVIL = '"><img src=x onerror=alert(1)><script>alert(2)</script></pre></style>${7*7}\x00\ud800\u202e'


def test_hostile_texts_are_texts(capsys, tmp_path):
    """In the algorithm, settings, command, class names, split, versions, folder and a sweep."""
    folder = make_run(
        tmp_path / "runs" / EVIL.replace("/", "").replace("\x00", "").replace("\ud800", ""),
        algo=EVIL,
        dataset=EVIL,
        model=EVIL,
        hparams={EVIL: EVIL},
        lr=EVIL,
    )
    make_run(
        tmp_path / "runs" / "b", algo=EVIL, dataset=EVIL, model=EVIL, hparams={EVIL: 1}, lr=EVIL
    )
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "command": EVIL,
        "versions": {EVIL: EVIL},
        "source": {"revision": EVIL},
        "devices": [EVIL],
    }
    config["data"]["class_names"] = [EVIL] * 10
    config["partition"] |= {"scheme": EVIL, "fingerprint": EVIL, "num_clients": EVIL}
    (folder / "config.json").write_text(json.dumps(config))
    cells = [{"folder": EVIL, "status": "failed", "error": EVIL}]
    (tmp_path / "runs" / "sweep.json").write_text(json.dumps({"cells": cells}))
    files = f"--csv={tmp_path / 'a.csv'}", f"--latex={tmp_path / 'a.tex'}"
    text, out = report(capsys, tmp_path, tmp_path / "runs", *files)
    page = Page(text)
    assert len(page.attributes("script")) == 1
    assert page.attributes("img") == []
    assert not any(name.startswith("on") for _, attrs in page.elements for name in attrs)
    assert "<script>alert(2)</script>" in page.text  # as text it is there
    assert not set("\x00\u202e\x1b") & set(text + out)
    assert "onerror=alert(1)>" in (tmp_path / "a.csv").read_text()
    latex = (tmp_path / "a.tex").read_text()
    assert r"\$\{7*7\}" in latex


def read_csv(path):
    return list(csv.DictReader(io.StringIO(path.read_text())))


def test_a_formula_in_a_csv_is_text(capsys, tmp_path):
    make_run(tmp_path / "a", algo="=1+1")
    report(capsys, tmp_path, tmp_path / "a", f"--csv={tmp_path / 'a.csv'}")
    (row,) = read_csv(tmp_path / "a.csv")
    assert row["series"] == row["algo"] == "'=1+1"


def test_csv_and_latex(capsys, tmp_path):
    folder = make_sweep(tmp_path / "runs", ("fedavg", "fedlesam_s"), 2, ceiling=0.5, plain=True)
    make_run(tmp_path / "runs" / "c", algo="fedsam", done=3)
    files = f"--csv={tmp_path / 'a.csv'}", f"--latex={tmp_path / 'a.tex'}"
    report(capsys, tmp_path, folder, "--targets=0.2,0.9", *files)
    rows = {row["series"]: row for row in read_csv(tmp_path / "a.csv")}
    assert set(rows) == {"FedAvg", "FedLESAM-S", "FedSAM (unfinished)"}
    row, base = rows["FedLESAM-S"], rows["FedAvg"]
    gap = float(row["test_accuracy_mean"]) - float(base["test_accuracy_mean"])
    assert float(row["difference"]) == pytest.approx(gap)
    assert (row["n"], row["seeds"], row["difference_n"], base["difference"]) == (
        "2",
        "0 1",
        "2",
        "",
    )
    assert (row["reached_0.2"], row["reached_0.9"], row["round_to_0.9_mean"]) == ("2", "0", "")
    assert float(row["bytes_to_0.2_mean"]) == float(row["round_to_0.2_mean"]) * 6 * 800_000
    latex = (tmp_path / "a.tex").read_text()
    assert latex.count(r"\toprule") == 1
    body = [line for line in latex.splitlines() if line.startswith("Fed")]
    assert len(body) == 2  # only complete runs
    header = next(line for line in latex.splitlines() if line.startswith("Method"))
    assert {line.count(" & ") for line in [header, *body]} == {10}
    best = max(rows.values(), key=lambda r: float(r["test_accuracy_mean"]))
    (bold,) = [b for b in body if b.split(" & ")[2].startswith(r"$\mathbf{")]
    assert bold.startswith(best["series"])
    mean, std = (100 * float(best[f"test_accuracy_{what}"]) for what in ("mean", "std"))
    assert f"{mean:.2f} \\pm {std:.2f}" in bold
    assert "$>20$" in body[0]


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


def test_different_problems_are_not_compared(capsys, tmp_path):
    folder = make_sweep(tmp_path / "runs", ("fedavg", "fedsam"), 2, plain=True)
    make_sweep(folder / "more", ("fedavg", "fednsam"), 2, rounds=10, plain=True)
    make_run(folder / "emnist", algo="mofedsam", dataset="emnist")
    text, out = report(capsys, tmp_path, folder)
    page = Page(text)
    assert "9 runs on 3 problems" in page.text
    ids = [attrs["id"] for attrs in page.attributes("section") if "id" in attrs]
    assert ids == ["g1", "g2", "g3"]
    parts = re.split(r'<section id="g\d">', text)[1:]
    names = [set(Page(part.split("</section>")[0]).column(MAIN, "Seeds")) for part in parts]
    assert sorted(map(sorted, names)) == [
        ["FedAvg baseline", "FedNSAM"],
        ["FedAvg baseline", "FedSAM"],
        ["MoFedSAM"],
    ]
    assert out.count("series ") == 3


def test_problems_that_look_alike_are_told_apart(capsys, tmp_path):
    folder = make_sweep(tmp_path / "runs", ("fedavg", "fedsam"), 1, plain=True)
    make_run(folder / "keras", algo="fedavg", model_options={"init": "keras"})
    make_run(folder / "head", algo="fedavg", trainable="head")
    for seed in range(3):  # seeds 0 and 1 show that the seed does not make the data
        make_run(folder / f"vgg{seed}", model="vgg11", seed=seed, data=f"d{seed // 2}")
    text, out = report(capsys, tmp_path, folder)
    titles = [line for line in out.splitlines() if " rounds" in line]
    assert len(titles) == len(set(titles)) == 5
    assert sum(title.endswith(" 20 rounds") for title in titles) == 1
    assert [title[-6:] for title in titles if ", data " in title] == ["data 1", "data 2"]
    assert sum("init=keras" in title for title in titles) == 1
    assert sum("trainable=head" in title for title in titles) == 1
    assert all(f"<h2>{html.escape(title)}</h2>" in text for title in titles)


def test_fifty_series(capsys, tmp_path):
    """All in the table; the best twelve are drawn, the baseline among them."""
    for i in range(50):
        make_run(
            tmp_path / "runs" / f"{i}",
            algo="fedsam" if i else "fedavg",
            hparams={"rho": i / 100} if i else {},
            rounds=6,
            ceiling=0.3 + 0.01 * i,
            plain=True,
        )
    text, _ = report(capsys, tmp_path, tmp_path / "runs")
    page = Page(text)
    assert len(page.tables[MAIN]) == 51
    assert "12 series are drawn" in page.text
    assert "38 more are in the tables" in page.text
    assert "picked by test accuracy" in page.text
    label = next(a["aria-label"] for a in page.attributes("svg") if "aria-label" in a)
    assert label.count(" at ") == 12
    assert "FedSAM rho=0.49 ends at" in label
    assert "FedAvg at" in label
    text, _ = report(capsys, tmp_path, tmp_path / "runs", "--max_curves=2")
    assert "2 series are drawn" in text


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


def landscape(folder, file="a.png", content=None, alt="FedSAM is <flatter>"):
    folder = folder / "landscape"
    folder.mkdir()
    (folder / "landscape.json").write_text(json.dumps({"pictures": [{"file": file, "alt": alt}]}))
    if content is None:
        buffer = io.BytesIO()
        Image.new("RGB", (4, 4), (9, 9, 9)).save(buffer, "PNG")
        content = buffer.getvalue()
    (folder / "a.png").write_bytes(content)
    return folder


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


# In a real browser.


def browse(tmp_path, page, *flags, width=1280):
    """What the page became, and what the browser had to say about it."""
    result = subprocess.run(
        [
            *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            *("--hide-scrollbars", f"--user-data-dir={tmp_path / 'profile'}"),
            *("--enable-logging=stderr", f"--window-size={width},900", *flags),
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout, [line for line in result.stderr.splitlines() if "CONSOLE" in line]


PROBE = """<script>
window.problems = [];
addEventListener("error", (event) => problems.push(String(event.message)));
addEventListener("load", () => {
  const table = document.querySelector("table.sort"), order = () =>
    [...table.tBodies[0].rows].map((row) => row.cells[0].dataset.value);
  const head = table.tHead.rows[0].cells[2].querySelector("button");
  const found = {width: document.documentElement.scrollWidth, seen: innerWidth, before: order()};
  head.click(); found.down = order(); head.click(); found.up = order();
  found.dark = getComputedStyle(document.body).backgroundColor;
  found.problems = problems;
  parent.document.title = "PROBED" + JSON.stringify(found);
});
</script>"""


def probed(tmp_path, text, *flags, width=1280):
    """Measures a copy that lets a script of ours in, in a frame: windows are not this narrow."""
    copy = tmp_path / "copy.html"
    opened = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', PROBE, text)
    assert PROBE in opened
    frame = f'<iframe width={width} height=900 style="border:0" srcdoc="{html.escape(opened)}">'
    copy.write_text(f"<!DOCTYPE html><meta charset=utf-8><title>x</title>{frame}")
    dom, _ = browse(tmp_path, copy, "--dump-dom", *flags)
    return json.loads(re.search(r"<title>PROBED(.*?)</title>", dom)[1])


@needs_browser
def test_in_a_browser(capsys, tmp_path):
    """No complaints, no sideways scrolling on a phone, dark when asked, sorting, and without it."""
    folder = make_sweep(tmp_path / "runs", seeds=2, probe_every=5)
    make_run(folder / "long", algo="fedsam", hparams={"rho": 0.5, "a_rather_long_name": "x" * 60})
    pictures = f"--landscape={landscape(tmp_path)}"
    text, _ = report(capsys, tmp_path, folder, "--targets=0.3,0.5", pictures)
    page = tmp_path / "report.html"
    dom, said = browse(tmp_path, page, "--dump-dom")
    assert said == []
    assert "<button" in dom
    assert [row[0] for row in Page(dom).tables[MAIN]] == [row[0] for row in Page(text).tables[MAIN]]

    desktop = probed(tmp_path, text)
    assert desktop["problems"] == []
    assert desktop["width"] <= desktop["seen"] == 1280
    assert desktop["dark"] == "rgb(255, 255, 255)"
    assert desktop["down"] == desktop["before"]  # the best is first
    assert desktop["up"] == desktop["before"][::-1]
    phone = probed(tmp_path, text, "--blink-settings=preferredColorScheme=0", width=390)
    assert phone["width"] <= phone["seen"] == 390
    assert phone["dark"] == "rgb(20, 23, 29)"

    shots = []
    still = tmp_path / "still.html"
    still.write_text(re.sub("script-src '[^']*'", "script-src 'none'", text))
    assert "<button" not in browse(tmp_path, still, "--dump-dom")[0]
    for shown in (page, still):
        file = tmp_path / f"shot{len(shots)}.png"
        browse(tmp_path, shown, f"--screenshot={file}", width=390)
        shots.append(np.asarray(Image.open(file).convert("L"), float))
    assert len(np.unique(shots[0])) > 50
    assert np.abs(shots[0] - shots[1]).mean() < 1  # without scripts it looks the same


@pytest.mark.slow
def test_twenty_runs_of_five_hundred_rounds(capsys, tmp_path):
    """A page of less than 10 MB, also if every run is a series."""
    for i in range(20):
        make_run(
            tmp_path / "runs" / f"{i}",
            algo="fedsam",
            hparams={"rho": i / 100},
            rounds=500,
            probe_every=25,
            num_clients=100,
        )
    text, _ = report(capsys, tmp_path, tmp_path / "runs", "--max_curves=20")
    assert "20 runs of 20 series" in text
    assert len(text.encode()) < 10e6
