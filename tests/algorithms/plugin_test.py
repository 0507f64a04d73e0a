"""A plug-in is its inner algorithm but for what it changes."""

import copy
import pickle

import pytest

from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.algorithms.dp import DP
from tf_fedsam.algorithms.fedsam import FedSAM
from tf_fedsam.algorithms.nesterov import Nesterov
from tf_fedsam.algorithms.plugin import Plugin
from tf_fedsam.algorithms.registry import all_algorithms
from tf_fedsam.algorithms.relaxed_init import RelaxedInit
from tf_fedsam.algorithms.swa import SWA


class Halving(Plugin):
    def round_lr(self, lr, round_num):
        return self.inner.round_lr(lr, round_num) / 2


# The contract: what the engine and the process ask of an algorithm.
CONTRACT = [name for name in vars(Algorithm) if not name.startswith("_")]


@pytest.mark.parametrize("name", sorted(all_algorithms()))
def test_what_it_does_not_change_is_the_inner_ones(name):
    inner = all_algorithms()[name]()
    plugin = Plugin(inner)
    assert len(CONTRACT) > 30
    for part in CONTRACT:
        assert getattr(plugin, part) == getattr(inner, part), part
    assert plugin.hparams is inner.hparams
    assert plugin.server_lr == inner.server_lr


def test_what_it_changes():
    plugin = Halving(FedSAM(rho=0.2))
    assert plugin.round_lr(0.4, 3) == 0.2
    assert plugin.describe() == {"rho": 0.2}
    assert plugin.name == "fedsam"


def test_they_nest():
    """Each adds to what those inside it say."""
    plugin = Halving(Nesterov(RelaxedInit(FedSAM(rho=0.2), 0.3), 0.4))
    assert plugin.describe() == {"rho": 0.2, "relaxed_init": 0.3, "nesterov": 0.4}
    assert plugin.client_state == ("last_model",)
    assert plugin.round_lr(1.0, 0) == 0.5
    assert plugin.Client is FedSAM.Client


def test_all_of_them_nest():
    """From the inside out: start, extrapolation, privacy, mean of models."""
    inner = Nesterov(RelaxedInit(FedSAM(rho=0.2), 0.3), 0.4)
    plugin = SWA(DP(inner, 0.5, 1.0, divisor=7), cycle=1, start=2)
    assert list(plugin.describe()) == [
        *("rho", "relaxed_init", "nesterov", "dp_clip_norm", "dp_noise_multiplier", "dp_divisor"),
        *("dp_clip_scope", "swa_cycle", "swa_start", "swa_collect"),
    ]
    assert (plugin.uploads, plugin.means, plugin.totals) == (("delta",), (), ("delta",))
    assert plugin.acts_alone
    assert plugin.client_state == ("last_model",)


def test_what_nobody_has_is_an_error():
    with pytest.raises(AttributeError, match="nothing"):
        _ = Halving(FedSAM()).nothing


def test_it_can_be_copied():
    """Before ``inner`` is set there is nothing to ask."""
    plugin = Halving(FedSAM(rho=0.2))
    for other in (copy.copy(plugin), copy.deepcopy(plugin), pickle.loads(pickle.dumps(plugin))):
        assert other.hparams == plugin.hparams
