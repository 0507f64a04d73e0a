"""Files that are whole whatever happens while they are written."""

import errno
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


def test_sync_of_a_missing_file_is_no_error(tmp_path):
    files.sync_file(tmp_path / "missing")
    assert not os.listdir(tmp_path)
