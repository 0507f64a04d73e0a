"""Archives are read in place, forward only, and nothing in them is trusted."""

import gzip
import tarfile

import pytest
from hypothesis import given

from tasks.formats import tar
from tests.tasks.formats.cifar_files import tar_bytes
from tests.tasks.formats.helpers import damaged, fuzz, memory_below, only_input_errors, refused

FILES = {"data/a.bin": b"first" * 300, "data/b.bin": b"", "data/c.bin": bytes(512)}


def read(path, is_wanted=lambda name: True):
    return tar.read_members(path, is_wanted)


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("prefix", ["", "./"])
def test_every_dialect_is_read(tmp_path, form, prefix):
    folder = tarfile.TarInfo(f"{prefix}data")
    folder.type = tarfile.DIRTYPE
    # A long name makes GNU and pax add an extra header; the others carry a modification time.
    long = "data/" + "x" * 90 + "/" + "y" * 60
    files = {long: b"unrelated"} | {prefix + name: content for name, content in FILES.items()}
    path = tmp_path / "any-name.tar.gz"
    packed = tar_bytes(files, form, [folder])
    path.write_bytes(packed)
    assert read(path, FILES.__contains__) == FILES
    path.write_bytes(gzip.decompress(packed))  # a plain .tar
    assert read(path, FILES.__contains__) == FILES


def test_only_what_is_wanted_is_kept(tmp_path):
    path = tmp_path / "a.tar.gz"
    path.write_bytes(tar_bytes(FILES))
    assert list(read(path, lambda name: name.endswith("c.bin"))) == ["data/c.bin"]
    assert read(path, lambda name: False) == {}


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        (tarfile.SYMTYPE, "symbolic link"),
        (tarfile.LNKTYPE, "hard link"),
        (tarfile.CHRTYPE, "character device"),
        (tarfile.BLKTYPE, "block device"),
        (tarfile.FIFOTYPE, "named pipe"),
        (tarfile.GNUTYPE_SPARSE, "sparse"),
        (b"Z", "unknown type"),
    ],
)
def test_links_and_devices_are_refused(tmp_path, kind, part):
    info = tarfile.TarInfo("data/d.bin")
    info.type, info.linkname = kind, "/etc/passwd"
    path = tmp_path / "links.tar.gz"
    path.write_bytes(tar_bytes(FILES, extra=[info]))
    refused(lambda: read(path), "links.tar.gz", "data/d.bin", part)


@pytest.mark.parametrize("name", ["../escape", "/escape", "data/../../escape", "..\\escape"])
def test_names_that_lead_out_are_refused_and_nothing_is_written(tmp_path, name):
    inner = tmp_path / "inner"
    inner.mkdir()
    path = inner / "traversal.tar.gz"
    path.write_bytes(tar_bytes(FILES | {name: b"evil"}))
    refused(lambda: read(path), "traversal.tar.gz", "leads out")
    refused(lambda: read(path, lambda name: False), "leads out")
    assert sorted(entry.name for entry in tmp_path.rglob("*")) == ["inner", "traversal.tar.gz"]


def test_the_same_member_twice_is_refused(tmp_path):
    path = tmp_path / "twice.tar.gz"
    path.write_bytes(tar_bytes(FILES | {"./data/a.bin": b"x"}))
    refused(lambda: read(path), "data/a.bin", "twice")
    assert read(path, lambda name: name == "data/b.bin") == {"data/b.bin": b""}


@pytest.mark.parametrize("cut", [1, 100, 0.5, -4])
def test_archives_that_were_cut_are_refused(tmp_path, cut):
    path = tmp_path / "cut.tar.gz"
    packed = tar_bytes(FILES)
    path.write_bytes(packed[: int(cut * len(packed)) if cut == 0.5 else cut])
    refused(lambda: read(path, lambda name: False), "cut.tar.gz")


def test_a_checksum_that_does_not_match_is_noticed(tmp_path):
    """Gzip's, at the very end, although nothing is wanted."""
    path = tmp_path / "changed.tar.gz"
    changed = bytearray(tar_bytes(FILES))
    changed[-8] ^= 1
    path.write_bytes(changed)
    refused(lambda: read(path, lambda name: False), "changed.tar.gz", "CRC")


@pytest.mark.parametrize(
    "content", [b"plain text", gzip.compress(b"plain text" * 100)], ids=["plain", "packed"]
)
def test_something_else_is_refused(tmp_path, content):
    path = tmp_path / "other.tar.gz"
    path.write_bytes(content)
    refused(lambda: read(path), "other.tar.gz")


def header_bytes(name, size):
    """A tar header that claims `size` for a member, without the member's content."""
    info = tarfile.TarInfo(name)
    info.size = size
    return info.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("wanted", tar.MAX_MEMBER_BYTES + 1),
        ("wanted", 1 << 20),  # the file ends before
        ("unrelated", tar.MAX_ARCHIVE_BYTES),
        ("unrelated", 8**11 - 1),  # the largest octal size
        ("unrelated", 1 << 40),  # base 256, which is not octal
    ],
)
def test_absurd_member_sizes_take_no_memory(tmp_path, name, size):
    path = tmp_path / "claim.tar.gz"
    path.write_bytes(gzip.compress(header_bytes(name, size) + bytes(2048)))
    with memory_below(4 << 20):
        refused(lambda: read(path, lambda name: name != "unrelated"), "claim.tar.gz")


def test_a_tar_bomb_stops_at_the_archive_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(tar, "MAX_ARCHIVE_BYTES", 1 << 23)
    path = tmp_path / "bomb.tar.gz"
    path.write_bytes(gzip.compress(header_bytes("unrelated", 512) + bytes(1 << 24)))
    refused(lambda: read(path, lambda name: False), "bomb.tar.gz", "more than 8,388,608 bytes")


SMALL_TAR = gzip.decompress(tar_bytes({"data/a.bin": b"x" * 600}))


@fuzz
@given(content=damaged(SMALL_TAR))
def test_damaged_archives_raise_input_errors_only(tmp_path, content):
    path = tmp_path / "fuzz.tar"
    path.write_bytes(content)
    only_input_errors(lambda: read(path), path)
    only_input_errors(lambda: read(path, lambda name: False), path)
