"""Which probes there are; what they do is in :mod:`tf_fedsam.analysis.probes`."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class ProbeFacts:
    """What is known of a probe without running it.

    Attributes:
        help: what it measures.
        cost: what that takes.
        by_default: whether ``auto`` has it.
        needs: settings that it needs, such as ``keep_local_models=true``.
        settings: settings that are for this probe, or for it and others, and for nothing else.
    """

    help: str
    cost: str
    by_default: bool = False
    needs: str = ""
    settings: tuple[str, ...] = ()


PROBES = {
    "clients": ProbeFacts(
        "Accuracy on each client's training examples, and on test examples in its mix of classes; "
        "global training accuracy.",
        "one pass over all training and test examples, without gradients; of more than "
        "accuracy_clients clients, over the training examples of so many",
        by_default=True,
        settings=("accuracy_clients",),
    ),
    "confusion": ProbeFacts(
        "Test examples by true and predicted class.",
        "one pass over the test examples, shared with the probe clients",
        by_default=True,
    ),
    "sharpness": ProbeFacts(
        "How much the loss rises a step of length sharpness_rho uphill.",
        "one gradient and one loss on probe_examples training examples",
        by_default=True,
    ),
    "eigenvalue": ProbeFacts(
        "The largest eigenvalue of the Hessian of the training loss.",
        "up to 20 Hessian-vector products on probe_examples training examples",
    ),
    "divergence": ProbeFacts(
        "Mean squared distance of all clients' last local models to the global one, as FedInit "
        "measures it.",
        "room for as many models as there are clients",
        needs="keep_local_models=true",
    ),
    "hessian": ProbeFacts(
        "The largest eigenvalues of the Hessian of the training loss, and its trace.",
        "up to 20 + 10 * eigenvalues + trace_vectors Hessian-vector products on probe_examples "
        "training examples; room for 10 + 2 * eigenvalues models",
        settings=("eigenvalues", "trace_vectors"),
    ),
    "m_sharpness": ProbeFacts(
        "The mean sharpness of single batches of sharpness_batch examples.",
        "one gradient and one loss on probe_examples training examples",
        settings=("sharpness_batch",),
    ),
    "flatness": ProbeFacts(
        "The sharpness of some clients' local models and of the global model, on the clients' own "
        "examples and on those of all.",
        "a round with probe_clients clients; probe_clients + 1 times the probe sharpness, and "
        "twice on the clients' own examples",
        settings=("probe_clients",),
    ),
    "personal": ProbeFacts(
        "Accuracy of some clients on test examples in their mix of classes, before and after "
        "personal_epochs of fine-tuning.",
        "personal_epochs local epochs of probe_clients clients, and two passes over their test "
        "examples",
        settings=("probe_clients", "personal_epochs"),
    ),
}
NAMES = tuple(PROBES)
DEFAULT = tuple(name for name, facts in PROBES.items() if facts.by_default)
# The probes that a setting is for.
ONLY_FOR: dict[str, tuple[str, ...]] = {
    setting: tuple(name for name, facts in PROBES.items() if setting in facts.settings)
    for facts in PROBES.values()
    for setting in facts.settings
}
