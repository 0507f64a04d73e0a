"""Nothing leaves the machine: the main job runs with sockets forbidden, loopback too."""

import subprocess
import sys

SCRIPT = """
import sys

def forbid(event, args):
    if event.startswith("socket.") and event != "socket.gethostname":
        raise RuntimeError(f"a socket was used: {event} {args}")

sys.addaudithook(forbid)  # sees every socket of Python from here on, imports included
try:
    import socket
    socket.socket()
except RuntimeError:
    pass
else:
    raise SystemExit("sockets are not forbidden")
from launch.command_line import start
start.console()
"""


def test_the_main_job_without_sockets(tmp_path):
    args = ["--algo=mofedsam", "--rounds=2", "--subset=3000", "--num_clients=20"]
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, *args, f"--output_dir={tmp_path / 'run'}"],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    assert "test accuracy" in result.stdout
    assert "Traceback" not in result.stderr
