"""The forms that a trained model is exported in, and what each needs. Imports nothing heavy."""

import dataclasses
import importlib.util
import re
from collections.abc import Sequence

from tf_fedsam.errors import InputError, unknown
from tf_fedsam.own_code import is_reference

NETWORK = "network.keras"  # always there: what the run itself reads
WEIGHTS = "final_weights.npz"
LAST_WEIGHTS = "last_weights.npz"  # if the model that is reported is another one
LAST_WEIGHTS = "last_weights.npz"  # if the model that is reported is another one
LAST_WEIGHTS = "last_weights.npz"  # if the model that is reported is another one
CARD = "MODEL_CARD.md"
NONE = "none"


@dataclasses.dataclass(frozen=True)
class Form:
    """One form of the model.

    Attributes:
        name: as it is asked for.
        file: or folder, in that of the run.
        package: what it needs beside TensorFlow.
        install: what to install for that.
    """

    name: str
    file: str
    package: str = ""
    install: str = ""

    @property
    def available(self) -> bool:
        return not self.package or importlib.util.find_spec(self.package) is not None


FORMS = {
    form.name: form
    for form in (
        Form("saved_model", "saved_model"),
        Form("keras", "model.keras"),
        Form("tflite", "model.tflite"),
        Form("onnx", "model.onnx", "tf2onnx", "tf2onnx onnx"),
        Form("serving", "serving"),
    )
}
DEFAULT = "saved_model,keras"


def read_forms(text: str) -> tuple[Form, ...]:
    """The forms that a setting names, each once.

    Raises:
        InputError: for one that there is not.
    """
    names = [item.strip() for item in text.split(",")]
    if names == [NONE]:
        return ()
    for name in names:
        if name not in FORMS:
            raise unknown("form of the model", name, (*FORMS, NONE), "", "export")
    return tuple(FORMS[name] for name in dict.fromkeys(names))


def check_available(forms: Sequence[Form]) -> None:
    """Refuses, before anything is trained, forms whose package is not installed."""
    for form in forms:
        if not form.available:
            raise InputError(
                f"export={form.name} needs the package {form.package}, which is not installed. "
                f"Install it with: pip install {form.install}. Or leave {form.name} out; a run "
                f"that is done can be exported later.",
                "export=",
            )


def serving_name(dataset: str, algo: str) -> str:
    """What the model is called in the folder for TensorFlow Serving."""
    method = algo.rpartition(":")[2] if is_reference(algo) else algo
    return re.sub(r"\W+", "_", f"{dataset}_{method}").strip("_") or "model"
