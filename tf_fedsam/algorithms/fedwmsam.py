"""FedWMSAM: personalised, adaptively weighted momentum that also gives the SAM perturbation.

Huang et al., A Fast and Flat Federated Learning Method via Weighted Momentum and Sharpness-Aware
Minimization, NeurIPS 2025.

    server:  D_i = D + alpha / (1 - alpha) * (c - c_i)     personalised momentum, uphill
    client:  e   = rho * u(start + b * D_i - w_i)          b = 0, 1, ...: the local step
             w_i <- w_i - lr * (alpha * g(w_i + e) + (1 - alpha) * D_i)
    server:  w   <- w + server_lr * mean_i(delta_i)
             D   <- mean_i(G_i),  c_i <- c_i - c + G_i     G_i = -delta_i / (num_steps_i * lr)
             c   <- c + sum_i(change of c_i) / num_clients
             alpha <- (1 - alpha_step) * alpha + alpha_step * clip(mean_i(sim_i), 0.1, 0.9)

The paper's equation adds c_i where its proof and code have c - c_i, and mixes the signs of D; read
as above. Its perturbation is uphill by the formula (direction="ascent"), the deviation from the
predicted global model by the prose ("deviation": u(w_i - start + lr * b * D_i)), and downhill in
the code ("descent"). Its similarity is cos(D, D_i) (alpha_rule="momentum"); the code's,
1 + cos(delta_i, D), is the default ("update"). What is sent is (1 - alpha) * D_i, so that alpha = 1
is allowed. With local momentum, lr * b is how far b steps along a constant direction go.
"""

import dataclasses

from tf_fedsam import tree
from tf_fedsam.algorithms.base import Algorithm, Contribution, Vectors
from tf_fedsam.client import ClientModel
from tf_fedsam.hparams import Checked, hparam
from tf_fedsam.lazy import tf
from tf_fedsam.tree import Tree

SIMILARITY_RANGE = (0.1, 0.9)
SMALLEST_SHARE = 1e-6  # of 1 - alpha: at alpha = 1 the direction is that of D_i alone


class FedWMSAMClient(ClientModel):
    perturbs = True

    def begin_round(self):
        received = self.round.received
        self.fixed.alpha = self.hparams.alpha if self.in_fit else received["alpha"][0]
        share = tf.maximum(1 - self.fixed.alpha, SMALLEST_SHARE)
        self.fixed.momentum = tree.scale(1 / share, received["pull"])

    def train_step(self, data):
        batch, step = self.unpack(data), tf.cast(self.step_index, tf.float32)
        momentum, start = self.fixed.momentum, self.round.start
        if self.hparams.direction == "deviation":
            towards = tree.axpy(self.rates(step), momentum, self.offset())
        else:
            towards = tree.sub(tree.axpy(step, momentum, start), self.read_weights())
        sign = -1.0 if self.hparams.direction == "descent" else 1.0
        gradient = self.gradient(batch, shift=tree.resize(towards, sign * self.radius()))
        pull = self.round.received["pull"]
        return self.step(batch, gradient, scale=self.fixed.alpha, correction=pull)


class FedWMSAM(Algorithm):
    name = "fedwmsam"
    title = "FedWMSAM"
    paper = "Huang et al. 2025 (NeurIPS)"
    summary = "personalised momentum with adaptive weight, which also gives the perturbation"
    Client = FedWMSAMClient
    downloads: tuple[str, ...] = ("weights", "pull")
    download_scalars: tuple[str, ...] = ("alpha",)
    server_rows: tuple[str, ...] = ("control",)
    means: tuple[str, ...] = ("delta", "gradient")
    totals: tuple[str, ...] = ("control_change",)
    mean_scalars: tuple[str, ...] = ("similarity",)

    @dataclasses.dataclass(frozen=True)
    class Hparams(Checked):
        rho: float = hparam(
            0.01, "[0, inf)", "Radius of the perturbation; 0 is none.", paper="0.01; 0.1 in code"
        )
        alpha: float = hparam(
            0.1, "(0, 1]", "Weight of the gradient against the momentum in round 0.", paper="0.1"
        )
        alpha_step: float = hparam(
            0.01, "[0, 1]", "How fast the weight follows the similarity; 0 fixes it.", paper="0.01"
        )
        correction: bool = hparam(
            True, help="Add c - c_i to the momentum; false: the same for all.", paper="true"
        )
        direction: str = hparam(
            "ascent",
            {
                "ascent": "uphill, by the paper's formula",
                "deviation": "away from the predicted global model, by its prose",
                "descent": "downhill, as its code does",
            },
            "Where the perturbation points.",
            paper="ascent; descent in code",
        )
        alpha_rule: str = hparam(
            "update",
            {"update": "1 + cos(delta_i, D)", "momentum": "cos(D, D_i)"},
            "The similarity that the weight follows.",
            paper="momentum; update in code",
        )

    def server_vectors(self, weights):
        zeros = tree.zeros_like(weights)
        return {
            "momentum": zeros,
            "control": zeros,
            "alpha": [tf.constant(float(self.hparams.alpha))],
        }

    def download(self, server, row, round_):
        alpha = server["alpha"][0]
        pull = tree.scale(1 - alpha, server["momentum"])
        if self.hparams.correction:
            drift = tree.sub(server["control"], row["control"])
            pull = tree.axpy(alpha, drift, pull)
        return {"weights": server["weights"], "pull": pull, "alpha": server["alpha"]}

    def summands(self, contribution, server, round_):
        momentum = server["momentum"]
        if self.hparams.alpha_rule == "update":
            moving = tf.cast(tree.norm(momentum) > 0, tf.float32)
            similarity = moving * (1 + tree.cosine(contribution.delta(), momentum))
        else:
            similarity = tree.cosine(momentum, contribution.sent["pull"])
        return {
            "delta": contribution.delta(),
            "gradient": contribution.mean_gradient(),
            "control_change": _control_change(contribution, server),
            "similarity": similarity,
        }

    def new_row(self, contribution, server, round_):
        change = _control_change(contribution, server)
        return {"control": tree.add(contribution.row["control"], change)}

    def server_step(self, server, aggregate, round_):
        moved = super().server_step(server, aggregate, round_)
        control = tree.axpy(
            1 / round_.num_clients, aggregate.total["control_change"], server["control"]
        )
        similarity = tf.clip_by_value(aggregate.scalar["similarity"], *SIMILARITY_RANGE)
        step = self.hparams.alpha_step
        alpha = (1 - step) * server["alpha"][0] + step * similarity
        return {
            **moved,
            "momentum": aggregate.mean["gradient"],
            "control": control,
            "alpha": [alpha],
        }

    def downhill_momentum(self, server):
        return tree.scale(-1.0, server["momentum"])

    def scalars(self, server):
        return {"alpha": server["alpha"][0]}


def _control_change(contribution: Contribution, server: Vectors) -> Tree:
    return tree.sub(contribution.mean_gradient(), server["control"])
