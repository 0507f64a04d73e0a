"""Float64 NumPy reference of every federated method, on flat parameter vectors.

The file is an oracle: it is written to be compared with the printed equations, line by line, and
shares no code with the library it checks. The data gradient is opaque (see `Problem`), so the same
functions run on a toy model, on a quadratic, or on anything else that has a flat gradient.

Notation
    w           server model; w_i the iterate of client i, which starts at `start` (normally w)
    K_i, lr     number of local steps of client i, local learning rate of the round
    Delta_i     w_i after the last step minus start                       "update-like"
    G_i         -Delta_i / sum of the rates of its steps, K_i lr           "gradient-like"
                with local momentum the mean of the directions d_j, see `Visit.slope`
    mean_S      mean over the clients that reported (uniform, or weighted by their examples)
    u(v)        v / |v| over the whole vector, u(0) = 0
    clip(v)     v min(1, clip_norm / |v|) over the whole vector

Sign rule. Update-like vectors point down-hill and are ADDED to the model: Delta, the momentum m,
the dual variables h_i (sums of Delta_i). Gradient-like vectors point up-hill and are SUBTRACTED
times the learning rate: G, the momentum D of FedCM, MimeLite, MoFedSAM and FedWMSAM, the controls
c and c_i. An ascent direction is therefore +gradient, +D, or -m.

Every local step of every method has the form

    q = data gradient at w_i, or at a perturbed point                      `gradient`
    v = clip(a q + r + lam (h_i + w_i - start))                            `mixing`, `correction`,
    d = v + weight_decay w_i                                               `pull`, `dual`, `rate`
    velocity <- local_momentum velocity + d;  w_i <- w_i - lr velocity

and every round is: local steps of the cohort, then `update_states`, then `next_model`. A method is
a class that overrides the pieces in which it differs from FedAvg; a method that joins two families
inherits from both, and the piece of each family exists once.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

Vector = np.ndarray
Batch = Any


@dataclasses.dataclass
class Problem:
    """What the methods are run on.

    Attributes:
        gradient: (w, batch) -> gradient of the mean loss of the batch at the flat vector w.
        batches: (round, client) -> the K_i batches of that visit, in order; may be empty.
        full_data: client -> all its data as one batch (MimeLite).
        num_examples: client -> number of local examples (`weighting="samples"`).
        num_clients: N, including the clients that never take part.
        initial: w^0.
        kernel_mask: FedASAM only; True where the entry belongs to a kernel or scale, False for a
            bias.
        joint_gradient: FedRobust only; (w, Lambda, delta, batch) -> (g_w, g_Lambda, g_delta), the
            gradients of the mean loss on the transformed inputs Lambda x + delta.
        input_shape: FedRobust only; the shape of one input.
        disagreement_gradient: FedSOL only; (w, teacher, batch, temperature) -> the gradient in w of
            the mean over the batch of KL(s(teacher) || s(w)), s = softmax(logits / temperature).
        fibres: FedSOL only; for every tensor the entries of w as an array (fibres, outputs).
        head_mask: FedSOL only; True where the entry belongs to the last layer.
    """

    gradient: Callable[[Vector, Batch], Vector]
    batches: Callable[[int, int], list[Batch]]
    full_data: Callable[[int], Batch]
    num_examples: Callable[[int], int]
    num_clients: int
    initial: Vector
    kernel_mask: np.ndarray | None = None
    joint_gradient: Callable[..., tuple[Vector, np.ndarray, np.ndarray]] | None = None
    input_shape: tuple[int, ...] | None = None
    disagreement_gradient: Callable[[Vector, Vector, Batch, float], Vector] | None = None
    fibres: list[np.ndarray] | None = None
    head_mask: np.ndarray | None = None


@dataclasses.dataclass
class History:
    """What a run leaves behind.

    Attributes:
        weights: the server model after every round.
        server: the server's other quantities after every round. Keys: "m" (server momentum),
            "v" (second moment), "c" (control), "D" (gradient-like momentum), "s" (FedSMOO),
            "move" (last global move, FedLESAM), "p" and "h" (last mean Delta and server dual,
            FedGloSS), "alpha" (FedWMSAM), "nesterov_m" (plug-in).
        clients: the state of every client after the last round. Keys: "c", "h", "mu", "old" (the
            last received model, absent before the first visit), "last" (the last local model,
            only with relaxed initialisation), "Lambda", "delta".
        perturbations: (round, client, step, e) for every sharpness-aware evaluation point.
    """

    weights: list[Vector]
    server: list[dict[str, np.ndarray]]
    clients: dict[int, dict[str, np.ndarray]]
    perturbations: list[tuple[int, int, int, Vector]]


@dataclasses.dataclass(frozen=True)
class Settings:
    """What all methods share; see `run`."""

    lr: float = 0.1
    lr_decay: float = 1.0
    server_lr: float | None = None
    weight_decay: float = 0.0
    clip_norm: float | None = None
    clip_scope: str = "full"
    weighting: str = "uniform"
    relaxed_init: float | None = None
    local_momentum: float = 0.0
    local_momentum_state: str = "reset"
    lr_schedule: dict[str, Any] | None = None
    rho_schedule: dict[str, Any] | None = None


def factor(
    t: int,
    kind: str,
    warmup: int = 0,
    *,
    decay: float = 1.0,
    every: int = 1,
    by: float = 1.0,
    final: float = 0.0,
    rounds: int = 1,
) -> float:
    """The factor of round t; the line of the warm-up reaches 1 in the round after it.

    Args:
        t: the round, from 0.
        kind: "exponential", "cosine", "constant", "step" or "linear".
        warmup: rounds before the schedule begins.
        decay: exponential: factor from round to round.
        every, by: step: rounds between two steps, and the factor of one.
        final, rounds: linear and cosine: what the round after the last one would have, and how
            many rounds there are, warm-up included.
    """
    one_of("kind", kind, ("exponential", "cosine", "constant", "step", "linear"))
    if t < warmup:
        return float(np.interp(t, [-1, warmup], [0, 1]))
    s, end = t - warmup, rounds - warmup
    if kind == "exponential":
        return decay**s
    if kind == "step":
        return float(np.prod([by for step in range(every, s + 1, every)]))
    if kind == "linear":
        return float(np.interp(s, [0, end], [1, final]))
    if kind == "cosine":
        half_wave = np.cos(np.pi * min(s, end) / end)  # 1 ... -1
        return float(np.interp(half_wave, [-1, 1], [final, 1]))
    return 1.0


@dataclasses.dataclass
class Visit:
    """One client's part in one round."""

    round: int
    client: int
    lr: float
    received: Vector
    start: Vector
    num_steps: int
    step: int = 0
    rates: list[float] = dataclasses.field(default_factory=list)
    final: Vector = dataclasses.field(default_factory=lambda: np.zeros(0))
    momentum: float = 0.0
    velocity: Vector | float = 0.0
    directions: list[Vector] = dataclasses.field(default_factory=list)

    @property
    def delta(self) -> Vector:
        """Delta_i, update-like."""
        return self.final - self.start

    @property
    def slope(self) -> Vector:
        """G_i = -Delta_i / sum of the rates, gradient-like: the mean effective step.

        With local momentum m it is the mean of the directions d_j of this visit, each with the
        weight that it has in Delta_i: d_j moves step j by its rate, step j + 1 by m times that
        step's rate, and so on.
        """
        if not self.momentum:
            return -self.delta / sum(self.rates)
        weights = [
            sum(self.rates[k] * self.momentum ** (k - j) for k in range(j, self.num_steps))
            for j in range(self.num_steps)
        ]
        return np.average(self.directions, axis=0, weights=weights)

    def travelled(self) -> float:
        """How far the steps so far would have gone along a constant direction of length 1."""
        velocity = distance = 0.0
        for rate in self.rates[: self.step]:
            velocity = self.momentum * velocity + 1
            distance += rate * velocity
        return distance


def unit(v: Vector) -> Vector:
    """u(v), zero for the zero vector."""
    norm = np.linalg.norm(v)
    return v / norm if norm > 0 else np.zeros_like(v)


def cosine(a: Vector, b: Vector) -> float:
    """Cosine of the angle between two vectors, zero if one of them is zero."""
    return float(unit(a) @ unit(b))


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name}={value!r}: expected one of {', '.join(choices)}.")


# --------------------------------------------------------------------------------------------------
# First-order methods
# --------------------------------------------------------------------------------------------------


class FedAvg:
    """McMahan et al. 2017 (arXiv:1602.05629): local SGD; w <- w + server_lr mean_S Delta_i.

    Subclasses declare, and a subclass of two classes collects:
        hyperparameters: name -> default; the values of the run are in `self.hp`.
        server_vectors, client_vectors: names of the state vectors that start at zero.
    """

    hyperparameters: ClassVar[dict[str, Any]] = {}
    server_vectors: ClassVar[tuple[str, ...]] = ()
    client_vectors: ClassVar[tuple[str, ...]] = ()
    default_server_lr = 1.0
    uses_server_lr = True

    def __init__(self, problem: Problem, settings: Settings, **chosen: Any) -> None:
        self.problem = problem
        self.settings = settings
        self.relaxation = settings.relaxed_init
        self.velocities: dict[int, Vector | float] = {}
        self.rho, self.rho_factor = 0.0, 1.0
        self.perturbations: list[tuple[int, int, int, Vector]] = []
        values: dict[str, Any] = {}
        self.server: dict[str, np.ndarray] = {}
        self.clients: dict[int, dict[str, np.ndarray]] = {
            client: {} for client in range(problem.num_clients)
        }
        for family in reversed(type(self).__mro__):
            declared = vars(family)
            values |= declared.get("hyperparameters", {})
            for name in declared.get("server_vectors", ()):
                self.server[name] = np.zeros(problem.initial.shape)
            for name in declared.get("client_vectors", ()):
                for state in self.clients.values():
                    state[name] = np.zeros(problem.initial.shape)
        for name, value in chosen.items():
            if name not in values:
                raise TypeError(
                    f"{type(self).__name__} has no hyper-parameter {name!r}; "
                    f"it has {sorted(values) or 'none'}."
                )
            values[name] = value
        self.hp = types.SimpleNamespace(**values)
        self.prepare()
        if not self.uses_server_lr and settings.server_lr not in (None, 1):
            raise ValueError(
                f"{type(self).__name__} has no server learning rate: "
                f"received server_lr={settings.server_lr}, expected None or 1."
            )
        self.server_lr = (
            self.default_server_lr if settings.server_lr is None else settings.server_lr
        )
        if self.relaxation is not None:
            for state in self.clients.values():
                state["last"] = problem.initial.copy()

    def prepare(self) -> None:
        """Check the hyper-parameters; add the states that do not start at zero."""

    # ---- the client -----------------------------------------------------------------------------

    def broadcast(self, t: int, model: Vector) -> Vector:
        """The model that is sent to the clients in round t."""
        return model

    def perturbation(self, visit: Visit, w: Vector, batch: Batch) -> Vector | None:
        """The sharpness-aware perturbation e, None for a method that has none."""
        return None

    def gradient(self, visit: Visit, w: Vector, batch: Batch) -> Vector:
        """q: the data gradient at w + e."""
        e = self.perturbation(visit, w, batch)
        if e is None:
            return self.problem.gradient(w, batch)
        self.perturbations.append((visit.round, visit.client, visit.step, np.array(e)))
        return self.problem.gradient(w + e, batch)

    def mixing(self) -> float:
        """a: the factor of the data gradient."""
        return 1.0

    def correction(self, visit: Visit) -> Vector | float:
        """r: the correction that does not depend on the iterate."""
        return 0.0

    def pull(self) -> float:
        """lam: the strength of the proximal term lam (h_i + w_i - start)."""
        return 0.0

    def dual(self, client: int) -> Vector | float:
        """h_i of the proximal term."""
        return 0.0

    def rate(self, visit: Visit) -> float:
        """The learning rate of the present step."""
        return visit.lr

    def clip(self, v: Vector) -> Vector:
        limit, norm = self.settings.clip_norm, np.linalg.norm(v)
        return v if limit is None or norm <= limit else v * (limit / norm)

    def local_step(self, visit: Visit, w: Vector, batch: Batch) -> Vector:
        """One step. The authors' code of the proximal methods clips without the term lam w."""
        q = self.gradient(visit, w, batch)
        free = self.mixing() * q + self.correction(visit)
        lam, anchor = self.pull(), self.dual(visit.client) - visit.start
        if self.settings.clip_scope == "full":
            v = self.clip(free + lam * (anchor + w))
        else:
            v = self.clip(free + lam * anchor) + lam * w
        visit.rates.append(self.rate(visit))
        direction = v + self.settings.weight_decay * w
        visit.directions.append(direction)
        visit.velocity = visit.momentum * visit.velocity + direction
        return w - visit.rates[-1] * visit.velocity

    def start(self, client: int, received: Vector) -> Vector:
        """Relaxed initialisation starts away from the client's last local model."""
        if self.relaxation is None:
            return received
        return received + self.relaxation * (received - self.clients[client]["last"])

    def visit(self, t: int, client: int, received: Vector, batches: list[Batch]) -> Visit:
        """All local steps of one client."""
        lr = self.settings.lr * self.settings.lr_decay**t
        if self.settings.lr_schedule is not None:
            lr = self.settings.lr * factor(t, **self.settings.lr_schedule)
        start = self.start(client, received)
        visit = Visit(t, client, lr, received, start, len(batches))
        visit.momentum = self.settings.local_momentum
        if self.settings.local_momentum_state == "keep":
            visit.velocity = self.velocities.get(client, 0.0)
        w = start
        for step, batch in enumerate(batches):
            visit.step = step
            w = self.local_step(visit, w, batch)
        visit.final = w
        return visit

    # ---- the server -----------------------------------------------------------------------------

    def mean(self, visits: list[Visit], values: list[Any]) -> Any:
        """mean_S of one value per visit."""
        if self.settings.weighting == "uniform":
            shares = np.ones(len(visits))
        else:
            shares = np.array([self.problem.num_examples(v.client) for v in visits], float)
        shares /= shares.sum()
        return sum(share * value for share, value in zip(shares, values, strict=True))

    def mean_delta(self, visits: list[Visit]) -> Vector:
        return self.mean(visits, [visit.delta for visit in visits])

    def update_states(self, visits: list[Visit]) -> None:
        """New client states and server quantities other than the model, from the old ones."""

    def next_model(self, model: Vector, visits: list[Visit]) -> Vector:
        """The server step; called after `update_states`."""
        return model + self.server_lr * self.mean_delta(visits)

    def set_radius(self, t: int) -> None:
        """The radius of round t."""
        if hasattr(self.hp, "rho"):
            schedule = self.settings.rho_schedule
            self.rho_factor = 1.0 if schedule is None else factor(t, **schedule)
            self.rho = self.hp.rho * self.rho_factor

    def round(self, t: int, model: Vector, cohort: list[int]) -> Vector | None:
        """One round from `model`; None, and nothing changed, if no client had a batch."""
        self.set_radius(t)
        received = self.broadcast(t, model)
        visits = []
        for client in cohort:
            batches = self.problem.batches(t, client)
            if len(batches) > 0:
                visits.append(self.visit(t, client, received, batches))
        if not visits:
            return None
        self.update_states(visits)
        self.velocities |= {visit.client: visit.velocity for visit in visits}
        if self.relaxation is not None:
            for visit in visits:
                self.clients[visit.client]["last"] = visit.final
        return self.next_model(model, visits)


class FedAvgM(FedAvg):
    """Hsu et al. 2019 (arXiv:1909.06335): m <- mu m + mean Delta; w <- w + server_lr m."""

    hyperparameters: ClassVar = {"server_momentum": 0.9}
    server_vectors = ("m",)

    def next_model(self, model: Vector, visits: list[Visit]) -> Vector:
        self.server["m"] = self.hp.server_momentum * self.server["m"] + self.mean_delta(visits)
        return model + self.server_lr * self.server["m"]


class FedAdam(FedAvg):
    """Reddi et al. 2021 (arXiv:2003.00295), without bias correction and with v_0 = 0.

    m <- beta1 m + (1 - beta1) mean Delta;  v <- second moment;  w <- w + server_lr m/(sqrt v + eps)
    """

    hyperparameters: ClassVar = {"beta1": 0.9, "beta2": 0.99, "epsilon": 1e-2}
    server_vectors = ("m", "v")
    default_server_lr = 0.1

    def second_moment(self, v: Vector, square: Vector) -> Vector:
        return self.hp.beta2 * v + (1 - self.hp.beta2) * square

    def next_model(self, model: Vector, visits: list[Visit]) -> Vector:
        delta = self.mean_delta(visits)
        self.server["m"] = self.hp.beta1 * self.server["m"] + (1 - self.hp.beta1) * delta
        self.server["v"] = self.second_moment(self.server["v"], delta**2)
        return model + self.server_lr * self.server["m"] / (
            np.sqrt(self.server["v"]) + self.hp.epsilon
        )


class FedAdagrad(FedAdam):
    """v <- v + (mean Delta)^2."""

    def second_moment(self, v: Vector, square: Vector) -> Vector:
        return v + square


class FedYogi(FedAdam):
    """v <- v - (1 - beta2) (mean Delta)^2 sign(v - (mean Delta)^2)."""

    def second_moment(self, v: Vector, square: Vector) -> Vector:
        return v - (1 - self.hp.beta2) * square * np.sign(v - square)


class FedProx(FedAvg):
    """Li et al. 2020 (arXiv:1812.06127): proximal term mu (w_i - start)."""

    hyperparameters: ClassVar = {"mu": 0.1}

    def pull(self) -> float:
        return self.hp.mu


class Scaffold(FedAvg):
    """Karimireddy et al. 2020 (arXiv:1910.06378), option II.

    r = c - c_i;  c_i+ = c_i - c + G_i with the old c;  c <- c + (1/N) sum_S (c_i+ - c_i)
    """

    server_vectors = ("c",)
    client_vectors = ("c",)

    def drift(self, client: int) -> Vector:
        return self.server["c"] - self.clients[client]["c"]

    def correction(self, visit: Visit) -> Vector | float:
        return self.drift(visit.client)

    def update_states(self, visits: list[Visit]) -> None:
        super().update_states(visits)
        change = np.zeros_like(self.server["c"])
        for visit in visits:
            old = self.clients[visit.client]["c"]
            new = old - self.server["c"] + visit.slope
            self.clients[visit.client]["c"] = new
            change += new - old
        self.server["c"] = self.server["c"] + change / self.problem.num_clients


class FedDyn(FedAvg):
    """Acar et al. 2021 (arXiv:2111.04263), with h_i = sum of the client's past Delta_i.

    pull lam (h_i + w_i - start);  h_i <- h_i + Delta_i;  w <- mean_S w_i + (1/N) sum_all h_j
    """

    hyperparameters: ClassVar = {"lamb": 0.1}
    client_vectors = ("h",)
    uses_server_lr = False

    def pull(self) -> float:
        return self.hp.lamb

    def dual(self, client: int) -> Vector | float:
        return self.clients[client]["h"]

    def mean_dual(self) -> Vector:
        return np.sum([state["h"] for state in self.clients.values()], axis=0) / len(self.clients)

    def update_states(self, visits: list[Visit]) -> None:
        super().update_states(visits)
        for visit in visits:
            self.clients[visit.client]["h"] = self.clients[visit.client]["h"] + visit.delta

    def next_model(self, model: Vector, visits: list[Visit]) -> Vector:
        return self.mean(visits, [visit.final for visit in visits]) + self.mean_dual()


class GlobalMomentum(FedAvg):
    """a q + (1 - a) D on the client; D <- mean_S G_i on the server."""

    server_vectors = ("D",)

    def correction(self, visit: Visit) -> Vector | float:
        return (1 - self.mixing()) * self.server["D"]

    def update_states(self, visits: list[Visit]) -> None:
        super().update_states(visits)
        self.server["D"] = self.mean(visits, [visit.slope for visit in visits])


class FedCM(GlobalMomentum):
    """Xu et al. 2021 (arXiv:2106.10874)."""

    hyperparameters: ClassVar = {"alpha": 0.1}

    def mixing(self) -> float:
        return self.hp.alpha


class MimeLite(FedCM):
    """Karimireddy et al. 2021 (arXiv:2008.03606) with SGD momentum as an average.

    D <- a mean_S grad F_i(w) + (1 - a) D, from full local gradients at the received model.
    """

    def update_states(self, visits: list[Visit]) -> None:
        full = [
            self.problem.gradient(visit.received, self.problem.full_data(visit.client))
            for visit in visits
        ]
        self.server["D"] = (
            self.hp.alpha * self.mean(visits, full) + (1 - self.hp.alpha) * (self.server["D"])
        )


class FedACG(FedProx):
    """Kim et al. 2024 (arXiv:2201.03172).

    The clients start at z = w + lam m, with the proximal term around z;
    m <- lam m + server_lr mean Delta;  w <- w + m
    """

    hyperparameters: ClassVar = {"server_momentum": 0.85, "mu": 2e-3}
    server_vectors = ("m",)

    def broadcast(self, t: int, model: Vector) -> Vector:
        return model + self.hp.server_momentum * self.server["m"]

    def next_model(self, model: Vector, visits: list[Visit]) -> Vector:
        update = self.server_lr * self.mean_delta(visits)
        self.server["m"] = self.hp.server_momentum * self.server["m"] + update
        return model + self.server["m"]


class FedRobust(FedAvg):
    """Reisizadeh et al. 2020 (arXiv:2006.08907): affine input perturbations Lambda_i x + delta_i.

    Simultaneously with the step on w, from the same (w, Lambda, delta) and the same batch,
        Lambda_i <- Lambda_i + perturbation_lr (g_Lambda - 2 penalty (Lambda_i - I))
        delta_i  <- delta_i  + perturbation_lr (g_delta  - 2 penalty delta_i)
    "full": Lambda_i is p x p on the flattened input. "channel": Lambda_i is C x C on the last axis.
    delta_i has the shape of an input in both.
    """

    hyperparameters: ClassVar = {"perturbation_lr": 0.1, "penalty": 1.0, "transform": "full"}

    def prepare(self) -> None:
        one_of("transform", self.hp.transform, ("full", "channel"))
        shape = self.problem.input_shape
        if self.problem.joint_gradient is None or shape is None:
            raise ValueError("FedRobust needs Problem.joint_gradient and Problem.input_shape.")
        size = int(np.prod(shape)) if self.hp.transform == "full" else shape[-1]
        for state in self.clients.values():
            state["Lambda"], state["delta"] = np.eye(size), np.zeros(shape)

    def gradient(self, visit: Visit, w: Vector, batch: Batch) -> Vector:
        assert self.problem.joint_gradient is not None
        state = self.clients[visit.client]
        Lambda, delta = state["Lambda"], state["delta"]
        g_w, g_Lambda, g_delta = self.problem.joint_gradient(w, Lambda, delta, batch)
        identity = np.eye(len(Lambda))
        state["Lambda"] = Lambda + self.hp.perturbation_lr * (
            g_Lambda - 2 * self.hp.penalty * (Lambda - identity)
        )
        state["delta"] = delta + self.hp.perturbation_lr * (g_delta - 2 * self.hp.penalty * delta)
        return g_w


# --------------------------------------------------------------------------------------------------
# Sharpness-aware methods with two gradients per step: q = g(w + e) on the batch that gave e
# --------------------------------------------------------------------------------------------------


class FedSAM(FedAvg):
    """Qu et al. 2022 (arXiv:2206.02618): e = rho u(g(w)), from the raw gradient.

    Weight decay and clipping act on the descent only.
    """

    hyperparameters: ClassVar = {"rho": 0.1}

    def perturbation(self, visit: Visit, w: Vector, batch: Batch) -> Vector | None:
        return self.rho * unit(self.problem.gradient(w, batch))


class FedASAM(FedAvg):
    """Caldarola et al. 2022 (arXiv:2203.11834): e = rho T^2 g / |T g|.

    T = |w| + eta for the entries of kernels and scales, 1 for biases.
    """

    hyperparameters: ClassVar = {"rho": 0.7, "eta": 0.2}

    def prepare(self) -> None:
        if self.problem.kernel_mask is None:
            raise ValueError("FedASAM needs Problem.kernel_mask.")

    def perturbation(self, visit: Visit, w: Vector, batch: Batch) -> Vector | None:
        assert self.problem.kernel_mask is not None
        T = np.where(self.problem.kernel_mask, np.abs(w) + self.hp.eta, 1.0)
        return self.rho * T * unit(T * self.problem.gradient(w, batch))


class MoFedSAM(FedSAM, GlobalMomentum):
    """Qu et al. 2022 (arXiv:2206.02618): FedCM with FedSAM's gradient; a is called beta."""

    hyperparameters: ClassVar = {"beta": 0.1}

    def mixing(self) -> float:
        return self.hp.beta


class FedGAMMA(FedSAM, Scaffold):
    """Dai et al. 2023 (IEEE TNNLS): SCAFFOLD with FedSAM's gradient.

    The ascent gradient is not corrected by c - c_i.
    """

    hyperparameters: ClassVar = {"rho": 0.01}


class FedSMOO(FedDyn):
    """Sun et al. 2023 (arXiv:2305.11584): FedDyn with a dual variable for the perturbation too.

    per step    e = rho u(g(w) - mu_i - s);  mu_i <- mu_i + e - s;  q = g(w + e)
    server      s <- rho u(mean_S mu_i)             ("mu", the authors' code)
                s <- rho u(mean_S (mu_i - e_i))     ("mu_minus_e", with the last e_i; the paper)
    """

    hyperparameters: ClassVar = {"rho": 0.1, "server": "mu"}
    server_vectors = ("s",)
    client_vectors = ("mu",)

    def prepare(self) -> None:
        self.last_e: dict[int, Vector] = {}
        one_of("server", self.hp.server, ("mu", "mu_minus_e"))

    def perturbation(self, visit: Visit, w: Vector, batch: Batch) -> Vector | None:
        state, s = self.clients[visit.client], self.server["s"]
        e = self.rho * unit(self.problem.gradient(w, batch) - state["mu"] - s)
        state["mu"] = state["mu"] + e - s
        self.last_e[visit.client] = e
        return e

    def update_states(self, visits: list[Visit]) -> None:
        super().update_states(visits)
        uploads = [self.clients[visit.client]["mu"] for visit in visits]
        if self.hp.server == "mu_minus_e":
            uploads = [
                mu - self.last_e[visit.client] for mu, visit in zip(uploads, visits, strict=True)
            ]
        self.server["s"] = self.rho * unit(self.mean(visits, uploads))


class FedSpeed(FedSAM, FedDyn):
    """Sun et al. 2023 (arXiv:2302.10429): q = (1 - alpha) g(w) + alpha g(w + e), FedDyn's pull.

    server      w <- mean_S (w_i + h_i)              ("participants", the paper)
                w <- mean_S w_i + (1/N) sum_all h_j  ("all", FedDyn's)
    """

    hyperparameters: ClassVar = {"alpha": 1.0, "server": "participants"}

    def prepare(self) -> None:
        one_of("server", self.hp.server, ("participants", "all"))

    def gradient(self, visit: Visit, w: Vector, batch: Batch) -> Vector:
        plain = self.problem.gradient(w, batch)
        return (1 - self.hp.alpha) * plain + self.hp.alpha * super().gradient(visit, w, batch)

    def next_model(self, model: Vector, visits: list[Visit]) -> Vector:
        if self.hp.server == "all":
            return super().next_model(model, visits)
        return self.mean(visits, [v.final + self.clients[v.client]["h"] for v in visits])


# --------------------------------------------------------------------------------------------------
# Sharpness-aware methods with one gradient per step: the direction of e is known beforehand
# --------------------------------------------------------------------------------------------------


class FedLESAM(FedAvg):
    """Fan et al. 2024 (arXiv:2405.18890): e constant during the visit.

    "client_old"    e = rho u(w_old - w), w_old received at the client's previous visit (the paper)
    "server_last"   e = -rho u(last global move), the same for everybody (the authors' code)
    """

    hyperparameters: ClassVar = {"rho": 0.01, "direction": "client_old"}
    server_vectors = ("move",)

    def prepare(self) -> None:
        one_of("direction", self.hp.direction, ("client_old", "server_last"))

    def perturbation(self, visit: Visit, w: Vector, batch: Batch) -> Vector | None:
        if self.hp.direction == "server_last":
            return -self.rho * unit(self.server["move"])
        old = self.clients[visit.client].get("old", visit.received)
        return self.rho * unit(old - visit.received)

    def update_states(self, visits: list[Visit]) -> None:
        super().update_states(visits)
        for visit in visits:
            self.clients[visit.client]["old"] = visit.received

    def next_model(self, model: Vector, visits: list[Visit]) -> Vector:
        new = super().next_model(model, visits)
        self.server["move"] = new - model
        return new


class FedLESAMS(FedLESAM, Scaffold):
    """FedLESAM with SCAFFOLD's correction, times `scale` (0.1 in the authors' code)."""

    hyperparameters: ClassVar = {"scale": 1.0}

    def correction(self, visit: Visit) -> Vector | float:
        return self.hp.scale * super().correction(visit)


class FedLESAMD(FedLESAM, FedDyn):
    """FedLESAM with FedDyn's pull and server."""


class FedNSAM(FedAvg):
    """Liu et al. 2026 (arXiv:2602.23827), with the momentum m known at the start of the round.

    q = g(w + lam m - rho u(m));  m <- lam m + server_lr mean Delta;  w <- w + m
    extrapolate=False drops lam m from q. apply_momentum=False keeps m for q only: the model moves
    by server_lr mean Delta.
    """

    hyperparameters: ClassVar = {
        "rho": 0.1,
        "server_momentum": 0.85,
        "extrapolate": True,
        "apply_momentum": True,
    }
    server_vectors = ("m",)

    def perturbation(self, visit: Visit, w: Vector, batch: Batch) -> Vector | None:
        return -self.rho * unit(self.server["m"])

    def gradient(self, visit: Visit, w: Vector, batch: Batch) -> Vector:
        ahead = self.hp.server_momentum * self.server["m"] if self.hp.extrapolate else 0.0
        return super().gradient(visit, w + ahead, batch)

    def averaged_move(self, visits: list[Visit]) -> Vector:
        return self.mean_delta(visits)

    def next_model(self, model: Vector, visits: list[Visit]) -> Vector:
        update = self.server_lr * self.averaged_move(visits)
        self.server["m"] = self.hp.server_momentum * self.server["m"] + update
        return model + (self.server["m"] if self.hp.apply_momentum else update)


class FedNSAMS(FedNSAM, Scaffold):
    """FedNSAM with SCAFFOLD's correction."""


class FedNSAMD(FedNSAM, FedDyn):
    """FedNSAM with FedDyn's pull; the momentum takes FedDyn's move mean Delta + mean_all h."""

    uses_server_lr = True

    def averaged_move(self, visits: list[Visit]) -> Vector:
        return self.mean_delta(visits) + self.mean_dual()


class FedWMSAM(GlobalMomentum, Scaffold):
    """Li et al. 2025 (arXiv:2511.22080).

    D_i = D + alpha/(1 - alpha) (c - c_i)                  personalised momentum, gradient-like
    v   = clip(alpha q + (1 - alpha) D_i),  q = g(w_i + e)
    e   = rho u(start + b D_i - w_i)                       "ascent": the printed formula
          rho u(w_i - (start - lr b D_i))                  "deviation" from the predicted model;
                                                           local momentum takes b steps farther
         -rho u(start + b D_i - w_i)                       "descent": the sign of the authors' code
          at local step b = 0, 1, ...; e = 0 at b = 0
    alpha <- (1 - alpha_step) alpha + alpha_step min(max(mean_S sim_i, 0.1), 0.9)
          sim_i = 1 + cos(Delta_i, D), 0 if D = 0          "update": the authors' code
          sim_i = cos(D, D_i), 0 if one of them is 0       "momentum": the paper
    then D as FedCM, c and c_i as SCAFFOLD. D and the c's of sim_i are those used in the round.
    correction=False puts c - c_i := 0 (the controls are still kept up to date).

    (1 - alpha) D_i = (1 - alpha) D + alpha (c - c_i) is used throughout in place of D_i: u and cos
    ignore the positive factor, and alpha = 1 needs no special case.
    """

    hyperparameters: ClassVar = {
        "rho": 0.01,
        "alpha": 0.1,
        "alpha_step": 0.01,
        "correction": True,
        "direction": "ascent",
        "alpha_rule": "update",
    }

    def prepare(self) -> None:
        self.server["alpha"] = np.array(float(self.hp.alpha))
        one_of("direction", self.hp.direction, ("ascent", "deviation", "descent"))
        one_of("alpha_rule", self.hp.alpha_rule, ("update", "momentum"))

    def mixing(self) -> float:
        return float(self.server["alpha"])

    def personal_momentum(self, client: int) -> Vector:
        """(1 - alpha) D_i."""
        alpha = self.mixing()
        momentum = (1 - alpha) * self.server["D"]
        return momentum + alpha * self.drift(client) if self.hp.correction else momentum

    def correction(self, visit: Visit) -> Vector | float:
        return self.personal_momentum(visit.client)

    def perturbation(self, visit: Visit, w: Vector, batch: Batch) -> Vector | None:
        travelled = (1 - self.mixing()) * (w - visit.start)
        predicted = visit.step * self.personal_momentum(visit.client)
        if self.hp.direction == "deviation":
            ahead = visit.travelled() * self.personal_momentum(visit.client)
            return self.rho * unit(travelled + ahead)
        e = self.rho * unit(predicted - travelled)
        return e if self.hp.direction == "ascent" else -e

    def similarity(self, visit: Visit) -> float:
        D = self.server["D"]
        if self.hp.alpha_rule == "momentum":
            return cosine(D, self.personal_momentum(visit.client))
        return 1 + cosine(visit.delta, D) if np.any(D) else 0.0

    def update_states(self, visits: list[Visit]) -> None:
        similarity = self.mean(visits, [self.similarity(visit) for visit in visits])
        target = min(max(similarity, 0.1), 0.9)
        super().update_states(visits)
        self.server["alpha"] = np.array(
            (1 - self.hp.alpha_step) * self.mixing() + self.hp.alpha_step * target
        )


# --------------------------------------------------------------------------------------------------
# Relaxed initialisation
# --------------------------------------------------------------------------------------------------


class FedInit(FedAvg):
    """Sun et al. 2023 (arXiv:2306.05706): FedAvg with a relaxed start.

    start = w + beta (w - w_last), w_last the client's last local model, w^0 before its first visit;
    w <- mean_S w_i                        ("model", the paper)
    w <- w + server_lr mean_S Delta_i      ("delta", the authors' code)
    """

    hyperparameters: ClassVar = {"beta": 0.1, "aggregate": "model"}

    def prepare(self) -> None:
        one_of("aggregate", self.hp.aggregate, ("model", "delta"))
        if self.relaxation is not None:
            raise ValueError(
                "FedInit is relaxed initialisation: leave relaxed_init=None, set beta."
            )
        self.relaxation = self.hp.beta
        self.uses_server_lr = self.hp.aggregate == "delta"

    def next_model(self, model: Vector, visits: list[Visit]) -> Vector:
        if self.hp.aggregate == "delta":
            return super().next_model(model, visits)
        return self.mean(visits, [visit.final for visit in visits])


# --------------------------------------------------------------------------------------------------
# Newer methods
# --------------------------------------------------------------------------------------------------


class FedGloSS(FedDyn):
    """Caldarola et al. 2025 (arXiv:2412.03752): sharpness-aware on the server.

    sent        z = w - rho_t u(p), p the last mean Delta
    client      FedDyn's pull around z, with FedSAM's gradient of radius rho_local_t
    server      h <- h + (1/N) sum_S Delta_i               ("all", printed: mean_all h_j)
                h <- h + (1/N) (1/S) sum_S Delta_i         ("official", the authors' code)
                w <- w + mean_S Delta_i + h;  p <- mean_S Delta_i
    warm-up     rho_t = rho_start + (rho - rho_start) min(t / T_s, 1), and so rho_local; 0 stays 0
    """

    hyperparameters: ClassVar = {
        "rho": 0.1,
        "rho_local": 0.1,
        "warmup_rounds": 0,
        "rho_start": 1e-3,
        "server_dual": "all",
    }
    server_vectors = ("p", "h")

    def prepare(self) -> None:
        one_of("server_dual", self.hp.server_dual, ("all", "official"))

    def radius(self, t: int, final: float) -> float:
        if final == 0 or self.hp.warmup_rounds == 0:
            return self.rho_factor * final
        progress = min(t / self.hp.warmup_rounds, 1.0)
        return self.rho_factor * ((1 - progress) * self.hp.rho_start + progress * final)

    def broadcast(self, t: int, model: Vector) -> Vector:
        return model - self.radius(t, self.hp.rho) * unit(self.server["p"])

    def perturbation(self, visit: Visit, w: Vector, batch: Batch) -> Vector | None:
        if self.hp.rho_local == 0:
            return None
        rho = self.radius(visit.round, self.hp.rho_local)
        return rho * unit(self.problem.gradient(w, batch))

    def next_model(self, model: Vector, visits: list[Visit]) -> Vector:
        together = np.sum([visit.delta for visit in visits], axis=0)
        if self.hp.server_dual == "official":
            together = together / len(visits)
        self.server["h"] = self.server["h"] + together / self.problem.num_clients
        self.server["p"] = self.mean_delta(visits)
        return model + self.server["p"] + self.server["h"]


class FedSWA(FedAvg):
    """Liu et al. 2025 (arXiv:2507.20016): a rate that falls in every round, a longer server step.

    step k = 0 .. K_i - 1 uses lr (1 - (1 - lr_end) k / K_i);  w <- w + server_lr mean_S Delta_i
    """

    hyperparameters: ClassVar = {"lr_end": 0.1}
    default_server_lr = 1.5

    def rate(self, visit: Visit) -> float:
        done = visit.step / visit.num_steps
        return (1 - done) * visit.lr + done * self.hp.lr_end * visit.lr


class FedMoSWA(FedSWA):
    """FedSWA with r = m - c_i.

    c_i+ = c_i - m + G_i with the old m, G_i = -Delta_i / sum of the rates ("sum")
                                             or -Delta_i / (K_i lr (1 + lr_end)/2) ("midpoint")
    m <- m + gamma mean_S (c_i+ - m), with gamma = 1 in the first round ("full") or not ("gamma")
    """

    hyperparameters: ClassVar = {"gamma": 0.2, "normaliser": "sum", "first_round": "full"}
    server_vectors = ("m",)
    client_vectors = ("c",)

    def prepare(self) -> None:
        one_of("normaliser", self.hp.normaliser, ("sum", "midpoint"))
        one_of("first_round", self.hp.first_round, ("full", "gamma"))
        self.has_momentum = self.hp.first_round == "gamma"

    def correction(self, visit: Visit) -> Vector | float:
        return self.server["m"] - self.clients[visit.client]["c"]

    def update_states(self, visits: list[Visit]) -> None:
        super().update_states(visits)
        m = self.server["m"]
        for visit in visits:
            slope = visit.slope
            if self.hp.normaliser == "midpoint":
                middle = (visit.lr + self.hp.lr_end * visit.lr) / 2
                slope = -visit.delta / (visit.num_steps * middle)
            self.clients[visit.client]["c"] = self.clients[visit.client]["c"] - m + slope
        fresh = self.mean(visits, [self.clients[visit.client]["c"] for visit in visits])
        gamma = self.hp.gamma if self.has_momentum else 1.0
        self.server["m"] = (1 - gamma) * m + gamma * fresh
        self.has_momentum = True


class FedSOL(FedAvg):
    """Lee et al. 2024 (arXiv:2308.12532): e climbs the disagreement with the model started from.

    g_p = gradient of mean KL(s(start) || s(w)), s = softmax(logits / temperature), 0 at step 0
    e   = rho u(g_p)            ("fixed")
    e   = rho Lambda u(g_p)     ("adaptive"), Lambda = |w - start|, every fibre along the outputs of
                                a tensor scaled to unit length
    perturb = "head" or "body" sets g_p to zero elsewhere, before u.
    """

    hyperparameters: ClassVar = {
        "rho": 1.0,
        "strength": "adaptive",
        "temperature": 3.0,
        "perturb": "all",
    }

    def prepare(self) -> None:
        one_of("strength", self.hp.strength, ("adaptive", "fixed"))
        one_of("perturb", self.hp.perturb, ("all", "head", "body"))
        for name in ("disagreement_gradient", "fibres", "head_mask"):
            if getattr(self.problem, name) is None:
                raise ValueError(f"FedSOL needs Problem.{name}.")

    def strengths(self, moved: Vector) -> Vector:
        """Lambda."""
        assert self.problem.fibres is not None
        Lambda = np.zeros_like(moved)
        for tensor in self.problem.fibres:
            for fibre in tensor:
                Lambda[fibre] = unit(np.abs(moved[fibre]))
        return Lambda

    def perturbation(self, visit: Visit, w: Vector, batch: Batch) -> Vector | None:
        if visit.step == 0:
            return None
        assert self.problem.disagreement_gradient is not None
        assert self.problem.head_mask is not None
        g = self.problem.disagreement_gradient(w, visit.start, batch, self.hp.temperature)
        if self.hp.perturb == "head":
            g = np.where(self.problem.head_mask, g, 0.0)
        elif self.hp.perturb == "body":
            g = np.where(self.problem.head_mask, 0.0, g)
        e = self.rho * unit(g)
        return e if self.hp.strength == "fixed" else self.strengths(w - visit.start) * e


METHODS: dict[str, type[FedAvg]] = {
    "fedavg": FedAvg,
    "fedavgm": FedAvgM,
    "fedadam": FedAdam,
    "fedadagrad": FedAdagrad,
    "fedyogi": FedYogi,
    "fedprox": FedProx,
    "scaffold": Scaffold,
    "feddyn": FedDyn,
    "fedcm": FedCM,
    "mimelite": MimeLite,
    "fedacg": FedACG,
    "fedrobust": FedRobust,
    "fedsam": FedSAM,
    "fedasam": FedASAM,
    "mofedsam": MoFedSAM,
    "fedgamma": FedGAMMA,
    "fedsmoo": FedSMOO,
    "fedspeed": FedSpeed,
    "fedlesam": FedLESAM,
    "fedlesam_s": FedLESAMS,
    "fedlesam_d": FedLESAMD,
    "fednsam": FedNSAM,
    "fednsam_s": FedNSAMS,
    "fednsam_d": FedNSAMD,
    "fedwmsam": FedWMSAM,
    "fedinit": FedInit,
    "fedgloss": FedGloSS,
    "fedswa": FedSWA,
    "fedmoswa": FedMoSWA,
    "fedsol": FedSOL,
}


def run(
    method: str,
    problem: Problem,
    schedule: list[list[int]],
    *,
    lr: float = 0.1,
    lr_decay: float = 1.0,
    server_lr: float | None = None,
    weight_decay: float = 0.0,
    clip_norm: float | None = None,
    clip_scope: str = "full",
    weighting: str = "uniform",
    relaxed_init: float | None = None,
    nesterov: float | None = None,
    local_momentum: float = 0.0,
    local_momentum_state: str = "reset",
    lr_schedule: dict[str, Any] | None = None,
    rho_schedule: dict[str, Any] | None = None,
    **hparams: Any,
) -> History:
    """Runs one method, one round per cohort of the schedule.

    A client without batches does no step and reports nothing: it is left out of every mean and its
    state stays. A round in which nobody reports leaves the model and every server quantity as
    they were.

    Args:
        method: a key of `METHODS`.
        problem: what is trained.
        schedule: the cohort of every round.
        lr: local learning rate of round 0.
        lr_decay: round t uses lr * lr_decay**t.
        server_lr: None for the method's default, 0.1 for the adaptive servers, 1.5 for FedSWA and
            FedMoSWA, and 1 otherwise.
        weight_decay: added after clipping, at the unperturbed iterate.
        clip_norm: None does not clip.
        clip_scope: "full" clips the whole vector a q + r + lam (h_i + w_i - start); "official"
            leaves lam w_i outside, as the authors of the proximal methods do in their code.
        weighting: "uniform" or "samples", for everything called mean_S. The sums behind c and h
            are plain sums over N.
        relaxed_init: beta of the relaxed start of Sun et al. 2023 (arXiv:2306.05706) for any
            method: start = received + beta (received - w_last). Delta_i, the proximal centre and
            FedWMSAM's prediction are measured from the start.
        nesterov: lam of Nesterov's momentum around any method: the method's round runs from
            z = w + lam m and ends at z'; m <- lam m + (z' - z); w <- w + m.
        local_momentum: heavy ball in the local steps.
        local_momentum_state: "reset" or "keep": whether a client's velocity begins every visit at
            zero or where its last visit ended.
        lr_schedule, rho_schedule: arguments of `factor`; lr_schedule replaces lr_decay.
        **hparams: the method's own hyper-parameters.
    """
    one_of("method", method, tuple(METHODS))
    one_of("clip_scope", clip_scope, ("full", "official"))
    one_of("weighting", weighting, ("uniform", "samples"))
    settings = Settings(
        lr,
        lr_decay,
        server_lr,
        weight_decay,
        clip_norm,
        clip_scope,
        weighting,
        relaxed_init,
        local_momentum,
        local_momentum_state,
        lr_schedule,
        rho_schedule,
    )
    algorithm = METHODS[method](problem, settings, **hparams)
    model = np.array(problem.initial, dtype=np.float64)
    m = np.zeros_like(model)
    history = History([], [], {}, algorithm.perturbations)
    for t, cohort in enumerate(schedule):
        sent = model if nesterov is None else model + nesterov * m
        result = algorithm.round(t, sent, cohort)
        if result is None:
            pass  # nobody reported
        elif nesterov is None:
            model = result
        else:
            m = nesterov * m + (result - sent)
            model = model + m
        history.weights.append(model.copy())
        server = {name: np.array(value) for name, value in algorithm.server.items()}
        history.server.append(server if nesterov is None else server | {"nesterov_m": m.copy()})
    history.clients = {
        client: {name: np.array(value) for name, value in state.items()}
        for client, state in algorithm.clients.items()
    }
    return history
