"""Mistakes in a user's own file: where they are, in one message."""

import json

import pytest

from tests.launch.running import run, toy_args
from tf_fedsam import own_code
from tf_fedsam.errors import InputError

METHOD = """
from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.client import ClientModel


class Mine(Algorithm):
    def server_step(self, server, aggregate, round_):
        {line}
"""


@pytest.fixture
def mine(tmp_path):
    return tmp_path / "mine.py"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("return 1 / 0", ["ZeroDivisionError", "line 8 of", "mine.py", "server_step", "1 / 0"]),
        ("return server['nothing']", ["KeyError", "line 8", "nothing"]),
    ],
)
def test_an_exception_is_told_with_its_place(line, words, mine, capsys, tmp_path):
    mine.write_text(METHOD.format(line=line))
    args = [*toy_args(tmp_path), f"--algo={mine}:Mine"]
    result = run(capsys, *args)
    assert result.code == 2
    assert "Traceback" not in result.err
    assert "site-packages" not in result.err
    for word in words:
        assert word in result.err
    with pytest.raises((ZeroDivisionError, KeyError)):
        run(capsys, *args, "--verbose")


def test_the_corrected_file_runs_in_the_same_folder(mine, capsys, tmp_path):
    """Nothing is written before the round has been traced."""
    args = [*toy_args(tmp_path), f"--algo={mine}:Mine"]
    mine.write_text(METHOD.format(line="return 1 / 0"))
    assert run(capsys, *args).code == 2
    assert not (tmp_path / "run/config.json").exists()
    right = "return super().server_step(server, aggregate, round_)"
    mine.write_text(METHOD.format(line=right))
    assert run(capsys, *args).code == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (METHOD.format(line="pass"), ["server_step must give exactly", "None", "Return a dict"]),
        (
            METHOD.format(line="return server")
            + "    @dataclasses.dataclass(frozen=True)\n    class Hparams:\n        rate: float\n",
            ["hyper-parameter rate", "rate: float = 0.1"],
        ),
        (
            METHOD.format(line="return server") + "    class Hparams:\n        rate = 1\n",
            ["Hparams", "dataclass"],
        ),
        (
            METHOD.format(line="return server") + "    class Client(ClientModel):\n"
            "        def train_step(self, data):\n            pass\n",
            ["train_step must give", "Received: None", "self.step(batch, gradient)"],
        ),
        ("raise SystemExit('enough')", ["running the file failed", "enough", "line 2"]),
        ("def (:", ["SyntaxError", "line 2"]),
    ],
)
def test_what_is_forgotten_is_named(text, words, mine, capsys, tmp_path):
    mine.write_text("import dataclasses\n" + text)
    result = run(capsys, *toy_args(tmp_path), f"--algo={mine}:Mine")
    assert result.code == 2
    for word in words:
        assert word in result.err


def test_an_operation_that_fails_while_it_runs(mine, capsys, tmp_path):
    """The lines are in TensorFlow's message, and nothing else of it is told."""
    right = "return {'weights': [tf.debugging.check_numerics(w / 0, 'too far') for w in weights]}"
    text = METHOD.format(line=f"weights = server['weights']\n        {right}")
    mine.write_text("import tensorflow as tf\n" + text)
    result = run(capsys, *toy_args(tmp_path), f"--algo={mine}:Mine")
    assert result.code == 2
    place, words, fix = result.err.strip().splitlines()
    assert place.startswith(f"error: InvalidArgumentError in line 10 of {mine}, in ")
    assert place.endswith(right)
    assert words.startswith("too far : Tensor had ")
    assert fix == "Correct the file; --verbose shows more."


def test_the_corrected_file_runs_after_a_first_round_that_failed(mine, capsys, tmp_path):
    """Nothing of the run is finished by then, so there is nothing to keep from another file."""
    args = [*toy_args(tmp_path), f"--algo={mine}:Mine"]
    right = METHOD.format(line="return super().server_step(server, aggregate, round_)")
    wrong = (
        "return {'weights': [tf.debugging.check_numerics(w / 0, '') for w in server['weights']]}"
    )
    mine.write_text("import tensorflow as tf\n" + METHOD.format(line=wrong))
    assert run(capsys, *args).code == 2
    there = json.loads((tmp_path / "run/config.json").read_text())["inputs"]["algo"]
    mine.write_text(right)
    assert run(capsys, *args).code == 0
    assert json.loads((tmp_path / "run/config.json").read_text())["inputs"]["algo"] != there
    mine.write_text(right + "# another one\n")
    assert run(capsys, *args).code == 2  # now there are rounds


def test_mistakes_elsewhere_are_not_explained():
    with pytest.raises(ZeroDivisionError) as caught:
        _ = 1 / 0
    assert own_code.explain(caught.value) is None


def test_classes(mine):
    mine.write_text("class A: pass\nclass B(A): pass\nC = int\n")
    module, name = own_code.load_module(f"{mine}:B", "Thing")
    assert own_code.load_class(f"{mine}:B", object, "Thing").__name__ == "B"
    assert name == "B"
    assert module.A.__name__ == "A"
    with pytest.raises(InputError, match=r"Unknown thing class.*A, B"):
        own_code.load_class(f"{mine}:Bb", object, "Thing")
    with pytest.raises(InputError, match="no file"):
        own_code.load_class("nowhere.py:A", object, "Thing")
