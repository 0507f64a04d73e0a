"""The page: everything is on it, it needs nothing but itself, and hostile texts are texts."""

import base64
import hashlib
import html
import itertools
import json
import re

import numpy as np
import pytest
from PIL import Image

import tf_fedsam
from tests.analysis.landscape.paraboloids import survey
from tests.comparison.fake_runs import make_run, make_sweep
from tests.report.pages import (
    MAIN,
    Page,
    browse,
    landscape,
    needs_browser,
    probed,
    render,
)
from tf_fedsam.analysis.landscape.results import write


def test_everything_is_on_the_page(tmp_path):
    page = Page(render(tmp_path, make_sweep(tmp_path / "runs", seeds=2, probe_every=5)))
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


def test_contents(tmp_path):
    """Every link of the page leads somewhere, and every heading is in the contents."""
    folder = make_sweep(tmp_path / "runs", ("fedavg", "fedsam"), 1, probe_every=5)
    make_run(folder / "other", rounds=7)
    (make_run(folder / "broken", seed=9) / "config.json").write_text("{")
    page = Page(render(tmp_path, folder, landscapes=[landscape(tmp_path)]))
    parts = ("h2", "h3", "section")
    ids = [attrs["id"] for tag, attrs in page.elements if tag in parts and "id" in attrs]
    links = [attrs["href"] for attrs in page.attributes("a")]
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in links} <= set(ids)
    headings = [attrs.get("id") for tag, attrs in page.elements if tag == "h3"]
    linked = [name for name in headings if name is not None]
    assert len(linked) > 15
    assert {f"#{name}" for name in linked} <= set(links)
    assert {"#g1", "#g2", "#surfaces", "#runs", "#skipped"} <= set(links)


def test_a_page_that_reloads_itself(tmp_path):
    run = make_run(tmp_path / "a", plain=True)
    refresh = [
        [a["content"] for a in Page(text).attributes("meta") if a.get("http-equiv") == "refresh"]
        for text in (render(tmp_path, run), render(tmp_path, run, reload_seconds=2.5))
    ]
    assert refresh == [[], ["3"]]


def test_surfaces_are_drawn_for_the_page(tmp_path):
    """From the tables; the 3-D view stays a picture, and so does what has no tables."""
    (tmp_path / "out").mkdir()
    write(survey(tmp_path / "l", between=True), tmp_path / "out", tensorboard=False)
    run = make_run(tmp_path / "a", plain=True)
    page = Page(render(tmp_path, run, landscapes=[tmp_path / "out"]))
    labels = [a["aria-label"] for a in page.attributes("svg") if "aria-label" in a]
    assert sum(label.startswith("Loss around ") for label in labels) == 2
    assert "Loss around flat: loss 0.5 in the middle, +0.25 at 0.5." in labels
    assert sum("along the line: flat to sharp from" in label for label in labels) == 2
    (image,) = page.attributes("img")
    assert image["alt"].startswith("3-D views")
    for content, count in (("no rows", 2), ("run,x,y,loss,accuracy\nnobody,0,0,1,1\n", 4)):
        (tmp_path / "out/surface_2d.csv").write_text(content)
        page = Page(render(tmp_path, run, landscapes=[tmp_path / "out"]))
        assert len(page.attributes("img")) == count


def test_logs_without_diagnostics(tmp_path):
    page = Page(render(tmp_path, make_sweep(tmp_path / "runs", seeds=1, plain=True)))
    assert "no interval, 1 seed" in page.column(MAIN, "Difference, points")["FedSAM"]
    assert "All runs have the same seed" in page.text
    assert "Vectors" not in page.tables["Whole runs"][0]
    assert "Confusion" not in page.text
    assert "Train loss by round" in page.text


def test_the_page_needs_nothing_but_itself(tmp_path):
    pictures = landscape(tmp_path)
    folder = make_sweep(tmp_path / "runs", seeds=1)
    text = render(tmp_path, folder, landscapes=[pictures])
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


def test_pictures_have_words(tmp_path):
    folder = make_sweep(tmp_path / "runs", seeds=2, probe_every=5)
    page = Page(render(tmp_path, folder, landscapes=[landscape(tmp_path)]))
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


def test_hostile_texts_are_texts(tmp_path):
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
    comparison = tf_fedsam.compare(tmp_path / "runs")
    text = comparison.html(tmp_path / "a.html").read_text()
    shown = comparison._repr_html_()
    for page, scripts in ((Page(text), 1), (Page(shown), 0)):
        assert len(page.attributes("script")) == scripts
        assert page.attributes("img") == []
        assert not any(name.startswith("on") for _, attrs in page.elements for name in attrs)
        assert "<script>alert(2)</script>" in page.text  # as text it is there
    assert not set("\x00\u202e\x1b") & set(text + shown + str(comparison.table()))
    assert "onerror=alert(1)>" in comparison.csv(tmp_path / "a.csv").read_text()
    assert r"\$\{7*7\}" in comparison.latex(tmp_path / "a.tex").read_text()
    comparison.plot().savefig(tmp_path / "a.png")  # its dollars are no mathematics


def test_different_problems_are_not_compared(tmp_path):
    folder = make_sweep(tmp_path / "runs", ("fedavg", "fedsam"), 2, plain=True)
    make_sweep(folder / "more", ("fedavg", "fednsam"), 2, rounds=10, plain=True)
    make_run(folder / "emnist", algo="mofedsam", dataset="emnist")
    text = render(tmp_path, folder)
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


def test_problems_that_look_alike_are_told_apart(tmp_path):
    folder = make_sweep(tmp_path / "runs", ("fedavg", "fedsam"), 1, plain=True)
    make_run(folder / "keras", algo="fedavg", model_options={"init": "keras"})
    make_run(folder / "head", algo="fedavg", trainable="head")
    for seed in range(3):  # seeds 0 and 1 show that the seed does not make the data
        make_run(folder / f"vgg{seed}", model="vgg11", seed=seed, data=f"d{seed // 2}")
    comparison = tf_fedsam.compare(folder)
    titles = [comparison.title(section) for section in comparison.sections]
    text = comparison.html(tmp_path / "a.html").read_text()
    assert len(titles) == len(set(titles)) == 5
    assert sum(title.endswith(" 20 rounds") for title in titles) == 1
    assert [title[-6:] for title in titles if ", data " in title] == ["data 1", "data 2"]
    assert sum("init=keras" in title for title in titles) == 1
    assert sum("trainable=head" in title for title in titles) == 1
    assert all(f"<h2>{html.escape(title)}</h2>" in text for title in titles)


def test_fifty_series(tmp_path):
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
    page = Page(render(tmp_path, tmp_path / "runs"))
    assert len(page.tables[MAIN]) == 51
    assert "12 series are drawn" in page.text
    assert "38 more are in the tables" in page.text
    assert "picked by test accuracy" in page.text
    label = next(a["aria-label"] for a in page.attributes("svg") if "aria-label" in a)
    assert label.count(" at ") == 12
    assert "FedSAM rho=0.49 ends at" in label
    assert "FedAvg at" in label
    assert "2 series are drawn" in render(tmp_path, tmp_path / "runs", max_curves=2)


def test_runs_that_stopped_early_are_marked(tmp_path):
    folder = make_sweep(tmp_path / "runs", ("fedavg",), 2, plain=True)
    for seed, done in ((0, 7), (1, 20)):
        reason = "patience <ran> out" if done < 20 else ""
        make_run(folder / f"s{seed}", algo="fedsam", seed=seed, done=done, stopped=reason)
    page = Page(render(tmp_path, folder, targets=[0.99]))
    assert page.column(MAIN, "Seeds")["FedSAM 7 of 20 rounds, stopped early"] == "2"
    assert page.column(MAIN, "Rounds to 99 %")["FedSAM 7 of 20 rounds, stopped early"] == ">7"
    assert page.column(MAIN, "Rounds to 99 %")["FedAvg baseline"] == ">20"
    states = page.column("Every run", "State")
    assert states[str(folder / "s0")] == "7 of 20 rounds, stopped early: patience <ran> out"
    assert states[str(folder / "s1")] == "complete"
    assert "1 run stopped early" in page.text
    assert "not in this report" not in page.text


def test_runs_that_stop_at_an_accuracy(tmp_path):
    """They are a problem of their own: another number of rounds would be compared."""
    folder = make_sweep(tmp_path / "runs", ("fedavg", "fedsam"), 1, plain=True)
    make_run(folder / "early", algo="fedsam", stop_at=0.4, done=9, stopped="40 %")
    page = Page(render(tmp_path, folder))
    assert "3 runs on 2 problems" in page.text
    assert "each for 20 rounds or until a test accuracy of 40 % on " in page.text
    assert "stop_at=0.4" in page.text


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"participation": 0.25}, "(Dirichlet 0.3 per client), of which 25 % take part in a round"),
        ({"sampling": "schedule"}, ", of which a schedule says who takes part in a round."),
        ({"participation": None}, "(Dirichlet 0.3 per client). The model is mlp"),
    ],
)
def test_who_takes_part(tmp_path, settings, words):
    assert words in Page(render(tmp_path, make_run(tmp_path / "a", **settings))).text


@needs_browser
def test_in_a_browser(tmp_path):
    """No complaints, no sideways scrolling on a phone, dark when asked, sorting, and without it."""
    folder = make_sweep(tmp_path / "runs", seeds=2, probe_every=5)
    make_run(folder / "long", algo="fedsam", hparams={"rho": 0.5, "a_rather_long_name": "x" * 60})
    text = render(tmp_path, folder, targets=[0.3, 0.5], landscapes=[landscape(tmp_path)])
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
    assert phone["wide"] > desktop["wide"]  # tables that scroll say so
    assert phone["told"] == phone["wide"]
    assert "↕" in phone["mark"]
    assert "▲" in phone["sorted"]

    shots = []
    still = tmp_path / "still.html"
    still.write_text(re.sub("script-src '[^']*'", "script-src 'none'", text))
    assert "<button" not in browse(tmp_path, still, "--dump-dom")[0]
    for shown in (page, still):
        file = tmp_path / f"shot{len(shots)}.png"
        browse(tmp_path, shown, f"--screenshot={file}", width=390)
        shots.append(np.asarray(Image.open(file).convert("L"), float))
    assert len(np.unique(shots[0])) > 50
    # Without scripts it looks the same, but that tables have no marks.
    assert np.abs(shots[0] - shots[1])[:300].mean() < 1


@pytest.mark.slow
def test_twenty_runs_of_five_hundred_rounds(tmp_path):
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
    text = render(tmp_path, tmp_path / "runs", max_curves=20)
    assert "20 runs of 20 series" in text
    assert len(text.encode()) < 10e6
