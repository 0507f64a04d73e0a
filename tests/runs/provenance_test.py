"""What a run was made from, so that it can be told from another."""

import importlib.metadata
import platform
import subprocess

import numpy as np
import pytest

import tf_fedsam
from tasks.registry import find
from tests.launch.running import image_files
from tf_fedsam.data.federated_dataset import Examples, FederatedDataset
from tf_fedsam.runs import provenance
from tf_fedsam.runs.config import RunConfig
from tf_fedsam.runs.task import Request


def test_versions():
    found = provenance.versions()
    assert found["tf_fedsam"] == tf_fedsam.__version__
    assert found["python"] == platform.python_version()
    for package in ("tensorflow", "keras", "numpy"):
        assert found[package] == importlib.metadata.version(package)


def test_packages_are_those_whose_code_makes_a_run():
    assert provenance.packages() == ["tf_fedsam", "tasks"]


def test_source_revision(tmp_path):
    """Of the clone itself, with its changes; unknown where there is no Git."""
    code = tmp_path / "tf_fedsam/code.py"
    code.parent.mkdir()
    code.write_text("one = 1\n")
    before = provenance.source(tmp_path)
    assert before["revision"] == before["dirty"] == "unknown"
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e@example.org"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], check=True)
    clean = provenance.source(tmp_path)
    assert len(clean["revision"]) == 40
    assert clean["dirty"] is False
    assert clean["fingerprint"] == before["fingerprint"]
    code.write_text("one = 2\n")
    changed = provenance.source(tmp_path)
    assert (changed["revision"], changed["dirty"]) == (clean["revision"], True)
    assert changed["fingerprint"] != clean["fingerprint"]
    assert provenance.source(tmp_path / "tf_fedsam")["revision"] == "unknown"


def test_the_fingerprint_of_the_code_is_that_of_names_and_contents(tmp_path):
    """Moving a line from one file to another is another code, files that are no code are none."""
    package = tmp_path / "tf_fedsam"
    package.mkdir()
    found = []
    for contents in (("a", "bc"), ("ab", "c"), ("a", "bc")):
        for name, content in zip(("one.py", "two.py"), contents, strict=True):
            (package / name).write_text(content)
        (package / "notes.txt").write_text(str(len(found)))
        found.append(provenance.source(tmp_path)["fingerprint"])
    assert found[0] == found[2] != found[1]
    (package / "two.py").rename(package / "three.py")
    assert provenance.source(tmp_path)["fingerprint"] != found[0]


class TestData:
    X, Y = np.arange(24, dtype=np.float32).reshape(6, 4), np.arange(6) % 2

    def fingerprint(self, x, y=Y, owner=Y, test=None):
        given = {} if test is None else {"x_test": test[0], "y_test": test[1]}
        dataset = FederatedDataset.from_arrays(x, y, owner, **given)
        return provenance.fingerprints(RunConfig(), dataset)

    def test_all_examples_count(self):
        """Any bit of any input or label, and the kind of number."""
        same, first = (self.fingerprint(self.X.copy()) for _ in range(2))
        assert first == same
        assert set(first) == {"data", "split"}
        changed = self.X.copy()
        changed[5, 3] = np.nextafter(changed[5, 3], 99)
        for other in (
            self.fingerprint(changed),
            self.fingerprint(self.X.astype(np.float64)),
            self.fingerprint(self.X.reshape(6, 2, 2)),
            self.fingerprint(self.X, y=self.Y[::-1]),
            self.fingerprint(self.X, test=(self.X, self.Y)),
        ):
            assert other["data"] != first["data"]
            assert other["split"] == first["split"]

    def test_the_split_counts_by_itself(self):
        one, two = self.fingerprint(self.X), self.fingerprint(self.X, owner=np.arange(6) % 3)
        assert one["data"] == two["data"]
        assert one["split"] != two["split"]

    def test_large_data_is_read_in_parts(self, monkeypatch):
        """Of one row, of four rows and of all rows at a time."""
        whole = self.fingerprint(self.X)
        for num_bytes in (1, 4 * 4 * 4):
            monkeypatch.setattr(provenance, "_CHUNK_BYTES", num_bytes)
            assert self.fingerprint(self.X) == whole

    def test_images_in_files(self, tmp_path, monkeypatch):
        """Some are looked at, spread over all: with all of them, a changed file is noticed."""
        image_files(tmp_path, 3, 2)
        monkeypatch.setattr(provenance, "SAMPLED_IMAGES", 6)

        def load():
            loaded = find("image_folder").load(Request(data_dir=tmp_path, stream="always"))
            return provenance._data(loaded.train, loaded.test)

        first = load()
        assert load() == first
        a, b = tmp_path / "train/cat/0.png", tmp_path / "train/cat/1.png"
        first_bytes, second_bytes = a.read_bytes(), b.read_bytes()
        a.write_bytes(second_bytes)
        assert load() != first
        a.write_bytes(first_bytes)
        assert load() == first

    def test_no_test_examples(self):
        assert provenance._data(Examples(self.X, self.Y), None) != provenance._data(None, None)


def test_files_that_settings_name(tmp_path):
    """Content, not name; data files are not read again, names of methods are no files."""
    code, weights, data = (tmp_path / name for name in ("own.py", "w.npz", "d.npz"))
    for number, path in enumerate((code, weights, data)):
        path.write_text(f"# {number}")
    given = {"model": f"{code}:net", "init_weights": str(weights), "data_file": str(data)}
    config = RunConfig(algo="fedsam", **given)
    found = provenance.of_files(config)
    assert set(found) == {"model", "init_weights"}
    other = tmp_path / "other.py"
    other.write_text("# 0")
    assert provenance.of_files(RunConfig(model=f"{other}:net"))["model"] == found["model"]
    code.write_text("# changed")
    assert provenance.of_files(config)["model"] != found["model"]
    assert provenance.of_files(RunConfig()) == {}


@pytest.mark.parametrize("answer", [subprocess.CalledProcessError(128, "git"), OSError()])
def test_git_that_fails_is_no_error(answer, tmp_path, monkeypatch):
    (tmp_path / ".git").mkdir()

    def failing(*_, **__):
        raise answer

    monkeypatch.setattr(subprocess, "run", failing)
    assert provenance.source(tmp_path)["revision"] == "unknown"
