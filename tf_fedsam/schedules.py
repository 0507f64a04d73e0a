"""How a number changes from round to round: the learning rate, and the radius of perturbations.

A schedule gives the factor of round t = 0, 1, ...; with W warm-up rounds and s = t - W,

    t < W          (t + 1) / (W + 1)                         a straight line up to 1
    constant       1
    exponential    decay ** s
    step           step_factor ** floor(s / step_rounds)
    linear         1 - (1 - final) * p                       p = min(1, s / (rounds - W))
    cosine         final + (1 - final) * (1 + cos(pi p)) / 2

The first round after the warm-up has factor 1. ``final`` is what the round after the last one would
have, so that no round is spent at a rate of zero; rounds beyond ``rounds`` have it.
"""

import dataclasses
import math

from tf_fedsam import checks
from tf_fedsam.errors import InputError

KINDS = ("exponential", "cosine", "constant", "step", "linear")
WITH_AN_END = ("cosine", "linear")


@dataclasses.dataclass(frozen=True)
class Schedule:
    """The factor of a number in every round.

    Attributes:
        name: of the number, for messages: "lr" or "rho".
        kind: one of ``KINDS``.
        warmup_rounds: rounds of a straight line up to the first full value.
        decay: factor from round to round, if exponential.
        step_rounds: rounds between two steps.
        step_factor: of a step.
        final_factor: what linear and cosine schedules end at.
        rounds: when they end.
    """

    name: str
    kind: str
    warmup_rounds: int = 0
    decay: float = 1.0
    step_rounds: int = 50
    step_factor: float = 0.1
    final_factor: float = 0.0
    rounds: int | None = None

    def __post_init__(self):
        name = self.name
        checks.choice(f"{name}_schedule", self.kind, KINDS)
        checks.whole(f"{name}_warmup_rounds", self.warmup_rounds, "[0, inf)")
        checks.number(f"{name}_decay", self.decay, "(0, 1]")
        checks.whole(f"{name}_step_rounds", self.step_rounds)
        checks.number(f"{name}_step_factor", self.step_factor, "(0, inf)")
        checks.number(f"{name}_final_factor", self.final_factor, "[0, inf)")
        if self.rounds is not None:
            checks.whole("schedule_rounds", self.rounds)
        if self.kind in WITH_AN_END:
            self._check_length()

    @property
    def is_constant(self) -> bool:
        """Whether the factor is always 1."""
        return self.kind == "constant" and self.warmup_rounds == 0

    def factor(self, round_num: int) -> float:
        """The factor of a round, counted from 0."""
        since = round_num - self.warmup_rounds
        if since < 0:
            return (round_num + 1) / (self.warmup_rounds + 1)
        if self.kind == "exponential":
            return self.decay**since
        if self.kind == "step":
            return self.step_factor ** (since // self.step_rounds)
        if self.kind in WITH_AN_END:
            assert self.rounds is not None
            left = 1 - min(1.0, since / (self.rounds - self.warmup_rounds))
            if self.kind == "cosine":
                left = (1 - math.cos(math.pi * left)) / 2
            return self.final_factor + (1 - self.final_factor) * left
        return 1.0

    def _check_length(self) -> None:
        name = self.name
        if self.rounds is None:
            raise InputError(
                f"{name}_schedule={self.kind} ends after so many rounds. Received: no "
                f"schedule_rounds. Give the number of rounds.",
                *(f"{name}_schedule", "schedule_rounds"),
            )
        checks.require(
            self.warmup_rounds < self.rounds,
            f"{name}_warmup_rounds",
            self.warmup_rounds,
            f"fewer than the {self.rounds} rounds of the schedule",
        )
