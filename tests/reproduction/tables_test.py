"""The tables of the papers: every one can be run, and its numbers are those that are printed."""

import math
import pathlib

import pytest

import tasks  # noqa: F401  makes the data sets known
from tests.reproduction.examples import TEXT, small_table
from tf_fedsam.errors import InputError
from tf_fedsam.reproduction import tables
from tf_fedsam.reproduction.tables import Number

PAPERS = {
    "FedSAM": (1, 2, 4, 5),
    "FedNSAM": (2, 3, 4, 5, 6),
    "FedWMSAM": (1, 2, 3, 4, 5, 6, 9),
    "FedInit": (4, 5, 6, 7, 8),
}


def test_all_tables_are_there():
    expected = {f"{paper.lower()}_table{n}" for paper, some in PAPERS.items() for n in some}
    own = {"fedwmsam_calibration", "fedwmsam_readings", "fedinit_plugins", "fednsam_plugins"}
    assert set(tables.names()) == expected | own | {"fednsam_lenet5", "fednsam_flatness"}
    assert tables.names()[:4] == [f"fedsam_table{n}" for n in PAPERS["FedSAM"]]


@pytest.mark.parametrize("name", tables.names())
def test_a_table_is_whole(name):
    table = tables.find(name)
    assert table.name == name
    assert name.startswith(table.paper.lower())
    assert table.open
    assert table.assumed
    assert all(len(why) > 10 for why in table.suspect.values())
    there = {(row, column) for row, column, _ in table.printed}
    for row in table.rows.values() if there else ():  # a question of ours has nothing printed
        assert row.beyond == (row.name not in {r for r, _ in there})
        for column in table.columns:
            printed = (row.name, column) in there
            assert row.beyond or printed or column == "all_domains" or table.order_only
    for (_, column, item), number in table.printed.items():
        if number.value is not None and item in tables.SHARES:
            assert 0 < number.value < 1
        if number.value is not None and item == "rounds":
            limit = table.settings.get("rounds", table.columns[column].settings.get("rounds"))
            assert 1 <= number.value <= limit
        if number.sd is not None:
            assert 0 < number.sd < 0.01  # over seeds, none is above one per cent


@pytest.mark.parametrize(
    ("name", "row", "column", "item", "value"),
    [
        ("fedwmsam_table1", "FedAvg", "fashion_mnist_dir0.6", "accuracy", 0.8684),
        ("fedwmsam_table1", "FedWMSAM", "fashion_mnist_path3", "accuracy", 0.8531),
        ("fedwmsam_table1", "FedLESAM", "fashion_mnist_dir0.1", "accuracy", 0.8375),
        ("fedwmsam_table1", "FedGAMMA", "cifar100_path10", "accuracy", 0.0198),
        ("fedwmsam_table3", "FedWMSAM", "0.76", "rounds", 241),
        ("fedwmsam_table3", "MoFedSAM", "seconds", "seconds", 29.73),
        ("fedwmsam_table4", "FedSMOO", "1_epochs", "accuracy", 0.7888),
        ("fedwmsam_table9", "alpha_step=0.005", "0.78", "rounds", 382),
        ("fedsam_table1", "MoFedSAM", "cifar100", "validation", 0.5660),
        ("fedsam_table2", "FedSAM", "dir0.3", "rounds", 816),
        ("fednsam_table2", "FedNSAM", "cifar10_lenet5", "accuracy", 0.8382),
        ("fednsam_table4", "FedAvgM", "p2", "accuracy", 0.1572),
        ("fednsam_table6", "FedSAM+Nesterov", "dir0.6", "rounds", 482),
        ("fedinit_table4", "FedInit", "vgg11_B_dir0.1", "accuracy", 0.7973),
        ("fedinit_table6", "SCAFFOLD+RI", "resnet18_A_dir0.1", "accuracy", 0.7730),
        ("fedinit_table7", "FedInit", "A", "seconds", 20.41),
        ("fedinit_table8", "FedCM", "lower", "rounds", 95),
    ],
)
def test_printed_numbers(name, row, column, item, value):
    assert tables.find(name).printed[row, column, item].value == pytest.approx(value)


def test_the_same_run_has_the_same_numbers_in_two_tables():
    """Where papers print a run twice; contradictions are marked as suspect."""
    pairs = [
        (("fednsam_table4", "dir0.6"), ("fednsam_table4", "p10")),
        (("fednsam_table4", "dir0.6"), ("fednsam_table2", "cifar100_resnet18")),
        (("fednsam_table4", "dir0.1"), ("fednsam_table5", "dir0.1")),
        (("fedinit_table4", "resnet18_A_dir0.1"), ("fedinit_table6", "resnet18_A_dir0.1")),
        (("fedwmsam_table1", "cifar10_dir0.1"), ("fedwmsam_table4", "5_epochs")),
        (("fedsam_table1", "emnist"), ("fedsam_table4", "dir0.6")),
    ]
    for (first, a), (second, b) in pairs:
        one, other = tables.find(first), tables.find(second)
        rows = set(one.rows) & set(other.rows)
        assert rows
        for row in rows:
            for item in ("accuracy", "validation"):
                numbers = [t.printed.get((row, c, item)) for t, c in ((one, a), (other, b))]
                if None in numbers or any((row, b) in t.suspect for t in (one, other)):
                    continue
                assert numbers[0].value == numbers[1].value, (first, second, row)


# Reading.


def test_reading(tmp_path):
    table = small_table(tmp_path)
    assert table.heading == "FedSAM, Table 1: a small one"
    assert table.printed["FedAvg", "plain", "accuracy"] == Number(0.6, pytest.approx(0.005))
    assert table.printed["FedAvg", "plain", "rounds"] == Number(30)
    assert table.printed["FedAvg", "mixed", "rounds"] == Number(not_within=7)
    assert table.printed["FedSAM", "mixed", "rounds"] == Number(not_within=math.inf)
    assert not table.printed["FedCM", "mixed", "accuracy"].is_there
    assert table.printed["FedSAM", "mixed", "rounds"].is_there
    assert table.suspect == {
        ("FedCM", "plain"): "it is too good",
        ("FedCM", "mixed"): "it is too good",
    }
    assert table.columns["plain"].seeds == (0, 1)
    assert table.columns["mixed"].seeds == (0,)
    assert table.rows["FedInit"].beyond
    assert list(table.rows["Best"].variants) == ["FedLESAM", "SCAFFOLD"]


def test_settings_of_a_row_win(tmp_path):
    table = small_table(tmp_path)
    column = table.columns["plain"]
    values = table.values({"algo": "fedsam", "rounds": 3, "partition": "shards"}, column, 5)
    assert values["seed"] == 5
    assert values["rounds"] == 3
    assert values["partition"] == "shards"
    assert values["num_clients"] == 5
    assert values["dataset"] == "glyphs"


def test_choosing(tmp_path):
    table = small_table(tmp_path)
    assert [c.name for c in table.chosen_columns()] == ["plain", "mixed"]
    assert [c.name for c in table.chosen_columns(["mi"])] == ["mixed"]
    assert [c.name for c in table.chosen_columns(["glyphs"])] == ["plain", "mixed"]
    assert [r.name for r in table.chosen_rows(["scaffold", "FedAvg"])] == ["FedAvg", "Best"]
    # The beginning of two names and the data set of one of them.
    two = small_table(tmp_path, TEXT.replace("mixed", "glyphs_x").replace("glyphs,", "mnist,", 1))
    assert [c.name for c in two.chosen_columns(["glyphs"])] == ["glyphs_x"]
    with pytest.raises(InputError, match="Unknown column of fedsam_table1 'cifar'"):
        table.chosen_columns(["cifar"])
    with pytest.raises(InputError, match="Unknown row"):
        table.chosen_rows(["FedAvgg"])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("number: 1", "nummer: 1", "Unknown key of fedsam_table1.yaml 'nummer'"),
        ("unit: percent", "unit: permille", "Unknown unit"),
        ("paper: FedSAM", "paper: FedXYZ", "Unknown paper"),
        ("cell: [accuracy, sd, rounds]", "cell: [accuracy, sd, loss]", "Unknown item of a cell"),
        ("statistic: test_accuracy\n", "", "lacks statistic"),
        (", target: 0.5}", "}", "counts rounds to no target"),
        ("[60.0, 0.5, 30]", "[60.0, 30]", "must hold accuracy, sd, rounds"),
        ("FedAvg: {plain", "FedAvk: {plain", "Unknown row"),
        ("mixed: [50.0", "maxed: [50.0", "Unknown column"),
        ('">7"', '"7+"', "must be a number or >ROUNDS"),
        ("rows: [FedCM]", "rows: [FedCN]", "Unknown row"),
        ("suspect:", "pairs: [[FedCM, FedAvg, FedSAM]]\nsuspect:", "a pair has two rows"),
        ("suspect:", "pairs: [[FedCM, FedAvk]]\nsuspect:", "Unknown row"),
        *(
            (
                "suspect:",
                f"claims: [{{says: a, item: {item}, rising: {places}}}]\nsuspect:",
                message,
            )
            for item, places, message in (
                ("best", "[[FedCM, plain]]", "rising with two places or more"),
                ("worst", "[[FedCM, plain], [FedAvg, plain]]", "Unknown item of a claim"),
                ("best", "[[FedCN, plain], [FedAvg, plain]]", "Unknown row"),
                ("best", "[[FedCM, plane], [FedAvg, plain]]", "Unknown column"),
            )
        ),
        ("{dataset: glyphs, settings: {partition: iid}", "{data: glyphs", "Unknown key of the col"),
    ],
)
def test_wrong_files_are_refused(tmp_path, old, new, message):
    assert old in TEXT
    with pytest.raises(InputError, match=message):
        small_table(tmp_path, TEXT.replace(old, new, 1))


def test_unknown_table():
    with pytest.raises(InputError, match="Unknown table 'fedsam_table3'"):
        tables.find("fedsam_table3")


def test_the_files_are_in_the_wheel():
    text = (pathlib.Path(tables.__file__).parents[2] / "pyproject.toml").read_text()
    assert '"tf_fedsam.reproduction" = ["papers/*.yaml"]' in text
