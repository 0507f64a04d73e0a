"""Command lines: each module is a launcher.

TensorFlow reads these when it is first imported. oneDNN's kernels make ResNets and transformers on
a CPU two to four times faster and leave small models as they are; TensorFlow turns them on by
itself only on some CPUs.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
