"""Bad input of any kind: exit 0 or 2 with one message, never a traceback, nothing written.

The long versions of these checks take more examples of the same, the same ones every time: over
10,000 in all.
"""

import collections
import contextlib
import functools
import gzip
import io
import json
import os
import pathlib
import string
import types

import hypothesis.strategies as st
import numpy as np
import pytest
from absl.testing import flagsaver
from hypothesis import HealthCheck, given, settings

from launch import main
from tasks.base import Request
from tasks.formats import cifar
from tasks.npz import load as load_npz
from tests.launch.running import toy_args, toy_file
from tests.tasks.formats import cifar_files
from tf_fedsam.data import sampling
from tf_fedsam.errors import InputError
from tf_fedsam.runs import run as runs
from tf_fedsam.runs.config import SETTINGS
from tf_fedsam.runs.experiment import build

FLAGS = [
    *SETTINGS,
    *("from_config", "flagfile", "config", "callback"),
    *("hparams.rho", "hparams", "model_options", "model_options.hidden_units", "undefok", "v"),
]
VALUES = st.one_of(
    st.sampled_from(["", "0", "-1", "1", "2", "nan", "inf", "-inf", "1e400", "True", "None"]),
    st.sampled_from(["fedsam", "scaffold", "cnn", "iid", "shards", "(1,)", "1,2", "[", "{}", "\0"]),
    st.sampled_from(["auto", "cpu:0", "cpu:1", "gpu:1", "/dev/null", ".", "~", "x.py:y", "é"]),
    st.integers(-(10**30), 10**30).map(str),
    st.floats().map(str),
    st.text(string.printable, max_size=12),
)


class Counts(collections.Counter):
    """How many examples of each kind were tried."""


@pytest.fixture(scope="module")
def counts(request):
    counts = Counts()
    yield counts
    kinds = ", ".join(f"{number:,} {kind}" for kind, number in counts.items())
    with request.config.pluginmanager.get_plugin("capturemanager").global_and_fixture_disabled():
        print(f"\n{counts.total():,} tried ({kinds}), no traceback, nothing written")


def counted(check, counts):
    """The check, which counts its examples by its name."""
    inner = check.hypothesis.inner_test

    @functools.wraps(inner)
    def counting(*args, **kwargs):
        counts[check.__doc__] += 1
        return inner(*args, **kwargs)

    check.hypothesis.inner_test = counting
    return check


def fuzz(few, many):
    """A check with some examples in the gate and many more in the long version."""

    def decorate(check):
        options = {
            "deadline": None,
            "suppress_health_check": list(HealthCheck),
            "derandomize": True,
            "database": None,
        }
        cases = [pytest.param(few, id="few"), pytest.param(many, id="many", marks=pytest.mark.slow)]

        @pytest.mark.parametrize("examples", cases)
        def test(examples, tmp_path, monkeypatch, counts):
            monkeypatch.chdir(tmp_path)
            before = counts.total()
            settings(max_examples=examples, **options)(counted(check(tmp_path), counts))()
            assert counts.total() - before >= examples

        test.__doc__ = check.__doc__
        return test

    return decorate


def launch(args):
    out, err = io.StringIO(), io.StringIO()
    with (
        flagsaver.flagsaver(),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            code = main.run(args)
        except SystemExit as end:  # --help
            code = end.code
    return code, out.getvalue(), err.getvalue()


def check_refusal(args, folder):
    before = sorted(os.listdir(folder))
    code, out, err = launch(args)
    assert code in (0, 2), (args, err)
    assert "Traceback" not in out + err
    if code == 2:
        assert err.startswith("error: ")
        assert sorted(os.listdir(folder)) == before


def not_trained(config, folder, **options):
    """All that is done before anything is written."""
    del options
    build(config)
    return types.SimpleNamespace(complete=True, folder=pathlib.Path(folder or "runs/x"))


@fuzz(30, 1500)
def test_flags(folder):
    """Random flags; those that turn out right are not trained."""
    base = [*toy_args(folder), "--devices=cpu:1"]
    one = st.tuples(st.sampled_from(FLAGS), VALUES).map(lambda f: f"--{f[0]}={f[1]}")
    strange = st.one_of(VALUES, VALUES.map(lambda v: f"--{v}"))

    @given(st.lists(st.one_of(one, one, one, strange), min_size=1, max_size=3))
    def check(args):
        """command lines"""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(runs, "run", not_trained)
            check_refusal([*base, *args, f"--output_dir={folder / 'run'}"], folder)

    return check


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


@fuzz(200, 3000)
def test_schedules(folder):
    ids = st.lists(st.lists(st.integers(-1, 5) | st.sampled_from(["a", "0"]), max_size=4))
    path = folder / "schedule.json"

    @given(st.one_of(ids, JSON).map(lambda v: json.dumps(v).encode()) | st.binary(max_size=40))
    def check(content):
        """schedules"""
        path.write_bytes(content)
        with contextlib.suppress(InputError):
            schedule = sampling.from_schedule(sampling.load_schedule(path), 5)
            schedule.require(2)
            assert schedule(0).min() >= 0

    return check


def damaged(good):
    """The content of a file with some bytes changed, cut off, or put in."""
    places = st.integers(0, len(good))
    changes = st.lists(st.tuples(places, st.binary(max_size=3), st.integers(0, 3)), max_size=4)

    def mutate(edits, end):
        data = bytearray(good)
        for place, new, gone in edits:
            data[place : place + gone] = new
        return bytes(data[:end])

    return st.builds(mutate, changes, st.one_of(st.none(), places))


@fuzz(200, 3000)
def test_npz_files(folder):
    """A good file with some bytes changed, cut off, or put in; or any bytes."""
    path = folder / "bad.npz"

    @given(damaged(toy_file(folder).read_bytes()) | st.binary(max_size=60))
    def check(content):
        """.npz files"""
        path.write_bytes(content)
        with contextlib.suppress(InputError):
            loaded = load_npz(Request(data_file=path))
            assert np.isfinite(loaded.train.x).all()

    return check


@fuzz(100, 2000)
def test_archives(folder):
    """CIFAR-10 as the publisher packs it, damaged before it was packed or after."""
    files = cifar_files.cifar10_python(cifar_files.Data())
    inside = "cifar-10-batches-py"
    packed = gzip.decompress(cifar_files.archive_of(inside, files))
    path = folder / "cifar-10-python.tar.gz"

    def with_batch(content):
        return cifar_files.archive_of(inside, {**files, "data_batch_1": content})

    contents = st.one_of(
        damaged(files["data_batch_1"]).map(with_batch),
        damaged(packed).map(lambda data: gzip.compress(data, 1, mtime=0)),
        damaged(gzip.compress(packed, 1, mtime=0)),
    )

    @given(contents)
    def check(content):
        """archives"""
        path.write_bytes(content)
        with contextlib.suppress(InputError):
            x_train, *_ = cifar.read_cifar10(path, expected_counts=cifar_files.COUNTS)
            assert x_train.dtype == np.uint8

    return check


@fuzz(60, 1000)
def test_configs(folder):
    """A good config with some settings changed to anything; or any JSON, or any bytes."""
    code, _, err = launch([*toy_args(folder), "--rounds=1", "--algo=fedsam"])
    assert code == 0, err
    good = json.loads((folder / "run/config.json").read_text())
    names = st.sampled_from([*good["settings"], "flagfile", "output_dir", "x"])

    def change(changes, hparams, top):
        changed = {**good["settings"], **changes}
        if hparams is not None:
            changed["hparams"] = hparams
        return json.dumps({**good, "settings": changed, **top}).encode()

    configs = st.builds(
        change,
        st.dictionaries(names, JSON | VALUES, max_size=2),
        st.none() | st.dictionaries(st.sampled_from(["rho", "x"]), JSON, max_size=2),
        st.dictionaries(st.sampled_from(["inputs", "devices", "resumes", "versions"]), JSON),
    )
    path = folder / "bad.json"

    @given(configs | JSON.map(lambda v: json.dumps(v).encode()) | st.binary(max_size=30))
    def check(content):
        """configs"""
        path.write_bytes(content)
        args = [f"--from_config={path}", f"--output_dir={folder / 'again'}", "--devices=cpu:1"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(runs, "run", not_trained)
            check_refusal(args, folder)

    return check


def test_nothing_is_written_elsewhere(tmp_path, monkeypatch):
    """A whole run touches its run folder and no other file below where it is started."""
    monkeypatch.chdir(tmp_path)
    args = toy_args(tmp_path)
    before = set(tmp_path.rglob("*"))
    assert launch(args)[0] == 0
    new = {p.relative_to(tmp_path).parts[0] for p in set(tmp_path.rglob("*")) - before}
    assert new == {"run"}
    assert pathlib.Path.cwd() == tmp_path
