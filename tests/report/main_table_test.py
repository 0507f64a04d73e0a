"""The main table, worked out by hand."""

import dataclasses

from tests.comparison.runs import run
from tests.report.in_memory import DASH, section, two_by_two
from tests.report.pages import MAIN, Page
from tf_fedsam.comparison.compared_run import checked
from tf_fedsam.report.main_table import main_table


def notes(found):
    return Page(main_table(found)).text.partition("Mean ± sample")[2]


def test_columns():
    """FedAvg ends at 0.2 and 0.3: mean 25, deviation 5 sqrt 2; FedSAM at 0.4 and 0.6."""
    page = Page(main_table(two_by_two()))
    last = page.column(MAIN, "Last, %")
    assert last == {"FedSAM": "50.00 ± 14.14", "FedAvg baseline": "25.00 ± 7.07"}
    assert page.column(MAIN, "Seeds") == {"FedSAM": "2", "FedAvg baseline": "2"}
    differences = page.column(MAIN, "Difference, points")
    assert differences["FedSAM"].startswith("+25.00 ± ")
    assert differences["FedAvg baseline"] == "baseline"
    # FedAvg has 20 % in round 2, FedSAM in round 1; a round sends 20 bytes.
    assert page.column(MAIN, "Rounds to 20 %") == {"FedSAM": "1 ± 0", "FedAvg baseline": "2 ± 0"}
    assert page.column(MAIN, "MB to 20 %")["FedSAM"].startswith("2.00e-05")
    assert [a["class"] for a in page.attributes("tr")[1:]] == ["", "baseline"]


def ended(one, **values):
    """The run with these values in its last round."""
    records = [*one.records[:-1], {**one.records[-1], **values}]
    return checked(one.name, one.config, records, True)


def held_out():
    """lr=0.1 is best on test, lr=0.2 on what nobody trained on."""
    runs = []
    for lr, test, held in ((0.1, 0.8, 0.5), (0.2, 0.7, 0.6)):
        one = run("fedsam", lr=lr, accuracies=(test,), holdout=0.1)
        records = [{**r, "validation_accuracy": held} for r in one.records]
        runs.append(dataclasses.replace(one, records=records))
    return section(run("fedavg", accuracies=(0.3,), holdout=0.1), *runs)


def test_column_of_held_out_examples():
    column = Page(main_table(held_out())).column(MAIN, "Held out, %")
    assert sorted(column.values()) == ["50.00", "60.00", DASH]
    assert "Held out, %" not in Page(main_table(two_by_two())).tables[MAIN][0]


def test_columns_of_plug_ins():
    """Only if a run has them; where there is none it says so."""
    assert not {"Epsilon", "Last model, %"} & set(Page(main_table(two_by_two())).tables[MAIN][0])
    both = ended(run("fedsam", swa_cycle=1), test_accuracy_last=0.125)
    page = Page(main_table(section(run("fedavg"), both)))
    assert set(page.column(MAIN, "Last model, %").values()) == {"12.50", DASH}
    fixed = run("fedsam", dp_clip_norm=0.2, sampling="fixed")
    page = Page(main_table(section(run("fedavg", sampling="fixed"), fixed)))
    assert set(page.column(MAIN, "Epsilon").values()) == {"not private", "not accounted"}
    given = {"dp_clip_norm": 0.2, "sampling": "bernoulli"}
    noisy = ended(run("fedsam", **given), epsilon=2.345)
    clipped = ended(run("fedavg", **given), epsilon=None)
    page = Page(main_table(section(noisy, clipped)))
    assert set(page.column(MAIN, "Epsilon").values()) == {"2.35", "infinite, no noise"}


def test_without_a_baseline_there_are_no_differences():
    page = Page(main_table(section(run("fedavg", 0), run("fedavg", 1))))
    assert "Difference, points" not in page.tables[MAIN][0]
    assert "Differences are to" not in page.text


class TestNotes:
    def test_of_few_seeds(self):
        assert "Two seeds make wide intervals" in notes(two_by_two())
        one = section(run("fedavg", 0), run("fedsam", 0))
        assert "All runs have the same seed" in notes(one)
        three = [run(algo, seed) for algo in ("fedavg", "fedsam") for seed in range(3)]
        assert "seeds make wide" not in notes(section(*three))

    def test_of_the_target(self):
        assert "20 % is the highest multiple of 5 %" in notes(two_by_two())
        assert "multiple" not in notes(section(run(), run("fedsam"), targets=(0.2,)))

    def test_of_tuning(self):
        tuned = section(run("fedavg"), run("fedsam", lr=0.1), run("fedsam", lr=0.2))
        assert "picked by test accuracy, which is optimistic" in notes(tuned)
        assert "optimistic" not in notes(two_by_two())

    def test_of_a_choice_on_held_out_examples(self):
        found = notes(held_out())
        assert "the best of each is: FedSAM lr=0.2 (60.00 % held out, 70.00 % on test)" in found
        assert "optimistic" not in found

    def test_of_several_baselines(self):
        found = section(run("fedavg", lr=0.1), run("fedavg", lr=0.2), run("fedsam"))
        assert "There are 2 series of the baseline's algorithm" in notes(found)

    def test_of_runs_that_are_not_whole(self):
        going = run("fedsam", 0, (0.3,), rounds=2, complete=False)
        assert "not complete are listed by themselves" in notes(section(run(), going))
        early = run("fedsam", 0, (0.5,), rounds=2, stopped="a bell")
        assert "1 run stopped early" in notes(section(run(), early))

    def test_of_data_of_its_own(self):
        found = section(run("fedavg", 0, data="a"), run("fedavg", 1, data="b"))
        assert "Each seed has data of its own" in notes(found)
