"""The card of a trained model: what it was made of, what it can do, how to use it."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tf_fedsam import text
from tf_fedsam.runs.config import SETTINGS
from tf_fedsam.runs.forms import Form
from tf_fedsam.runs.settings import Role

SHOWN_CLASSES = 20
# What has a row of its own, or is told by where the data come from.
ELSEWHERE = ("dataset", "partition", "model", "algo", "hparams", "rounds", "num_clients")


def render(
    config: Mapping[str, Any], summary: Mapping[str, Any], title: str, forms: Sequence[Form]
) -> str:
    """The card as Markdown.

    Args:
        config: the content of the run's ``config.json``.
        summary: the results.
        title: of the method.
        forms: that the model was exported in.
    """
    settings = config["settings"]
    is_mean = "swa_cycle" in config["algorithm"] and "test_accuracy_last" in summary
    model = "The mean of global models" if is_mean else "The global model"
    parts = [
        f"# {title} on {_text(settings['dataset'])}",
        f"{model} of a simulated federated training, after its last round. This card was written "
        f"by the run; you may add to it.",
        "## Results",
        _table(_results(summary)),
        "## Data",
        _table(_data(config)),
        "## Training",
        _table(_training(config, title)),
        f"    {_text(config['command'])}",
        "## Use",
        *_use(config, forms),
        "## Limits",
        _limits("privacy" in summary),
    ]
    return "\n\n".join(parts) + "\n"


def _results(summary: Mapping[str, Any]) -> list[tuple[str, Any]]:
    rows = [
        ("test accuracy, last round", _percent(summary["test_accuracy"])),
        ("test loss, last round", _number(summary["test_loss"])),
        (
            "best test accuracy",
            f"{_percent(summary['best_test_accuracy'])} in round {summary['best_round']}",
        ),
        ("mean of the last 10 tests", _percent(summary["mean_last_10_test_accuracy"])),
        *_held_out(summary),
        ("rounds", summary["rounds"]),
        ("sent", f"{text.size(summary['bytes_down'])} down, {text.size(summary['bytes_up'])} up"),
        ("gradient evaluations", f"{summary['gradient_evaluations']:,}"),
    ]
    if "test_accuracy_last" in summary:  # training ended with another one
        last = _percent(summary["test_accuracy_last"])
        rows.insert(1, ("that of the last model", last))
    if "privacy" in summary:
        rows.append(("privacy of clients", summary["privacy"]))
    stopped = summary.get("stopped")
    if stopped:
        rows.append(("stopped early", stopped["reason"]))
    return rows


def _held_out(summary: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """What settings may be chosen by, if there is such a thing."""
    if "validation_accuracy" not in summary:
        return []
    return [("accuracy on held-out training examples", _percent(summary["validation_accuracy"]))]


def _data(config: Mapping[str, Any]) -> list[tuple[str, Any]]:
    data, split = config["data"], config["partition"]
    names = [str(name) for name in data["class_names"]]
    more = f", ... ({len(names)} in all)" if len(names) > SHOWN_CLASSES else ""
    with_replacement = ", some examples on several clients" if split["with_replacement"] else ""
    return [
        ("data set", config["settings"]["dataset"]),
        ("source", data["source"]),
        ("examples", ", ".join(_sizes(data))),
        ("an input", f"{' x '.join(map(str, data['input_shape']))}, {data.get('dtype', 'uint8')}"),
        ("classes", ", ".join(names[:SHOWN_CLASSES]) + more),
        ("split", f"{split['scheme']}, {split['num_clients']} clients{with_replacement}"),
        ("fingerprint of the split", split["fingerprint"]),
    ]


def _sizes(data: Mapping[str, Any]) -> list[str]:
    words = {"train_examples": "training", "holdout_examples": "held out", "test_examples": "test"}
    return [f"{data[name]:,} {word}" for name, word in words.items() if name in data]


def _training(config: Mapping[str, Any], title: str) -> list[tuple[str, Any]]:
    settings = config["settings"]
    roles = (Role.METHOD, Role.TUNING, Role.SEED, Role.PROBLEM)
    told = {
        name: value
        for name, value in settings.items()
        if name in SETTINGS and SETTINGS[name].role in roles and name not in ELSEWHERE
    }
    versions = config.get("versions", {})
    return [
        ("method", f"{title} (`{_text(settings['algo'])}`)"),
        ("hyper-parameters", _listed(config["algorithm"])),
        ("model", f"{settings['model']}, {config['num_parameters']:,} weights"),
        ("settings", _listed({n: v for n, v in told.items() if v not in (None, "", {})})),
        ("versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
    ]


def _use(config: Mapping[str, Any], forms: Sequence[Form]) -> list[str]:
    shape = ", ".join(map(str, config["data"]["input_shape"]))
    lines = {
        "saved_model": (
            "import tensorflow as tf",
            'served = tf.saved_model.load("saved_model")',
            'served(images)["probabilities"]',
        ),
        "keras": (
            "import keras",
            'model = keras.models.load_model("model.keras")',
            "model(images)  # logits",
        ),
        "tflite": (
            "from ai_edge_litert.interpreter import Interpreter",
            'run = Interpreter("model.tflite").get_signature_runner()',
            'run(images=images.astype("float32"))["probabilities"]',
        ),
        "onnx": (
            "import onnxruntime",
            'session = onnxruntime.InferenceSession("model.onnx")',
            'session.run(["probabilities"], {"images": images.astype("float32")})',
        ),
    }
    parts = [
        f"All of these take raw inputs of shape `[batch, {shape}]`, as the data set has them, and "
        f"normalise them by themselves. `network.keras` takes inputs that are already normalised: "
        f"`{_preprocess(config['data']['preprocess'])}`."
    ]
    code = [line for form in forms for line in (*lines.get(form.name, ()), "")]
    if code:
        parts.append("```python\n" + "\n".join(code).rstrip() + "\n```")
    if any(form.name == "serving" for form in forms):
        parts.append("The folder in `serving/` is the `model_base_path` of TensorFlow Serving.")
    return parts


def _limits(private: bool) -> str:
    noise = (
        "The noise of the privacy stated above was made from the seed that stands there too: who "
        "reads it can take the noise away. What is stated holds for a run whose seed is secret. "
    )
    return (
        f"Made in a simulation, on one machine and with public or local data: nothing here speaks "
        f"{'' if private else 'of privacy, '}of real devices or of networks. "
        f"{noise if private else ''}The accuracy is that on the test examples of the "
        f"data set named above; on other inputs it can be anything, and the probabilities are not "
        f"calibrated. If this run was chosen among several by its test accuracy, that accuracy is "
        f"optimistic."
    )


def _preprocess(found: Mapping[str, Any]) -> str:
    return f"(x * {found['scale']:.6g} - {list(found['mean'])}) / {list(found['std'])}"


def _table(rows: Sequence[tuple[str, Any]]) -> str:
    lines = [f"| {name} | {_text(value)} |" for name, value in rows]
    return "\n".join(["| | |", "|---|---|", *lines])


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items()) or "none"


def _text(value: Any) -> str:
    """On one line, and no column or tag of its own."""
    line = re.sub(r"\s+", " ", text.printable(str(value))).strip()
    return line.replace("|", "\\|").replace("<", "&lt;")


def _percent(share: float | None) -> str:
    return "not a number" if share is None else f"{share:.2%}"


def _number(value: float | None) -> str:
    return "not a number" if value is None else f"{value:.4g}"
