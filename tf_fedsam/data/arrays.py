"""Reads .npz files of plain arrays that a user gives.

A device that computes in the same memory can use large arrays as they are: they cannot be written
to, and begin where TensorFlow wants tensors to begin, so that no copy is needed.
"""

from __future__ import annotations

import math
import mmap
import os
import pathlib
import zipfile
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tf_fedsam import paths
from tf_fedsam.errors import InputError
from tf_fedsam.lazy import tf

LARGE = 1 << 20  # bytes from which an array is worth it
PIECE = 1 << 22  # bytes that are read at a time


def read_npz(
    path: str | os.PathLike[str],
    required: Sequence[str] | None = None,
    optional: Sequence[str] = (),
) -> dict[str, np.ndarray]:
    """Arrays of the file; pickled objects and broken files are refused.

    Args:
        path: of the file.
        required: names of arrays that must be there; all arrays are read if there are none.
        optional: others that are read if they are there. What is beside them is not read.
    """
    try:
        with paths.regular(pathlib.Path(path)).open("rb") as handle:
            file = np.load(handle, allow_pickle=False)
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise InputError(
                    f"{path} is a single array. Expected: an .npz file of named arrays. "
                    f"Make one with numpy.savez."
                )
            names = file.files
            if required is not None:
                _check_names(path, names, required, optional)
                names = [name for name in names if name in {*required, *optional}]
            arrays = {name: _read(file, name) for name in names}
    except InputError:
        raise
    except Exception as error:  # NumPy, zipfile and the decompressors raise many kinds
        raise _unreadable(path, error) from None
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise InputError(
                f"{path} holds {name!r}, which is no array. Expected: a file made with numpy.savez."
            )
    return arrays


class Header(NamedTuple):
    """What an array is, without its numbers."""

    shape: tuple[int, ...]
    dtype: np.dtype


def read_headers(path: str | os.PathLike[str]) -> dict[str, Header]:
    """What the arrays of a file are; none of them is read, however large it is."""
    found = {}
    try:
        with (
            paths.regular(pathlib.Path(path)).open("rb") as handle,
            zipfile.ZipFile(handle) as archive,
        ):
            for member in archive.namelist():
                with archive.open(member) as content:
                    version = np.lib.format.read_magic(content)
                    if version != (1, 0):  # longer headers are of fields with names
                        raise ValueError(f"{member} is no plain array")
                    shape, _, dtype = np.lib.format.read_array_header_1_0(content)
                found[member.removesuffix(".npy")] = Header(shape, dtype)
    except InputError:
        raise
    except Exception as error:  # NumPy, zipfile and the decompressors raise many kinds
        raise _unreadable(path, error) from None
    return found


def _unreadable(path: str | os.PathLike[str], error: Exception) -> InputError:
    if isinstance(error, FileNotFoundError):
        return InputError(f"{path}: No such file. Expected: an .npz file made with numpy.savez.")
    return InputError(
        f"{path} could not be read as an .npz file of plain arrays: {error}. "
        f"Expected: a file made with numpy.savez, without objects."
    )


class Rows:
    """Some rows of an array, which are only copied when they are asked for.

    Args:
        array: the array, or rows of one.
        numbers: of its rows.
    """

    def __init__(self, array: Any, numbers: np.ndarray):
        self._array, self._numbers = array, numbers
        self.shape = (len(numbers), *array.shape[1:])
        self.ndim, self.dtype = len(self.shape), array.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> np.ndarray:
        return self._array[self._numbers[index]]


class _Memory(mmap.mmap):
    """Of an array; begins with a page, and no tensor needs more."""


def shareable(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Zeros; once they are filled in and made read-only, ``as_tensor`` needs no copy of them."""
    size = math.prod(shape) * dtype.itemsize
    return np.frombuffer(_Memory(-1, size), dtype).reshape(shape)


def memory_of(array: np.ndarray) -> mmap.mmap | None:
    """The memory of an array, if it was made here and nobody can write to it; or nothing."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    ours = isinstance(base, memoryview) and isinstance(base.obj, _Memory)
    return base.obj if ours and array.flags.c_contiguous and not array.flags.writeable else None


def as_tensor(array: np.ndarray) -> tf.Tensor:
    """The array for a device that computes in the same memory: without a copy, if it can be."""
    memory = memory_of(array)
    if memory is None:
        return tf.constant(array)
    whole = np.frombuffer(memory, array.dtype)  # which can be written to, as DLPack wants it
    if whole.ctypes.data != array.ctypes.data or whole.size != array.size:
        return tf.constant(array)  # a part of it
    return tf.experimental.dlpack.from_dlpack(whole.reshape(array.shape).__dlpack__())


def _read(file: np.lib.npyio.NpzFile, name: str) -> np.ndarray:
    """An array of the file; a large one of numbers as this module says."""
    archive, member = file.zip, f"{name}.npy"
    assert archive is not None
    if member not in archive.namelist() or archive.getinfo(member).file_size < LARGE:
        return file[name]
    with archive.open(member) as stream:
        if np.lib.format.read_magic(stream) != (1, 0):
            return file[name]
        shape, by_columns, dtype = np.lib.format.read_array_header_1_0(stream)
        size = math.prod(shape) * dtype.itemsize
        if by_columns or not size or dtype.kind not in "uif" or not dtype.isnative:
            return file[name]
        array = shareable(shape, dtype)
        content = array.reshape(-1).view(np.uint8)
        for begin in range(0, size, PIECE):
            end = min(begin + PIECE, size)
            piece = stream.read(end - begin)
            if len(piece) < end - begin:
                raise ValueError(f"{name} ends after {begin + len(piece)} of {size} bytes")
            content[begin:end] = np.frombuffer(piece, np.uint8)
    array.flags.writeable = False
    return array


def _check_names(
    path: str | os.PathLike[str],
    names: Sequence[str],
    required: Sequence[str],
    optional: Sequence[str],
) -> None:
    absent = [name for name in required if name not in names]
    if absent:
        besides = f" and optionally {', '.join(optional)}" if optional else ""
        raise InputError(
            f"{path} lacks {', '.join(absent)}. Received: {', '.join(names) or 'no arrays'}. "
            f"Expected: {', '.join(required)}{besides}."
        )
