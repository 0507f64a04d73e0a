"""Curves of kept results."""

import dataclasses

import pytest

import tasks  # noqa: F401  makes the data sets known
from tests.reproduction.examples import result, small_table
from tf_fedsam.reproduction import cells, curves
from tf_fedsam.reproduction.comparison import compare

FIRST = tuple((n, n / 100) for n in range(1, 21))
SECOND = tuple((n, n / 50) for n in range(2, 21, 2))


@pytest.fixture
def found(tmp_path):
    """FedAvg with a test in every round, SCAFFOLD of the best of two in every second."""
    table = small_table(tmp_path)
    places = cells.places(table, tmp_path)
    known = {"FedAvg": FIRST, "SCAFFOLD": SECOND, "FedCM": ()}
    some = [
        dataclasses.replace(result(place, 0.5), curve=known[place.variant])
        for place in places
        if place.variant in known and place.column == "plain" and place.seed == 0
    ]
    return curves.of(compare(table, places, some), "plain")


def test_methods_that_have_a_curve(found):
    assert {name: entry.curve for name, entry in found.items()} == {
        "FedAvg": FIRST,
        "SCAFFOLD": SECOND,
    }
    assert [entry.algo for entry in found.values()] == ["fedavg", "scaffold"]


def test_grid(found):
    """Ten of the twenty rounds, the last among them; nothing where a method was not tested."""
    header, lines = curves.grid(found)
    assert header == ("method", *(str(n) for n in range(2, 21, 2)))
    assert lines[0] == ("FedAvg", *(f"{n}.00" for n in range(2, 21, 2)))
    assert lines[1] == ("SCAFFOLD", *(f"{2 * n}.00" for n in range(2, 21, 2)))
    odd = dataclasses.replace(found["SCAFFOLD"], curve=SECOND[:3])
    assert curves.grid({"SCAFFOLD": odd})[1] == [("SCAFFOLD", "4.00", "8.00", "12.00")]
    assert curves.grid({**found, "SCAFFOLD": odd})[1][1] == (
        *("SCAFFOLD", "4.00", "8.00", "12.00"),
        *["-"] * 7,
    )


def test_a_picture_knows_its_curves(found, tmp_path):
    path = tmp_path / "picture.png"
    assert curves.digest_of_picture(path) is None
    path.write_bytes(curves.picture(found, "Title"))
    assert path.read_bytes().startswith(b"\x89PNG")
    assert curves.digest_of_picture(path) == curves.digest(found)
    others = (
        {"FedAvg": found["FedAvg"]},
        {"FedAvg": found["FedAvg"], "FedDyn": found["SCAFFOLD"]},
        {**found, "FedAvg": dataclasses.replace(found["FedAvg"], curve=FIRST[1:])},
    )
    assert len({curves.digest(some) for some in (found, *others)}) == 4
