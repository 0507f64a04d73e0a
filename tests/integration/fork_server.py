"""Run by tests, which kill its children: each line on stdin is a command line of ``launch.main``.

A line is JSON, ``{"args": [...], "kill_at": n, "measure": file, "output": file}``. The child ends,
as if by SIGKILL, before the n-th call that changes the disk, in whatever thread that is; 0 lets it
run. With ``"from_checkpoint": true`` calls count from its first checkpoint on. After every round
it appends its memory, threads and open files to ``measure``, if that is given. For each line this
prints the child's process id, and when the child has ended its status: the exit code, or minus the
signal. Forking saves the import of TensorFlow, whose threads start later.
"""

import json
import os
import signal
import sys
import traceback
from typing import Any

from absl import logging

from launch import main
from tf_fedsam.runs.experiment import Experiment
from tf_fedsam.state.checkpoint import CheckpointWriter

CHANGES = (
    *("open", "write", "fsync", "ftruncate", "replace", "rename", "unlink", "mkdir", "rmdir"),
)


def kill_before(number: int, from_checkpoint: bool) -> None:
    """Ends this process before its ``number``-th call that changes the disk.

    Args:
        number: of the call, from 1.
        from_checkpoint: count from the first checkpoint of the process on.
    """
    count, counting = 0, not from_checkpoint
    write = CheckpointWriter._write

    def noticed(*args: Any) -> Any:
        nonlocal counting
        counting = True
        return write(*args)

    CheckpointWriter._write = noticed

    def counted(real: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            if counting and (real is not os_open or args[1] & (os.O_WRONLY | os.O_RDWR)):
                count += 1
                if count == number:
                    os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        return call

    os_open = os.open
    for name in CHANGES:
        setattr(os, name, counted(getattr(os, name)))


def measure_to(path: str) -> None:
    """Appends a line a round: resident bytes, threads, open files."""
    one_round = Experiment.round

    def measured(*args: Any) -> Any:
        result = one_round(*args)
        with open("/proc/self/statm") as file:
            resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        threads, open_files = (len(os.listdir(f"/proc/self/{name}")) for name in ("task", "fd"))
        with open(path, "a") as file:
            print(json.dumps([resident, threads, open_files]), file=file)
        return result

    Experiment.round = measured


def child(request: dict[str, Any]) -> int:
    with open(os.devnull, "w") as nowhere, open(request["output"], "w") as output:
        sys.stdout, sys.stderr = nowhere, output
        if request.get("kill_at"):
            kill_before(request["kill_at"], request.get("from_checkpoint", False))
        if request.get("measure"):
            measure_to(request["measure"])
        try:
            return main.run(request["args"])
        except BaseException:
            traceback.print_exc(file=output)
            raise


def serve() -> None:
    logging.set_verbosity(logging.ERROR)
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            code = 99
            try:
                code = child(json.loads(line))
            finally:
                os._exit(code)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    serve()
