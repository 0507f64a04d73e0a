"""The launcher that shows a split."""

import re
import subprocess
import sys

import numpy as np
import pytest
from absl.testing import flagsaver
from PIL import Image

from launch import partition as launcher
from tests.launch.running import toy_file
from tests.tasks.formats.idx_test import write_pairs
from tests.tasks.stored import some_images, write_images
from tf_fedsam.data import partition
from tf_fedsam.runs.config import SETTINGS


def show(capsys, *args):
    """Exit code, standard output and standard error."""
    with flagsaver.flagsaver():
        code = launcher.run([str(arg) for arg in args])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_held_out_examples_are_not_in_the_split(capsys, tmp_path):
    """4 of 40 examples: 36 are left, taken from the shares, or before there are clients."""
    args = ["--dataset=npz", f"--data_file={toy_file(tmp_path)}", "--partition=iid"]
    args += ["--num_clients=4", f"--out={tmp_path / 'out.png'}", "--holdout=0.1"]
    code, out, err = show(capsys, *args)
    assert (code, err) == (0, "")
    assert value(out, "unused").startswith("4 ")
    assert value(out, "examples").split()[2] == "9"  # the mean
    code, out, err = show(capsys, *args, "--holdout_from=pool")
    assert (code, err) == (0, "")
    assert value(out, "unused").startswith("0 ")
    assert value(out, "examples").split() == ["9"] * 4


def value(text, name):
    return re.search(rf"^ *{name}  +(.*)$", text, re.M)[1]


def test_table_and_picture(capsys, tmp_path):
    _, labels, _, _ = write_pairs(tmp_path, counts=(300, 20))
    picture = tmp_path / "out.png"
    code, out, err = show(
        capsys,
        "--dataset=mnist",
        f"--data_dir={tmp_path}",
        "--partition=dirichlet",
        "--alpha=0.3",
        "--num_clients=12",
        "--replacement=true",
        "--seed=5",
        f"--out={picture}",
    )
    assert (code, err) == (0, "")
    split = partition.dirichlet(labels, 12, 0.3, 5, replacement=True)
    numbers = partition.statistics(split, labels, 10)
    assert value(out, "fingerprint") == split.fingerprint()
    assert f" split {split.scheme} " in " ".join(out.split())
    assert value(out, "repeated").startswith(f"{numbers['num_repeated']} ")
    assert value(out, "unused").startswith(f"{numbers['num_unused']} ")
    assert f" source the publisher's IDX files in {tmp_path} " in " ".join(out.split())
    assert value(out, "examples").split() == ["25", "25", "25", "25"]
    entropy = numbers["label_entropy"]
    expected = [f"{f(entropy):.3f}" for f in (np.min, np.median, np.mean, np.max)]
    assert value(out, "label entropy").split() == expected
    first = ["25", numbers["classes"][0], entropy[0], numbers["total_variation"][0]]
    assert value(out, "0").split() == [
        *map(str, first[:2]),
        *(f"{number:.3f}" for number in first[2:]),
    ]
    assert "... and 2 more clients" in out
    image = np.asarray(Image.open(picture))
    assert image.ndim == 3
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 10


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--partition=iid"], "iid"),
        (["--partition=dirichlet", "--size_sigma=1"], "per client, without replacement"),
        (["--partition=dirichlet_classes"], "per class"),
        (["--partition=pathological", "--classes_per_client=2"], "pathological"),
        (["--partition=shards", "--shards_per_client=2"], "2 label-sorted shards"),
        (["--partition=given"], "given by client id"),
    ],
)
def test_every_scheme(capsys, tmp_path, flags, words):
    clients = [] if "--partition=given" in flags else ["--num_clients=4"]
    data = ["--dataset=npz", f"--data_file={toy_file(tmp_path)}", f"--out={tmp_path / 'o.png'}"]
    code, out, err = show(capsys, *data, *flags, *clients)
    assert (code, err) == (0, "")
    assert words in value(out, "split")
    assert value(out, "clients") == "4"


def test_domains_are_named_and_images_not_decoded(capsys, tmp_path, monkeypatch):
    for domain in ("photo", "sketch"):
        write_images(tmp_path / domain / "a", some_images(5, 6, 6, 3))
    monkeypatch.setattr("tasks.formats.images.decode_image", None)
    folder = ["--dataset=image_folder", f"--data_dir={tmp_path}", f"--out={tmp_path / 'o.png'}"]
    code, out, _ = show(capsys, *folder, "--partition=natural")
    assert code == 0
    assert value(out, "photo").split()[:2] == ["4", "1"]


def test_noise_does_not_change_the_split(capsys, tmp_path):
    write_pairs(tmp_path, counts=(50, 5))
    args = ["--dataset=mnist", f"--data_dir={tmp_path}", f"--out={tmp_path / 'o.png'}"]
    args.append("--num_clients=5")
    plain, noisy = (show(capsys, *args, *more)[1] for more in ((), ("--client_noise=0.1",)))
    assert value(plain, "fingerprint") == value(noisy, "fingerprint")


def test_a_million_examples_over_many_clients(capsys, tmp_path):
    labels = np.random.default_rng(0).integers(0, 62, 1_000_000).astype(np.uint8)
    file = tmp_path / "million.npz"
    x = np.zeros((len(labels), 1), np.uint8)
    np.savez(file, x_train=x, y_train=labels, x_test=x[:100], y_test=labels[:100])
    args = [f"--data_file={file}", f"--out={tmp_path / 'o.png'}", "--num_clients=10000"]
    code, out, err = show(capsys, "--dataset=npz", *args, "--partition=dirichlet_classes")
    assert (code, err) == (0, "")
    assert "1,000,000 training examples, 62 classes" in value(out, "data")
    assert "... and 9,990 more clients" in out


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        (["--dataset=mnits"], "Did you mean 'mnist'"),
        (["--dataset=glyphs", "--subset=1"], "--subset must be at least 2. Received: 1"),
        (["--dataset=glyphs", "--subset=999999999"], "counts training and test examples"),
        (["--dataset=glyphs", "--image_size=0"], "--image_size must be in [1, 2048]"),
        (["--dataset=cifar10", "--image_size=5000"], "--image_size must be in [1, 2048]"),
        (["--dataset=glyphs", "--client_noise=-1"], "--client_noise must be at least 0"),
        (["--dataset=glyphs", "--category_noise=nan"], "--category_noise must be a finite"),
        (["--dataset=glyphs", "--out=split.txt"], "--out must be a .png file"),
        (["--dataset=glyphs", "--out=/no/such/folder/split.png"], "cannot be written"),
        (["--dataset=image_folder"], "no --data_dir"),
        (["--dataset=glyphs", "--partition=given", "--alpha=1"], "--alpha has no effect"),
    ],
)
def test_bad_input(capsys, flags, part):
    code, out, err = show(capsys, *flags)
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert part in err


def test_from_the_command_line(tmp_path):
    """The real program; nothing but the picture is written."""
    args = ["--dataset=npz", f"--data_file={toy_file(tmp_path)}", f"--out={tmp_path / 'o.png'}"]
    result = subprocess.run(
        [sys.executable, "-m", "launch.partition", *args], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    assert "fingerprint" in result.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"o.png", "toy.npz"}
    assert SETTINGS["partition"].default in value(result.stdout, "split")


def test_the_exit_code_of_the_program(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["launch.partition", "--alpha=x"])
    with flagsaver.flagsaver(), pytest.raises(SystemExit) as stopped:
        launcher.console()
    assert stopped.value.code == 2
    assert capsys.readouterr().err.startswith("error: ")
