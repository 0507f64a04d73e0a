"""Reads the pickled batches of CIFAR's Python version without unpickling them.

A pickle is a program, and running an unknown one is running unknown code. The usual remedy, an
`Unpickler` that admits few names, still lets nine bytes take gigabytes (the C unpickler sizes its
memo by an index in the file) and hands the file's arguments to NumPy's C code. So the instructions
are only listed (`pickletools.genops`, which executes nothing) and the few that a dictionary of
lists and one uint8 array needs are carried out here, on stand-ins that do nothing but hold data.
"""

import pickletools
import struct
from typing import Any

import numpy as np

from tasks.formats.files import bad_file

# A CIFAR-100 batch of 50,000 images takes about 320,000 instructions, each of which can create at
# most one small object.
MAX_INSTRUCTIONS = 2_000_000

_RECONSTRUCT = "numpy.core.multiarray _reconstruct"
_NDARRAY = "numpy ndarray"
_DTYPE = "numpy dtype"
_ENCODE = "_codecs encode"
_ADMITTED = {name: name for name in (_RECONSTRUCT, _NDARRAY, _DTYPE, _ENCODE)} | {
    "numpy._core.multiarray _reconstruct": _RECONSTRUCT
}  # NumPy 2 moved the module

_MARK = object()
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_LITERALS = frozenset(
    {
        *("BININT", "BININT1", "BININT2", "LONG1"),
        *("BINSTRING", "SHORT_BINSTRING", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
        *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
    }
)
_TUPLE_SIZES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class _RefusedError(Exception):
    """An instruction that a batch of images has no use for; the text completes 'received ...'."""


class _Global:
    """A name that the pickle mentions. It is compared, never called."""

    def __init__(self, name: str):
        self.name = name


class _Encoder:
    """Turns text back into bytes; all calls together yield no more than the file's own size.

    Without that bound a file could store one long text and ask for it a million times.
    """

    def __init__(self, max_bytes: int):
        self._left = max_bytes

    def __call__(self, text: str) -> bytes:
        self._left -= len(text)
        if self._left < 0:
            raise _RefusedError("a pickle that expands one text many times")
        return text.encode("latin-1")


class _Dtype:
    def __init__(self, code: Any):
        self.code = code


class _Array:
    def __init__(self) -> None:
        self.values: np.ndarray | None = None


def loads(data: bytes, name: object) -> dict[str, Any]:
    """The dictionary in a pickled batch: texts as `str`, lists, and the image array as uint8.

    Raises:
        InputError: the pickle mentions any name but the four that an array needs, uses any
            instruction that a batch does not, is cut short, or holds something else.
    """
    try:
        return _run(data)
    except _RefusedError as refused:
        raise bad_file(
            name,
            str(refused),
            "a pickled batch of images (a dictionary of lists and one uint8 array)",
            "Do not open this file with pickle; download the archive from its publisher.",
        ) from None
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, struct.error) as error:
        raise bad_file(
            name,
            f"a damaged pickle ({str(error)[:120] or type(error).__name__})",
            "a pickled batch of images (a dictionary of lists and one uint8 array)",
        ) from None


def _run(data: bytes) -> dict[str, Any]:
    encode = _Encoder(len(data))
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    arg: Any
    for count, (opcode, arg, _) in enumerate(pickletools.genops(data)):
        if count >= MAX_INSTRUCTIONS:
            raise _RefusedError(f"a pickle of more than {MAX_INSTRUCTIONS:,} instructions")
        code = opcode.name
        if code in _LITERALS:
            stack.append(arg)
        elif code in ("BINPUT", "LONG_BINPUT"):
            memo[arg] = _top(stack)
        elif code == "MEMOIZE":
            memo[len(memo)] = _top(stack)
        elif code in ("BINGET", "LONG_BINGET"):
            stack.append(memo[arg])
        elif code == "MARK":
            stack.append(_MARK)
        elif code in _CONSTANTS:
            stack.append(_CONSTANTS[code])
        elif code in _TUPLE_SIZES:
            size = _TUPLE_SIZES[code]
            items = tuple(_pop(stack) for _ in range(size))[::-1]
            stack.append(items)
        elif code == "TUPLE":
            stack.append(tuple(_pop_to_mark(stack)))
        elif code == "EMPTY_LIST":
            stack.append([])
        elif code in ("APPEND", "APPENDS"):
            values = [_pop(stack)] if code == "APPEND" else _pop_to_mark(stack)
            _top(stack, list).extend(values)
        elif code == "EMPTY_DICT":
            stack.append({})
        elif code in ("SETITEM", "SETITEMS"):
            pairs = [_pop(stack), _pop(stack)][::-1] if code == "SETITEM" else _pop_to_mark(stack)
            _top(stack, dict).update(
                (_key(key), value) for key, value in zip(pairs[::2], pairs[1::2], strict=True)
            )
        elif code == "GLOBAL":
            stack.append(_global(arg))
        elif code == "STACK_GLOBAL":
            attribute, module = _pop(stack), _pop(stack)
            stack.append(_global(f"{module} {attribute}"))
        elif code == "REDUCE":
            arguments, function = _pop(stack), _pop(stack)
            stack.append(_reduce(function, arguments, encode))
        elif code == "BUILD":
            state = _pop(stack)
            _build(_top(stack), state, encode)
        elif code == "STOP":
            result = _pop(stack)
            if type(result) is not dict or stack:
                raise _RefusedError("a pickle that does not hold one dictionary")
            return {key: _plain(value) for key, value in result.items()}
        elif code not in ("PROTO", "FRAME"):
            raise _RefusedError(f"the pickle instruction {code}")
    raise _RefusedError("a pickle without an end")


def _top(stack: list[Any], kind: type | None = None) -> Any:
    if stack[-1] is _MARK or (kind is not None and type(stack[-1]) is not kind):
        raise _RefusedError("a pickle whose instructions do not fit together")
    return stack[-1]


def _pop(stack: list[Any]) -> Any:
    _top(stack)
    return stack.pop()


def _pop_to_mark(stack: list[Any]) -> list[Any]:
    start = len(stack) - 1
    while stack[start] is not _MARK:
        start -= 1
        if start < 0:
            raise _RefusedError("a pickle whose instructions do not fit together")
    values = stack[start + 1 :]
    del stack[start:]
    return values


def _key(value: Any) -> str:
    # Text only: integer keys could be chosen to collide, which makes a dictionary crawl.
    if type(value) is bytes:
        return value.decode("latin-1")
    if type(value) is not str:
        raise _RefusedError(f"a dictionary key of type {type(value).__name__}")
    return value


def _global(name: str) -> _Global:
    if name not in _ADMITTED:
        raise _RefusedError(f"a pickle that asks for {name[:100].replace(' ', '.')!r}")
    return _Global(_ADMITTED[name])


def _reduce(function: Any, arguments: Any, encode: _Encoder) -> Any:
    if type(function) is _Global and type(arguments) is tuple:
        if function.name == _DTYPE and arguments:
            return _Dtype(arguments[0])
        if function.name == _ENCODE and len(arguments) == 2 and type(arguments[0]) is str:
            if arguments[1] in ("latin1", "latin-1"):
                return encode(arguments[0])
        elif function.name == _RECONSTRUCT and arguments:
            subtype = arguments[0]
            if type(subtype) is _Global and subtype.name == _NDARRAY:
                return _Array()
    raise _RefusedError("a pickle that calls a function with unusual arguments")


def _build(target: Any, state: Any, encode: _Encoder) -> None:
    if type(target) is _Dtype:
        return  # byte order and alignment, which uint8 does not have
    if type(target) is not _Array or type(state) is not tuple or len(state) != 5:
        raise _RefusedError("a pickle that changes an object other than an array")
    _, shape, dtype, is_fortran, raw = state
    if type(dtype) is not _Dtype or dtype.code not in ("u1", "|u1", b"u1", b"|u1"):
        raise _RefusedError("an array that is not uint8")
    if type(shape) is not tuple or len(shape) != 2 or any(type(n) is not int for n in shape):
        raise _RefusedError("an array that is not two-dimensional")
    if type(raw) is str:
        raw = encode(raw)
    if type(raw) is not bytes or min(shape) < 1 or shape[0] * shape[1] != len(raw):
        raise _RefusedError(f"an array of shape {shape} with content of another size")
    values = np.frombuffer(raw, np.uint8)
    target.values = values.reshape(shape[::-1]).T if is_fortran is True else values.reshape(shape)


def _plain(value: Any) -> Any:
    if type(value) is _Array:
        if value.values is None:
            raise _RefusedError("an array without content")
        return value.values
    return value
