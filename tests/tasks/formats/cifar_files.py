"""Small CIFAR sets in every form that the publisher has."""

import gzip
import io
import struct
import tarfile

import numpy as np

COUNTS = (10, 4)  # five training files of two images, one test file of four


class Data:
    """Images as they are stored (one plane for each colour) and labels, by file."""

    def __init__(self, seed=0):
        random = np.random.default_rng(seed)
        self.images = random.integers(0, 256, (14, 3, 32, 32), np.uint8)
        self.labels = random.integers(0, 10, 14)
        self.coarse = random.integers(0, 20, 14)
        self.fine = random.integers(0, 100, 14)

    def check(self, arrays, labels):
        x_train, y_train, x_test, y_test = arrays
        assert x_train.dtype == np.uint8
        assert x_train.flags.c_contiguous
        assert y_train.dtype == y_test.dtype == np.int32
        stacked = np.concatenate([x_train, x_test])
        assert stacked.shape == (14, 32, 32, 3)
        for colour in range(3):
            np.testing.assert_array_equal(stacked[..., colour], self.images[:, colour])
        np.testing.assert_array_equal(np.concatenate([y_train, y_test]), labels)


def cifar10_binary(data):
    records = np.concatenate(
        [data.labels[:, None].astype(np.uint8), data.images.reshape(14, -1)], 1
    )
    files = {f"data_batch_{i + 1}.bin": records[2 * i : 2 * i + 2].tobytes() for i in range(5)}
    return files | {"test_batch.bin": records[10:].tobytes()}


def cifar100_binary(data):
    labels = np.stack([data.coarse, data.fine], 1).astype(np.uint8)
    records = np.concatenate([labels, data.images.reshape(14, -1)], 1)
    return {"train.bin": records[:10].tobytes(), "test.bin": records[10:].tobytes()}


def python2_pickle(fields):
    """A dictionary as Python 2's cPickle writes it at protocol 2, which the publisher used.

    Byte strings (SHORT_BINSTRING, BINSTRING), small integers (BININT1) and arrays through
    numpy.core.multiarray._reconstruct, as in the published data_batch_1.
    """

    def text(value):
        return b"U" + bytes([len(value)]) + value

    def integer(value):
        return b"K" + bytes([value]) if value < 256 else b"M" + struct.pack("<H", value)

    out = b"\x80\x02}q\x01("
    for number, (key, value) in enumerate(fields.items()):
        out += text(key) + b"q" + bytes([2 + number])
        if isinstance(value, bytes):
            out += text(value)
        elif isinstance(value, list):
            items = (integer(item) if isinstance(item, int) else text(item) for item in value)
            out += b"]q\x20(" + b"".join(items) + b"e"
        else:
            raw = value.tobytes()
            out += (
                b"cnumpy.core.multiarray\n_reconstruct\nq\x21cnumpy\nndarray\nq\x22K\x00\x85U\x01b"
                b"\x87Rq\x23(K\x01" + b"".join(map(integer, value.shape)) + b"\x86cnumpy\ndtype\n"
                b"q\x24U\x02u1K\x00K\x01\x87Rq\x25(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
                b"K\x00tb\x89T" + struct.pack("<I", len(raw)) + raw + b"tb"
            )
    return out + b"u."


def cifar10_python(data, dump=python2_pickle):
    def batch(rows):
        return dump(
            {
                b"batch_label": b"training batch 1 of 5",
                b"labels": data.labels[rows].tolist(),
                b"data": data.images[rows].reshape(-1, 3072),
                b"filenames": [b"camion_s_000148.png"] * len(data.labels[rows]),
            }
        )

    files = {f"data_batch_{i + 1}": batch(slice(2 * i, 2 * i + 2)) for i in range(5)}
    return files | {"test_batch": batch(slice(10, 14)), "batches.meta": b"(dp1\n."}


def cifar100_python(data, dump=python2_pickle):
    def batch(rows):
        return dump(
            {
                b"filenames": [b"bos_taurus_s_000507.png"] * len(data.fine[rows]),
                b"batch_label": b"training batch 1 of 1",
                b"fine_labels": data.fine[rows].tolist(),
                b"coarse_labels": data.coarse[rows].tolist(),
                b"data": data.images[rows].reshape(-1, 3072),
            }
        )

    return {"train": batch(slice(10)), "test": batch(slice(10, 14))}


FORMS = {
    "cifar-10-batches-bin": (cifar10_binary, "cifar-10-binary.tar.gz"),
    "cifar-10-batches-py": (cifar10_python, "cifar-10-python.tar.gz"),
    "cifar-100-binary": (cifar100_binary, "cifar-100-binary.tar.gz"),
    "cifar-100-python": (cifar100_python, "cifar-100-python.tar.gz"),
}


def write_folder(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def tar_bytes(files, form=tarfile.USTAR_FORMAT, extra=()):
    """A .tar.gz of {name: content} and of further TarInfo objects, in this order."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for info in extra:
            archive.addfile(info)
    return gzip.compress(buffer.getvalue(), 1, mtime=0)


def archive_of(folder, files, **kwargs):
    return tar_bytes({f"{folder}/{name}": content for name, content in files.items()}, **kwargs)
