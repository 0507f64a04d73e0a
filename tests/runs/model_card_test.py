"""The card says what the run was, and no text of a user breaks it."""

import re

import pytest

from tests.comparison.fake_runs import make_config, make_records
from tf_fedsam.analysis.results import summarise
from tf_fedsam.runs.forms import FORMS, read_forms
from tf_fedsam.runs.model_card import render


def card(change=lambda config: None, forms="saved_model,keras", **summary):
    config = make_config("fedsam", 3, 5, "d0", 30, {}, False)
    config["data"]["preprocess"] = {"scale": 1 / 255, "mean": [0.5], "std": [0.25]}
    change(config)
    results = summarise(make_records("fedsam", 3, 5, 5, 0, None, 30, False)) | summary
    return render(config, results, "FedSAM", read_forms(forms))


def rows(text):
    return dict(re.findall(r"^\| (.+?) \| (.*) \|$", text, re.M))


def test_what_it_tells():
    text = card(test_accuracy=0.4321)
    found = rows(text)
    assert text.startswith("# FedSAM on mnist\n")
    assert found["test accuracy, last round"] == "43.21%"
    assert found["examples"] == "60,000 training, 10,000 test"
    assert found["split"] == "Dirichlet 0.3 per client, 30 clients"
    assert found["method"] == "FedSAM (`fedsam`)"
    assert found["model"] == "mlp, 199,210 weights"
    assert "lr=0.1" in found["settings"]
    assert "seed=3" in found["settings"]
    assert "devices" not in found["settings"]
    assert "    python -m launch.main --algo=fedsam --dataset=mnist --seed=3" in text
    assert "not calibrated" in text


def test_a_private_run():
    words = "epsilon 2.345 at delta 0.01 after 5 rounds"
    text = card(privacy=words)
    assert rows(text)["privacy of clients"] == words
    limits = text.partition("## Limits")[2]
    assert "whose seed is secret" in limits
    assert "speaks of privacy" not in limits
    assert "privacy of clients" not in rows(card())
    assert "speaks of privacy" in card()


def test_a_mean_of_models():
    swa = lambda config: config["algorithm"].update(swa_cycle=2)  # noqa: E731
    text = card(swa, test_accuracy=0.5, test_accuracy_last=0.25)
    assert "The mean of global models of a simulated" in text
    assert rows(text)["test accuracy, last round"] == "50.00%"
    assert rows(text)["that of the last model"] == "25.00%"
    assert "The global model of a simulated" in card(swa)  # nothing was collected
    assert "that of the last model" not in rows(card(swa))


def test_held_out_examples():
    assert not [name for name in rows(card()) if "held-out" in name]

    def change(config):
        config["data"]["holdout_examples"] = 6000

    found = rows(card(change, validation_accuracy=0.5))
    assert found["accuracy on held-out training examples"] == "50.00%"
    assert found["examples"] == "60,000 training, 6,000 held out, 10,000 test"


@pytest.mark.parametrize("form", FORMS)
def test_how_to_load(form):
    assert FORMS[form].file in card(forms=form).partition("## Use")[2]
    others = [f.file for f in FORMS.values() if f.name not in (form, "serving")]
    assert not any(file in card(forms=form) for file in others)


def test_how_a_network_is_fed():
    assert "(x * 0.00392157 - [0.5]) / [0.25]" in card()


def test_hostile_texts_are_texts():
    evil = "a|b\n# c <script>\x1b"

    def change(config):
        config["command"] = config["settings"]["dataset"] = config["data"]["source"] = evil
        config["data"]["class_names"] = [evil] * 40

    text = card(change)
    assert "<script>" not in text
    assert "\n# c" not in text
    assert rows(text)["source"].startswith("a\\|b")
    assert "(40 in all)" in text


def test_a_run_that_diverged_or_stopped():
    text = card(test_loss=None, stopped={"reason": "patience"})
    assert rows(text)["test loss, last round"] == "not a number"
    assert rows(text)["stopped early"] == "patience"
