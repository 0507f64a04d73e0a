"""The algorithm of a run, with its plug-ins."""

from tf_fedsam.algorithms.dp import DP
from tf_fedsam.algorithms.fedsam import FedSAM
from tf_fedsam.algorithms.nesterov import Nesterov
from tf_fedsam.algorithms.relaxed_init import RelaxedInit
from tf_fedsam.algorithms.swa import SWA
from tf_fedsam.runs.algorithm import make_algorithm
from tf_fedsam.runs.config import RunConfig


def test_plug_ins():
    """Relaxed initialisation is inside: Nesterov's point is what it starts from."""
    config = RunConfig(algo="fedsam", relaxed_init=0.2, nesterov=0.7)
    made = make_algorithm(config.resolve())
    assert isinstance(made, Nesterov)
    assert isinstance(made.inner, RelaxedInit)
    assert isinstance(made.inner.inner, FedSAM)
    assert made.describe()["nesterov"] == 0.7
    assert made.describe()["relaxed_init"] == 0.2


def test_privacy_and_averaging_are_outside():
    """In this order: noise on what the method and the others make of it, the mean of that."""
    config = RunConfig(
        algo="fedsam",
        relaxed_init=0.2,
        nesterov=0.7,
        swa_cycle=2,
        swa_start=3,
        swa_lr=0.25,
        swa_collect="official",
        dp_clip_norm=0.3,
        dp_noise_multiplier=0.4,
        dp_clip_scope="tensor",
        dp_seed=5,
    )
    made = make_algorithm(config.resolve(), 7.0)
    assert isinstance(made, SWA)
    assert (made.cycle, made.start_round, made.end_lr) == (2, 3, 0.25)
    assert made.collect == "official"
    inner = made.inner
    assert isinstance(inner, DP)
    assert (inner.clip_norm, inner.noise_multiplier, inner.divisor) == (0.3, 0.4, 7.0)
    assert inner.scope == "tensor"
    assert inner._key == DP(FedSAM(), 1.0, divisor=1, seed=5)._key
    assert isinstance(inner.inner, Nesterov)
    assert isinstance(inner.inner.inner, RelaxedInit)


def test_server_lr():
    config = RunConfig(algo="fedavg", server_lr=0.5)
    assert make_algorithm(config.resolve()).server_lr == 0.5
