"""How clients train: the settings that every method shares."""

import dataclasses
import math

from tf_fedsam.errors import InputError


@dataclasses.dataclass(frozen=True)
class TrainingOptions:
    """Local training and aggregation; the defaults are those of the published code.

    Attributes:
        batch_size: examples a local step.
        local_epochs: passes over a client's examples in a round.
        local_steps: if given, so many local steps instead of ``local_epochs``.
        lr: local learning rate of round 0.
        lr_decay: factor of the local learning rate from round to round.
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
    weight_decay: float = 1e-3
    clip_norm: float | None = 10.0
    clip_scope: str = "full"
    weighting: str = "uniform"
    norm_state: str = "average"
    precision: str = "float32"
    microbatch: int | None = None
    diagnostics: bool = True
    keep_local_models: bool = False

    def __post_init__(self):
        if self.clip_norm == 0:
            object.__setattr__(self, "clip_norm", None)
        _require(self.batch_size >= 1, "batch_size", self.batch_size, "at least 1")
        _require(self.local_epochs >= 1, "local_epochs", self.local_epochs, "at least 1")
        steps = self.local_steps
        _require(steps is None or steps >= 1, "local_steps", steps, "at least 1")
        _require(_finite(self.lr) and self.lr >= 0, "lr", self.lr, "a number >= 0")
        decay = self.lr_decay
        _require(_finite(decay) and 0 < decay <= 1, "lr_decay", decay, "in (0, 1]")
        decay = self.weight_decay
        _require(_finite(decay) and decay >= 0, "weight_decay", decay, "a number >= 0")
        clip = self.clip_norm
        _require(clip is None or clip > 0, "clip_norm", clip, "> 0, or 0 for no clipping")
        _choice("clip_scope", self.clip_scope, ("full", "official"))
        _choice("weighting", self.weighting, ("uniform", "samples"))
        _choice("norm_state", self.norm_state, ("average", "keep_server", "local"))
        _choice("precision", self.precision, ("float32", "bfloat16", "float16"))
        part = self.microbatch
        _require(part is None or part >= 1, "microbatch", part, "at least 1")

    @property
    def loss_scale(self) -> float:
        """Keeps small float16 gradients from vanishing; fixed, so that clients are independent."""
        return 1024.0 if self.precision == "float16" else 1.0

    def learning_rate(self, round_num: int) -> float:
        return self.lr * self.lr_decay**round_num


def _finite(value: float) -> bool:
    return math.isfinite(value)


def _require(condition: bool, name: str, received: object, expected: str) -> None:
    if not condition:
        raise InputError(f"{name} must be {expected}. Received: {received}.")


def _choice(name: str, received: str, expected: tuple[str, ...]) -> None:
    _require(received in expected, name, received, " or ".join(map(repr, expected)))
