"""Paths that a user gives."""

import errno
import os
import pathlib

from tf_fedsam.errors import InputError


def expanded(path: str | os.PathLike) -> pathlib.Path:
    """The path with ``~`` and ``~user`` written out; one that no disk can have is refused."""
    try:
        found = pathlib.Path(path).expanduser()
    except RuntimeError:
        user = pathlib.Path(path).parts[0]
        raise InputError(
            f"{os.fspath(path)!r} begins with {user}, and there is no such user here. Expected: a "
            f"path that exists. Write it out, without ~."
        ) from None
    _check_name(found)
    return found


def _check_name(path: pathlib.Path) -> None:
    try:
        os.lstat(path)
    except ValueError:
        raise InputError(
            f"{os.fspath(path)!r} holds a character that no name can have. Expected: a path. "
            f"Choose another name."
        ) from None
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:  # what is wrong with it otherwise is found later
            return
        raise InputError(
            f"{_short(path)} is too long. Received: {len(os.fspath(path)):,} characters, "
            f"{max(map(len, path.parts)):,} of them in one part. Expected: what the disk allows, "
            f"usually 255 a part. Choose a shorter name."
        ) from None


def _short(path: pathlib.Path) -> str:
    name = os.fspath(path)
    return name if len(name) <= 80 else f"{name[:40]}...{name[-30:]}"


def regular(path: pathlib.Path) -> pathlib.Path:
    """The path, if it is not that of a pipe or a device, which reading might never come back from.

    A path where nothing is is let through: opening it says so.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise InputError(
            f"{path} is no ordinary file (a pipe, a socket or a device). Expected: a file on a "
            f"disk. Write its content to one first."
        )
    return path
