"""Files that are whole whatever happens while they are written."""

import errno
import hashlib
import itertools
import os

import pytest

from tests.state.faults import FailingDisk
from tf_fedsam.errors import InputError
from tf_fedsam.state import files


def test_write_atomically_replaces_the_content(tmp_path):
    path = tmp_path / "a.json"
    for content in (b"first", b"", b"the second\n"):
        files.write_atomically(path, content)
        assert path.read_bytes() == content
        assert os.listdir(tmp_path) == ["a.json"]


def test_a_new_file_has_the_usual_permissions(tmp_path):
    (tmp_path / "usual").write_text("x")
    files.write_atomically(tmp_path / "ours", b"x")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.parametrize("killed", [False, True])
def test_a_failure_at_any_step_leaves_the_old_or_the_new_content(tmp_path, killed):
    path = tmp_path / "a"
    for fail_at in itertools.count(1):
        path.write_bytes(b"old")
        disk = FailingDisk(fail_at, killed=killed)
        with pytest.MonkeyPatch.context() as patch:
            disk.install(patch)
            error = _error_of(lambda: files.write_atomically(path, b"new content"))
        # The fifth and sixth step are the folder's.
        assert path.read_bytes() == (b"old" if fail_at <= 4 else b"new content")
        if not killed:
            assert os.listdir(tmp_path) == ["a"]
        if error is None:
            break
        assert disk.failed
        assert error.errno == errno.ENOSPC
        assert error.filename in (str(path), str(tmp_path))
    assert disk.calls == ["open", "write", "fsync", "replace", "open", "fsync"]


def _error_of(call) -> OSError | None:
    try:
        call()
    except OSError as error:
        return error
    return None


def test_append_line_gives_the_size(tmp_path):
    path = tmp_path / "log"
    assert files.append_line(path, "one") == 4
    assert files.append_line(path, "zwölf", sync=False) == 4 + 7
    assert path.read_text(encoding="utf-8") == "one\nzwölf\n"


@pytest.mark.parametrize("text", ["a\nb", "a\r", "\n"])
def test_append_line_refuses_two_lines(tmp_path, text):
    with pytest.raises(ValueError, match="line break"):
        files.append_line(tmp_path / "log", text)
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("step", ["write", "fsync"])
def test_a_full_disk_leaves_no_half_line(tmp_path, monkeypatch, step):
    path = tmp_path / "log"
    files.append_line(path, "one")
    with monkeypatch.context() as patch:
        FailingDisk(1, names=(step,)).install(patch)
        with pytest.raises(OSError, match="No space left") as caught:
            files.append_line(path, "a second line")
    assert caught.value.filename == str(path)
    assert path.read_text() == "one\n"


def test_cut_back(tmp_path):
    path = tmp_path / "log"
    size = files.append_line(path, "one")
    files.append_line(path, "two")
    for _ in range(2):
        files.cut_back(path, size)
        assert path.read_text() == "one\n"
    files.cut_back(path, 0)
    assert path.read_text() == ""
    files.cut_back(tmp_path / "never written", 0)
    assert not (tmp_path / "never written").exists()


def test_cut_back_refuses_a_log_that_lost_lines(tmp_path):
    path = tmp_path / "log"
    path.write_text("one\n")
    for name in ("log", "missing"):
        with pytest.raises(InputError, match=r"Received: .* Expected: at least the 5 bytes"):
            files.cut_back(tmp_path / name, 5)
    assert path.read_text() == "one\n"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_log_checksum_follows_the_log(tmp_path):
    log = files.LogChecksum(tmp_path / "log")
    assert log() == (0, sha256(b""))
    for text, content in (("one", b"one\n"), ("zwölf", "one\nzwölf\n".encode())):
        files.append_line(tmp_path / "log", text)
        assert log() == log() == (len(content), sha256(content))
    assert files.LogChecksum(tmp_path / "log")() == log()


def test_log_checksum_reads_only_what_is_new(tmp_path, monkeypatch):
    """And so a line that is changed later is not taken for what was written."""
    path = tmp_path / "log"
    monkeypatch.setattr(files, "_CHUNK_BYTES", 3)
    files.append_line(path, "first line")
    log = files.LogChecksum(path)
    log()
    path.write_bytes(b"FIRST LINE\n")
    files.append_line(path, "second")
    assert log() == (18, sha256(b"first line\nsecond\n"))


def test_cut_back_notices_any_change(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_CHUNK_BYTES", 3)
    path = tmp_path / "log"
    files.append_line(path, '{"loss": 0.25}')
    size, checksum = files.LogChecksum(path)()
    files.append_line(path, "of a round after the checkpoint")
    whole = path.read_bytes()
    for offset in range(size):
        changed = bytearray(whole)
        changed[offset] ^= 1
        path.write_bytes(changed)
        with pytest.raises(InputError, match=rf"another content .* first {size} bytes\. It was ch"):
            files.cut_back(path, size, checksum)
        assert path.read_bytes() == changed
        files.cut_back(path, len(whole))  # as in a checkpoint that has no checksum
    path.write_bytes(whole[:size] + b"another end")
    files.cut_back(path, size, checksum)
    assert path.read_bytes() == whole[:size]


def test_cut_back_of_an_empty_log(tmp_path):
    files.cut_back(tmp_path / "missing", 0, sha256(b""))
    (tmp_path / "log").write_bytes(b"more")
    files.cut_back(tmp_path / "log", 0, sha256(b""))
    assert (tmp_path / "log").read_bytes() == b""
    with pytest.raises(InputError, match="another content"):
        files.cut_back(tmp_path / "log", 0, sha256(b"x"))


def test_checksum(tmp_path):
    """Of a file that of its bytes; of a folder another one for any change of a name or a byte."""
    (tmp_path / "a").write_bytes(b"abc")
    assert files.checksum(tmp_path / "a") == hashlib.sha256(b"abc").hexdigest()
    assert files.checksum(tmp_path / "none") == hashlib.sha256().hexdigest()
    seen = {files.checksum(tmp_path)}
    (tmp_path / "a").write_bytes(b"abd")
    seen.add(files.checksum(tmp_path))
    (tmp_path / "a").rename(tmp_path / "b")
    seen.add(files.checksum(tmp_path))
    (tmp_path / "inner").mkdir()
    assert files.checksum(tmp_path) in seen  # only files count
    (tmp_path / "inner/c").touch()
    seen.add(files.checksum(tmp_path))
    assert len(seen) == 4


def test_sync_of_a_missing_file_is_no_error(tmp_path):
    files.sync_file(tmp_path / "missing")
    assert not os.listdir(tmp_path)
