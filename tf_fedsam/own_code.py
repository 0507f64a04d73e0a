"""Loads a user's own file: ``path/to/file.py:Name``."""

import importlib.util
import linecache
import re
import sys
import traceback
import zlib
from pathlib import Path
from types import ModuleType

from tf_fedsam import paths
from tf_fedsam.errors import InputError, unknown

_FILES: set[str] = set()  # that were loaded


def is_reference(name: str) -> bool:
    """Whether a name points into a file."""
    return name.endswith(".py") or ".py:" in name


def load_module(reference: str, what: str) -> tuple[ModuleType, str]:
    """Runs the file of a reference; returns its module and the name after the colon."""
    file, _, wanted = reference.rpartition(":") if ".py:" in reference else (reference, "", "")
    path = paths.expanded(file)
    paths.regular(path)
    if not path.is_file():
        raise InputError(
            f"{what} {reference!r}: there is no file {str(path.absolute())!r}. "
            f"Expected path/to/file.py:Name; check the path."
        )
    # A name of its own, so that files of the same name do not replace each other.
    module_name = f"{path.stem}_{zlib.crc32(str(path.resolve()).encode()):08x}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:  # for types only: never so for a .py file
        raise InputError(f"{what} {reference!r}: Python cannot run {path.name}.")
    module = importlib.util.module_from_spec(spec)
    _FILES.add(str(path))
    sys.modules[module_name] = module  # dataclasses and Keras' registry look it up
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[module_name]
        raise InputError(
            f"{what} {reference!r}: running the file failed: {describe(error)}"
        ) from error
    return module, wanted


def load_class(reference: str, base: type, what: str) -> type:
    """The subclass of ``base`` that a reference names."""
    module, wanted = load_module(reference, what)
    found = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, base)
        and value.__module__ == module.__name__
    }
    if wanted not in found:
        raise unknown(f"{what.lower()} class of {reference.rsplit(':')[0]}", wanted, found)
    return found[wanted]


def explain(error: BaseException) -> str | None:
    """What went wrong in a user's own file, and where; ``None`` if it was nowhere in one."""
    seen: BaseException | None = error
    while seen is not None:
        frames = [f for f in traceback.extract_tb(seen.__traceback__) if f.filename in _FILES]
        if frames:
            last = frames[-1]
            words = str(error).strip() or "no message"
            line = f"line {last.lineno} of {last.filename}, in {last.name}"
            return f"{type(error).__name__} in {line}: {last.line}\n{words}"
        seen = seen.__cause__ or seen.__context__
    return _explain_graph(error)


# What a message of TensorFlow about a compiled function holds beside what went wrong.
_FRAME = re.compile(r'^ *File "(?P<file>.+)", line (?P<line>\d+), in (?P<name>\S+)')
_AROUND = re.compile(
    r"Graph execution error|Detected at node|\d+ (root|successful|derived) |\s*\[\["
)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_PREFIX = re.compile(r"^\s*\(\d+\) [A-Z_]+: *")


def _explain_graph(error: BaseException) -> str | None:
    """The same of a compiled function, whose lines are in the message."""
    lines = str(error).splitlines()
    frames = [found for found in map(_FRAME.match, lines) if found and found["file"] in _FILES]
    if not frames:
        return None
    file, line, name = frames[-1].group("file", "line", "name")
    told = [x for x in lines if x.strip() and not _FRAME.match(x) and not _AROUND.match(x)]
    words = _PREFIX.sub("", told[0]).strip() if told else "no message"
    code = linecache.getline(file, int(line)).strip()
    return f"{type(error).__name__} in line {line} of {file}, in {name}: {code}\n{words}"


def describe(error: BaseException) -> str:
    """Type and message of an error in a user's code, and the last line there that led to it."""
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError):  # which says where it is, and was not run
        frames.clear()
    own = [frame for frame in frames if frame.filename in _FILES] or frames
    where = f" (line {own[-1].lineno} of {Path(own[-1].filename).name})" if own else ""
    return f"{type(error).__name__}: {_words(error)}{where}"


def _words(error: BaseException) -> str:
    """The message of an error, without Keras' colours and what it adds about its own call."""
    words = _COLOURS.sub("", str(error)).partition("\n\nArguments received by")[0]
    return " ".join(words.split())
