"""Tests run on three logical CPU devices, which must exist before TensorFlow starts."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pytest


@pytest.fixture(scope="session", autouse=True)
def three_devices():
    from tf_fedsam.devices import make_strategy

    return make_strategy("cpu:3")
