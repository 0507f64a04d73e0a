"""How clients train: the settings that every method shares."""

import dataclasses

from tf_fedsam import checks
from tf_fedsam.errors import InputError
from tf_fedsam.schedules import Schedule


@dataclasses.dataclass(frozen=True)
class TrainingOptions:
    """Local training and aggregation; the defaults are those of the published code.

    Attributes:
        batch_size: examples a local step.
        local_epochs: passes over a client's examples in a round.
        local_steps: if given, so many local steps instead of ``local_epochs``.
        lr: local learning rate of round 0.
        lr_schedule: how the local learning rate changes from round to round, see
            ``tf_fedsam.schedules``: "exponential", "cosine", "constant", "step" or "linear".
        lr_decay: factor of the local learning rate from round to round, if exponential.
        lr_warmup_rounds: rounds in which the rate rises to ``lr``, before the schedule begins.
        lr_step_rounds: rounds between two steps of the rate, if it goes in steps.
        lr_step_factor: factor of a step.
        lr_final_factor: share of ``lr`` that cosine and linear schedules end at.
        rho_schedule: how the radius ``rho`` of methods that have one changes; as for the rate.
        rho_decay: its factor from round to round, if exponential.
        rho_warmup_rounds: rounds in which it rises to ``rho``, before the schedule begins.
        rho_step_rounds: rounds between two of its steps.
        rho_step_factor: factor of a step.
        rho_final_factor: share of ``rho`` that cosine and linear schedules end at.
        schedule_rounds: rounds that cosine and linear schedules take; needed by them.
        local_momentum: of the local steps: v <- local_momentum * v + direction, w <- w - lr * v.
        local_momentum_state: "reset": v begins every round at zero; "keep": a client goes on with
            its own.
        weight_decay: coefficient of the decay, added after clipping.
        clip_norm: global norm the corrected gradient is clipped to; 0 or ``None`` does not clip.
        clip_scope: "full" clips gradient and correction together; "official" leaves the half
            ``lamb * w`` of a proximal term unclipped, as the published code of FedProx, FedDyn,
            FedSpeed, FedSMOO and FedLESAM-D does through its weight decay.
        weighting: "uniform" mean over the cohort, or by number of "samples".
        norm_state: BatchNorm statistics: the server takes the "average" of the cohort's, or does
            "keep_server": its own stay as they were initially, or they stay "local": each client
            goes on with its own, and the server's average serves to test the model only.
        precision: what the network computes in, "float32", "bfloat16" or "float16"; weights,
            updates and all server arithmetic are float32.
        microbatch: if given, a batch's gradient is added up over parts of so many examples.
        remat: whether the blocks of a network compute their activations again in the backward
            pass, which needs less memory; see ``tf_fedsam.models.remat``.
        xla: whether local steps are compiled by XLA; sums are then rounded otherwise, and dropout
            draws other masks.
        wave: if a method keeps something for each client, at most so many of a cohort's clients
            have it in memory at a time, besides what the store keeps; results are the same. One
            device takes fewer of a large model.
        diagnostics: whether rounds tell how far apart the local models are and whether the clients
            agree (see ``tf_fedsam.diagnostics``); it needs room for two more models a device.
        keep_local_models: whether every client's last local model is kept, for the divergence over
            all clients.
    """

    batch_size: int = 50
    local_epochs: int = 5
    local_steps: int | None = None
    lr: float = 0.1
    lr_decay: float = 0.998
    lr_schedule: str = "exponential"
    lr_warmup_rounds: int = 0
    lr_step_rounds: int = 50
    lr_step_factor: float = 0.1
    lr_final_factor: float = 0.0
    rho_schedule: str = "constant"
    rho_decay: float = 0.998
    rho_warmup_rounds: int = 0
    rho_step_rounds: int = 50
    rho_step_factor: float = 0.1
    rho_final_factor: float = 0.0
    schedule_rounds: int | None = None
    local_momentum: float = 0.0
    local_momentum_state: str = "reset"
    weight_decay: float = 1e-3
    clip_norm: float | None = 10.0
    clip_scope: str = "full"
    weighting: str = "uniform"
    norm_state: str = "average"
    precision: str = "float32"
    microbatch: int | None = None
    remat: bool = False
    xla: bool = False
    wave: int = 100
    diagnostics: bool = True
    keep_local_models: bool = False

    def __post_init__(self):
        if self.clip_norm == 0:
            object.__setattr__(self, "clip_norm", None)
        checks.whole("batch_size", self.batch_size)
        checks.whole("local_epochs", self.local_epochs)
        if self.local_steps is not None:
            checks.whole("local_steps", self.local_steps)
        checks.number("lr", self.lr, "[0, inf)")
        self._schedule("lr"), self._schedule("rho")
        checks.number("local_momentum", self.local_momentum, "[0, 1)")
        checks.choice("local_momentum_state", self.local_momentum_state, ("reset", "keep"))
        if self.local_momentum_state == "keep" and not self.local_momentum:
            raise InputError(
                f"local_momentum_state=keep is for local_momentum > 0. Received: local_momentum="
                f"{self.local_momentum:g}. Give local_momentum, such as 0.9, or remove it.",
                *("local_momentum_state", "local_momentum"),
            )
        checks.number("weight_decay", self.weight_decay, "[0, inf)")
        if self.clip_norm is not None:
            checks.number("clip_norm", self.clip_norm, "(0, inf)", "0 does not clip.")
        checks.choice("clip_scope", self.clip_scope, ("full", "official"))
        checks.choice("weighting", self.weighting, ("uniform", "samples"))
        checks.choice("norm_state", self.norm_state, ("average", "keep_server", "local"))
        checks.choice("precision", self.precision, ("float32", "bfloat16", "float16"))
        if self.microbatch is not None:
            checks.whole("microbatch", self.microbatch)
        checks.flag("remat", self.remat)
        checks.flag("xla", self.xla)
        if self.xla and self.microbatch is not None:
            raise InputError(
                f"xla needs batches of a known size, which parts of one have not. Received: xla "
                f"with microbatch={self.microbatch}. Remove one of them.",
                *("xla", "microbatch="),
            )
        checks.whole("wave", self.wave)
        checks.flag("diagnostics", self.diagnostics)
        checks.flag("keep_local_models", self.keep_local_models)

    @property
    def loss_scale(self) -> float:
        """Keeps small float16 gradients from vanishing; fixed, so that clients are independent."""
        return 1024.0 if self.precision == "float16" else 1.0

    @property
    def keeps_velocity(self) -> bool:
        """Whether clients keep the velocity of their local momentum between rounds."""
        return bool(self.local_momentum) and self.local_momentum_state == "keep"

    def learning_rate(self, round_num: int) -> float:
        """The local learning rate of a round, from 0."""
        return self.lr * self._schedule("lr").factor(round_num)

    def rho_factor(self, round_num: int) -> float | None:
        """The factor of the radius in a round; ``None``: the radius stays as it is."""
        schedule = self._schedule("rho")
        return None if schedule.is_constant else schedule.factor(round_num)

    def check_radius(self, method: str, has_radius: bool) -> None:
        """Refuses a schedule of the radius for a method that has none."""
        if self.rho_factor(0) is not None and not has_radius:
            name = "rho_schedule" if self.rho_schedule != "constant" else "rho_warmup_rounds"
            raise InputError(
                f"{name} is for methods with a radius rho, and {method} has none. Received: "
                f"{name}={getattr(self, name)}. Remove it.",
                name,
            )

    def _schedule(self, name: str) -> Schedule:
        own = ("warmup_rounds", "decay", "step_rounds", "step_factor", "final_factor")
        values = {word: getattr(self, f"{name}_{word}") for word in own}
        kind = getattr(self, f"{name}_schedule")
        return Schedule(name, kind, **values, rounds=self.schedule_rounds)
