"""How private a run is: epsilon and delta, by the package ``dp-accounting``.

One round adds normal noise to a sum in which each client is with probability ``sampling_rate``,
independently of the others, and changes it by at most 1 / ``noise_multiplier`` of the noise's
standard deviation. Two sets of clients are neighbours if one has a client more than the other.
"""

import contextlib
import dataclasses
import functools
import logging
import math
from collections.abc import Iterator
from typing import Any

from tf_fedsam.errors import InputError

NOT_ACCOUNTED = "not accounted"
WARNING = (
    "Warning: the noise of the privacy plug-in is made from a seed, so that the run can be "
    "repeated. Who knows the seed can take the noise away: a published seed is no privacy. The log "
    "and what the probes measure of the clients are not private either.\n"
)


@dataclasses.dataclass(frozen=True)
class Privacy:
    """What can be said of a run's privacy.

    Attributes:
        noise_multiplier: standard deviation of the noise over the largest change that one client
            can make.
        sampling_rate: the probability with which each client takes part in a round, independently
            of the others; ``None`` if rounds are not drawn like that.
        delta: the probability that is left out of epsilon.
    """

    noise_multiplier: float
    sampling_rate: float | None
    delta: float

    def epsilon(self, rounds: int) -> float | None:
        """After so many rounds; ``None`` if it is not accounted, infinite without noise."""
        if self.sampling_rate is None:
            return None
        return epsilon(self.noise_multiplier, self.sampling_rate, rounds, self.delta)

    def words(self, rounds: int) -> str:
        """The same for people."""
        if self.sampling_rate is None:
            return f"{NOT_ACCOUNTED}: only for sampling=bernoulli is there an honest epsilon"
        found = epsilon(self.noise_multiplier, self.sampling_rate, rounds, self.delta)
        if math.isinf(found):
            return "none: there is no noise"
        return f"epsilon {found:.3f} at delta {self.delta:.3g} after {rounds} rounds"


def epsilon(
    noise_multiplier: float,
    sampling_rate: float,
    rounds: int,
    delta: float,
    accountant: str = "rdp",
) -> float:
    """The privacy loss of so many rounds.

    Args:
        noise_multiplier: see :class:`Privacy`; 0 gives infinity.
        sampling_rate: see :class:`Privacy`.
        rounds: of training.
        delta: the probability that is left out.
        accountant: "rdp", or "pld", which is tighter and takes a second.
    """
    if rounds == 0:
        return 0.0
    if noise_multiplier == 0:
        return math.inf
    if accountant == "pld":
        pld = _accounting("pld")
        event = _rounds(noise_multiplier, sampling_rate, rounds)
        with _silent():
            return float(pld.PLDAccountant().compose(event).get_epsilon(delta))
    orders, of_one = _renyi(noise_multiplier, sampling_rate)
    return float(_accounting("rdp").compute_epsilon(orders, rounds * of_one, delta)[0])


@functools.cache
def noise_for(target_epsilon: float, sampling_rate: float, rounds: int, delta: float) -> float:
    """The noise multiplier with which so many rounds have this epsilon (by "rdp")."""
    accounting, rdp = _accounting(), _accounting("rdp")
    try:
        with _silent():
            found = accounting.calibrate_dp_mechanism(
                rdp.RdpAccountant,
                lambda z: _rounds(z, sampling_rate, rounds),
                target_epsilon,
                delta,
            )
    except (ValueError, accounting.mechanism_calibration.NoBracketIntervalFoundError) as error:
        raise InputError(
            f"No noise gives dp_target_epsilon={target_epsilon:g} at delta={delta:g} after "
            f"{rounds} rounds: {error} Use a larger dp_target_epsilon, or dp_noise_multiplier.",
            *("dp_target_epsilon", "dp_noise_multiplier"),
        ) from None
    return float(found)


@functools.cache
def _renyi(noise_multiplier: float, sampling_rate: float) -> tuple[Any, Any]:
    """The orders, and the Renyi divergence of one round for each; rounds add up."""
    with _silent():
        accountant = _accounting("rdp").RdpAccountant()
        accountant.compose(_rounds(noise_multiplier, sampling_rate, 1))
    return accountant.orders, accountant.rdp


def _rounds(noise_multiplier: float, sampling_rate: float, rounds: int) -> Any:
    accounting = _accounting()
    event = accounting.GaussianDpEvent(noise_multiplier)
    if sampling_rate < 1:
        event = accounting.PoissonSampledDpEvent(sampling_rate, event)
    return accounting.SelfComposedDpEvent(event, rounds)


def _accounting(part: str = "") -> Any:
    """The package, or a part of it; it is loaded when it is first needed."""
    try:
        import dp_accounting
        from dp_accounting import pld, rdp
    except ImportError:
        raise InputError(
            "Epsilon needs the package dp-accounting, which is not installed. Install it: "
            "pip install 'tf-fedsam[privacy]'."
        ) from None
    return {"": dp_accounting, "pld": pld, "rdp": rdp}[part]


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """The package warns of orders that it leaves out, which makes epsilon no smaller."""
    logger = logging.getLogger("absl")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
