"""Shows how a data set is divided over clients, without training.

    python -m launch.partition --dataset=glyphs --alpha=0.1

Takes the flags of launch.main; those about models and training have no effect. Prints a table and
draws a client-by-class picture into --out.
"""

from launch.command_line import start

start.begin(__name__)

import math
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import flags
from PIL import Image

from launch.command_line import exits, helping
from launch.command_line import flags as settings_flags
from launch.command_line.exits import DONE
from tf_fedsam import paths, text
from tf_fedsam.data import partition as partitions
from tf_fedsam.data.partition import Partition
from tf_fedsam.errors import InputError
from tf_fedsam.runs.task import Loaded

SHOWN_CLIENTS = 10
SHOWN_IN_PICTURE = 200

settings_flags.define()
flags.adopt_module_key_flags(settings_flags)
OUT = flags.DEFINE_string("out", "split.png", "Picture of the split.")


def main(args: Sequence[str]) -> int:
    if helping.helped(args, __doc__):
        return DONE
    settings_flags.parse(["launch.partition", *args])
    config = settings_flags.run_config().resolve()
    out = paths.expanded(OUT.value)
    if out.suffix.lower() != ".png":
        raise InputError(f"--out must be a .png file. Received: {out}.")
    with start.loaded(__name__):
        from tf_fedsam.runs.experiment import load_data, training_split
    loaded, partition, names = training_split(config, load_data(config, labels_only=True))
    counts = partition.class_counts(loaded.train.y, len(loaded.class_names), end=SHOWN_IN_PICTURE)
    write_picture(counts, out, partition.num_clients)
    text.say(describe(config.task.title, loaded, partition, names, out))
    return DONE


def describe(
    title: str,
    loaded: Loaded,
    partition: Partition,
    names: Sequence[Any] | None,
    out: pathlib.Path,
) -> str:
    """The numbers of the whole split, then those of the first clients."""
    numbers = partitions.statistics(partition, loaded.train.y, len(loaded.class_names))
    num_classes = len(loaded.class_names)
    columns = {
        "examples": (numbers["sizes"], "{:,.7g}"),
        "classes": (numbers["classes"], "{:,.4g}"),
        "label entropy": (numbers["label_entropy"], "{:.3f}"),
        "distance to all": (numbers["total_variation"], "{:.3f}"),
    }
    facts = text.table(
        [
            ("data", f"{title}: {len(loaded.train):,} training examples, {num_classes} classes"),
            ("source", loaded.source),
            ("clients", f"{partition.num_clients:,}"),
            ("split", partition.scheme),
            ("  repeated", f"{numbers['num_repeated']:,} (an example once more on some client)"),
            ("  unused", f"{numbers['num_unused']:,} (examples that no client has)"),
            ("  fingerprint", partition.fingerprint()),
            ("picture", out),
        ]
    )
    spread = text.grid(
        ("on a client", "min", "median", "mean", "max"),
        [
            (name, *(form.format(f(values)) for f in (np.min, np.median, np.mean, np.max)))
            for name, (values, form) in columns.items()
        ],
    )
    first = range(min(SHOWN_CLIENTS, partition.num_clients))
    clients = text.grid(
        ("client", *columns),
        [
            (
                i if names is None else names[i],
                *(form.format(values[i]) for values, form in columns.values()),
            )
            for i in first
        ],
    )
    more = partition.num_clients - len(first)
    notes = text.wrapped(
        f"Label entropy in nats, at most {math.log(num_classes):.3f} here. Distance: total "
        "variation between the client's class mix and that of all training examples, 0 (the same) "
        "to 1 (no class in common)."
    )
    rest = f"... and {more:,} more clients" if more else ""
    return "\n".join(["", facts, "", spread, "", clients, *([rest] if rest else []), "", *notes])


def write_picture(counts: np.ndarray, out: pathlib.Path, num_clients: int) -> None:
    from tf_fedsam.runs.callbacks.tensorboard import split_picture

    try:
        Image.fromarray(split_picture(counts, (), num_clients)).save(out)
    except OSError as error:
        raise InputError(
            f"--out={out} cannot be written ({error.strerror or error}). Choose another place."
        ) from None


def run(args: Sequence[str]) -> int:
    """The launcher as a function of its arguments; gives the exit code."""
    return exits.guarded(lambda: main(args), interrupted="There is no new picture.")


def console() -> None:
    exits.console(lambda: run(sys.argv[1:]))


if __name__ == "__main__":
    console()
