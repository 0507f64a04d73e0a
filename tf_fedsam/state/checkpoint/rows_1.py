"""Files of clients' rows as format 1 had them.

    positions    of the clients (int64)
    rows         float32, one after another in the same order

The manifest holds the checksum of the whole file.
"""

import itertools
from pathlib import Path

import numpy as np

from tf_fedsam.state.checkpoint.format import BrokenError, Manifest, reading
from tf_fedsam.state.client_store import ClientStore

CHUNK_BYTES = 1 << 24


def read_clients(folder: Path, manifest: Manifest) -> ClientStore:
    """All rows of a checkpoint."""
    store = ClientStore(manifest.client_layout)
    lengths = manifest.client_layout
    ends = dict(zip(lengths, itertools.accumulate(lengths.values()), strict=True))
    width = sum(lengths.values())
    for file in manifest.clients:
        num_rows, rest = divmod(file.num_bytes, 8 + 4 * width)
        if rest:
            raise BrokenError(f"{file.name} does not consist of whole rows")
        with reading(folder, file) as read:
            positions = np.frombuffer(read(8 * num_rows), np.int64)
            num_at_once = max(1, CHUNK_BYTES // (4 * max(width, 1)))
            for start in range(0, num_rows, num_at_once):
                some = positions[start : start + num_at_once]
                rows = np.frombuffer(read(4 * width * len(some)), np.float32)
                rows = rows.reshape(len(some), width)
                parts = {name: rows[:, end - lengths[name] : end] for name, end in ends.items()}
                store.scatter(some, parts, np.ones(len(some), bool))
    return store
