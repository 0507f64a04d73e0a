"""Command lines: each module is a launcher.

TensorFlow reads the variables when it is first imported. oneDNN's kernels make ResNets and
transformers on a CPU two to four times faster and leave small models as they are; TensorFlow turns
them on by itself only on some CPUs. It announces them on stderr whatever the log level, and on a
machine without a GPU calls that an error, so stderr is held back during the import and the first
look for devices, and shown if they fail.
"""

import glob
import os
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


def _import_tensorflow() -> None:
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


_import_tensorflow()
