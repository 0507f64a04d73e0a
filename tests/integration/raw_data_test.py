"""Training from a publisher's files, from the command line to the log."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from absl.testing import flagsaver

from launch.command_line import flags as settings_flags
from tests.launch.running import records, run
from tests.tasks.formats.idx_test import write_pairs
from tests.tasks.stored import some_images, write_images
from tf_fedsam.runs import experiment

pytestmark = pytest.mark.no_cover

FASHION_MNIST = pathlib.Path("/usr/share/datasets/fashion-mnist")  # Debian's package


def test_mofedsam_on_emnist_files(tmp_path):
    data, folder = tmp_path / "data", tmp_path / "run"
    write_pairs(data, ("emnist-byclass-train", "emnist-byclass-test"), (120, 30), num_classes=62)
    result = subprocess.run(
        [
            *(sys.executable, "-m", "launch.main", "--algo=mofedsam", "--dataset=emnist"),
            *(f"--data_dir={data}", f"--output_dir={folder}", "--rounds=2", "--num_clients=6"),
            *("--participation=0.5", "--local_epochs=1"),
        ],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    config = json.loads((folder / "config.json").read_text())
    assert config["data"]["source"] == f"the publisher's IDX files in {data}"
    assert config["data"]["train_examples"] == 120
    assert config["data"]["num_classes"] == 62
    assert f"the publisher's IDX files in {data}" in " ".join(result.stdout.split())
    # From the data set's file: the paper's values.
    settings = config["settings"]
    assert settings["model"] == "cnn"
    assert settings["batch_size"] == 32
    assert settings["sampling"] == "bernoulli"
    assert settings["hparams"] == {"rho": 0.5, "beta": 0.1}
    assert len(config["partition"]["fingerprint"]) == 16
    assert [record["round"] for record in records(folder)] == [1, 2]
    assert all(np.isfinite(record["test_loss"]) for record in records(folder))


def test_no_data_ends_with_2_and_writes_nothing(capsys, tmp_path):
    result = run(
        capsys,
        "--dataset=tiny_imagenet",
        f"--data_dir={tmp_path}",
        f"--output_dir={tmp_path / 'a'}",
    )
    assert result.code == 2
    assert "tiny-imagenet-200.zip" in result.err
    assert not list(tmp_path.iterdir())


@pytest.fixture
def photos(tmp_path):
    """Four colours as classes, in two domains, 24 x 24."""
    for number, domain in enumerate(("day", "night")):
        for label in range(4):
            x = some_images(10, 24, 24, 3, seed=10 * number + label) // 8
            x[..., label % 3] += 60 * (1 + label // 3)
            write_images(tmp_path / "photos" / domain / f"c{label}", x)
    return tmp_path / "photos"


def test_domains_as_clients(capsys, photos):
    folder = photos.parent / "run"
    result = run(
        capsys,
        *("--dataset=image_folder", f"--data_dir={photos}", f"--output_dir={folder}"),
        *("--model=linear", "--rounds=2", "--local_epochs=1", "--batch_size=8", "--devices=cpu:2"),
        *("--participation=1", "--partition=natural", "--client_noise=0.1"),
    )
    assert result.code == 0, result.err
    assert records(folder)[0]["client_ids"] == ["day", "night"]
    config = json.loads((folder / "config.json").read_text())
    assert config["data"]["input_shape"] == [24, 24, 3]
    assert config["settings"]["client_noise"] == 0.1


def dataset_of(photos, *flags):
    """The clients' data of a command line, without training."""
    args = ["main", "--dataset=image_folder", f"--data_dir={photos}", "--num_clients=4", *flags]
    with flagsaver.flagsaver():
        settings_flags.parse(args)
        config = settings_flags.run_config().resolve()
    return experiment.make_dataset(config, experiment.load_data(config))


@pytest.mark.parametrize("replacement", [True, False])
def test_noise_is_used_on_the_training_images_alone(photos, replacement):
    flags = ("--partition=dirichlet", f"--replacement={replacement}")
    plain = dataset_of(photos, *flags)
    for flag in ("--client_noise=0.3", "--category_noise=0.3"):
        noisy, again = (dataset_of(photos, *flags, flag) for _ in range(2))
        np.testing.assert_array_equal(noisy.test.x, plain.test.x)
        np.testing.assert_array_equal(noisy.train.x, again.train.x)
        for client in range(4):
            before, after = (data.client_examples(client) for data in (plain, noisy))
            np.testing.assert_array_equal(before.y, after.y)
            assert not np.array_equal(before.x, after.x)
        if not replacement:
            assert noisy.partition.fingerprint() == plain.partition.fingerprint()


def test_size_and_subset_are_used(photos):
    small = dataset_of(photos, "--subset=40", "--image_size=8")
    assert small.input_shape == (8, 8, 3)
    assert len(small.train) + len(small.test) == 40


@pytest.mark.skipif(not FASHION_MNIST.is_dir(), reason="dataset-fashion-mnist is not installed")
def test_the_real_fashion_mnist(capsys, tmp_path):
    result = run(
        capsys,
        *("--dataset=fashion_mnist", f"--data_dir={FASHION_MNIST}", "--algo=fedwmsam"),
        *("--rounds=1", "--local_epochs=1", "--devices=cpu:2", f"--output_dir={tmp_path / 'run'}"),
    )
    assert result.code == 0, result.err
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["data"]["train_examples"] == 60_000
    assert config["settings"]["hparams"]["rho"] == 0.01
