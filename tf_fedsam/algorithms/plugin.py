"""A plug-in wraps any algorithm and is one itself; what it does not change is the inner one's."""

from typing import Any

from tf_fedsam.algorithms.base import Algorithm


class Plugin(Algorithm):
    """Delegates everything to ``inner``."""

    def __init__(self, inner: Algorithm):
        self.inner = inner
        self.hparams = inner.hparams
        self.server_lr = inner.server_lr

    def __getattribute__(self, name: str) -> Any:
        if name in _OF_THE_INNER:
            return getattr(object.__getattribute__(self, "inner"), name)
        return object.__getattribute__(self, name)

    def setup(self, spec):
        self.inner.setup(spec)

    def make_client(self, network, local_step):
        return self.inner.make_client(network, local_step)

    def server_vectors(self, weights):
        return self.inner.server_vectors(weights)

    def client_defaults(self, server):
        return self.inner.client_defaults(server)

    def download(self, server, state):
        return self.inner.download(server, state)

    def start(self, client_round):
        return self.inner.start(client_round)

    def report(self, client, outcome):
        return self.inner.report(client, outcome)

    def summands(self, upload, outcome, client):
        return self.inner.summands(upload, outcome, client)

    def server_step(self, server, aggregate, round_):
        return self.inner.server_step(server, aggregate, round_)

    def downhill_momentum(self, server):
        return self.inner.downhill_momentum(server)

    def scalars(self, server):
        return self.inner.scalars(server)

    def describe(self):
        return self.inner.describe()


_OF_THE_INNER = {
    *("name", "title", "paper", "summary", "Client", "Hparams", "downloads", "download_scalars"),
    *("uploads", "client_state_on_server", "means", "totals", "mean_scalars", "model_form"),
    *("own_momentum", "own_start", "proximal", "extra_gradient_epochs", "spec"),
}
