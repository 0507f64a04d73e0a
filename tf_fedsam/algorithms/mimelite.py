"""MimeLite: local steps use the server's momentum, which full local gradients keep up to date.

Karimireddy et al., Mime: Mimicking Centralized Stochastic Algorithms in Federated Learning, 2020,
arXiv:2008.03606; with SGD and momentum as the mimicked optimiser.

    client:  w_i <- w_i - lr * (alpha * g(w_i) + (1 - alpha) * m)      m frozen in the round
             F_i  = gradient at w over all of the client's data
    server:  w   <- w + server_lr * mean_i(delta_i)
             m   <- alpha * mean_i(F_i) + (1 - alpha) * m              uphill

F_i is taken without dropout, augmentation, weight decay and clipping. alpha is 1 - beta of the
paper; published code often has the trace form m <- F + beta * m, the same with lr scaled.
"""

from tf_fedsam import tree
from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.algorithms.fedcm import FedCM, FedCMClient
from tf_fedsam.client import Batch
from tf_fedsam.lazy import tf
from tf_fedsam.tree import Tree


class MimeLiteClient(FedCMClient):
    def begin_round(self):
        super().begin_round()
        if self.round.data is not None:
            self.fixed.full_gradient = self.full_gradient()

    def full_gradient(self) -> Tree:
        """Mean gradient over all of the client's examples at the model received."""
        data = self.round.data
        self.assign_weights(self.round.received["weights"])

        def add_batch(k, total):
            batch = Batch(*data.batch(k, augmented=False))
            gradient = self.mean_gradient(batch, training=False)[2]
            return k + 1, tree.axpy(tf.cast(tf.shape(batch.y)[0], tf.float32), gradient, total)

        zeros = tree.zeros_like(self.round.start)
        loop = tf.while_loop(
            lambda k, _: k < data.num_batches, add_batch, (0, zeros), parallel_iterations=1
        )
        self.assign_weights(self.round.start)
        return tree.scale(1 / tf.cast(tf.maximum(data.num_examples, 1), tf.float32), loop[1])


class MimeLite(FedCM):
    name = "mimelite"
    title = "MimeLite"
    paper = "Karimireddy et al. 2020, arXiv:2008.03606"
    summary = "local steps with the server's momentum of full local gradients"
    Client = MimeLiteClient
    uploads: tuple[str, ...] = ("delta", "full_gradient")
    means: tuple[str, ...] = ("delta", "full_gradient")
    extra_gradient_epochs = 1

    def report(self, client, outcome):
        return {"delta": outcome.delta, "full_gradient": client.fixed.full_gradient}, {}

    def summands(self, contribution, server, round_):
        return Algorithm.summands(self, contribution, server, round_)

    def server_step(self, server, aggregate, round_):
        moved = Algorithm.server_step(self, server, aggregate, round_)
        alpha = self.hparams.alpha
        fresh = tree.scale(alpha, aggregate.mean["full_gradient"])
        return {**moved, "momentum": tree.axpy(1 - alpha, server["momentum"], fresh)}
