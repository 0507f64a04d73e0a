"""How launchers begin: Ctrl-C while TensorFlow is imported, and the command ``tf-fedsam``."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from launch.command_line import start
from tf_fedsam.runs.interrupts import SIGNALS

pytestmark = pytest.mark.usefixtures("usual_signals")

CONSOLE = (
    "import sys; from launch.command_line.start import console; "
    "sys.argv[0] = 'tf-fedsam'; console()"
)
LOADING = {  # what a command must be asked for to load TensorFlow; a report never does
    **dict.fromkeys(set(start.COMMANDS.values()) - {"report"}, ()),
    "sweep": ("--algos=fedavg", "--out=nowhere"),
    "landscape": ("nowhere",),
    "reproduce": ("--list",),
}
STARTS = {
    **{f"launch.{m}": ["-m", f"launch.{m}", *args] for m, args in sorted(LOADING.items())},
    "tf-fedsam train": ["-c", CONSOLE, "train"],
    "tf-fedsam --algo": ["-c", CONSOLE, "--algo=fedavg"],
}
# Stands for TensorFlow: its import says that it has begun, writes as TensorFlow does, and lasts.
SLOW_IMPORT = """
import os, pathlib, time
os.write(2, b"oneDNN custom operations are on.\\n")
pathlib.Path(__file__).with_name("begun").touch()
time.sleep(60)
raise SystemExit("nobody interrupted")
"""


@pytest.fixture
def slow(tmp_path):
    """A folder whose tensorflow takes a minute to import."""
    package = tmp_path / "tensorflow"
    package.mkdir()
    (package / "__init__.py").write_text(SLOW_IMPORT)
    return package


def started(command, **environment):
    return subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def wait_until(condition, process):
    began = time.monotonic()
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() - began < 60
        time.sleep(0.005)


def interrupted(process, number=signal.SIGINT):
    process.send_signal(number)
    try:
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, out, err.strip()


@pytest.mark.parametrize("command", STARTS.values(), ids=STARTS)
def test_ctrl_c_while_tensorflow_is_imported(command, slow):
    process = started(command, PYTHONPATH=str(slow.parent))
    wait_until((slow / "begun").exists, process)
    assert interrupted(process) == (1, "", "Interrupted.")


@pytest.mark.parametrize("number", [n for n in SIGNALS if n != signal.SIGINT])
def test_other_signals_while_tensorflow_is_imported(number, slow):
    process = started(STARTS["launch.main"], PYTHONPATH=str(slow.parent))
    wait_until((slow / "begun").exists, process)
    assert interrupted(process, number) == (1, "", "Interrupted.")


def test_without_the_handler_there_would_be_a_traceback(slow):
    """The tests above can fail: this is what Python does by itself."""
    process = started(["-c", "import tensorflow"], PYTHONPATH=str(slow.parent))
    wait_until((slow / "begun").exists, process)
    code, _, err = interrupted(process)
    assert code != 1
    assert "Traceback" in err


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="needs Linux")
def test_ctrl_c_while_the_real_tensorflow_is_imported():
    process = started(STARTS["launch.main"])
    maps = pathlib.Path(f"/proc/{process.pid}/maps")
    wait_until(lambda: "libtensorflow" in maps.read_text(), process)
    assert interrupted(process) == (1, "", "Interrupted.")


def test_a_tensorflow_that_cannot_be_imported_says_why(tmp_path):
    (tmp_path / "tensorflow").mkdir()
    broken = "import os\nos.write(2, b'its last words\\n')\nraise ImportError('no such symbol')\n"
    (tmp_path / "tensorflow" / "__init__.py").write_text(broken)
    process = started(STARTS["launch.main"], PYTHONPATH=str(tmp_path))
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "its last words" in err
    assert "no such symbol" in err


def test_what_tensorflow_says_is_held_back_when_it_succeeds(tmp_path):
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow" / "__init__.py").write_text(
        "import os, types\nos.write(2, b'oneDNN is on\\n')\n"
        "config = types.SimpleNamespace(list_physical_devices=lambda: os.write(2, b'no GPU\\n'))\n"
    )
    code = "from launch.command_line import start; start.load('x'); os.write(2, b'heard\\n')"
    process = started(["-c", f"import os; {code}"], PYTHONPATH=str(tmp_path))
    _, err = process.communicate(timeout=60)
    assert err == "heard\n"


# The command.


def console(monkeypatch, *args):
    """Exit code of ``tf-fedsam``, or the module whose console it became and its arguments."""
    monkeypatch.setattr(sys, "argv", ["tf-fedsam", *args])
    became = []

    def run_module(name, run_name, alter_sys):
        assert (run_name, alter_sys) == ("__main__", True)
        became.append((name, sys.argv[1:]))

    monkeypatch.setattr(start.runpy, "run_module", run_module)
    monkeypatch.setattr(start.interrupts, "quit_while_loading", lambda: None)
    try:
        start.console()
    except SystemExit as end:
        return end.code
    return became[0]


@pytest.mark.parametrize(("command", "module"), start.COMMANDS.items())
def test_commands(monkeypatch, command, module):
    found = console(monkeypatch, command, "--seed=1", "folder")
    assert found == (f"launch.{module}", ["--seed=1", "folder"])


def test_flags_alone_are_those_of_the_training(monkeypatch):
    assert console(monkeypatch, "--algo=fedsam") == ("launch.main", ["--algo=fedsam"])


def test_every_launcher_is_a_command():
    """A module that can be run with ``python -m`` has a command, and no command lacks a module."""
    folder = pathlib.Path(start.__file__).parents[1]
    runnable = {
        path.stem for path in folder.glob("*.py") if '__name__ == "__main__":' in path.read_text()
    }
    assert runnable == set(start.COMMANDS.values())


@pytest.mark.parametrize("args", [[], ["trian"], [""]])
def test_unknown_commands(monkeypatch, capsys, args):
    assert console(monkeypatch, *args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "train, sweep, report, landscape, partition, bench" in err
    if any(args):
        assert "error: Unknown command 'trian'" in err


@pytest.mark.parametrize("command", start.COMMANDS)
def test_help_of_a_command(command):
    """Through the real entry point, with the real TensorFlow."""
    process = started(["-c", CONSOLE, command, "--help"])
    out, err = process.communicate(timeout=120)
    assert "Traceback" not in err
    assert process.returncode in (0, 1)  # absl's own help ends with 1
    assert f"python -m launch.{start.COMMANDS[command]}" in out
    assert "--out" in out or command == "bench"


@pytest.mark.parametrize("module", sorted(start.COMMANDS.values()))
def test_help_that_nobody_reads(module):
    """As after ``| head``: silent, and no success."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", f"launch.{module}", "--help"]
    with os.fdopen(writing, "w") as nobody:
        done = subprocess.run(command, stdout=nobody, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, "")
