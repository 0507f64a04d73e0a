"""How a program begins: signals are heard and TensorFlow is loaded quietly.

Imports nothing heavy: a program calls :func:`load` before it imports anything that imports
TensorFlow, or :func:`begin` at once and :func:`loaded` when it knows what it is asked for.
"""

import contextlib
import glob
import os
import sys
import tempfile
from collections.abc import Iterator

from tf_fedsam.runs import interrupts

WORKERS_ENVIRONMENT = ("TF_CONFIG", "SLURM_PROCID", "JOB_COMPLETION_INDEX")


def begin(name: str) -> None:
    """Hears signals; ``name`` is ``__name__`` of the caller, as for :func:`load`."""
    if name == "__main__":
        interrupts.quit_while_loading()


@contextlib.contextmanager
def loaded(name: str) -> Iterator[None]:
    """TensorFlow is loaded; what needs it is imported in the block.

    Args:
        name: ``__name__`` of the caller; if it is the program, a signal meanwhile ends it at once.
    """
    with interrupts.quitting() if name == "__main__" else contextlib.nullcontext():
        load("")
        yield


def load(name: str) -> None:
    """Loads TensorFlow.

    It announces oneDNN on stderr whatever the log level, and on a machine without a GPU calls that
    an error, so stderr is held back during the import and the first look for devices, and shown if
    they fail.

    Args:
        name: ``__name__`` of the caller; if it is the program, a signal meanwhile ends it at once,
            without a traceback.
    """
    begin(name)
    # TensorFlow writes a page about a worker that has gone; the run says it in one sentence.
    is_worker = any(name in os.environ for name in WORKERS_ENVIRONMENT)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3" if is_worker else "2")
    if "tensorflow" in sys.modules:
        return
    with tempfile.TemporaryFile() as held:
        stderr = os.dup(2)
        os.dup2(held.fileno(), 2)
        try:
            import tensorflow

            if not glob.glob("/dev/nvidia*"):
                tensorflow.config.list_physical_devices()  # complains that there is no GPU
        except BaseException:
            held.seek(0)
            os.write(stderr, held.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
