"""Epsilon against values of the package's own tests and of the literature's settings."""

import logging
import math
import sys

import pytest

from tf_fedsam import privacy
from tf_fedsam.errors import InputError
from tf_fedsam.privacy import Privacy

# noise multiplier, sampling rate, rounds, delta: epsilon by rdp and by pld. The first three are the
# settings of DP-FedSAM: 50 of 500 clients, 200 or 300 rounds, z = 0.95.
CHECKED = [
    (0.95, 0.1, 200, 2e-3, 8.579, 7.301),
    (0.95, 0.1, 300, 2e-3, 10.834, 9.373),
    (0.95, 0.1, 200, 5e-3, 7.820, 6.544),
    (1.0, 0.1, 100, 1e-5, 7.904, 7.047),
    (1.0, 1.0, 10, 1e-5, 19.054, 17.857),
    (2.0, 0.05, 1000, 1e-5, 4.024, 3.700),
]


@pytest.mark.parametrize("row", CHECKED)
def test_renyi(row):
    assert privacy.epsilon(*row[:4]) == pytest.approx(row[4], abs=0.01)


@pytest.mark.parametrize(
    "row", [*(pytest.param(row, marks=pytest.mark.slow) for row in CHECKED[:-1]), CHECKED[-1]]
)
def test_privacy_loss_distributions(row):
    assert privacy.epsilon(*row[:4], accountant="pld") == pytest.approx(row[5], abs=0.01)


def test_noise_for_a_target():
    """And back: the noise found has the epsilon that was asked for."""
    found = privacy.noise_for(8.0, 0.1, 100, 1e-5)
    assert found == pytest.approx(0.9937, abs=1e-4)
    assert privacy.epsilon(found, 0.1, 100, 1e-5) == pytest.approx(8.0, abs=1e-3)


def test_a_target_that_cannot_be():
    with pytest.raises(InputError, match=r"No noise gives dp_target_epsilon=-1.*larger") as caught:
        privacy.noise_for(-1.0, 0.1, 10, 1e-5)
    assert "dp_noise_multiplier" in caught.value.settings


def test_rounds_add_up():
    """More rounds and less noise are less private; none is private, and no noise is not."""
    after = [privacy.epsilon(1.0, 0.1, t, 1e-5) for t in range(5)]
    assert after[0] == 0
    assert after == sorted(after)
    assert len(set(after)) == 5
    assert privacy.epsilon(0.9, 0.1, 4, 1e-5) > after[4] > privacy.epsilon(1.0, 0.05, 4, 1e-5)
    assert privacy.epsilon(0.0, 0.1, 1, 1e-5) == math.inf


def test_in_words():
    assert Privacy(1.0, 1.0, 1e-5).words(10) == "epsilon 19.054 at delta 1e-05 after 10 rounds"
    assert Privacy(0.0, 1.0, 1e-5).words(10) == "none: there is no noise"
    unknown = Privacy(1.0, None, 1e-5)
    assert unknown.epsilon(10) is None
    assert unknown.words(10).startswith("not accounted: only for sampling=bernoulli")


def test_the_package_is_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(InputError, match=r"pip install 'tf-fedsam\[privacy\]'"):
        privacy.epsilon(1.234, 0.1, 10, 1e-5)


def test_orders_that_are_left_out_are_no_news(caplog):
    with caplog.at_level(logging.WARNING):
        privacy.epsilon(0.951, 0.1, 10, 1e-3)
    assert caplog.records == []
