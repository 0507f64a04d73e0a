"""The examples that the loss is the mean of, the same for all runs."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tf_fedsam import rng
from tf_fedsam.analysis.landscape.compared import DATA, Compared
from tf_fedsam.data.federated_dataset import Examples, Preprocess
from tf_fedsam.errors import InputError
from tf_fedsam.runs import provenance
from tf_fedsam.runs.experiment import load_data, make_dataset
from tf_fedsam.runs.folder import differences


@dataclasses.dataclass(frozen=True)
class Data:
    """What the loss is the mean of.

    Attributes:
        examples: raw.
        available: how many they were drawn from.
        preprocess: from raw to network input.
        num_classes: number of labels.
    """

    examples: Examples
    available: int
    preprocess: Preprocess
    num_classes: int


def load_examples(compared: Sequence[Compared], on: str, count: int, seed: int) -> Data:
    """Reads the runs' data, checks that they are what the runs read, and draws examples.

    Args:
        compared: with the same data, though the split may differ.
        on: "train": examples that some client of every run has; "test": test examples.
        count: how many are drawn; all if there are not more.
        seed: of the choice.
    """
    checked: dict[str, Mapping[str, str]] = {}
    dataset: Any = None
    common = np.zeros(0, np.int64)
    for each in compared:
        key = repr([getattr(each.problem, name) for name in (*DATA, "model")])
        if key in checked:
            check_inputs(each, checked[key])
            continue
        found = make_dataset(each.problem, load_data(each.problem))
        checked[key] = provenance.fingerprints(each.problem, found)
        check_inputs(each, checked[key])
        if dataset is not None and found.preprocess != dataset.preprocess:
            raise InputError(
                f"{compared[0].folder} and {each.folder} normalise their inputs differently. Draw "
                f"them one by one, each with its own out.",
                "out",
            )
        held = np.unique(found.partition.indices)
        common = held if dataset is None else np.intersect1d(common, held)
        dataset = dataset or found
    part, chosen = dataset.train, common
    if on == "test":
        part, chosen = dataset.test, np.arange(len(dataset.test))
    if not chosen.size:
        raise InputError("No training example belongs to a client of every run. Use on=test.", "on")
    available = chosen.size
    if count < available:
        generator = rng.generator(seed, f"landscape.examples.{on}")
        chosen = np.sort(generator.choice(chosen, count, replace=False))
    examples = Examples(np.asarray(part.x[chosen]), part.y[chosen])
    return Data(examples, available, dataset.preprocess, dataset.num_classes)


def check_inputs(compared: Compared, now: Mapping[str, str]) -> None:
    """Refuses data and model files that are not what the run read."""
    recorded = {name: compared.inputs.get(name) for name in now}
    different = differences(recorded, now)
    if different:
        raise InputError(
            f"What the run {compared.folder} read is not what is there now. Different content: "
            f"{'; '.join(different)}. Put back what it read."
        )
