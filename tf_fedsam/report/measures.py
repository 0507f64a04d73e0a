"""The numbers of a log that are drawn and listed, and what they are drawn over."""

import dataclasses

X_AXES = {
    "round": ("by round", "round", 1.0),
    "bytes": ("by traffic", "MB sent, down and up", 1e6),
    "gradient_evaluations": ("by gradients", "gradient evaluations", 1.0),
    "seconds": ("by time", "seconds of training", 1.0),
}


@dataclasses.dataclass(frozen=True)
class Measure:
    """A number of the log that is drawn and listed."""

    name: str
    title: str
    percent: bool = False
    log: bool = False


# What the accuracy of a model on each client is measured on, by its name in the log.
CLIENTS_EXAMPLES = {
    "train": "each client's own training examples",
    "test": "test examples in each client's class mix",
}
ACCURACY = Measure("test_accuracy", "Test accuracy", percent=True)
CHARTS: dict[str, tuple[str, tuple[Measure, ...]]] = {
    "Held out": (
        "The global model on training examples that nobody trains on, which settings may be "
        "chosen by.",
        (
            Measure("validation_accuracy", "Accuracy on held-out examples", percent=True),
            Measure("validation_loss", "Loss on held-out examples"),
        ),
    ),
    "Loss": (
        "Train loss is the mean over the local steps of a round; the other two are of the global "
        "model.",
        (
            Measure("train_loss", "Train loss"),
            Measure("test_loss", "Test loss"),
            Measure("global_train_loss", "Train loss of the global model"),
        ),
    ),
    "Flatness and drift": (
        "Mean squared distance of local models to the new global model (flatness distance) and to "
        "their own mean (dispersion); of all clients' last models to the global one (divergence).",
        (
            Measure("flatness_distance", "Flatness distance", log=True),
            Measure("dispersion", "Dispersion", log=True),
            Measure("divergence", "Divergence", log=True),
        ),
    ),
    "Sharpness": (
        "How much the train loss rises one step uphill, the same batch by batch (m-sharpness), and "
        "the eigenvalues of its Hessian and their sum (trace).",
        (
            Measure("sharpness", "Sharpness"),
            Measure("m_sharpness", "m-sharpness"),
            Measure("hessian_eigenvalue", "Largest Hessian eigenvalue"),
            Measure("hessian_eigenvalue_5", "Fifth largest Hessian eigenvalue"),
            Measure("hessian_trace", "Hessian trace"),
        ),
    ),
    "Local against global flatness": (
        "Sharpness of the models that some clients train from the global one, and of that itself, "
        "on the clients' own examples and on those of all; means over these clients, on one scale.",
        (
            Measure("sharpness_local_on_own", "Local sharpness, own examples"),
            Measure("sharpness_local_on_all", "Local sharpness, all examples"),
            Measure("sharpness_global_on_own", "Global sharpness, own examples"),
            Measure("sharpness_global_on_all", "Global sharpness, all examples"),
        ),
    ),
    "Personalised": (
        "Test accuracy of some clients on examples in their mix of classes, with the global model "
        "and after fine-tuning it on their own training examples, on one scale.",
        (
            Measure("personal_accuracy_before_mean", "Accuracy before fine-tuning", percent=True),
            Measure("personal_accuracy_after_mean", "Accuracy after fine-tuning", percent=True),
            Measure(
                "personal_accuracy_after_worst_decile",
                "After fine-tuning, worst tenth",
                percent=True,
            ),
        ),
    ),
    "Agreement": (
        "Mean cosine between updates of two clients, and of an update to the server's momentum.",
        (
            Measure("update_cosine", "Cosine between updates"),
            Measure("momentum_cosine", "Cosine to the momentum"),
        ),
    ),
    "Lengths": (
        "Norm of the global update and of the clients' perturbation.",
        (
            Measure("update_norm", "Update norm", log=True),
            Measure("perturbation_norm", "Perturbation norm"),
        ),
    ),
}
# Charts that are to be compared with each other, and so have the same y axis.
ONE_SCALE = ("Local against global flatness", "Personalised")


def measure(name: str) -> Measure:
    """How a number of the log is shown, also one that the page does not draw."""
    known = {m.name: m for _, measures in CHARTS.values() for m in (ACCURACY, *measures)}
    title = name.replace("_", " ").capitalize()
    return known.get(name) or Measure(name, title, percent="accuracy" in name)
