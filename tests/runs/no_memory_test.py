"""Errors of all kinds that mean one thing."""

import errno

import pytest
import tensorflow as tf

from tf_fedsam.errors import InputError
from tf_fedsam.runs.no_memory import is_no_memory


@pytest.mark.parametrize(
    ("error", "meant"),
    [
        (MemoryError(), True),
        (MemoryError("Unable to allocate 4.00 GiB for an array"), True),  # NumPy
        (tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor"), True),
        (tf.errors.InternalError(None, None, "CUDA_ERROR_OUT_OF_MEMORY: out of memory"), True),
        (tf.errors.InternalError(None, None, "CUBLAS_STATUS_ALLOC_FAILED"), True),
        (tf.errors.UnknownError(None, None, "std::bad_alloc"), True),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), True),
        (RuntimeError("can't start new thread"), True),
        (OSError(errno.ENOSPC, "No space left on device"), False),
        (OSError("out of memory"), False),
        (tf.errors.InternalError(None, None, "a mistake"), False),
        (tf.errors.InvalidArgumentError(None, None, "out of memory"), False),
        (RuntimeError("a mistake"), False),
        (InputError("memory"), False),
        (KeyboardInterrupt(), False),
    ],
)
def test_what_is_meant(error, meant):
    assert is_no_memory(error) == meant
