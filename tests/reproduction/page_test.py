"""The page of the manual, made from kept results."""

import json
import pathlib

import pytest

import tasks  # noqa: F401  makes the data sets known
from tests.reproduction.examples import TEXT as TABLE
from tests.reproduction.examples import result, small_table
from tf_fedsam.errors import InputError
from tf_fedsam.reproduction import cells, page, results, tables

ROOT = pathlib.Path(__file__).parents[2]
TEXT = """# Title

Words.

<!-- measured: fedsam_table1 plain -->
<!-- end -->

More words.
"""


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A folder with two results of the small table, which stands for all tables."""
    table = small_table(tmp_path)
    monkeypatch.setattr(tables, "find", lambda name: table)
    monkeypatch.setattr(tables, "names", lambda: [table.name])
    found = cells.places(table, tmp_path)
    some = [result(place, 0.6, 4) for place in found if place.variant in ("FedAvg", "FedSAM")]
    results.save(tmp_path / "kept" / table.name, found, some)
    return tmp_path / "kept"


def test_parts_are_made(kept):
    new = page.updated(TEXT, kept)
    assert new.startswith("# Title\n\nWords.\n")
    assert new.endswith("<!-- end -->\n\nMore words.\n")
    assert "| FedAvg | 60.00 ± 0.50 | 60.00 ± 0.00 | 2 | +0.00 | yes |" in new
    assert "mixed" not in new
    assert page.updated(new, kept) == new
    assert page.differences(new, kept) == []


def test_another_statistic(kept):
    text = TEXT.replace("plain -->", "plain best_test_accuracy -->")
    assert "| 65.00 ± 0.00 |" in page.updated(text, kept)


def test_summary(kept):
    """By the last, the best and the mean of the last rounds, which are 0.05 apart."""
    text = "<!-- summary: fedsam_table1 plain -->\n<!-- end -->\n"
    new = page.updated(text, kept)
    # 60 beside 60 and 62: -1 on average, 1 without signs; no deviation over seeds at all.
    assert "| plain | last round | 1 of 2 | -1.00 | 1.00 | - |" in new
    assert "| plain | best round | 0 of 2 | +4.00 | 4.00 | - |" in new
    assert "| plain | mean of the last 10 | 0 of 2 | -6.00 | 6.00 | - |" in new
    assert "Outside of the noise:\n\n- plain, last round: FedSAM -2.00\n- plain, best" in new
    assert page.updated(new, kept) == new
    with pytest.raises(InputError, match="names no table"):
        page.updated("<!-- summary -->\n<!-- end -->\n", kept)


CURVES = "<!-- curves: fedsam_table1 plain -->\n<!-- end -->\n"


def test_curves(kept, tmp_path):
    """Of the first seed, as numbers and as a picture that knows which ones it is of."""
    assert "Not run." in page.updated(CURVES, kept)
    for name, last in (("fedavg", 0.5), ("fedsam", 0.75)):
        path = kept / "fedsam_table1" / f"{name}-plain-seed0.json"
        curve = [[n, last - 0.01 * (20 - n)] for n in range(1, 21)]
        path.write_text(json.dumps(json.loads(path.read_text()) | {"curve": curve}))
    new = page.updated(CURVES, kept)
    assert "](kept/curves/fedsam_table1-plain.png)" in new
    assert "| FedAvg | 32.00 | 34.00 |" in new
    (missing,) = page.differences(new, kept)
    assert "is not the picture of the curves" in missing
    file, picture = tmp_path / "page.md", kept / "curves" / "fedsam_table1-plain.png"
    file.write_text(CURVES)
    assert page.write(file, kept) == [file, picture]
    assert file.read_text() == new
    assert page.differences(new, kept) == []
    assert page.write(file, kept) == [file]
    path.write_text(path.read_text().replace("0.75", "0.76"))  # the last of FedSAM's
    assert page.differences(page.updated(CURVES, kept), kept) == [missing]
    for wrong in ("", ": fedsam_table1", ": fedsam_table1 plain mixed"):
        with pytest.raises(InputError, match="takes a table and one column"):
            page.updated(CURVES.replace(": fedsam_table1 plain", wrong), kept)


def test_flatness(tmp_path, monkeypatch):
    """One table a column; rows that are the best of some are told one by one; only what was run."""
    table = small_table(tmp_path)
    monkeypatch.setattr(tables, "find", lambda name: table)
    found = cells.places(table, tmp_path)
    sharpness = {"FedAvg": 0.4, "FedSAM": 0.1, "FedCM": 0.4, "SCAFFOLD": 0.7}
    some = []
    for place in found:
        if place.column == "plain" and place.variant in sharpness:
            one = result(place, 0.6)
            value = sharpness[place.variant] + 0.01 * place.seed
            one.last_round["sharpness"] = value + 0.001 * (place.variant == "FedSAM") * place.seed
            some.append(one)
    results.save(tmp_path / "kept" / table.name, found, some)
    text = "<!-- flatness: fedsam_table1 -->\n<!-- end -->\n"
    new = page.updated(text, tmp_path / "kept")
    head, *lines = [line for line in new.splitlines() if line.startswith("| ")]
    assert head.startswith("| method | seeds | sharpness: rise of the loss")
    assert lines == [
        "| FedAvg | 2 | 0.405 ± 0.007071 |",
        "| FedSAM | 2 | 0.1055 ± 0.007778 |",
        "| FedCM | 2 | 0.405 ± 0.007071 |",
        "| SCAFFOLD | 2 | 0.705 ± 0.007071 |",
    ]
    (note,) = [line for line in new.splitlines() if line.startswith("- ")]
    assert note.startswith("- sharpness minus that of FedAvg with the same seed")
    assert "FedSAM -0.2995 (-0.3059 to -0.2931)" in note  # t of one degree of freedom: 12.7
    assert "SCAFFOLD +0.3 (" in note
    assert "FedCM" not in note
    assert "fedsam_table1: mixed\n\nNot run." in new
    assert page.updated(new, tmp_path / "kept") == new
    with pytest.raises(InputError, match="names no table"):
        page.updated("<!-- flatness -->\n<!-- end -->\n", tmp_path)


CLAIMS = """claims:
  - {says: one, item: sharpness, rising: [[FedSAM, plain], [FedAvg, plain]]}
  - {says: two, item: sharpness, rising: [[FedAvg, plain], [FedSAM, plain]]}
  - {says: three, item: sharpness, rising: [[FedAvg, plain], [FedAvg, mixed]]}
"""


def test_claims(tmp_path, monkeypatch):
    """Numbers that should rise: on average, and in how many of the seeds that have them all."""
    table = small_table(tmp_path, TABLE + CLAIMS)
    monkeypatch.setattr(tables, "find", lambda name: table)
    sharpness = {("FedAvg", 0): 0.5, ("FedAvg", 1): 0.25, ("FedSAM", 0): 0.125, ("FedSAM", 1): 0.3}
    found = [p for p in cells.places(table, tmp_path) if p.column == "plain"]
    some = []
    for place in found:
        if (place.variant, place.seed) in sharpness:
            some.append(result(place, 0.6))
            some[-1].last_round["sharpness"] = sharpness[place.variant, place.seed]
    results.save(tmp_path / "kept" / table.name, found, some)
    new = page.updated("<!-- claims: fedsam_table1 -->\n<!-- end -->\n", tmp_path / "kept")
    lines = [line for line in new.splitlines() if line.startswith("| ")]
    title = "sharpness: rise of the loss after a step of length 0.1 uphill"
    low, high = "FedSAM, plain: 0.2125 ± 0.1237", "FedAvg, plain: 0.375 ± 0.1768"
    assert lines[1:] == [
        f"| one | {title} | {low}; {high} | on average, in 1 of 2 |",
        f"| two | {title} | {high}; {low} | not on average, in 1 of 2 |",
        f"| three | {title} | {high}; FedAvg, mixed: not run | not run |",
    ]
    with pytest.raises(InputError, match="takes the one table"):
        page.updated("<!-- claims -->\n<!-- end -->\n", tmp_path)


def test_surfaces(tmp_path):
    runs = [
        {"folder": f"a/{n}", "label": n, "loss": 0.5, "accuracy": 0.8, "ring": 0.75, "rise": rise}
        for n, rise in (("fedavg", 0.25), ("fedsam", -0.125))
    ]
    between = [{"from": "a/fedavg", "to": "a/fedsam", "barrier": 0.0625}]
    content = {"runs": runs, "between": between, "settings": {"ring_radius": 0.5}}
    (tmp_path / "around").mkdir()
    (tmp_path / "around" / "landscape.json").write_text(json.dumps(content))
    text = "<!-- surfaces: around -->\n<!-- end -->\n"
    new = page.updated(text, tmp_path)
    assert "| method | loss | accuracy, % | mean loss at 0.5 | rise |" in new
    assert "| fedavg | 0.5000 | 80.00 | 0.7500 | +0.2500 |" in new
    assert "| fedsam | 0.5000 | 80.00 | 0.7500 | -0.1250 |" in new
    assert "Barriers on the straight line: fedavg to fedsam 0.0625." in new
    assert page.differences(new, tmp_path) == []
    for wrong, told in (("", "takes the one folder"), ("gone", "landscape.json cannot be read")):
        with pytest.raises(InputError, match=told):
            page.updated(text.replace(": around", f": {wrong}" if wrong else ""), tmp_path)


def test_costs(tmp_path):
    """Printed for A by the paper: FedAvg 19.38, FedSAM 30.23, which is 1.56 times."""
    text = "<!-- costs: fedinit_table7 A costs/a.json -->\n<!-- end -->\n"
    folder = tmp_path / "reproduction"
    path = folder / "costs" / "a.json"
    path.parent.mkdir(parents=True)
    assert "fedinit_table7: A\n\nNot measured.\n" in page.updated(text, folder)
    header = ["method", "gradients a step", "W4: x FedAvg"]
    rows = [["fedavg", "1", "1.00"], ["fedsam", "2", "2.10"]]
    content = {"command": "python -m launch.bench", "cores": 2, "tensorflow": "2"}
    content["tables"] = {"algorithms": {"header": header, "rows": rows}}
    path.write_text(json.dumps(content))
    new = page.updated(text, folder)
    assert "| FedSAM | 30.23 | 1.56 | 2.10 | 2 |" in new
    assert "(reproduction/costs/a.json)" in new  # a link from the page
    assert page.differences(new, folder) == []
    for old, wrong in (("2.10", "2.20"), ("1.56", "1.55"), ("30.23", "30.32")):
        (found,) = page.differences(new.replace(f"| {old} |", f"| {wrong} |"), folder)
        assert wrong in found
    path.write_text(path.read_text().replace("2.10", "2.30"))
    assert any("2.30" in line for line in page.differences(new, folder))
    path.unlink()
    assert page.differences(new, folder)
    for wrong, told in (("A", "takes a table, one column"), ("cifar10 costs/a.json", "is several")):
        with pytest.raises(InputError, match=told):
            page.updated(text.replace("A costs/a.json", wrong), folder)


def test_a_changed_number_is_found(kept):
    new = page.updated(TEXT, kept)
    wrong = new.replace("60.00 ± 0.00 | 2", "61.00 ± 0.00 | 2", 1)
    assert wrong != new
    found = page.differences(wrong, kept)
    assert len(found) == 1
    assert "61.00" in found[0]
    assert page.differences(new + "a line\n", kept) == []  # words are free
    assert page.differences(new.replace("\nMore", "\nNo more"), kept) == []


def test_a_changed_result_is_found(kept):
    new = page.updated(TEXT, kept)
    path = kept / "fedsam_table1" / "fedavg-plain-seed0.json"
    content = json.loads(path.read_text())
    content["summary"]["test_accuracy"] = 0.1
    path.write_text(json.dumps(content))
    assert page.differences(new, kept)


def test_results_must_be_of_their_place(kept):
    path = kept / "fedsam_table1" / "fedavg-plain-seed0.json"
    path.rename(path.with_name("fedcm-plain-seed0.json"))
    with pytest.raises(InputError, match="is not of a run that fedsam_table1 has under this name"):
        page.updated(TEXT, kept)


@pytest.mark.parametrize("text", ["", "# Title\n", "<!-- measured: a -->\n"])
def test_a_page_without_parts_is_refused(text, kept):
    with pytest.raises(InputError, match="has no part"):
        page.updated(text, kept)


def test_the_page_of_the_manual_says_what_its_results_say():
    text = (ROOT / "docs/reproduction.md").read_text()
    assert page.differences(text, ROOT / "docs/reproduction") == []
