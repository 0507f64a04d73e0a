"""What a run was made from: versions, source revision, fingerprints of its data and files."""

import hashlib
import os
import pathlib
import platform
import subprocess
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tf_fedsam
from tf_fedsam import paths
from tf_fedsam.data.federated_dataset import Examples, FederatedDataset
from tf_fedsam.data.files import FileImages
from tf_fedsam.own_code import is_reference
from tf_fedsam.runs import task as tasks
from tf_fedsam.runs.config import SETTINGS, RunConfig
from tf_fedsam.runs.settings import File

ROOT = pathlib.Path(tf_fedsam.__file__).parents[1]
UNKNOWN = "unknown"
SAMPLED_IMAGES = 64
_CHUNK_BYTES = 1 << 24


def versions() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        **{m.__name__: m.__version__ for m in (tf_fedsam, tf, keras, np)},
    }


def packages() -> list[str]:
    """The packages whose code makes a run: this one, and those of the data sets."""
    return ["tf_fedsam", *sorted({name.partition(".")[0] for name in tasks.registered()})]


def source(root: pathlib.Path = ROOT) -> dict[str, Any]:
    """Git revision of the code and whether it was changed since, and a fingerprint of it.

    The fingerprint is there without Git too, and tells two changed trees apart.
    """
    digest = hashlib.sha256()
    for package in packages():
        for path in sorted((root / package).rglob("*.py")):
            digest.update(f"{path.relative_to(root).as_posix()}\0".encode())
            digest.update(path.read_bytes() + b"\0")
    return {**_git(root), "fingerprint": digest.hexdigest()[:16]}


def _git(root: pathlib.Path) -> dict[str, Any]:
    unknown: dict[str, Any] = {"revision": UNKNOWN, "dirty": UNKNOWN}
    if not (root / ".git").exists():  # a folder above may be a repository of something else
        return unknown
    answers = []
    for command in (["rev-parse", "HEAD"], ["status", "--porcelain", "--", *packages()]):
        try:
            done = subprocess.run(
                ["git", "-C", str(root), *command],
                capture_output=True,
                text=True,
                timeout=20,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},  # reads, and writes no index
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            return unknown
        answers.append(done.stdout.strip())
    return {"revision": answers[0], "dirty": bool(answers[1])}


def fingerprints(config: RunConfig, dataset: FederatedDataset) -> dict[str, str]:
    """Of everything that is read from elsewhere: data, split, and files that settings name."""
    found = {"data": _data(dataset.train, dataset.test), "split": dataset.partition.fingerprint()}
    return found | of_files(config)


def of_files(config: RunConfig) -> dict[str, str]:
    """Of the files, apart from the data, that settings name."""
    found = {}
    for name, setting in SETTINGS.items():
        value = getattr(config, name)
        if setting.file not in (File.CODE, File.INPUT) or value is None:
            continue
        if setting.file is File.CODE and not is_reference(value):
            continue
        file = value.rpartition(":")[0] if ".py:" in value else value
        found[name] = _short(paths.expanded(file).read_bytes())
    return found


def _data(*parts: Examples | None) -> str:
    """Of all examples; of images that stay in their files, some spread over the whole."""
    digest = hashlib.sha256()
    for part in parts:
        for array in () if part is None else (part.x, part.y):
            digest.update(f"{array.dtype.str} {array.shape}\0".encode())
            if isinstance(array, FileImages):
                spread = np.linspace(0, len(array) - 1, min(len(array), SAMPLED_IMAGES))
                pieces = [array[spread.astype(np.int64)]]
            else:
                rows = max(1, _CHUNK_BYTES // max(1, array[:1].nbytes))
                pieces = [array[start : start + rows] for start in range(0, len(array), rows)]
            for piece in pieces:
                digest.update(np.ascontiguousarray(piece).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()[:16]


def _short(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
