"""Differential privacy of clients, on top of any algorithm that uploads its update alone.

Shi et al. 2023, arXiv:2303.11242 (DP-FedSAM: FedSAM with this plug-in); McMahan et al. 2018,
arXiv:1710.06963.

    client:  delta_i <- delta_i * min(1, clip_norm / |delta_i|)      one norm over all variables
    server:  mean delta <- (sum_i delta_i + N(0, (noise_multiplier * clip_norm)^2)) / divisor

The divisor is fixed: a count of who reported would tell of them. All that a client keeps comes from
its clipped delta_i, and all that the server makes from this one mean, with one draw of the noise: a
total is ``divisor`` times it. If nobody takes part, the noise is there all the same. A client whose
update is not finite counts as one whose update is 0.

In the authors' code every tensor is clipped to ``clip_norm`` by itself, so that an update may be as
long as ``clip_norm * sqrt(number of tensors)``: ``scope="tensor"``, for comparison. It also weights
clients by their examples, takes the same number in every round by a public schedule, and has ASAM
as its local step, with a local momentum of 0.5; here a sum is private only without weights,
``fedsam`` has SAM, ``fedasam`` ASAM, and ``local_momentum`` is 0 unless given.
"""

from __future__ import annotations

import dataclasses

from tf_fedsam import checks, rng, tree
from tf_fedsam.algorithms.base import (
    Aggregate,
    Algorithm,
    Contribution,
    Round,
    TrainingSpec,
    Vectors,
)
from tf_fedsam.algorithms.plugin import Plugin
from tf_fedsam.errors import InputError
from tf_fedsam.lazy import tf
from tf_fedsam.tree import Tree

MAX_TENSORS = 2**20


class DP(Plugin):
    """Clipped updates and a noisy mean.

    Args:
        inner: the method.
        clip_norm: length that an update has at most.
        noise_multiplier: standard deviation of the noise on the sum, over ``clip_norm``.
        divisor: the clients of a round, or how many are expected if each is drawn by itself.
        scope: whether "global" or every "tensor" has this length at most.
        seed: of the noise.

    Attributes:
        equal_steps: whether the method divides an update by the number of local steps; known after
            ``check_training``.
    """

    uploads = totals = ("delta",)
    means = mean_scalars = ()
    acts_alone = True

    def __init__(
        self,
        inner: Algorithm,
        clip_norm: float,
        noise_multiplier: float = 0.95,
        *,
        divisor: float,
        scope: str = "global",
        seed: int = 0,
    ):
        super().__init__(inner)
        checks.number("dp_clip_norm", clip_norm, "(0, inf)")
        checks.number("dp_noise_multiplier", noise_multiplier, "[0, inf)")
        checks.number("divisor", divisor, "(0, inf)")
        checks.choice("dp_clip_scope", scope, ("global", "tensor"))
        checks.whole("dp_seed", seed, "[0, inf)")
        _refuse_what_is_more_than_an_update(inner)
        self.clip_norm, self.noise_multiplier, self.scope = clip_norm, noise_multiplier, scope
        self.divisor = divisor
        self.equal_steps = False
        self._key = rng.key(seed, "dp.noise")
        self._num_steps: int | None = None
        self._unit_rates: float | None = None
        self._keeps_velocity = False

    def check_training(self, training: TrainingSpec) -> None:
        self.inner.check_training(training)
        if training.weighting != "uniform":
            raise InputError(
                f"dp_clip_norm needs weighting=uniform: a client's part in the mean must be at "
                f"most clip_norm, whatever it has. Received: weighting={training.weighting}. "
                f"Remove it.",
                *("dp_clip_norm", "weighting="),
            )
        if training.shares_statistics:
            raise InputError(
                "dp_clip_norm needs BatchNorm statistics that are not sent to the server, where "
                "their mean would tell of the clients without any noise. Received: a model with "
                "BatchNorm, whose clients send theirs. Use GroupNorm, or norm_state=keep_server.",
                *("dp_clip_norm", "norm_state="),
            )
        self._num_steps, self._keeps_velocity = training.num_steps, training.keeps_velocity
        self._try_the_server()

    def _try_the_server(self) -> None:
        """The server's step once, with zeros, so that what it cannot do is known beforehand."""
        weights = [tf.zeros(shape) for shape in self.inner.spec.shapes]
        server = {"weights": weights, **self.inner.server_vectors(weights)}
        self._seen_by_inner(weights, server, Round(tf.constant(0), tf.constant(1.0), num_clients=1))

    def make_client(self, network, local_step):
        client = self.inner.make_client(network, local_step)
        if self.equal_steps and self._num_steps is not None:
            self._unit_rates = client.unit_rates(self._num_steps)
        return client

    def report(self, client, outcome):
        delta = self._clipped(outcome.delta)
        weights = tree.add(client.round.start, delta)
        clipped = dataclasses.replace(outcome, weights=weights, delta=delta)
        upload, state = self.inner.report(client, clipped)
        name = self.inner.uploads[0]
        from_sent = client.round.start is client.round.received["weights"]
        if not (upload[name] is delta or (upload[name] is weights and from_sent)):
            raise _more_than_an_update(self.inner, name)
        return {"delta": delta}, state

    def _clipped(self, delta: Tree) -> Tree:
        if self.scope == "tensor":
            return [tree.clip([x], self.clip_norm)[0] for x in delta]
        return tree.clip(delta, self.clip_norm)

    def summands(self, contribution, server, round_):
        return {"delta": contribution.upload["delta"]}

    def server_step(self, server, aggregate, round_):
        total = aggregate.total["delta"]
        if self.noise_multiplier:
            length = self.noise_multiplier * self.clip_norm
            total = tree.axpy(length, self._noise(total, round_.number), total)
        mean = tree.scale(1 / self.divisor, total)
        return self.inner.server_step(server, self._seen_by_inner(mean, server, round_), round_)

    def _noise(self, like: Tree, number: tf.Tensor) -> Tree:
        """Standard normal numbers, a function of the seed and the round."""
        first = tf.cast(number, tf.int64) * MAX_TENSORS
        return [
            tf.random.stateless_normal(
                x.shape, tf.stack([tf.constant(self._key, tf.int64), first + i]), alg="philox"
            )
            for i, x in enumerate(like)
        ]

    def _seen_by_inner(self, mean: Tree, server: Vectors, round_: Round) -> Aggregate:
        """What the method would have added up, as a function of the private mean alone.

        What it adds up is linear in the update, or in the model, and the same for all clients. So
        its mean is that of a single client whose update is the mean.
        """
        sent = self.inner.download(server, {}, round_)
        [name] = self.inner.uploads
        upload = {"delta": mean} if name == "delta" else {"model": tree.add(sent["weights"], mean)}
        released = _Released(self, upload, sent, round_, self._keeps_velocity)
        found = self.inner.summands(released, server, round_)
        return Aggregate(
            mean={name: found[name] for name in self.inner.means},
            total={name: tree.scale(self.divisor, found[name]) for name in self.inner.totals},
            scalar={},
            num_reporting=tf.constant(self.divisor, tf.float32),
        )

    def steps_of_all(self) -> tf.Tensor:
        """The local steps of every client.

        Raises:
            InputError: they are not the same.
        """
        self.equal_steps = True
        if self._num_steps is None:
            raise InputError(
                f"dp_clip_norm on {self.inner.name}, which divides updates by their number of "
                f"local steps, needs the same number on every client. Received: clients with "
                f"different numbers. Use local_steps, or another method.",
                *("dp_clip_norm", "local_steps"),
            )
        return tf.constant(float(self._num_steps))

    def lr_sum_of_all(self, lr: tf.Tensor) -> tf.Tensor:
        """The sum of every client's rates, as clients know it; see ``ClientModel.lr_sum``."""
        steps = self.steps_of_all()
        return (steps if self._unit_rates is None else tf.constant(self._unit_rates)) * lr

    def describe(self):
        return {
            **self.inner.describe(),
            "dp_clip_norm": self.clip_norm,
            "dp_noise_multiplier": self.noise_multiplier,
            "dp_divisor": self.divisor,
            "dp_clip_scope": self.scope,
        }


class _Released(Contribution):
    """The mean as if it were one client's contribution; what must not be known is not there."""

    def __init__(self, owner: DP, upload: Vectors, sent: Vectors, round_: Round, inherits: bool):
        known = {"upload": upload, "sent": sent, "row": {}, "inherits": inherits}
        for name, value in (known | {"_owner": owner, "_lr": round_.lr}).items():
            object.__setattr__(self, name, value)  # it is frozen

    @property
    def num_steps(self) -> tf.Tensor:
        return self._owner.steps_of_all()  # type: ignore[attr-defined]

    @property
    def lr_sum(self) -> tf.Tensor:
        return self._owner.lr_sum_of_all(self._lr)  # type: ignore[attr-defined]

    @property
    def num_examples(self) -> tf.Tensor:
        name = self._owner.inner.name  # type: ignore[attr-defined]
        raise InputError(
            f"dp_clip_norm makes no sense on {name}: its server uses the clients' numbers of "
            f"examples. Remove it.",
            "dp_clip_norm",
        )


def _refuse_what_is_more_than_an_update(inner: Algorithm) -> None:
    if len(inner.uploads) != 1:
        raise InputError(
            f"dp_clip_norm makes no sense on {inner.name}: its clients upload "
            f"{' and '.join(inner.uploads)}, and only one vector is made private. Remove it.",
            "dp_clip_norm",
        )
    if inner.server_rows:
        raise InputError(
            f"dp_clip_norm makes no sense on {inner.name}: its server keeps "
            f"{' and '.join(inner.server_rows)} of every client, without noise. Remove it.",
            "dp_clip_norm",
        )
    [name] = inner.uploads
    if name not in ("delta", "model") or (name == "model" and inner.own_start):
        raise _more_than_an_update(inner, name)
    if inner.mean_scalars:
        raise InputError(
            f"dp_clip_norm makes no sense on {inner.name}: its server also averages "
            f"{' and '.join(inner.mean_scalars)}, without noise. Remove it.",
            "dp_clip_norm",
        )


def _more_than_an_update(inner: Algorithm, name: str) -> InputError:
    return InputError(
        f"dp_clip_norm makes no sense on {inner.name} as it is set: its clients upload {name}, "
        f"which is more than their clipped update from the model that they were sent. Remove it, "
        f"or let them upload the update.",
        "dp_clip_norm",
    )
