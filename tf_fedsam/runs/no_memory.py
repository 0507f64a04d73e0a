"""What errors mean that there is no memory left.

Python, NumPy, TensorFlow, its devices and the operating system each have their own.
"""

import errno

from tf_fedsam.lazy import tf

# What drivers of GPUs and libraries write into errors of other kinds.
_WORDS = ("out of memory", "out_of_memory", "alloc_failed", "bad_alloc", "failed to allocate")
_THREAD = "can't start new thread"  # whose stack there is no room for


def is_no_memory(error: BaseException) -> bool:
    """Whether an error is about memory that is not there."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    if isinstance(error, (MemoryError, tf.errors.ResourceExhaustedError)):
        return True
    told = str(error).lower()
    if isinstance(error, (tf.errors.InternalError, tf.errors.UnknownError)):
        return any(word in told for word in _WORDS)
    return isinstance(error, RuntimeError) and _THREAD in told
