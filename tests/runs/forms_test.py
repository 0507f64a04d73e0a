"""Which forms a model can have, and what is told of those that cannot be made."""

import pytest

from tf_fedsam.errors import InputError
from tf_fedsam.runs import forms
from tf_fedsam.runs.config import RunConfig
from tf_fedsam.runs.forms import FORMS, Form, check_available, read_forms, serving_name


def test_reading():
    assert [form.name for form in read_forms(forms.DEFAULT)] == ["saved_model", "keras"]
    assert [form.file for form in read_forms("tflite, onnx,tflite")] == [
        "model.tflite",
        "model.onnx",
    ]
    assert read_forms("none") == ()


@pytest.mark.parametrize("text", ["tflight", "keras,", "", "none,keras"])
def test_what_there_is_not(text):
    with pytest.raises(InputError, match="Unknown form of the model") as caught:
        read_forms(text)
    assert "saved_model" in str(caught.value)


def test_the_setting(tmp_path):
    import tasks  # noqa: F401  makes the data sets known

    assert RunConfig().resolve().export_forms == read_forms("saved_model,keras")
    assert RunConfig(export="tflite").resolve().export_forms == (FORMS["tflite"],)
    with pytest.raises(InputError, match="Did you mean 'tflite'"):
        RunConfig(export="tflit").resolve()
    plain, other = RunConfig().resolve(), RunConfig(export="none").resolve()
    assert plain.fingerprint() == other.fingerprint()  # the training is the same


def test_a_package_that_is_not_there():
    missing = Form("x", "model.x", "no_such_package", "no-such-package more")
    check_available([FORMS["keras"], FORMS["tflite"]])
    with pytest.raises(InputError) as caught:
        check_available([FORMS["keras"], missing])
    told = caught.value.with_flags()
    assert told.startswith("--export=x needs the package no_such_package")
    assert "pip install no-such-package more" in told


@pytest.mark.parametrize(
    ("dataset", "algo", "expected"),
    [
        ("glyphs", "fedsam", "glyphs_fedsam"),
        ("tfds:mnist/a", "my/own.py:FedMine", "tfds_mnist_a_FedMine"),
        ("..", "..", "model"),
    ],
)
def test_names_for_serving(dataset, algo, expected):
    assert serving_name(dataset, algo) == expected
