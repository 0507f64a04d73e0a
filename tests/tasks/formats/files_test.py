"""Opening what a user points at."""

import gzip
import io
import os

import pytest

from tasks.formats import files
from tests.tasks.formats.helpers import refused
from tf_fedsam.errors import InputError


def content_of(path):
    with files.opened(path) as (file, size):
        return file.read(), size


def test_a_file(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert content_of(tmp_path / "a") == (b"abc", 3)
    assert content_of(str(tmp_path / "a")) == (b"abc", 3)


def test_what_cannot_be_opened(tmp_path):
    refused(lambda: content_of(tmp_path / "none"), "none", "No such file", "Check the path")
    refused(lambda: content_of("nul\0byte"), "null byte")
    os.mkfifo(tmp_path / "pipe")  # opening it would wait for ever
    refused(lambda: content_of(tmp_path / "pipe"), "pipe", "a regular file")
    refused(lambda: content_of("/dev/zero"), "/dev/zero", "a regular file")


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), EOFError("too short")])
def test_what_goes_wrong_while_it_is_read_is_told_with_its_name(error, tmp_path):
    (tmp_path / "a").write_bytes(b"abc")

    def failing():
        with files.opened(tmp_path / "a"):
            raise error

    refused(failing, "'" + str(tmp_path / "a"), "damaged content", files.reason(error))


def test_mistakes_in_the_code_are_not_hidden(tmp_path):
    (tmp_path / "a").touch()
    with pytest.raises(ZeroDivisionError), files.opened(tmp_path / "a"):
        raise ZeroDivisionError


def test_read_bytes(tmp_path):
    (tmp_path / "a").write_bytes(b"abcde")
    assert files.read_bytes(tmp_path / "a", 5) == b"abcde"
    refused(lambda: files.read_bytes(tmp_path / "a", 4), "5 bytes", "at most 4 bytes")


def test_a_file_that_grows_while_it_is_read(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    real = os.fstat

    def then_longer(number):
        found = real(number)
        path.write_bytes(b"abcdef")
        return found

    monkeypatch.setattr(files.os, "fstat", then_longer)
    refused(lambda: files.read_bytes(path, 100), "does not change while it is read")


def test_gzip():
    packed = gzip.compress(b"abc" * 100)
    file = io.BytesIO(packed)
    assert files.is_gzip(file)
    assert file.tell() == 0
    assert files.gunzip(file).read() == b"abc" * 100
    assert not files.is_gzip(io.BytesIO(b"PK"))
    assert not files.is_gzip(io.BytesIO(b""))


def test_no_gzip_file_holds_more_than_the_bound():
    """The most that deflate packs is a run of one byte."""
    for size in (1 << 10, 1 << 20):
        packed = gzip.compress(bytes(size), 9)
        assert size <= files.max_gunzipped_bytes(len(packed))


def test_read_into(monkeypatch):
    """In chunks, and no more than there is."""
    monkeypatch.setattr(files, "CHUNK_BYTES", 4)
    for available, expected in ((10, 10), (7, 7), (0, 0), (99, 10)):
        buffer = bytearray(10)
        done = files.read_into(io.BytesIO(b"x" * available), memoryview(buffer))
        assert done == expected
        assert buffer == b"x" * expected + bytes(10 - expected)


def test_text():
    assert files.decode_text("über".encode(), "a.txt") == "über"
    assert files.decode_text(b"\xef\xbb\xbfabc", "a.txt") == "abc"  # a byte-order mark
    refused(lambda: files.decode_text(b"\xff\xfe", "a.txt"), "a.txt", "UTF-8")


def test_names_in_messages(tmp_path):
    """Control characters are escaped, long names cut in the middle."""
    assert files.shown("a\x1b[31m\n") == r"'a\x1b[31m\n'"
    assert files.shown(tmp_path) == repr(str(tmp_path))
    long = files.shown("a" * 200 + "b" * 200)
    assert len(long) < 300
    assert long.startswith("'aaa")
    assert long.endswith("bbb'")
    error = files.bad_file("x", "this", "that")
    assert isinstance(error, InputError)
    assert str(error) == f"'x': received this; expected that. {files.DOWNLOAD_AGAIN}"


def test_reasons():
    assert files.reason(FileNotFoundError(2, "No such file", "/a/b")) == "No such file"
    assert files.reason(ValueError("bad")) == "bad"
    assert files.reason(EOFError()) == "EOFError"
    assert len(files.reason(ValueError("x" * 999))) == 300
