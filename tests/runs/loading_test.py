"""TensorFlow is loaded quietly; a stand-in is imported in its place.

The same with real launchers, and signals meanwhile: tests/launch/command_line/start_test.py.
"""

import os
import subprocess
import sys

import pytest

QUIET = (
    "import os, types\n"
    "assert os.environ['TF_CPP_MIN_LOG_LEVEL'] == '2'\n"
    "os.write(2, b'oneDNN is on\\n')\n"
    "config = types.SimpleNamespace(list_physical_devices=lambda: os.write(2, b'no GPU\\n'))\n"
)
BROKEN = "import os\nos.write(2, b'its last words\\n')\nraise ImportError('no such symbol')\n"


@pytest.fixture
def load(tmp_path):
    """Loads a TensorFlow of this source in a process of its own; gives exit code and stderr."""

    def run(source, *lines):
        (tmp_path / "tensorflow.py").write_text(source)
        code = "\n".join(["import os", "from tf_fedsam.runs import loading", *lines])
        environment = {n: v for n, v in os.environ.items() if not n.startswith("TF_")}
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=False,
            env={**environment, "PYTHONPATH": str(tmp_path)},
        )
        return done.returncode, done.stderr

    return run


def test_what_it_says_is_held_back(load):
    assert load(QUIET, "loading.load('x')", "os.write(2, b'heard\\n')") == (0, "heard\n")


def test_if_it_cannot_be_loaded_it_is_heard(load):
    code, err = load(BROKEN, "loading.load('x')")
    assert code == 1
    assert err.startswith("its last words\n")
    assert "ImportError: no such symbol" in err


def test_the_users_log_level_stays(load):
    source = QUIET.replace("== '2'", "== '0'")
    code, err = load(source, "os.environ['TF_CPP_MIN_LOG_LEVEL'] = '0'", "loading.load('x')")
    assert (code, err) == (0, "")


def test_a_tensorflow_that_is_loaded_is_left_alone(load):
    lines = ("import tensorflow", "tensorflow.config = None", "loading.load('x')")
    quiet = "import os\nos.environ['TF_CPP_MIN_LOG_LEVEL'] = '2'\n" + QUIET
    assert load(quiet, *lines) == (0, "oneDNN is on\n")


def test_only_a_program_hears_signals_meanwhile(load):
    """Not a module that is imported into somebody's notebook."""
    look = "import signal; first = signal.getsignal(signal.SIGTERM)"
    same = "assert {} (signal.getsignal(signal.SIGTERM) == first)"
    assert load(QUIET, look, "loading.load('x')", same.format(""))[0] == 0
    assert load(QUIET, look, "loading.load('__main__')", same.format("not"))[0] == 0
