"""The numbers of a log that are drawn."""

import pathlib
import re

import numpy as np

from tests.comparison.fake_runs import diagnostics, make_records, probes
from tf_fedsam.report.measures import ACCURACY, CHARTS, Measure, measure

LOG_PAGE = pathlib.Path(__file__).parents[2] / "docs/reference/log.md"
DRAWN = [m.name for _, measures in CHARTS.values() for m in measures]


def test_each_is_drawn_once():
    assert len(set(DRAWN)) == len(DRAWN)


def test_they_are_numbers_of_the_log():
    """Those of any run, or what the manual says that a probe logs."""
    own = np.random.default_rng(0)
    logged = {*make_records("fedsam", 0, 1, 1, 0, None, 3, False)[0]}
    logged |= {*diagnostics("fedsam", 0.5, own), *probes(0.5, 0.5, own, 3)}
    documented = re.findall(r"`(\w+)`", LOG_PAGE.read_text())
    assert set(DRAWN) <= logged | set(documented)
    assert "sharpness_local_on_own" in DRAWN


def test_of_any_number():
    assert measure("test_accuracy") is ACCURACY
    assert measure("dispersion").log
    assert measure("momentum_norm") == Measure("momentum_norm", "Momentum norm")
    assert measure("client_train_accuracy_std").percent
