"""Images a second that are decoded from files."""

from __future__ import annotations  # of what is loaded later

import functools
import pathlib
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from PIL import Image

from launch.benchmarks import tables
from launch.benchmarks.measuring import How, least
from tasks.formats import image_folder, images
from tf_fedsam import devices

DECODED = (("JPEG", 64, 64), ("PNG", 64, 64), ("JPEG", 256, 64), ("PNG", 32, 32))
NUM_FILES, NUM_COHORTS = 4_000, 4


def decoded(how: How) -> None:
    """Images of files in cohorts, the next one prefetched, over the same decoder in a thread pool.

    The files are drawn, and each is decoded once a measurement. Seconds are the least of all, since
    what else a machine does can only add to them.
    """
    rows = []
    for form, side, size in DECODED:
        with tempfile.TemporaryDirectory() as folder:
            read = image_folder.reader(draw_files(pathlib.Path(folder), form, side))
            runs = {"pool": pooled, "pipeline": piped}
            measured = {name: functools.partial(run, read, size) for name, run in runs.items()}
            took = least(measured, how.repeats)
        rows.append(
            (
                f"{form}, {side} x {side} to {size} x {size}",
                *(f"{NUM_FILES / took[name]:,.0f}" for name in ("pipeline", "pool")),
                f"{took['pool'] / took['pipeline']:.2f}",
            )
        )
    tables.show("images", ("files", "images a second", "thread pool", "ratio"), rows)


def draw_files(folder: pathlib.Path, form: str, side: int) -> list[pathlib.Path]:
    """Smooth colours, which compress about as photographs do."""
    generator, files = np.random.default_rng(0), []
    for number in range(NUM_FILES):
        colours = Image.fromarray(generator.integers(0, 256, (8, 8, 3), dtype=np.uint8))
        files.append(folder / f"{number}.{form.lower()}")
        colours.resize((side, side), Image.Resampling.BICUBIC).save(files[-1], form)
    return files


def piped(read: images.Read, size: int) -> float:
    stored = images.stored(read, NUM_FILES, size)
    stored[:1]  # is built
    cohorts = np.array_split(np.random.default_rng(0).permutation(NUM_FILES), NUM_COHORTS)
    began = time.perf_counter()
    for cohort, following in zip(cohorts, [*cohorts[1:], cohorts[0]], strict=True):
        _ = stored[cohort]
        stored.prefetch(following)
    return time.perf_counter() - began


def pooled(read: images.Read, size: int) -> float:
    result = np.empty((NUM_FILES, size, size, 3), np.uint8)

    def decode(start: int) -> None:
        for number in range(start, min(start + 64, NUM_FILES)):
            result[number] = images.decode_image(*read(number), size)

    began = time.perf_counter()
    with ThreadPoolExecutor(min(8, devices.available_cores())) as pool:
        for _ in pool.map(decode, range(0, NUM_FILES, 64)):
            pass
    return time.perf_counter() - began
