"""Runs launchers inside the test process, as a user would from the command line."""

import dataclasses
import json
import pathlib

import numpy as np
from absl.testing import flagsaver
from PIL import Image

from launch import main


@dataclasses.dataclass
class Result:
    code: int
    out: str
    err: str


def run(capsys, *args: str) -> Result:
    """Runs ``launch.main`` with these arguments."""
    with flagsaver.flagsaver():
        code = main.run([str(a) for a in args])
    captured = capsys.readouterr()
    return Result(code, captured.out, captured.err)


def toy_file(folder: pathlib.Path, **changes) -> pathlib.Path:
    """An .npz of 40 training examples of 3 classes on 4 clients, unless changed."""
    generator = np.random.default_rng(0)
    arrays = {
        "x_train": generator.normal(size=(40, 5)).astype(np.float32),
        "y_train": np.arange(40) % 3,
        "x_test": generator.normal(size=(12, 5)).astype(np.float32),
        "y_test": np.arange(12) % 3,
        "client_id": np.repeat([0, 1, 2, 3], [4, 9, 13, 14]),
    }
    arrays |= changes
    path = folder / "toy.npz"
    np.savez(path, **{name: a for name, a in arrays.items() if a is not None})
    return path


def toy_args(folder: pathlib.Path, **changes) -> list[str]:
    """A short run on the toy file."""
    return [
        "--dataset=npz",
        f"--data_file={toy_file(folder, **changes)}",
        "--model=linear",
        "--partition=given",
        "--participation=0.5",
        "--rounds=2",
        "--devices=cpu:2",
        f"--output_dir={folder / 'run'}",
    ]


def records(folder: pathlib.Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]


def image_files(folder: pathlib.Path, num_train: int, num_test: int) -> None:
    """Random 8 x 8 images of two classes, so many each, as --dataset=image_folder reads them."""
    generator = np.random.default_rng(0)
    for split, count in (("train", num_train), ("test", num_test)):
        for name in ("cat", "dog"):
            (folder / split / name).mkdir(parents=True)
            for i in range(count):
                pixels = generator.integers(0, 256, (8, 8, 3)).astype(np.uint8)
                Image.fromarray(pixels).save(folder / split / name / f"{i}.png")
