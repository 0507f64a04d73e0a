"""Algorithms are found by the names of their files; a user's own by file and class."""

import pathlib

import pytest

from tf_fedsam import algorithms
from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.algorithms.fedavg import FedAvg
from tf_fedsam.algorithms.feddyn import FedDyn
from tf_fedsam.algorithms.fedgloss import FedGloSS
from tf_fedsam.algorithms.fedsam import FedSAM
from tf_fedsam.algorithms.fedsol import FedSOL
from tf_fedsam.algorithms.mimelite import MimeLite
from tf_fedsam.algorithms.registry import accounting, all_algorithms, find
from tf_fedsam.algorithms.scaffold import Scaffold
from tf_fedsam.errors import InputError

PLUG_INS = {"dp", "nesterov", "relaxed_init", "swa"}
NOT_METHODS = {"__init__", "base", "plugin", "registry", *PLUG_INS}

OWN = """
import dataclasses

from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.algorithms.fedsam import FedSAM


@dataclasses.dataclass(frozen=True)
class Numbers:
    gamma: float = 0.1


class Mine(Algorithm):
    Hparams = Numbers


class NoDataclass(Algorithm):
    class Hparams:
        gamma = 0.1


@dataclasses.dataclass(frozen=True)
class Needed:
    gamma: float


class NoDefault(Algorithm):
    Hparams = Needed
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN)
    return path


def test_every_file_is_a_method():
    """One file, one name: the class of fed_x.py is called FedX but for capitals and underscores."""
    files = {p.stem for p in pathlib.Path(algorithms.__path__[0]).glob("*.py")} - NOT_METHODS
    assert set(all_algorithms()) == files
    assert list(all_algorithms()) == sorted(files)
    for name, algorithm in all_algorithms().items():
        assert algorithm.name == name
        assert algorithm.__module__ == f"tf_fedsam.algorithms.{name}"
        assert algorithm.__name__.lower() == name.replace("_", "")
        assert find(name) is algorithm


def test_they_say_what_they_are():
    for name, algorithm in all_algorithms().items():
        assert algorithm.summary, name
        assert algorithm.paper, name
        assert algorithm.title.lower().replace("-", "_") == name


def test_a_users_own(own):
    mine = find(f"{own}:Mine")
    assert issubclass(mine, Algorithm)
    assert mine.name == "mine"
    assert mine(gamma=0.3).describe() == {"gamma": 0.3}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fedsm", r"Unknown algorithm 'fedsm'. Did you mean .*'fedsam'.*path/to/file.py:ClassName"),
        ("FedSAM", "Unknown algorithm 'FedSAM'. Did you mean 'fedsam'"),
        ("base", "Unknown algorithm 'base'"),
        ("", "Unknown algorithm ''"),
    ],
)
def test_unknown_names(name, words):
    with pytest.raises(InputError, match=words):
        find(name)


def test_unknown_classes(own):
    with pytest.raises(InputError, match=r"'Mein'. Did you mean 'Mine'"):
        find(f"{own}:Mein")
    with pytest.raises(InputError, match="'FedSAM'"):  # imported there, not written there
        find(f"{own}:FedSAM")
    with pytest.raises(InputError, match="there is no file"):
        find(f"{own.parent / 'none.py'}:Mine")


@pytest.mark.parametrize(
    ("name", "words"),
    [("NoDataclass", "must be a dataclass.*dataclasses.dataclass"), ("NoDefault", "plain default")],
)
def test_hyper_parameters_that_cannot_be_set_one_by_one(own, name, words):
    with pytest.raises(InputError, match=words):
        find(f"{own}:{name}")


def test_accounting():
    """State that clients keep, vectors down, vectors up, gradients a step."""
    assert accounting(FedAvg()) == ("none", 1, 1, "1")
    assert accounting(FedSAM()) == ("none", 1, 1, "2")
    assert accounting(Scaffold()) == ("control", 2, 2, "1")
    assert accounting(FedDyn())[0] == "dual"
    assert accounting(MimeLite())[3] == "1 + 1 epoch"
    assert accounting(FedSOL())[3] == "2 + 1 forward"
    assert [accounting(FedGloSS(rho_local=rho))[3] for rho in (0, 0.1)] == ["1", "2"]

    class OnTheServer(Algorithm):
        server_rows = ("last_model",)

    assert accounting(OnTheServer())[0] == "last model (on the server)"
