"""One look for a method everywhere, and no two series of a picture with the same."""

import itertools

import pytest

from tests.report.style_test import contrast
from tf_fedsam import looks
from tf_fedsam.algorithms.registry import all_algorithms


def look(style):
    return looks.colour(style), looks.dashes(style), looks.marker(style)


def test_a_method_has_its_own_look():
    known = {name: look(looks.style(name)) for name in looks._KNOWN}
    assert set(looks._KNOWN) == set(all_algorithms())
    assert len(set(known.values())) == len(known)


def test_methods_that_are_compared_often_have_different_hues():
    often = ("fedavg", "fedsam", "mofedsam", "fednsam", "scaffold", "fedlesam", "fedsmoo")
    assert len({looks.style(name) % looks.NUM_HUES for name in often}) == len(often)
    for name in ("fedlesam", "fednsam"):
        family = [looks.style(name + end) % looks.NUM_HUES for end in ("", "_s", "_d")]
        assert len(set(family)) == 3


def test_unknown_methods_have_one_by_their_name():
    """SHA-256 of "fedmine" begins with the bytes 57 and 238: 57 % 8 = 1, 238 % 4 = 2."""
    assert looks.style("fedmine") == 1 + 8 * 2
    assert looks.style("a/b.py:FedMine") == looks.style("other.py:FedMine") == 1 + 8 * 2
    assert looks.style("\ud800") < looks.NUM_HUES * looks.NUM_VARIANTS


def test_series_of_a_method_share_its_hue():
    found = looks.styles(["fedsam", "fedavg", "fedsam", "fedadam", "fedsam"])
    assert found[0] == looks.style("fedsam")
    assert found[1] == looks.style("fedavg")
    assert found[3] == looks.style("fedadam")  # has the same hue, and nobody takes its look
    assert {s % looks.NUM_HUES for s in (found[0], found[2], found[3], found[4])} == {0}
    assert len({look(s) for s in found}) == 5


def test_names_of_the_same_look_are_told_apart():
    names = [f"own{i}" for i in range(200)]
    found = looks.styles(names)
    assert [s % 8 for s in found] == [looks.style(n) % 8 for n in names]
    assert len({look(s) for s in found}) == 200


def test_all_styles_differ():
    every = range(looks.NUM_HUES * looks.NUM_VARIANTS)
    assert len({look(s) for s in every}) == len(every) == 512
    more = looks.styles(["fedsam"] * (looks.NUM_VARIANTS + 3))  # then they begin again
    assert len(set(more)) == looks.NUM_VARIANTS


@pytest.mark.parametrize(
    ("colours", "paper"), [(looks.COLOURS, "#ffffff"), (looks.DARK_COLOURS, "#14171d")]
)
def test_colours_are_seen(colours, paper):
    assert len(set(colours)) == len(colours) == 2 * looks.NUM_HUES
    assert min(contrast(colour, paper) for colour in colours) > 3


def dichromat(colour, kind):
    """How a dichromat sees a colour in linear RGB, after Vienot, Brettel and Mollon (1999)."""
    rgb = [(int(colour[i : i + 2], 16) / 255) ** 2.2 for i in (1, 3, 5)]
    red, green, blue = rgb
    if kind == "protan":
        yellow = 0.1124 * red + 0.8876 * green
        return yellow, yellow, 0.004 * red - 0.004 * green + blue
    yellow = 0.2929 * red + 0.7071 * green
    return yellow, yellow, -0.0223 * red + 0.0223 * green + blue


@pytest.mark.parametrize("hues", [looks.HUES, looks.DARK_HUES])
@pytest.mark.parametrize("kind", ["protan", "deutan"])
def test_hues_are_told_apart_with_any_colour_vision(kind, hues):
    """No two come closer than a twelfth of the range in what is left to see."""
    for a, b in itertools.combinations(hues, 2):
        seen = zip(dichromat(a, kind), dichromat(b, kind), strict=True)
        assert max(abs(max(x, 0) ** (1 / 2.2) - max(y, 0) ** (1 / 2.2)) for x, y in seen) > 1 / 12


def test_for_matplotlib():
    told = looks.line("fedavg", points=60)
    assert told == {
        "color": "#6b6b6b",
        "linestyle": "solid",
        "marker": "*",
        "markersize": pytest.approx(6.8),  # 1.7 of 4
        "markevery": (7, 10),  # every tenth of 60 points
    }
    assert looks.line(looks.style("fedavg"))["markevery"] == 1
    assert looks.line("scaffold")["linestyle"] == (0, (6, 2.5))
    assert looks.line("scaffold", size=3)["markersize"] == 3
