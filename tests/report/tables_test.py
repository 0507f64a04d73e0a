"""The further tables, worked out by hand."""

from tests.comparison.runs import run
from tests.report.in_memory import DASH, logged, only_table, section, two_by_two
from tests.report.pages import Page
from tf_fedsam.report import tables
from tf_fedsam.report.sections import Report


def test_costs():
    """Two rounds of 10 bytes each way, 3 gradients and half a second."""
    page = Page(tables.cost_tables(two_by_two()))
    whole = {name: page.column("Whole runs", name)["FedSAM"] for name in ("Gradients", "Seconds")}
    assert whole == {"Gradients": "6 ± 0", "Seconds": "1 ± 0"}
    to_target = page.column("To a test accuracy of 20 %", "Gradients")
    assert to_target == {"FedSAM": "3 ± 0", "FedAvg baseline": "6 ± 0"}
    assert "Vectors" not in page.tables["Whole runs"][0]  # not logged


def test_differences():
    page = Page(tables.difference_table(two_by_two()))
    caption = "Differences of all four accuracies"
    assert page.column(caption, "Last, points")["FedSAM"].startswith("+25.00 ± ")
    # 0.4 - 0.2 and 0.6 - 0.3 are the best, too; means over all tests: 0.35 - 0.15, 0.45 - 0.2.
    assert page.column(caption, "Mean of last 10, points")["FedSAM"].startswith("+22.50 ± ")
    assert page.column(caption, "FedInit, points")["FedSAM"] == DASH  # not five tests
    assert tables.difference_table(section(run())) == ""


def test_measured_last():
    values = section(logged(seed=0, sharpness=0.1), logged(seed=1, sharpness=0.3))
    (header, row) = only_table(tables.last_values(values))
    assert row[header.index("Sharpness")] == "0.20 ± 0.14"
    assert "Dispersion" not in header
    one_missing = section(logged(seed=0, sharpness=0.1), logged(seed=1))
    assert "Sharpness" not in only_table(tables.last_values(one_missing))[0]


def test_sharpness_of_different_steps():
    runs = [run("fedavg", seed, sharpness_rho=rho) for seed, rho in ((0, 0.1), (1, 0.2))]
    assert "different sharpness_rho" in tables.last_values(section(*runs))
    assert "different sharpness_rho" not in tables.last_values(two_by_two())


def test_every_run():
    going = run("fedsam", 1, (0.3,), rounds=2, complete=False)
    early = run("fedprox", 0, (0.5,), rounds=2, stopped="a <bell>")
    found = section(run("fedavg", 0, (0.9, 0.2)), going, early)
    rows = only_table(tables.runs_table(Report([found], [], [], "", {}, "")))
    by_name = {row[0]: dict(zip(rows[0], row, strict=True)) for row in rows[1:]}
    assert by_name["fedavg-0"]["State"] == "complete"
    assert by_name["fedavg-0"]["Last, %"] == "20.00"
    assert by_name["fedavg-0"]["Best, %"] == "90.00"
    assert by_name["fedavg-0"]["Best round"] == "1"
    assert by_name["fedsam-1"]["State"] == "1 of 2 rounds"
    assert by_name["fedprox-0"]["State"] == "1 of 2 rounds, stopped early: a <bell>"
