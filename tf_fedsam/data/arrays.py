"""Reads .npz files of plain arrays that a user gives."""

import os
import pathlib
import zipfile
import zlib

import numpy as np

from tf_fedsam.errors import InputError


def read_npz(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """All arrays of the file; pickled objects and broken files are refused."""
    try:
        with pathlib.Path(path).open("rb") as handle:
            file = np.load(handle, allow_pickle=False)
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise InputError(
                    f"{path} is a single array. Expected: an .npz file of named arrays. "
                    f"Make one with numpy.savez."
                )
            return {name: file[name] for name in file.files}
    except InputError:
        raise
    except (
        *(OSError, ValueError, EOFError, KeyError, NotImplementedError, RuntimeError, SyntaxError),
        *(TypeError, MemoryError, OverflowError, zipfile.BadZipFile, zlib.error),
    ) as error:
        raise InputError(
            f"{path} could not be read as an .npz file of plain arrays: {error}. "
            f"Expected: a file made with numpy.savez, without objects."
        ) from None
