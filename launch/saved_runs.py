"""Runs that are done, read from their folders to be looked at side by side: data and solutions."""

import dataclasses
import pathlib
import shlex
import types
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
from absl import flags

from launch import flags as settings_flags
from launch import provenance, repeat
from launch.experiment import load_data, make_dataset
from launch.flags import FREE_ON_RESUME, Settings
from tf_fedsam import models, rng
from tf_fedsam.analysis.landscape import Solution
from tf_fedsam.data.arrays import read_npz
from tf_fedsam.data.federated_dataset import Examples, Preprocess
from tf_fedsam.errors import InputError
from tf_fedsam.models.trainable import select_trainable
from tf_fedsam.own_code import is_reference
from tf_fedsam.state.run_folder import RunFolder, differences

# Of a run's settings, those that say what the data and the model are.
DATA = (
    *("dataset", "data_file", "data_dir", "subset", "image_size", "stream", "seed", "partition"),
    *("num_clients", "alpha", "replacement", "size_sigma", "classes_per_client"),
    *("shards_per_client", "client_noise", "category_noise"),
)
MODEL = ("model", "trainable")
# Options of the package's models that make no other function of the same weights.
INERT_OPTIONS = (*("init", "pretrained", "conv_dropout", "dense_dropout", "dropout", "drop_path"),)
# Not part of a label: where things lie, and what does not change a result.
UNTOLD = {*FREE_ON_RESUME, "algo", "data_dir", "data_file", "deterministic", "stream"} - {"rounds"}

settings_flags.define()


@dataclasses.dataclass(frozen=True)
class Run:
    """A run that is done.

    Attributes:
        folder: as the user gave it.
        config: its config.json.
        settings: what of it decides data and model.
        rounds: how many it had.
        label: for people, unique among the runs compared.
    """

    folder: pathlib.Path
    config: Mapping[str, Any]
    settings: Settings
    rounds: int
    label: str = ""

    @property
    def algo(self) -> str:
        name = str(self.config["settings"].get("algo", "run"))
        return name.rpartition(":")[2] if is_reference(name) else name


@dataclasses.dataclass(frozen=True)
class Data:
    """What the loss is the mean of, the same for all runs.

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


def read_all(folders: Sequence[pathlib.Path]) -> list[Run]:
    """Runs that can be compared, with labels."""
    runs = labelled([read_run(folder) for folder in folders])
    check_comparable(runs)
    return runs


def read_run(folder: pathlib.Path) -> Run:
    """A run from its folder; refused if it is not complete."""
    if not (folder / "config.json").is_file():
        raise InputError(
            f"{folder} is not a run folder: there is no config.json in it. Expected: a folder that "
            f"python -m launch.main made."
        )
    config = repeat.config_of(str(folder))
    needed = ("summary.json", "model.keras", "final_weights.npz")
    lacking = [name for name in needed if not (folder / name).is_file()]
    if lacking:
        again = shlex.quote(str(folder))
        raise InputError(
            f"The run {folder} is not complete: {', '.join(lacking)} is not there. Finish it first:"
            f"\n  python -m launch.main --from_config={again} --output_dir={again}"
        )
    return Run(folder, config, settings_of(folder, config), rounds=len(RunFolder(folder).records()))


def settings_of(folder: pathlib.Path, config: Mapping[str, Any]) -> Settings:
    """Data and model of a run; its algorithm, which may be a file that is gone, is left out."""
    every = repeat.expand(["", f"--from_config={folder}"], config["settings"], ())
    kept = [
        flag
        for flag in every
        if flag.removeprefix("--").partition("=")[0] in (*DATA, *MODEL)
        or flag.startswith("--model_options.")
    ]
    for flag in flags.FLAGS.flags_by_module_dict()[settings_flags.__name__]:
        flag.unparse()  # of the run before
    settings_flags.parse(["launch.landscape", *kept])
    return settings_flags.resolve(flags.FLAGS)


def labelled(runs: Sequence[Run]) -> list[Run]:
    """The runs with labels: the algorithm and what differs."""
    settings = [run.config["settings"] for run in runs]
    names = sorted(set.intersection(*map(set, settings)) - UNTOLD - {"hparams"})
    told = [name for name in names if len({repr(each[name]) for each in settings}) > 1]
    labels = []
    for run, mine in zip(runs, settings, strict=True):
        rivals = [each for each in settings if each.get("algo") == mine.get("algo")]
        own = _hparams(mine)
        varying = [
            name for name in own if len({repr(_hparams(rival).get(name)) for rival in rivals}) > 1
        ]
        different = [f"{name}={own[name]}" for name in varying]
        different += [f"{name}={mine[name]}" for name in told if mine[name] is not None]
        labels.append(" ".join([run.algo, *different]))
    for i, run in enumerate(runs):
        if labels.count(labels[i]) > 1:
            labels[i] = f"{labels[i]} ({run.folder.name or run.folder})"
    if len(set(labels)) < len(labels):
        labels = [f"{i + 1}: {label}" for i, label in enumerate(labels)]
    return [dataclasses.replace(run, label=label) for run, label in zip(runs, labels, strict=True)]


def _hparams(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    found = settings.get("hparams")
    return found if isinstance(found, dict) else {}


def check_comparable(runs: Sequence[Run]) -> None:
    """Refuses runs whose losses are not of one function of one kind of weights."""
    first = runs[0]
    for run in runs[1:]:
        there, now = (r.config["inputs"].get("data") for r in (first, run))
        if there != now:
            settings = [{n: r.config["settings"].get(n) for n in DATA} for r in (first, run)]
            words = _different(*settings) or f"the content, {there} and {now}"
            raise InputError(
                f"{first.folder} and {run.folder} have different data, so their losses cannot be "
                f"compared. Different: {words}. Draw them one by one, each with its own "
                f"--out."
            )
        different = _different(architecture(first), architecture(run))
        if different:
            raise InputError(
                f"{first.folder} and {run.folder} have different architectures, so that they "
                f"cannot share directions. Different: {different}. Draw them one by "
                f"one, each with its own --out."
            )


def _different(left: Mapping[str, Any], right: Mapping[str, Any]) -> str:
    return "; ".join(
        f"{name}, {left.get(name)!r} and {right.get(name)!r}"
        for name in sorted({*left, *right})
        if left.get(name) != right.get(name)
    )


def architecture(run: Run) -> dict[str, Any]:
    """All that decides a model apart from its weights."""
    settings = run.settings
    own = is_reference(settings.model)
    inert = () if own else INERT_OPTIONS
    return {
        "model": settings.model.rpartition(":")[2] if own else settings.model,
        "content of the model's file": run.config["inputs"].get("model"),
        "trainable": settings.trainable,
        **{k: v for k, v in settings.model_options.items() if k not in inert},
    }


def load_examples(runs: Sequence[Run], on: str, count: int, seed: int) -> Data:
    """The examples of the loss, the same for all runs.

    Args:
        runs: with the same data, though the split may differ.
        on: "train": examples that some client of every run has; "test": test examples.
        count: how many are drawn; all if there are not more.
        seed: of the choice.
    """
    checked: dict[str, Mapping[str, str]] = {}
    dataset: Any = None
    common = np.zeros(0, np.int64)
    for run in runs:
        key = repr([getattr(run.settings, name) for name in (*DATA, "model")])
        if key in checked:
            check_inputs(run, checked[key])
            continue
        found = make_dataset(run.settings, load_data(run.settings))
        checked[key] = provenance.fingerprints(_experiment(run, found))
        check_inputs(run, checked[key])
        if dataset is not None and found.preprocess != dataset.preprocess:
            raise InputError(
                f"{runs[0].folder} and {run.folder} normalise their inputs differently. Draw them "
                f"one by one, each with its own --out."
            )
        held = np.unique(found.partition.indices)
        common = held if dataset is None else np.intersect1d(common, held)
        dataset = dataset or found
    part, chosen = dataset.train, common
    if on == "test":
        part, chosen = dataset.test, np.arange(len(dataset.test))
    if not chosen.size:
        raise InputError("No training example is on some client of every run. Use --on=test.")
    available = chosen.size
    if count < available:
        generator = rng.generator(seed, f"landscape.examples.{on}")
        chosen = np.sort(generator.choice(chosen, count, replace=False))
    examples = Examples(np.asarray(part.x[chosen]), part.y[chosen])
    return Data(examples, available, dataset.preprocess, dataset.num_classes)


def _experiment(run: Run, dataset: Any) -> Any:
    """As much of an experiment as has inputs here: the data and the model's file."""
    settings = dict.fromkeys(provenance.FILES) | {"model": run.settings.model}
    return types.SimpleNamespace(dataset=dataset, settings=types.SimpleNamespace(**settings))


def check_inputs(run: Run, now: Mapping[str, str]) -> None:
    """Refuses data and model files that are not what the run read."""
    recorded = {name: run.config["inputs"].get(name) for name in now}
    different = differences(recorded, now)
    if different:
        raise InputError(
            f"What the run {run.folder} read is not what is there now. Different content: "
            f"{'; '.join(different)}. Put back what it read."
        )


def build_network(run: Run, data: Data) -> keras.Model:
    """The network of the runs; the values in it do not count, so nothing pretrained is read."""
    settings, options = run.settings, dict(run.settings.model_options)
    if not is_reference(settings.model):
        options.pop("pretrained", None)
    shape = tuple(data.examples.x.shape[1:])
    network = models.build(settings.model, shape, data.num_classes, options)
    return select_trainable(network, settings.trainable)


def read_solution(network: keras.Model, run: Run) -> Solution:
    """The run's weights and BatchNorm statistics; only numbers are read from its model.keras."""
    path = run.folder / "model.keras"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # Keras skips what it does not find
            network.load_weights(path)
    except (
        *(OSError, ValueError, KeyError, TypeError, AttributeError, UserWarning),
        zipfile.BadZipFile,
    ) as error:
        line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(
            f"{path} could not be read as weights of the model {run.settings.model}: {line} "
            f"Expected: the file that the run wrote."
        ) from None
    solution = Solution.of(network)
    exported = read_npz(run.folder / "final_weights.npz")
    same = len(exported) == len(solution.weights) and all(
        np.array_equal(w, exported.get(f"w{i}", np.zeros(0)), equal_nan=True)
        for i, w in enumerate(solution.weights)
    )
    if not same:
        raise InputError(
            f"{path} and final_weights.npz beside it hold different weights. Expected: the files "
            f"that one run wrote. Put back what was changed, or run it again."
        )
    if not all(np.isfinite(value).all() for value in (*solution.weights, *solution.state)):
        raise InputError(
            f"The model of {run.folder} is not finite: the run diverged, and there is no surface "
            f"around it. Leave it out."
        )
    return solution
