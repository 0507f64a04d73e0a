"""What the tests of `tasks.formats` share: how a refusal must read, and how files get damaged."""

import contextlib
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tf_fedsam.errors import InputError

# Every example overwrites the same files, so that one temporary folder serves all of them.
fuzz = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def refused(call: Callable[[], Any], *parts: object) -> str:
    """Asserts that `call` raises an InputError which is complete and contains every part."""
    with pytest.raises(InputError) as caught:
        call()
    message = str(caught.value)
    for part in ("received", "expected", *parts):
        assert str(part) in message, message
    return message


@contextlib.contextmanager
def memory_below(max_bytes: int) -> Iterator[None]:
    """Asserts that the body never holds more than `max_bytes` of new memory, NumPy's included."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < max_bytes
    finally:
        tracemalloc.stop()


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """`data` with a few bytes changed, possibly cut short, possibly with bytes added."""
    result = bytearray(data)
    # Half of the positions lie near the start, where headers are.
    position = st.integers(0, len(data) - 1) | st.integers(0, min(64, len(data)) - 1)
    for where, value in draw(st.lists(st.tuples(position, st.integers(0, 255)), max_size=4)):
        result[where] = value
    if draw(st.booleans()):
        del result[draw(st.integers(0, len(data))) :]
    return bytes(result) + draw(st.binary(max_size=8))


def only_input_errors(call: Callable[[], Any], path: Path | str) -> Any:
    """The result of `call`, or None after an InputError that names the file."""
    try:
        return call()
    except InputError as error:
        message = str(error)
    assert Path(path).name in message
    return None
