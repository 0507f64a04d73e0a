"""Files of arrays that a user gives: read as they are, or refused with a reason."""

import io
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_fedsam.data.arrays import (
    Rows,
    as_tensor,
    memory_of,
    read_headers,
    read_npz,
    shareable,
)
from tf_fedsam.errors import InputError

ARRAYS = {
    "x": np.arange(6, dtype=np.float32).reshape(2, 3),
    "y": np.array([1, 2], np.uint8),
    "names": np.array(["a", "bc"]),
    "empty": np.zeros((0, 4)),
    "one": np.array(5),
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("as_type", [str, lambda path: path])
def test_what_was_saved_is_read(save, as_type, tmp_path):
    path = tmp_path / "a.npz"
    save(path, **ARRAYS)
    received = read_npz(as_type(path))
    assert list(received) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert received[name].dtype == array.dtype
        np.testing.assert_array_equal(received[name], array)


def test_names_with_other_endings(tmp_path):
    np.savez(tmp_path / "a.npz", x=1)
    (tmp_path / "a.npz").rename(tmp_path / "a.bin")
    assert read_npz(tmp_path / "a.bin")["x"] == 1


def refused(path, *words):
    with pytest.raises(InputError) as caught:
        read_npz(path)
    for word in (str(path), "Expected", *words):
        assert word in str(caught.value)


def test_objects_are_not_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return (tmp_path.joinpath("sprung").touch, ())

    np.savez(tmp_path / "a.npz", x=np.array([Trap()], object))
    refused(tmp_path / "a.npz", "without objects")
    assert not (tmp_path / "sprung").exists()
    with np.load(tmp_path / "a.npz", allow_pickle=True) as file:
        _ = file["x"]
    assert (tmp_path / "sprung").exists()  # the trap works


def test_a_single_array(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(3))
    refused(tmp_path / "a.npy", "is a single array", "numpy.savez")


def test_no_file_a_folder_and_an_empty_file(tmp_path):
    refused(tmp_path / "none.npz", "No such file")
    refused(tmp_path, "directory")
    (tmp_path / "empty.npz").touch()
    refused(tmp_path / "empty.npz", "could not be read")


def test_other_files_in_the_archive(tmp_path):
    """NumPy gives their bytes."""
    np.savez(tmp_path / "a.npz", x=1)
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as file:
        file.writestr("notes.txt", "not an array")
    refused(tmp_path / "a.npz", "notes.txt")


@pytest.mark.parametrize(
    "shape", [b"(1152921504606846976,), }", b"(1152921504606846976,    ", b"(-3,), }" + 17 * b" "]
)
def test_headers_that_lie(shape, tmp_path):
    """2^60 numbers, a bracket that is never closed, fewer than none."""
    np.savez(tmp_path / "a.npz", x=np.zeros(3))
    with zipfile.ZipFile(tmp_path / "a.npz") as source:
        content = source.read("x.npy")
    changed = content.replace(b"(3,), }" + 18 * b" ", shape)
    assert len(changed) == len(content)
    with zipfile.ZipFile(tmp_path / "b.npz", "w") as file:
        file.writestr("x.npy", changed)
    refused(tmp_path / "b.npz", "could not be read")


class TestHeaders:
    def test_what_arrays_are(self, tmp_path):
        np.savez_compressed(tmp_path / "a.npz", **ARRAYS)
        found = read_headers(tmp_path / "a.npz")
        assert found == {name: (array.shape, array.dtype) for name, array in ARRAYS.items()}

    def test_nothing_large_is_read(self, tmp_path):
        """8 TB of numbers that are said to be there, behind a header that is."""
        header = io.BytesIO()
        facts = {"descr": "<f8", "fortran_order": False, "shape": (2**40,)}
        np.lib.format.write_array_header_1_0(header, facts)
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
            file.writestr("x.npy", header.getvalue())
        assert read_headers(tmp_path / "a.npz") == {"x": ((2**40,), np.float64)}

    def test_refused(self, tmp_path):
        np.savez(tmp_path / "a.npz", x=1)
        with zipfile.ZipFile(tmp_path / "a.npz", "a") as file:
            file.writestr("notes.txt", "not an array")
        (tmp_path / "b.npz").write_bytes(b"PK")
        np.save(tmp_path / "c.npy", np.zeros(3))
        for name in ("a.npz", "b.npz", "c.npy"):
            with pytest.raises(InputError, match="could not be read as an"):
                read_headers(tmp_path / name)
        with pytest.raises(InputError, match="No such file"):
            read_headers(tmp_path / "none.npz")


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "a.npz"
    np.savez_compressed(path, **ARRAYS)
    return path.read_bytes()


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_damaged_files_are_refused_or_harmless(good, tmp_path_factory, data):
    content = bytearray(good)
    for place in data.draw(st.lists(st.integers(0, len(good) - 1), min_size=1, max_size=3)):
        content[place] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.sampled_from([len(good), len(good) // 2, 10]))]
    path = tmp_path_factory.mktemp("bad") / "a.npz"
    path.write_bytes(content)
    try:
        received = read_npz(path)
    except InputError:
        return
    assert all(isinstance(array, np.ndarray) for array in received.values())


class TestLargeArrays:
    """They are read to where a device can use them as they are."""

    @pytest.fixture
    def large(self, tmp_path):
        array = np.arange(1 << 20, dtype=np.float32).reshape(-1, 4)
        np.savez(tmp_path / "a.npz", x=array, y=array.T, z=array.astype(">f4"))
        return array, read_npz(tmp_path / "a.npz")

    def test_what_was_saved_is_read(self, large):
        array, found = large
        np.testing.assert_array_equal(found["x"], array)
        np.testing.assert_array_equal(found["y"], array.T)  # columns first
        np.testing.assert_array_equal(found["z"], array)
        assert found["z"].dtype == np.dtype(">f4")
        assert [memory_of(found[name]) is not None for name in "xyz"] == [True, False, False]
        with pytest.raises(ValueError, match="read-only"):
            found["x"][0] = 1

    def test_a_device_uses_them_as_they_are(self, large):
        x = large[1]["x"]
        tensor = as_tensor(x)
        np.testing.assert_array_equal(tensor.numpy(), x)
        np.frombuffer(memory_of(x), np.float32)[5] = -1  # as nobody else can
        assert tensor[1, 1] == x[1, 1] == -1
        del x, large[1]["x"]
        assert tensor[1, 1] == -1  # the memory stays as long as the tensor

    def test_arrays_to_fill_in(self):
        array = shareable((2, 3), np.dtype(np.float32))
        assert (array.shape, array.dtype, array.any()) == ((2, 3), np.float32, False)
        array[1] = 5
        assert memory_of(array) is None  # as long as it can be written to
        array.flags.writeable = False
        assert memory_of(array) is not None
        np.testing.assert_array_equal(as_tensor(array), array)

    def test_others_are_copied(self, large):
        array, found = large
        for other in (array, found["x"][1:], found["x"][:, :2], found["x"].copy()):
            tensor = as_tensor(other)
            np.testing.assert_array_equal(tensor.numpy(), other)
        own = np.arange(8)
        tensor = as_tensor(own)
        own[0] = 5
        assert tensor[0] == 0

    @pytest.mark.parametrize("kept", [100, 1 << 21])
    def test_a_file_that_ends_early(self, kept, tmp_path):
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
            np.save(tmp_path / "x.npy", np.arange(1 << 20))
            content = (tmp_path / "x.npy").read_bytes()
            file.writestr("x.npy", content[: len(content) - kept])
        refused(tmp_path / "a.npz", "ends after")

    def test_a_file_with_wrong_content(self, tmp_path):
        np.savez(tmp_path / "a.npz", x=np.zeros(1 << 20))
        content = bytearray((tmp_path / "a.npz").read_bytes())
        content[len(content) // 2] ^= 1
        (tmp_path / "a.npz").write_bytes(content)
        refused(tmp_path / "a.npz", "CRC")


def test_rows():
    array = np.arange(12).reshape(6, 2)
    rows = Rows(array, np.array([4, 0, 4]))
    assert (rows.shape, rows.ndim, rows.dtype, len(rows)) == ((3, 2), 2, array.dtype, 3)
    np.testing.assert_array_equal(rows[1:], array[[0, 4]])
