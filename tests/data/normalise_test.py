"""Normalisations other than a data set's own."""

import numpy as np
import pytest

import tasks  # noqa: F401  makes the data sets known
from tf_fedsam import InputError, RunConfig
from tf_fedsam.data.federated_dataset import Preprocess
from tf_fedsam.data.normalise import normalised, read
from tf_fedsam.runs.experiment import load_data, make_dataset

OWN = Preprocess(1 / 255, mean=(0.5, 0.4, 0.3), std=(0.2, 0.2, 0.2))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # 51 / 255 = 0.2: (0.2 - 0.5) / 0.2, (0.2 - 0.4) / 0.2, (0.2 - 0.3) / 0.2
        ("own", [-1.5, -1.0, -0.5]),
        ("unit", [0.2, 0.2, 0.2]),
        ("0.1/0.5", [0.2, 0.2, 0.2]),  # (0.2 - 0.1) / 0.5
        ("0.1,0.2,0.4/0.1,0.5,0.4", [1.0, 0.0, -0.5]),
    ],
)
def test_values(text, expected):
    pixels = np.full((1, 1, 1, 3), 51, np.uint8)
    found = normalised(OWN, text, channels=3)(pixels).numpy()
    np.testing.assert_allclose(found.ravel(), expected, atol=1e-6)


def test_own_is_the_same_object():
    assert normalised(OWN, "own", channels=3) is OWN


@pytest.mark.parametrize(
    "text", ["none", "0.5", "0.5/", "0.5/0", "0.5/-1", "nan/1", "1,2/3", "1/2/3", "a/b"]
)
def test_wrong_texts_are_refused(text):
    with pytest.raises(InputError, match="own, unit, or MEAN/STD"):
        read(text)
    with pytest.raises(InputError, match="own, unit, or MEAN/STD"):
        RunConfig(normalise=text).resolve()


def test_channels_must_fit():
    with pytest.raises(InputError, match="has 3 channels, but the inputs have 1"):
        normalised(OWN, "1,2,3/1,2,3", channels=1)


def test_a_run_uses_it():
    config = RunConfig(dataset="glyphs", subset=200, num_clients=2, normalise="0.25/0.5").resolve()
    dataset = make_dataset(config, load_data(config))
    image = dataset.test.x[:1]
    expected = (image.astype(np.float64) / 255 - 0.25) / 0.5
    np.testing.assert_allclose(dataset.preprocess(image).numpy(), expected, atol=1e-6)


def test_old_fingerprints_stay():
    """A setting that came later does not tell old configurations apart."""
    plain = RunConfig(dataset="glyphs").resolve()
    assert (
        plain.fingerprint() == RunConfig(dataset="glyphs", normalise="own").resolve().fingerprint()
    )
    assert (
        plain.fingerprint() != RunConfig(dataset="glyphs", normalise="unit").resolve().fingerprint()
    )
