"""Every run that a table asks for starts, and so does every command for owners of GPUs.

With the tables' own networks at full size, on random images in the publishers' formats: a few
examples, a few clients, one local step. What is asked for by several tables is trained under the
first of them. Methods see a list of variables and no data set, so that it is enough to train

  * every method, with its plug-ins and what else changes its steps, on every network,
  * every network on every data set, with its test and its probes,
  * every kind of split, noise, normalisation, augmentation and sampling on every data set.

The two stems of ResNet-18 count as one network for methods. Of the networks with more than 20
million parameters, ResNet-34 and ResNet-50 see every fourth method; Swin-S, Swin-B and ViT-B/16,
which take a minute each, the first method and one more.
"""

import functools
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
from typing import Any

import keras
import numpy as np
import pytest

import tasks  # noqa: F401  makes the data sets known
from tests.launch.reproduce_test import run
from tests.tasks.formats import tiny_imagenet_test as tiny_files
from tests.tasks.formats.cifar_files import write_folder
from tests.tasks.formats.idx_test import write_pairs
from tests.tasks.stored import some_images, write_images
from tf_fedsam import RunConfig, build, models
from tf_fedsam.reproduction import tables

pytestmark = pytest.mark.no_cover

PAGE = pathlib.Path(__file__).parents[2] / "docs/reproduction.md"
# Reproduced on machines without a GPU, in sections of their own.
ON_A_CPU = {"fashion_mnist", "npz"}
# Of the methods on a big network, those with this remainder by this number.
BIG = {
    "resnet34": (0, 4),
    "resnet50": (0, 4),
    "swin_s": (8, 9),
    "swin_b": (5, 9),
    "vit_b16": (2, 9),
}
# Trainable parameters by data set, model and what tells its variants apart. The big ones are those
# of torchvision with another last layer, such as 25,557,032 - 2,049,000 + 65 * 2,049 for ResNet-50;
# the others are added up in tf_fedsam/models. 100 classes instead of 10 take 90 more rows of
# 513 (ResNet-18) and 193 (LeNet-5) numbers; VGG-11 has 256 instead of 100 hidden units with them.
PARAMETERS = {
    ("emnist", "cnn", None): 1_206_590,
    ("cifar10", "lenet5", None): 797_962,
    ("cifar100", "lenet5", None): 797_962 + 90 * 193,
    ("cifar10", "vgg11", None): 9_272_790,
    ("cifar100", "vgg11", None): 9_272_790 - 52_310 + 513 * 256 + 257 * 100,
    ("cifar10", "resnet18", None): 11_181_642,
    ("cifar100", "resnet18", None): 11_181_642 + 90 * 513,
    ("cifar10", "resnet18", "cifar"): 11_173_962,
    ("cifar100", "resnet18", "cifar"): 11_173_962 + 90 * 513,
    ("cifar100", "resnet34", None): 21_335_972,
    ("office_home", "resnet50", None): 23_641_217,
    ("tiny_imagenet", "swin_s", None): 48_991_058,
    ("tiny_imagenet", "swin_b", None): 86_948_224,
    ("tiny_imagenet", "vit_b16", None): 86_543_048,
    ("fashion_mnist", "mlp", (200,)): 785 * 200 + 201 * 10,
    ("fashion_mnist", "mlp", (200, 200)): 785 * 200 + 201 * 200 + 201 * 10,
    ("npz", "mlp", (200, 200)): 785 * 200 + 201 * 200 + 201 * 10,
}
PARTS = (("train", 1_000), ("test", 200))  # of the .npz file
FEW = {"num_clients": 20, "participation": 0.1, "batch_size": 8, "subset": 240}
SMALL = {
    "tiny_imagenet": {"num_clients": 4, "participation": 0.5, "batch_size": 2, "subset": 12},
    "office_home": {"batch_size": 2, "subset": 40},
}
# A table's commands with its first row: what is added to them.
SMALL_COMMANDS = {
    "cifar10": ["--subset=400"],
    "cifar100": ["--subset=400"],
    "emnist": ["--subset=400"],
    "tiny_imagenet": ["--subset=12", "--num_clients=4", "--batch_size=2"],
    "office_home": ["--subset=24", "--batch_size=4"],
}


@functools.cache
def wanted() -> dict[str, dict[str, Any]]:
    """Settings of runs in which everything of the tables is there, by table and run."""
    found: dict[str, dict[str, Any]] = {}
    seen: set[Any] = set()
    met: dict[str, int] = {}
    for name in tables.names():
        table = tables.find(name)
        for column in table.columns.values():
            for row in table.rows.values():
                for variant, own in row.variants.items():
                    values = table.values(own, column, 0)
                    model, pair = values["model"], (body(values), method(values))
                    new = {place(values), data(values)} - seen
                    if pair not in seen:
                        seen.add(pair)
                        rest, divisor = BIG.get(model, (0, 1))
                        if met.get(model, 0) % divisor == rest:
                            new.add(pair)
                        met[model] = met.get(model, 0) + 1
                    if new:
                        seen |= new
                        found[f"{name}-{variant}-{column.name}".replace(" ", "_")] = values
    return found


def first_places() -> set[str]:
    """The runs that are the first of a network on a data set."""
    return set({place(values): name for name, values in reversed(wanted().items())}.values())


def body(values) -> tuple:
    """What makes a network, but for its first and its last layer."""
    options = {n: v for n, v in values.items() if n.startswith("model_options.")}
    options.pop("model_options.stem", None)
    return values["model"], str(values.get("hidden_units")), str(sorted(options.items()))


def place(values) -> tuple:
    """A network on a data set."""
    return values["dataset"], values.get("model_options.stem"), *body(values)


def method(values) -> tuple:
    """What changes the steps of clients and server; sizes do not, but nothing or something does."""
    words = [(n, v) for n, v in values.items() if n.startswith("hparams.")]
    words = [(n, v if isinstance(v, (str, bool)) else bool(v)) for n, v in words]
    plug_ins = ("relaxed_init", "nesterov", "server_lr", "clip_norm", "weight_decay")
    return values["algo"], str(sorted(words)), *(bool(values.get(n)) for n in plug_ins)


def data(values) -> tuple:
    """How examples come to a client."""
    names = ("dataset", "image_size", "normalise", "augment", "partition", "replacement")
    noise = (bool(values.get(n)) for n in ("client_noise", "category_noise"))
    return *(str(values.get(n)) for n in (*names, "sampling", "validation")), *noise


def variant(values) -> Any:
    if values["model"] == "mlp":
        return tuple(values.get("hidden_units", (200,)))
    return values.get("model_options.stem")


class Published:
    """Random images of every data set as its publisher has them, each written when asked for."""

    def __init__(self, folder: pathlib.Path):
        self.folder, self.random = folder, np.random.default_rng(0)

    @functools.cache  # noqa: B019  lives as long as the module
    def where(self, dataset: str) -> pathlib.Path:
        folder = self.folder / dataset
        getattr(self, dataset)(folder)
        return folder

    def cifar(self, labels: list[int], num: int) -> bytes:
        pixels = self.random.integers(0, 256, (num, 3072), np.uint8)
        classes = [self.random.integers(0, n, (num, 1), np.uint8) for n in labels]
        return np.concatenate([*classes, pixels], 1).tobytes()

    def cifar10(self, folder):
        names = (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")
        files = {name: self.cifar([10], 10_000) for name in names}
        write_folder(folder / "cifar-10-batches-bin", files)

    def cifar100(self, folder):
        files = {
            "train.bin": self.cifar([20, 100], 50_000),
            "test.bin": self.cifar([20, 100], 10_000),
        }
        write_folder(folder / "cifar-100-binary", files)

    def emnist(self, folder):
        prefixes = ("emnist-byclass-train", "emnist-byclass-test")
        write_pairs(folder, prefixes, (6_000, 1_000), num_classes=62)

    def fashion_mnist(self, folder):
        write_pairs(folder, counts=(2_000, 400))

    def npz(self, folder):
        folder.mkdir()
        images = {p: self.random.normal(size=(n, 28, 28, 1)) for p, n in PARTS}
        labels = {p: np.arange(n) % 10 for p, n in PARTS}
        arrays = {f"x_{p}": images[p].astype(np.float32) for p, _ in PARTS}
        np.savez(folder / "data.npz", **arrays, **{f"y_{p}": labels[p] for p, _ in PARTS})

    def tiny_imagenet(self, folder):
        """200 classes with two images each, and one of each for validation."""
        wnids = [f"n{i:08}" for i in range(200)]
        names = [f"train/{w}/images/{w}_{i}.JPEG" for w in wnids for i in range(2)]
        names += [f"val/images/val_{i}.JPEG" for i in range(200)]
        images = some_images(len(names), 64, 64, 3)
        files = {
            name: tiny_files.encoded(image, "JPEG")
            for name, image in zip(names, images, strict=True)
        }
        files["wnids.txt"] = "".join(f"{wnid}\n" for wnid in wnids).encode()
        files["words.txt"] = "".join(f"{wnid}\tthing {wnid}\n" for wnid in wnids).encode()
        lines = (f"val_{i}.JPEG\t{wnid}\t0\t0\t63\t63\n" for i, wnid in enumerate(wnids))
        files["val/val_annotations.txt"] = "".join(lines).encode()
        tiny_files.write_folder(folder / "tiny-imagenet-200", files)

    def office_home(self, folder):
        for number, domain in enumerate(("Art", "Clipart", "Product", "Real World")):
            for label in range(65):
                images = some_images(5, 40, 30, 3, seed=65 * number + label)
                inner = folder / "OfficeHomeDataset_10072016" / domain / f"Class{label:02}"
                write_images(inner, images, "jpg")

    @functools.cache  # noqa: B019
    def preset(self, model: str) -> pathlib.Path:
        """Random weights of a transformer as KerasHub saves those it downloads."""
        whole = models.build(model, (224, 224, 3), 200, {})
        whole.get_layer("backbone").save_to_preset(str(self.folder / model))
        return self.folder / model


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    yield Published(folder)
    shutil.rmtree(folder)  # a gigabyte


def small(values: dict[str, Any], published: Published) -> RunConfig:
    """The run with few data and one local step of one round."""
    dataset, model = values["dataset"], values["model"]
    values = {n: v for n, v in values.items() if n not in ("local_epochs", "subset")}
    values |= {"rounds": 1, "local_steps": 1, "devices": "cpu:1"}
    if dataset == "npz":
        values["data_file"] = str(published.where(dataset) / "data.npz")
    else:
        values["data_dir"] = str(published.where(dataset))
    if "model_options.pretrained" in values:
        values["model_options.pretrained"] = str(published.preset(model))
    return RunConfig.from_values(values | SMALL.get(dataset, FEW))


@pytest.mark.slow
@pytest.mark.parametrize("name", wanted())
def test_a_run_of_a_table_starts(name, published):
    values = wanted()[name]
    config = small(values, published)
    experiment = build(config)
    process, state = experiment.process, experiment.initialize()
    assert process.num_parameters == PARAMETERS[values["dataset"], values["model"], variant(values)]
    before = process.get_model_weights(state).trainable
    if path := values.get("model_options.pretrained") and published.preset(values["model"]):
        check_pretrained(before, path)
    clients, _ = experiment.cohort(0)
    num_clients = config.resolve().num_clients
    if values["dataset"] == "office_home":
        assert clients == ["Art", "Clipart", "Product", "Real World"]
    elif values["sampling"] == "fixed":
        assert len(clients) == round(num_clients * config.participation)
    else:
        assert 1 <= len(clients) < num_clients
    if name in first_places():  # with its test and its probes, which are the same for all methods
        state, record = experiment.round(state)
        assert np.isfinite(record["test_loss"])
        assert 0 <= record["test_accuracy"] <= 1
    else:
        state, record = process.next(state, clients)
    assert state.round_num == 1
    assert record["client_ids"] == clients
    assert np.isfinite(record["train_loss"])
    moved = [
        np.abs(new - old).max()
        for new, old in zip(process.get_model_weights(state).trainable, before, strict=True)
    ]
    assert np.isfinite(moved).all()
    assert max(moved) > 0
    keras.backend.clear_session()


def check_pretrained(weights, folder: pathlib.Path) -> None:
    """The body's first kernel is that of the preset."""
    import keras_hub

    body = keras_hub.models.Backbone.from_preset(str(folder))
    np.testing.assert_array_equal(weights[0], body.trainable_variables[0].numpy())


def test_what_is_looked_at():
    """All networks, and of methods as many as there are in the tables."""
    runs = wanted().values()
    asked = [
        table.values(own, column, 0)
        for table in map(tables.find, tables.names())
        for column in table.columns.values()
        for row in table.rows.values()
        for own in row.variants.values()
    ]
    for key in (method, data, place):
        assert {key(values) for values in runs} == {key(values) for values in asked}
    assert {(v["dataset"], v["model"], variant(v)) for v in runs} == PARAMETERS.keys()


@functools.cache
def commands() -> list[str]:
    """What the page tells owners of GPUs to type."""
    section = PAGE.read_text().split("\n## For owners of GPUs\n")[1].split("\n## ")[0]
    return re.findall(r"^(python -m launch\.reproduce --table=.*)$", section, re.M)


def named(command: str) -> str:
    """The table of a command and its columns, for a test's name."""
    return "-".join(re.findall(r"--(?:table|columns)=(\S+)", command))


def arguments(command: str, folder: pathlib.Path | str) -> tuple[list[str], list[str]]:
    """The arguments before and behind --."""
    words = shlex.split(command.replace("DIR", str(folder)), comments=True)
    assert words[:3] == ["python", "-m", "launch.reproduce"]
    split = words.index("--")
    return words[3:split], words[split + 1 :]


def asked_for(command: str) -> tuple[tables.Table, list[tables.Column]]:
    before, _ = arguments(command, "DIR")
    given = dict(word.removeprefix("--").split("=", 1) for word in before)
    table = tables.find(given["table"])
    return table, table.chosen_columns([c for c in given.get("columns", "").split(",") if c])


@pytest.mark.usefixtures("usual_signals")
@pytest.mark.parametrize("command", commands(), ids=named)
def test_a_command_plans(command, capsys, tmp_path):
    before, behind = arguments(command, tmp_path)
    result = run(capsys, *before, f"--out={tmp_path / 'out'}", "--dry_run", "--", *behind)
    assert (result.code, result.err) == (0, "")
    planned = re.findall(r"^.*-m launch\.main .*$", result.out, re.M)
    assert len(planned) >= len(asked_for(command)[0].rows)
    assert all(f"--data_dir={tmp_path}" in one for one in planned)
    assert not list(tmp_path.iterdir())


def test_every_table_has_a_command():
    """Each data set of it, and no two data sets in one command, which has one folder."""
    there = set()
    for command in commands():
        table, columns = asked_for(command)
        datasets = {column.dataset for column in columns}
        assert len(datasets) == 1, command
        there |= {(table.name, column.name) for column in columns}
    for name in tables.names():
        for column in tables.find(name).columns.values():
            assert column.dataset in ON_A_CPU or (name, column.name) in there


@pytest.mark.slow
@pytest.mark.parametrize("command", commands(), ids=named)
def test_a_command_starts(command, published, tmp_path):
    """Its first row and column, in processes of their own as a user starts them."""
    table, columns = asked_for(command)
    column = next((column for column in columns if not column.not_measured), columns[0])
    before, behind = arguments(command, published.where(column.dataset))
    before += [f"--rows={next(iter(table.rows))}", f"--columns={column.name}", "--seeds=0"]
    behind += ["--rounds=1", "--local_epochs=1", "--export=none", *SMALL_COMMANDS[column.dataset]]
    if "model_options.pretrained" in column.settings:
        preset = published.preset(column.settings["model"])
        behind.append(f"--model_options.pretrained={preset}")
    words = ["-m", "launch.reproduce", *before, f"--out={tmp_path}", "--", *behind]
    result = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "the numbers cannot be compared" in " ".join(result.stdout.split())
    assert "the numbers cannot be compared" in (tmp_path / "table.md").read_text()
    (log,) = tmp_path.glob("*/rounds.jsonl")
    (record,) = map(json.loads, log.read_text().splitlines())
    assert record["round"] == 1
    assert np.isfinite(record["test_loss"])
    shutil.rmtree(log.parent)
