"""Stochastic weight averaging on the server, on top of any algorithm.

Caldarola, Caputo and Ciccone 2022, arXiv:2203.11834.

    from round ``start`` on, in cycles of ``cycle`` rounds:
    clients: lr <- (1 - tau) * lr + tau * swa_lr       tau = 1/cycle, 2/cycle, ..., 1; none if 1
    server:  mean <- (n * mean + w) / (n + 1), n <- n + 1             after the round with tau = 1

Training never sees the mean; it is what is tested and exported, once there is one. BatchNorm
statistics are averaged with the same weights. A round in which nobody reported is not collected.
In the authors' code the phase of the rate is counted from round 0, and a model is collected one
round after the rate was lowest, when it has jumped up again, for the first time ``cycle`` rounds
after ``start``: ``collect="official"``. Until then that code tests the model of round ``start``;
here it is the present one.
"""

from tf_fedsam import checks, tree
from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.algorithms.plugin import Plugin
from tf_fedsam.lazy import tf

MEAN, STATISTICS, COUNT = "swa_mean", "swa_statistics", "swa_count"


class SWA(Plugin):
    """A mean of global models.

    Args:
        inner: the method.
        cycle: rounds of a cycle; 1 collects after every round and leaves the rate alone.
        start: the round, from 0, that the first cycle begins with.
        lr: the rate that a cycle ends with.
        collect: "end" of a cycle, or "official".
    """

    def __init__(
        self, inner: Algorithm, cycle: int, start: int, lr: float = 0.0, collect: str = "end"
    ):
        super().__init__(inner)
        self.cycle, self.start_round, self.end_lr, self.collect = cycle, start, lr, collect
        checks.whole("swa_cycle", cycle)
        checks.whole("swa_start", start, "[0, inf)")
        checks.number("swa_lr", lr, "[0, inf)")
        checks.choice("swa_collect", collect, ("end", "official"))

    def round_lr(self, lr, round_num):
        lr = self.inner.round_lr(lr, round_num)
        if round_num < self.start_round or self.cycle == 1:
            return lr
        since = 0 if self.collect == "official" else self.start_round
        tau = ((round_num - since) % self.cycle + 1) / self.cycle
        return (1 - tau) * lr + tau * self.end_lr

    def collects(self, round_num):
        """Whether the model that this round makes goes into the mean; also for tensors."""
        since = round_num - self.start_round
        if self.collect == "official":
            return (since > 0) & (since % self.cycle == 0)
        return (since >= 0) & ((since + 1) % self.cycle == 0)

    def num_collected(self, rounds: int) -> int:
        """Models in the mean after so many rounds, if somebody reports in each."""
        return sum(bool(self.collects(t)) for t in range(self.start_round, rounds))

    def server_vectors(self, weights):
        return {
            **self.inner.server_vectors(weights),
            MEAN: tree.zeros_like(weights),
            STATISTICS: [tf.zeros(shape) for shape in self.inner.spec.statistics],
            COUNT: [tf.zeros([])],
        }

    def after_round(self, server, statistics, round_):
        server = self.inner.after_round(server, statistics, round_)
        [count] = server[COUNT]
        now = self.collects(round_.number)

        def with_one_more(mean, model):
            return [
                tf.where(now, (count * m + w) / (count + 1), m)
                for m, w in zip(mean, model, strict=True)
            ]

        return {
            **server,
            MEAN: with_one_more(server[MEAN], server["weights"]),
            STATISTICS: with_one_more(server[STATISTICS], statistics),
            COUNT: [tf.where(now, count + 1, count)],
        }

    def reported(self, server, statistics):
        if server[COUNT][0] == 0:
            return self.inner.reported(server, statistics)
        return server[MEAN], server[STATISTICS]

    def describe(self):
        return {
            **self.inner.describe(),
            "swa_cycle": self.cycle,
            "swa_start": self.start_round,
            **({} if self.cycle == 1 else {"swa_lr": self.end_lr}),
            "swa_collect": self.collect,
        }
