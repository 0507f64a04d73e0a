"""Tests run on three logical CPU devices, which must exist before TensorFlow starts."""

import os
import signal
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# As in an active environment, so that commands are shown in their short form.
os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])

import pytest


@pytest.fixture(scope="session", autouse=True)
def three_devices():
    from tf_fedsam.devices import make_strategy

    return make_strategy("cpu:3")


@pytest.fixture
def usual_signals():
    """For tests that send signals: whoever started pytest may have had them ignored.

    Processes that the test starts inherit it.
    """
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    if hasattr(signal, "SIGHUP"):
        usual[signal.SIGHUP] = signal.SIG_DFL
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
