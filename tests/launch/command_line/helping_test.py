"""Help by group, and hints for flags that are called otherwise elsewhere.

Help and mistakes are answered without loading TensorFlow, by every command.
"""

import json
import re
import subprocess
import sys

import pytest
from absl import flags

from launch.command_line import flags as settings_flags
from launch.command_line import helping, start
from launch.command_line.own_flags import HELP
from tf_fedsam.runs.config import GROUPED, SETTINGS, RunConfig
from tf_fedsam.runs.settings import Group

settings_flags.define()


class TestHelp:
    def test_every_flag_is_in_its_group(self):
        told = helping.by_group(RunConfig())
        parts = dict(zip(told.split("\n\n")[1:], range(99), strict=False))
        titled = {part.split("\n")[0]: part for part in parts}
        assert list(titled)[:6] == [group.value for group in Group]
        for setting in SETTINGS.values():
            assert re.search(rf"^  --{setting.name}\b", titled[setting.group.value], re.MULTILINE)
        for name in ("config", "output_dir", "describe", "list_algorithms", "flagfile"):
            assert re.search(rf"--{name}(=false)? ", titled["This command"])

    def test_defaults_are_those_of_the_data_set_and_the_method(self):
        for config, words in (
            (
                RunConfig(),
                ["--rounds=60 ", "--lr=0.1 ", "--model=mlp ", "Here: none.", "Valid: in (0, 1]."],
            ),
            (RunConfig(dataset="cifar10", algo="fednsam"), ["--rounds=500 ", "rho=0.1"]),
        ):
            told = " ".join(helping.by_group(config).split())
            for word in words:
                assert word in told

    def test_it_fits_a_terminal(self):
        assert max(map(len, helping.by_group(RunConfig()).splitlines())) <= 80

    def test_asked_for(self, capsys):
        assert helping.helped(["--lr=1", "--helpshort", "--algo=fedsam"], "About.")
        out = capsys.readouterr().out
        assert out.startswith("About.\n\nDefaults are those of --dataset=glyphs --algo=fedsam.")
        assert not helping.helped(["--lr=1"], "About.")


class TestHints:
    @pytest.mark.parametrize(
        ("name", "received", "algo", "words"),
        [
            ("rho", "0.1", "fedsam", "Use --hparams.rho=0.1; --describe=fedsam"),
            ("rho", "0.1", "fedavg", "--hparams.rho=0.1, of fedasam, fedgamma"),
            ("hidden-units", "3", "fedavg", "Use --hidden_units=3."),
            ("init", "keras", "fedavg", "Use --model_options.init=keras; --describe=mlp"),
            ("learning_rate", "0.1", "fedavg", "Use --lr=0.1."),
            ("gpu", "", "fedavg", "Use --devices=gpu:1"),
            ("resume", "", "fedavg", "The same command goes on where it stopped"),
            ("epochs", "3", "fedavg", "Use --local_epochs=3"),
            ("clients_per_round", "10", "fedavg", "--participation"),
            ("seeds", "0,1", "fedavg", "python -m launch.sweep"),
        ],
    )
    def test_hints(self, name, received, algo, words):
        told = str(helping.unknown_flag(name, received, algo, "mlp"))
        assert told.startswith(f"There is no flag --{name}. ")
        assert words in told

    @pytest.mark.parametrize("instead", helping.OTHER_NAMES.values())
    def test_hints_name_flags_that_exist(self, instead):
        for name in re.findall(r"--(\w+)", instead):
            assert name in SETTINGS or name in flags.FLAGS

    def test_other_names_are_no_flags(self):
        names = [name for names in helping.OTHER_NAMES for name in names.split("|")]
        assert len(names) == len(set(names))
        assert not set(names) & {*SETTINGS, *GROUPED}

    def test_values_that_no_flag_can_have(self):
        own = {"hparams": {"rho": 0.1}, "model_options": {}}

        def told(message):
            error = helping.wrong_value(flags.Error(message), own)
            return None if error is None else error.with_flags()

        assert told("flag --hparams.rho=x: no").startswith("--hparams.rho must be a number.")
        assert told("flag --lr=x y: no").startswith("--lr must be a number. Received: 'x y'.")
        assert told("something else") is None


ANSWERS = [
    ("main", ["--helpshort"], 0, "Data and split"),
    ("main", ["--list_algorithms"], 0, "fedwmsam"),
    ("main", ["--describe=fedsam"], 0, "hparams.rho"),
    ("main", ["--learning_rate=1"], 2, "Use --lr=1."),
    ("main", ["--algo=fedsan"], 2, "or 'fedsam'"),
    ("main", ["--algo=fedsam", "--hparams.rho=-1"], 2, "at least 0"),
    ("main", ["--batch_size=0"], 2, "at least 1"),
    ("partition", ["--help"], 0, "Measuring"),
    ("partition", ["--alfa=1"], 2, "Did you mean --alpha"),
    ("sweep", ["--help"], 0, "--retries"),
    ("sweep", ["--alogs=fedavg"], 2, "Unknown command line flag 'alogs'"),
    ("sweep", ["--algos=fedavg", "--", "--learning_rate=1"], 2, "Use --lr=1."),
    ("report", ["--helpshort"], 0, "--baseline"),
    ("report", ["--max_curve=3"], 2, "Unknown command line flag 'max_curve'"),
    ("report", ["nowhere"], 2, "There is no folder nowhere"),
    ("landscape", ["--help"], 0, "--span"),
    ("landscape", ["a", "--grids=3"], 2, "Unknown command line flag 'grids'"),
    ("landscape", ["a", "--grid=4"], 2, "--grid must be an odd number"),
    ("bench", ["-h"], 0, "--repeats"),
    ("bench", ["--only=fedavg"], 2, "--only needs --algorithms, --models or --plan"),
    ("bench", ["--algorithms", "--only=fedagv"], 2, "--only has unknown names"),
    ("reproduce", ["--help"], 0, "--statistic"),
    ("reproduce", ["--tabel=x"], 2, "Unknown command line flag 'tabel'"),
    ("reproduce", ["--table=x"], 2, "Unknown --table 'x'"),
]
ANSWER_ALL = """
import contextlib, importlib, io, json, sys

from absl.testing import flagsaver

answers = []
for module, args in json.load(sys.stdin):
    run = importlib.import_module(f"launch.{module}").run
    streams = {"stdout": io.StringIO(), "stderr": io.StringIO()}
    with contextlib.ExitStack() as stack:
        stack.enter_context(flagsaver.flagsaver())
        stack.enter_context(contextlib.redirect_stdout(streams["stdout"]))
        stack.enter_context(contextlib.redirect_stderr(streams["stderr"]))
        code = run(args)
    loaded = sorted({"tensorflow", "keras"} & set(sys.modules))
    answers.append((code, *(stream.getvalue() for stream in streams.values()), loaded))
json.dump(answers, sys.stdout)
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """What a process says that has not loaded TensorFlow, as this one has."""
    done = subprocess.run(
        [sys.executable, "-c", ANSWER_ALL],
        input=json.dumps([(module, args) for module, args, _, _ in ANSWERS]),
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path_factory.mktemp("nothing"),
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("number", range(len(ANSWERS)), ids=lambda i: " ".join(ANSWERS[i][1]))
def test_answers_come_without_tensorflow(answers, number):
    _, _, code, words = ANSWERS[number]
    received, out, err, loaded = answers[number]
    assert (received, loaded) == (code, [])
    assert words in " ".join((out if code == 0 else err).split())
    assert (err if code == 0 else out) == ""
    assert max(map(len, out.splitlines() or [""])) <= 80


def test_every_command_is_asked_for_help():
    helped = {module for module, args, _, _ in ANSWERS if {*args} & {"--helpfull", *HELP}}
    assert helped == {*start.COMMANDS.values()}
