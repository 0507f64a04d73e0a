"""Clients, confusion, splits and surfaces on the page."""

from tests.report.in_memory import DASH, logged, only_table, section
from tests.report.pages import Page
from tf_fedsam.report import figures
from tf_fedsam.report.sections import Picture, Report

CLIENTS = {
    "client_train_accuracy_mean": 0.5,
    "client_train_accuracy_std": 0.1,
    "client_train_accuracy_worst_decile": 0.25,
    "client_train_accuracy_histogram": [0, 1, 3, 0],
}


class TestFairness:
    def test_numbers(self):
        """Means over two seeds: 0.5 and 0.7, 0.1 and 0.1."""
        more = {**CLIENTS, "client_train_accuracy_mean": 0.7}
        text = figures.fairness(section(logged(seed=0, **CLIENTS), logged(seed=1, **more)))
        assert only_table(text)[1] == ["FedAvg", "60.00", "10.00", "25.00"]
        assert "each client's own training examples" in Page(text).text
        assert "60.0 % (10.0)" in Page(text).text
        assert "test examples" not in text

    def test_what_is_not_logged(self):
        text = figures.fairness(section(logged(client_train_accuracy_mean=0.5)))
        assert only_table(text)[1] == ["FedAvg", "50.00", DASH, DASH]
        assert "<figure" not in text
        assert figures.fairness(section(logged())) == ""


class TestConfusion:
    def test_mistakes_are_named(self):
        names = {"data": {"class_names": ["cat", "dog"]}}
        text = figures.confusions(section(logged(config=names, confusion=[[8, 2], [0, 10]])))
        page = Page(text)
        assert "Most frequent mistakes: cat" in page.text
        assert "20" in page.text
        assert text.count(">dog</text>") == 2  # at both axes

    def test_no_mistakes(self):
        text = figures.confusions(section(logged(confusion=[[3, 0], [0, 4]])))
        assert "No mistakes." in text

    def test_nothing_is_logged(self):
        assert figures.confusions(section(logged())) == ""

    def test_class_names(self):
        named = logged(config={"data": {"class_names": ["a" * 99, "b"]}})
        assert figures.class_names(named, 2) == ["a" * 40, "b"]
        assert figures.class_names(named, 3) == ["class 0", "class 1", "class 2"]
        assert figures.class_names(logged(), 1) == ["class 0"]


COUNTS = [[3, 0], [1, 4], [2, 2]]  # 3 to 5 examples of 1 to 2 classes


class TestSplits:
    def test_once_each(self):
        config = {"split": {"class_counts": COUNTS}, "partition": {"fingerprint": "ab<c"}}
        runs = [logged(algo, 0, config) for algo in ("fedavg", "fedsam")]
        text = figures.splits(section(*runs))
        assert text.count("<figure>") == 1
        said = "3 clients with 3 to 5 examples of 1 to 2 of the 2 classes"
        assert said in Page(text).text
        assert "split ab<c" in Page(text).text
        config["data"] = {"class_names": ["cat", "dog"]}
        assert figures.splits(section(logged(config=config))).count(">dog</text>") == 1

    def test_of_many_seeds_some_are_shown(self):
        config = {"split": {"class_counts": COUNTS}}
        text = figures.splits(section(*(logged(seed=seed, config=config) for seed in range(8))))
        assert text.count("<figure>") == figures.SHOWN_SPLITS == 6
        assert "2 more splits not shown" in text

    def test_configs_without_it(self):
        assert figures.splits(section(logged())) == ""


def test_surfaces():
    report = Report([], [], [Picture(b"png", "it is <flat>", "runs/a")], "", {}, "")
    page = Page(figures.surfaces(report))
    (image,) = page.attributes("img")
    assert image["src"] == "data:image/png;base64,cG5n"
    assert image["alt"] == "it is <flat>"
    assert "From runs/a." in page.text
    assert figures.surfaces(Report([], [], [], "", {}, "")) == ""
