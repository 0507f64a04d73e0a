"""A comparison as people read it."""

import dataclasses
import re

import pytest

import tasks  # noqa: F401  makes the data sets known
from tests.reproduction.comparison_test import ACCURACIES
from tests.reproduction.examples import TEXT, result, small_table
from tf_fedsam.reproduction import cells, tables, texts
from tf_fedsam.reproduction.comparison import compare


@pytest.fixture
def comparison(tmp_path):
    table = small_table(tmp_path)
    found = cells.places(table, tmp_path)
    plain = [place for place in found if place.column == "plain"]
    return compare(table, found, [result(p, ACCURACIES[p.variant][p.seed], 4) for p in plain])


def test_lines(comparison):
    (header, lines), notes = texts.column_grid(comparison, "plain", "accuracy")
    assert header == texts.HEADER
    by_method = {line[0]: list(line[1:]) for line in lines}
    assert by_method["FedAvg"] == ["60.00 ± 0.50", "61.00 ± 1.41", "2", "+1.00", "yes"]
    assert by_method["FedCM (suspect)"][3:] == ["-12.00", "no"]
    assert by_method["FedInit (not in the paper)"][0] == "-"
    assert by_method["Best"][1] == "73.00 ± 1.41"
    assert by_method["- FedLESAM"][1] == "70.00 ± 0.00"
    assert notes == ["FedCM, suspect: it is too good."]


def test_rounds(comparison):
    (_, lines), _ = texts.column_grid(comparison, "plain", "rounds")
    assert lines[0][:5] == ("FedAvg", "30", "4 ± 0", "2", "-26")


def test_what_is_not_reached_or_not_run(comparison):
    (_, lines), _ = texts.column_grid(comparison, "mixed", "rounds")
    assert [line[1] for line in lines[:4]] == [">7", "not reached", "-", "6"]
    assert {line[2] for line in lines} == {"not run"}


def test_markdown(comparison):
    said = texts.markdown(comparison)
    assert "#### fedsam_table1: plain" in said
    assert "| FedAvg | 60.00 ± 0.50 | 61.00 ± 1.41 | 2 | +1.00 | yes |" in said
    assert "rounds to the target of 0.5:" in said
    assert "- FedCM, suspect: it is too good." in said
    # measured: Best, FedSAM, FedAvg, FedCM; printed: Best, FedCM, FedSAM, FedAvg, so the ranks
    # differ by 0, 1, 1 and 2: 1 - 6 * 6 / (4 * 15)
    assert "Rank correlation with the paper 0.40 (95 %" in said
    assert "From the best, measured: Best, FedSAM, FedAvg, FedCM." in said
    assert said.endswith("#### fedsam_table1: mixed\n\nNot run.\n")


def test_terminal(comparison):
    said = texts.terminal(comparison)
    assert said.startswith("FedSAM, Table 1: a small one")
    assert re.search(r"FedAvg +60\.00 ± 0\.50 +61\.00 ± 1\.41 +2 +\+1\.00\n +yes", said)
    assert max(map(len, said.splitlines())) <= 80


def test_page_needs_nothing_but_itself(comparison):
    page = texts.page(comparison, "python -m launch.reproduce --table=<b>")
    assert "<td>61.00 ± 1.41</td>" in page
    assert "--table=&lt;b&gt;" in page
    assert not re.search(r"(src|href)=", page)
    assert "<li>everything</li>" in page


def test_trials_are_said_to_be_trials(tmp_path):
    table = small_table(tmp_path)
    found = cells.places(table, tmp_path, fixed={"rounds": 2})
    comparison = compare(table, found, [result(p, 0.6) for p in found])
    for form in (texts.terminal, texts.markdown, texts.page):
        assert form(comparison).count("which has rounds=7: the numbers cannot be compared") == 1


def test_columns_that_cannot_be_measured(tmp_path):
    table = tables.find("fedwmsam_table2")
    found = cells.places(table, tmp_path, columns=table.chosen_columns(["art"]))
    comparison = compare(table, found, [result(p, 0.6) for p in found])
    for said in (texts.terminal(comparison), texts.markdown(comparison), texts.page(comparison)):
        assert "not the accuracy of each domain" in said


def test_about(tmp_path):
    told = dict(texts.about(small_table(tmp_path)))
    assert told["data"] == "glyphs ()"
    assert told["rows"] == "FedAvg, FedSAM, FedCM, Best"
    assert told["beyond the paper"] == "FedInit"
    assert told["suspect"] == "FedCM: it is too good"
    assert (told["open"], told["assumed"]) == ("everything", "something")


def test_pairs_of_methods_are_compared_seed_by_seed(tmp_path):
    table = small_table(tmp_path, TEXT + "pairs: [[FedSAM, FedAvg], [FedInit, FedCM]]\n")
    found = [p for p in cells.places(table, tmp_path) if p.column == "plain"]
    # FedSAM is better by 1 and by 3 points: 2 +- 12.706 * sqrt(2) / sqrt(2)
    values = {"FedAvg": (0.60, 0.70), "FedSAM": (0.61, 0.73)}
    some = [p for p in found if p.variant in values]
    said = texts.markdown(
        compare(table, found, [result(p, values[p.variant][p.seed]) for p in some])
    )
    line = "FedSAM against FedAvg: +2.00 over 2 seeds, 95 % interval -10.71 to +14.71"
    assert f"- {line}, which holds zero.\n" in said
    assert "FedInit against FedCM" not in said  # nothing was run
    first = [result(p, values[p.variant][0]) for p in some if p.seed == 0]
    whole = compare(table, found, first)
    assert "FedSAM against FedAvg: +1.00 (one seed)." in texts.terminal(whole)
    assert "FedSAM against FedAvg: +1.00 (one seed)." in texts.page(whole)


def test_a_table_without_printed_numbers_has_no_columns_for_them(tmp_path):
    table = small_table(tmp_path, TEXT.partition("printed:")[0])
    found = cells.places(table, tmp_path)
    plain = [p for p in found if p.column == "plain"]
    whole = compare(table, found, [result(p, ACCURACIES[p.variant][p.seed], 4) for p in plain])
    said = texts.markdown(whole)
    assert "| method | measured | seeds |" in said
    assert "| FedAvg | 61.00 ± 1.41 | 2 |" in said
    assert "printed" not in said


def test_how_flat_solutions_are(tmp_path):
    text = TEXT.partition("printed:")[0]
    table = small_table(tmp_path, text.replace("[accuracy, sd, rounds]", "[hessian_eigenvalue]"))
    found = [p for p in cells.places(table, tmp_path) if p.column == "plain" and p.seed == 0]
    run = result(found[0], 0.6)
    flat = dataclasses.replace(run, last_round={"hessian_eigenvalue": 12.345})
    said = texts.markdown(compare(table, found, [flat]))
    assert "largest eigenvalue of the Hessian:\n" in said
    assert "| FedAvg | 12.35 | 1 |" in said


def test_where_only_the_order_can_be_compared(tmp_path):
    """No differences, and nothing within the noise; the ranks as usual."""
    table = small_table(tmp_path, TEXT + "order_only: true\n")
    found = [place for place in cells.places(table, tmp_path) if place.column == "plain"]
    some = [result(p, ACCURACIES[p.variant][p.seed], 4) for p in found]
    whole = compare(table, found, some)
    said = texts.markdown(whole)
    assert "| method | printed | measured | seeds |" in said
    assert "| FedAvg | 60.00 ± 0.50 | 61.00 ± 1.41 | 2 |\n" in said
    assert "4 methods with both numbers, of other settings: only their order can be" in said
    assert "measured minus printed" not in said
    assert "Rank correlation with the paper 0.40 (95 %" in said
    assert "measured minus printed" not in texts.terminal(whole) + texts.page(whole)
    assert "+1.00" not in texts.terminal(whole) + texts.page(whole)
