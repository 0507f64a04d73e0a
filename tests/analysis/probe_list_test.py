"""Which probes there are."""

import re

from tf_fedsam.analysis import probe_list, probes
from tf_fedsam.analysis.probe_list import DEFAULT, NAMES, ONLY_FOR, PROBES
from tf_fedsam.runs.config import SETTINGS


def test_the_default_is_cheap():
    """What costs more than a pass over the examples has to be asked for."""
    assert DEFAULT == ("clients", "confusion", "sharpness")


def test_each_is_described():
    for name, facts in PROBES.items():
        assert facts.help.endswith("."), name
        assert facts.cost, name
        assert f"    {name} " in probes.__doc__


def test_settings_of_probes():
    assert ONLY_FOR["probe_clients"] == ("flatness", "personal")
    assert ONLY_FOR["accuracy_clients"] == ("clients",)
    assert ONLY_FOR["eigenvalues"] == ("hessian",)
    assert set(ONLY_FOR) <= set(SETTINGS)
    for name in ONLY_FOR:
        assert SETTINGS[name].free  # looking at more or less is no other run
        assert SETTINGS[name].since


def test_names():
    assert tuple(PROBES) == NAMES
    assert len(set(NAMES)) == len(NAMES)


def test_those_that_are_measured_are_those_that_are_told_of():
    documented = re.findall(r"^    (\w+)  +\w", probes.__doc__, re.MULTILINE)
    assert documented == list(probe_list.NAMES) == list(probes.NAMES)


def test_what_is_needed():
    for facts in PROBES.values():
        assert not facts.needs or facts.needs.partition("=")[0] in SETTINGS
