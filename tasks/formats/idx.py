"""IDX files, plain or gzipped: MNIST, Fashion-MNIST and EMNIST as their publishers distribute them.

The format (http://yann.lecun.com/exdb/mnist/): two zero bytes, one byte for the type of a value,
one for the number of dimensions, each dimension as a big-endian 32-bit integer, then the values in
C order, big-endian.
"""

import contextlib
import math
import os
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tasks.formats.files import (
    CHUNK_BYTES,
    PathLike,
    bad_file,
    gunzip,
    is_gzip,
    max_gunzipped_bytes,
    opened,
    read_into,
)
from tf_fedsam.errors import InputError, unknown

MAX_BYTES = 8 << 30
MAX_DIMENSIONS = 8

_DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}

_SUBFOLDERS = ("", "gzip", "raw", "MNIST/raw")
# torchvision keeps MNIST and Fashion-MNIST below one root under identical file names, so that each
# kind may look only where its own files are.
_KINDS: dict[str, tuple[tuple[str, ...], str, str, int]] = {
    "mnist": (("", "gzip", "raw", "MNIST/raw"), "train-", "t10k-", 10),
    "fashion_mnist": (("", "gzip", "raw", "FashionMNIST/raw"), "train-", "t10k-", 10),
    "emnist": (
        ("", "gzip", "raw", "EMNIST/raw"),
        "emnist-byclass-train-",
        "emnist-byclass-test-",
        62,
    ),
}


def read_idx(path: PathLike) -> np.ndarray:
    """The array in an IDX file, in the machine's byte order.

    Whether the file is gzipped is seen from its content; a name that ends in .gz must be true.

    Raises:
        InputError: not an IDX file, a payload shorter or longer than the header says, a claim of
            more than 8 GiB, a broken gzip stream or a gzip checksum that does not match.
    """
    with opened(path) as (file, num_stored_bytes):
        if num_stored_bytes == 0:
            raise bad_file(path, "an empty file", "an IDX file")
        gzipped = is_gzip(file)
        if not gzipped and Path(path).suffix == ".gz":
            raise bad_file(
                path,
                "content that is not gzip",
                "a gzip file, as its name says",
                "Download it again, or drop '.gz' from the name if it was decompressed.",
            )
        stream = gunzip(file) if gzipped else file
        magic = stream.read(4)
        if len(magic) < 4 or magic[:2] != b"\0\0":
            raise bad_file(path, f"the first bytes {magic!r}", "an IDX file (two zero bytes)")
        if magic[2] not in _DTYPES:
            raise bad_file(
                path,
                f"the value type 0x{magic[2]:02x}",
                f"one of {', '.join(f'0x{code:02x}' for code in _DTYPES)}",
            )
        num_dimensions = magic[3]
        if not 1 <= num_dimensions <= MAX_DIMENSIONS:
            raise bad_file(path, f"{num_dimensions} dimensions", f"1 to {MAX_DIMENSIONS}")
        sizes = stream.read(4 * num_dimensions)
        if len(sizes) != 4 * num_dimensions:
            raise bad_file(path, "a file that ends inside its header", "a complete IDX file")
        shape = struct.unpack(f">{num_dimensions}I", sizes)
        dtype = np.dtype(_DTYPES[magic[2]])
        claimed = math.prod(shape) * dtype.itemsize
        if min(shape) == 0 or claimed > MAX_BYTES:
            raise bad_file(
                path,
                f"a header that claims the shape {shape} ({claimed:,} bytes)",
                f"between 1 and {MAX_BYTES:,} bytes",
            )
        # Compared before the array is allocated: a small file cannot make a large claim.
        header_bytes = 4 + len(sizes)
        stored = num_stored_bytes - header_bytes
        if not gzipped and stored != claimed:
            raise _wrong_size(path, shape, claimed, f"{stored:,}")
        if gzipped and claimed > max_gunzipped_bytes(num_stored_bytes):
            raise _wrong_size(path, shape, claimed, f"{num_stored_bytes:,} (gzipped)")
        try:
            values = np.empty(shape, dtype)
        except MemoryError:
            raise bad_file(
                path,
                f"the shape {shape} ({claimed:,} bytes)",
                "an array that fits into memory",
                "Free memory or use a larger machine.",
            ) from None
        obtained = read_into(stream, values.reshape(-1).view(np.uint8).data)
        if obtained != claimed:
            raise _wrong_size(path, shape, claimed, f"{obtained:,}")
        # At the end of a gzip stream this read also compares the checksum.
        if stream.read(1):
            raise _wrong_size(path, shape, claimed, "more")
    return values.astype(dtype.newbyteorder("="), copy=False)


def find_idx(folder: PathLike, stem: str, subfolders: Sequence[str] = _SUBFOLDERS) -> Path:
    """The file `stem` or `stem`.gz in `folder` or one of the usual folders below it.

    Args:
        folder: the folder of the data set.
        stem: the publisher's name, such as "train-images-idx3-ubyte". The spelling with a dot
            before "idx" (older downloads) is looked for as well.
        subfolders: where to look, the first match wins; a plain file goes before a gzipped one.

    Raises:
        InputError: there is no such file.
    """
    dashed = stem.replace(".idx", "-idx")
    names = (dashed, dashed.replace("-idx", ".idx"))
    for subfolder in subfolders:
        for suffix in ("", ".gz"):
            for name in names:
                path = Path(folder, subfolder, name + suffix)
                if os.path.isfile(path):
                    return path
    where = ", ".join(repr(subfolder) for subfolder in subfolders if subfolder)
    raise bad_file(
        folder,
        f"no file {dashed!r} or {dashed + '.gz'!r}",
        "the publisher's IDX files there" + (f" or in its subfolder {where}" if where else ""),
        "Download them from the publisher and keep their names.",
    )


def holds(folder: PathLike, kind: str) -> bool:
    """Whether any of the four files of `kind` is in the folder, complete or not."""
    subfolders, train, test, _ = _KINDS[kind]
    for part in (train, test):
        for stem in ("images-idx3-ubyte", "labels-idx1-ubyte"):
            with contextlib.suppress(InputError):
                find_idx(folder, part + stem, subfolders)
                return True
    return False


def read_pairs(
    folder: PathLike, kind: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The images and labels of `kind` ("mnist", "fashion_mnist" or "emnist", its byclass split).

    EMNIST's files hold every image transposed; here they are turned so that letters stand upright,
    as MNIST's digits do. (TFDS leaves them as they are in the file.)

    Returns:
        x_train uint8 [n, 28, 28, 1], y_train int32 [n], x_test, y_test.

    Raises:
        InputError: a missing or broken file, images that are not 28 x 28 bytes, a number of labels
            that is not that of the images, or a label out of range.
    """
    if kind not in _KINDS:
        raise unknown("kind of IDX data", kind, _KINDS)
    subfolders, train, test, num_classes = _KINDS[kind]
    # All four from one folder, so that two copies of different age are never mixed.
    home = find_idx(folder, f"{train}images-idx3-ubyte", subfolders).parent
    arrays: list[np.ndarray] = []
    for part in (train, test):
        images_path = find_idx(home, f"{part}images-idx3-ubyte", ("",))
        labels_path = find_idx(home, f"{part}labels-idx1-ubyte", ("",))
        labels = read_idx(labels_path)
        if labels.ndim != 1 or labels.dtype != np.uint8:
            raise bad_file(
                labels_path, f"{labels.dtype} values of shape {labels.shape}", "uint8 labels [n]"
            )
        if labels.max() >= num_classes:
            raise bad_file(labels_path, f"the label {labels.max()}", f"0 to {num_classes - 1}")
        images = read_idx(images_path)
        if images.ndim != 3 or images.shape[1:] != (28, 28) or images.dtype != np.uint8:
            raise bad_file(
                images_path,
                f"{images.dtype} values of shape {images.shape}",
                "uint8 images [n, 28, 28]",
            )
        if len(images) != len(labels):
            raise bad_file(
                labels_path,
                f"{len(labels):,} labels",
                f"{len(images):,}, one for each image in {images_path.name!r}",
                "Take both files from the same download.",
            )
        if kind == "emnist":
            _transpose_in_place(images)
        arrays += [images[..., None], labels.astype(np.int32)]
    return arrays[0], arrays[1], arrays[2], arrays[3]


def _transpose_in_place(images: np.ndarray) -> None:
    # Piece by piece: a second copy of EMNIST would take another half gigabyte.
    step = max(1, CHUNK_BYTES // images[0].nbytes)
    for start in range(0, len(images), step):
        piece = images[start : start + step]
        piece[...] = piece.transpose(0, 2, 1).copy()


def _wrong_size(path: PathLike, shape: tuple[int, ...], claimed: int, received: str) -> Exception:
    return bad_file(
        path,
        f"{received} bytes of values",
        f"exactly {claimed:,} for the shape {shape} in its header",
    )
