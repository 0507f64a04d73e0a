"""What a report's sections are compared by, drawn with and called."""

import pytest

from tests.comparison.runs import group, run
from tests.report.in_memory import section, two_by_two
from tf_fedsam import looks
from tf_fedsam.errors import InputError
from tf_fedsam.report.sections import MOST_CURVES, dataset_title, make_sections, section_title


def test_baseline_and_target():
    """All reached 10 % and one not 25 %: 20 % is the highest multiple of 5 %."""
    found = two_by_two()
    assert found.baseline.label == "FedAvg"
    assert list(found.targets) == [0.2]
    assert not found.targets_given
    given = section(run("fedavg"), run("fedsam"), targets=(0.5, 0.7))
    assert (given.targets, given.targets_given) == ((0.5, 0.7), True)


def test_a_single_series_is_compared_with_nothing():
    alone = section(run("fedavg", 0), run("fedavg", 1))
    assert alone.baseline is None
    assert section(run(accuracies=(0.01,))).targets == ()  # 0 % tells nothing


def many(count):
    """Series with accuracies 0.01, 0.02, ...: the baseline is the worst of them."""
    others = [run("fedsam", 0, (0.01 * i,), lr=float(i)) for i in range(2, count + 1)]
    return [run("fedavg", 0, (0.01,)), *others]


def test_the_best_are_drawn_and_the_baseline():
    found = section(*many(6), max_curves=3)
    assert [s.label for s in found.drawn] == ["FedSAM lr=6", "FedSAM lr=5", "FedAvg lr=0.1"]
    own = [looks.style(name) for name in ("fedsam", "fedavg")]
    styles = list(found.styles.values())
    assert styles[::2] == own
    assert styles[1] % 8 == own[0] % 8  # the same method, another look
    assert styles[1] != own[0]


@pytest.mark.parametrize("max_curves", [0, MOST_CURVES + 1])
def test_lines_that_could_not_be_told_apart(max_curves):
    with pytest.raises(InputError, match=f"max_curves must be 1 to {MOST_CURVES}"):
        section(run(), max_curves=max_curves)


def sections(*groups):
    return make_sections(groups, [g.complete[0] for g in groups], None)


def test_a_label_has_one_style_everywhere():
    one = group(run("fedavg", 0, (0.1,)), run("fedsam", 0, (0.2,)))
    two = group(run("fedavg", 0, (0.9,), alpha=7), run("fedsam", 0, (0.2,), alpha=7))
    first, second = sections(one, two)
    assert first.styles == second.styles
    assert first.styles == {"FedSAM": looks.style("fedsam"), "FedAvg": looks.style("fedavg")}


def test_with_too_many_labels_each_section_has_its_own_styles():
    groups = [
        group(*(run("fedsam", 0, (0.1,), lr=float(base + i), alpha=base) for i in range(8)))
        for base in (1, 100)
    ]
    for found in sections(*groups):
        assert len(set(found.styles.values())) == 8
        assert looks.style("fedsam") in found.styles.values()


def test_titles():
    found = section(run(partition="iid", accuracies=(0.1, 0.2)))
    assert section_title(found, {}) == "mnist, iid split, mlp, 2 rounds"
    titles = {"mnist": "MNIST (digits)"}
    assert dataset_title(found, titles) == "MNIST"
    assert section_title(found, titles).startswith("MNIST, ")


def test_sections_of_the_same_title_are_told_apart():
    one, two = group(run(participation=0.1)), group(run(participation=0.5))
    names = [section_title(s, {}) for s in sections(one, two)]
    assert len(set(names)) == 2
    assert "0.1" in names[0]
    assert "0.5" in names[1]


def test_titles_are_one_line_of_text():
    hostile = section(run(model="a\nb\x1b[31m"))
    assert section_title(hostile, {}).isprintable()
