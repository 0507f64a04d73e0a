"""The flags of a run are the declarations of its settings, and nothing else."""

import json

import pytest
from absl import flags as absl_flags
from absl.testing import flagsaver
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from launch.command_line import flags
from tf_fedsam import models
from tf_fedsam.algorithms.registry import all_algorithms
from tf_fedsam.errors import InputError
from tf_fedsam.runs.config import FREE, GROUPED, SETTINGS, RunConfig
from tf_fedsam.runs.task import all_tasks

OWN = {
    *("config", "from_config", "output_dir", "restart", "verbose", "list_algorithms", "callback"),
    "describe",
}
flags.define()


def described(*args) -> RunConfig:
    """What a command line describes."""
    with flagsaver.flagsaver():
        flags.parse(["main", *args])
        return flags.run_config()


def refused(*args) -> str:
    with pytest.raises(InputError) as caught:
        described(*args).resolve()
    return caught.value.with_flags()


class TestDefinitions:
    def test_they_are_the_settings_and_the_launchers_own(self):
        defined = absl_flags.FLAGS.flags_by_module_dict()[flags.__name__]
        names = {flag.name.partition(".")[0] for flag in defined}
        assert names - set(GROUPED) == {*(set(SETTINGS) - set(GROUPED)), *OWN}

    @pytest.mark.parametrize("name", sorted(set(SETTINGS) - set(GROUPED)))
    def test_help_and_choices_are_those_of_the_declaration(self, name):
        flag, setting = absl_flags.FLAGS[name], SETTINGS[name]
        assert setting.help in flag.help
        assert flag.default is None  # not given is not the default
        if setting.choices:
            assert tuple(flag.parser.enum_values) == setting.choices
        kinds = {int: "int", float: "float", bool: "bool", tuple: "comma separated list of strings"}
        if not setting.choices:
            assert flag.parser.flag_type() == kinds.get(setting.kind, "string")

    def test_names_are_listed(self):
        """The data sets and the models that there are."""
        for name in all_tasks():
            assert name in absl_flags.FLAGS["dataset"].help
        for name in models.names():
            assert name in absl_flags.FLAGS["model"].help

    def test_defined_once(self):
        flags.define()


class TestParse:
    def test_nothing_is_given(self):
        assert described() == RunConfig()

    def test_types_are_those_of_the_declarations(self):
        args = ["--lr=1", "--rounds=3", "--deterministic", "--nodiagnostics", "--algo=fedsam"]
        config = described(*args, "--hidden_units=3,4", "--hparams.rho=1", "--stop_at=0.5")
        assert (config.lr, type(config.lr)) == (1.0, float)
        assert (config.rounds, config.deterministic, config.diagnostics) == (3, True, False)
        assert config.hidden_units == (3, 4)
        assert (config.hparams["rho"], type(config.hparams["rho"])) == (1.0, float)

    def test_hyper_parameters_are_those_of_the_method_and_only_what_was_given(self):
        assert described("--algo=mofedsam", "--hparams.beta=0.3").hparams == {"beta": 0.3}
        assert described("--hparams.beta=0.3", "--algo=mofedsam").hparams == {"beta": 0.3}
        assert described("--algo=mofedsam").hparams == {}
        assert described("--algo", "mofedsam", "--hparams.beta=0.3").hparams == {"beta": 0.3}

    def test_command_lines_do_not_remember_each_other(self):
        described("--algo=mofedsam", "--hparams.beta=0.3", "--lr=3")
        assert described("--algo=fedsam") == RunConfig(algo="fedsam")

    @pytest.mark.parametrize(
        ("args", "words"),
        [
            (["--roundz=1"], ["Unknown flag --roundz. Did you mean --rounds", "--helpshort"]),
            (["--xyzzy=1"], ["Unknown flag --xyzzy. See --helpshort for all flags."]),
            (["--rounds=many"], ["--rounds must be a whole number. Received: 'many'."]),
            (["--rounds=1.5"], ["--rounds must be a whole number. Received: 1.5."]),
            (["--rounds=1e3"], ["--rounds must be written in digits: 1000. Received: '1e3'."]),
            (["--rounds=0"], ["--rounds must be at least 1"]),
            (["--alpha=0"], ["--alpha must be > 0. Received: 0.0."]),
            (["--size_sigma=-1"], ["--size_sigma must be at least 0. Received: -1.0."]),
            (["--server_lr=0"], ["--server_lr must be > 0. Received: 0.0. 1 is plain averaging."]),
            (["--devices=tpu:1"], ["--devices must be auto, cpu:N or gpu:N", "'tpu:1'"]),
            (["--devices=cpu:999"], ["--devices must be cpu:1 to cpu:256", "'cpu:999'"]),
            (["--lr=big"], ["--lr must be a number. Received: 'big'."]),
            (["--lr="], ["--lr must be a number. Received: ''."]),
            (["--lr=nan"], ["--lr must be a finite number. Received: nan."]),
            (["--lr"], ["Missing value for flag --lr", "--helpshort"]),
            (["--diagnostics=maybe"], ["--diagnostics must be true or false. Received: 'maybe'."]),
            (["--restart=maybe"], ["--restart must be true or false. Received: 'maybe'."]),
            (["--partition=dirichle"], ["--partition must be dirichlet,", "'dirichle'."]),
            (["--model_options.init=x"], ["init", "'x'", "keras, torch"]),
            (["--model_options.hidden_units=x"], ["hidden_units=('x',)", "whole numbers"]),
            (
                ["--algo=fednsam", "--hparams.extrapolate=2"],
                ["extrapolate must be true or"],
            ),
            (["--algo=fedwmsam", "--hparams.alpha_rule=x"], ["must be update or momentum", "'x'"]),
            (["--algo=fedsam", "--hparams.rho=-1"], ["--hparams.rho must be at least 0", "-1"]),
            (["--probes=trace"], ["About trace: hessian."]),
            (["--targets=2"], ["--targets must be test accuracies in (0, 1]", "'2'"]),
            (["--algo=fedavg,fedsam"], ["python -m launch.sweep --algos=fedavg,fedsam"]),
            (["--seed=0,1"], ["--seed takes one", "python -m launch.sweep --seeds=0,1"]),
            (["--dataset=mnist,emnist"], ["python -m launch.sweep --datasets=mnist,emnist"]),
            (["--algo=fedsan"], ["fedsan", "fedsam"]),
            (["--algo=fedsam", "--hparams.roh=1"], ["'roh'. Did you mean 'rho'"]),
            (["--algo=fedsam", "--hparams.rho=big"], ["rho", "big"]),
            (["--hparams.rho=1"], ["no hyper-parameter of fedavg", "--hparams.rho=1"]),
            (["--hidden_units=3,x"], ["--hidden_units must be whole numbers", "'3,x'"]),
            (["fedsam", "glyphs"], ["Every argument is a flag", "'fedsam glyphs'"]),
        ],
    )
    def test_refused(self, args, words):
        told = refused(*args)
        for word in words:
            assert word in told
        assert "\n" not in told


class TestFiles:
    def test_a_description_and_flags_on_top(self, tmp_path):
        path = tmp_path / "run.yaml"
        path.write_text("algo: mofedsam\nlr: 0.5\nhparams: {rho: 0.2, beta: 0.3}\n")
        config = described(f"--config={path}", "--lr=0.7", "--hparams.beta=0.4")
        assert (config.algo, config.lr) == ("mofedsam", 0.7)
        assert config.hparams == {"rho": 0.2, "beta": 0.4}

    def test_a_run_that_is_repeated(self, tmp_path):
        settings = {"algo": "mofedsam", "lr": 0.5, "rounds": 9, "hparams": {"beta": 0.3}}
        path = tmp_path / "config.json"
        path.write_text(json.dumps({"settings": settings, "inputs": {}}))
        for place in (path, tmp_path):
            config = described(f"--from_config={place}", "--rounds=12", "--output_dir=x")
            assert (config.algo, config.lr, config.rounds) == ("mofedsam", 0.5, 12)
            assert config.hparams == {"beta": 0.3}
        told = refused(f"--from_config={path}", "--lr=0.7", "--hparams.beta=0.1")
        assert "Received beside it: --lr, --hparams.beta" in told
        for name in ("--output_dir", *(f"--{name}" for name in FREE)):
            assert name in told

    def test_flags_in_a_file(self, tmp_path):
        """The method, its hyper-parameters and the model's options may stand there, too."""
        path = tmp_path / "flags.txt"
        path.write_text(
            "# a comment\n--algo=mofedsam\n--hparams.beta=0.4\n--lr=0.5\n"
            "--model_options.init=keras\n"
        )
        for args in ([f"--flagfile={path}"], ["--flagfile", str(path)]):
            config = described(*args, "--lr=0.7")
            assert (config.algo, config.lr) == ("mofedsam", 0.7)
            assert config.hparams == {"beta": 0.4}
            assert config.model_options == {"init": "keras"}
        assert "'roh'" in refused(f"--flagfile={path}", "--hparams.roh=1")
        for missing in (tmp_path / "none.txt", tmp_path):
            told = refused(f"--flagfile={missing}")
            assert told.startswith(f"--flagfile={missing} cannot be read: ")
            assert "one flag a line" in told
        path.write_text(f"--flagfile={tmp_path / 'inner.txt'}\n")
        told = refused(f"--flagfile={path}")
        assert told.startswith(f"--flagfile={tmp_path / 'inner.txt'} cannot be read: No such file")
        path.write_bytes(b"--lr=\xff\n")
        assert f"--flagfile={path} cannot be read: " in refused(f"--flagfile={path}")

    def test_files_that_are_not_there(self, tmp_path):
        for flag in ("config", "from_config"):
            assert "none.yaml" in refused(f"--{flag}={tmp_path / 'none.yaml'}")


# Values that a user might give; a few of every kind of setting.
FLOATS = st.floats(1e-6, 0.9, allow_nan=False)
VALUES = {
    "algo": st.sampled_from(sorted(all_algorithms())),
    "dataset": st.sampled_from(["glyphs", "mnist", "npz"]),
    "data_file": st.sampled_from(["a.npz", "with space.npz", "ümläut='x\".npz", "~/a,b.npz"]),
    "rounds": st.integers(1, 10**9),
    "seed": st.integers(0, 2**62),
    "lr": FLOATS,
    "participation": FLOATS,
    "replacement": st.booleans(),
    "diagnostics": st.booleans(),
    "clip_scope": st.sampled_from(SETTINGS["clip_scope"].choices),
    "hidden_units": st.lists(st.integers(1, 999), min_size=1, max_size=3).map(tuple),
    "stop_at": FLOATS,
    "targets": st.sampled_from(["0.5", "0.1,0.25"]),
    "trainable": st.sampled_from(["all", "head", "a|b$", "block[0-3]=x"]),
}


@hypothesis_settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_config_as_flags_is_the_same_config(data):
    """RunConfig -> flags -> RunConfig."""
    names = data.draw(st.sets(st.sampled_from(sorted(VALUES)), max_size=6))
    values = {name: data.draw(VALUES[name]) for name in sorted(names)}
    own = all_algorithms()[values.get("algo", "fedavg")]().describe()
    numbers = [name for name, value in own.items() if type(value) is float]
    if numbers:
        values["hparams"] = {
            n: data.draw(FLOATS) for n in data.draw(st.sets(st.sampled_from(numbers)))
        }
    config = RunConfig(**values)
    assert described(*flags.of_config(config)) == config


@pytest.mark.parametrize(
    "values",
    [
        {"algo": "fednsam", "hparams": {"extrapolate": False}},
        {"algo": "fedsmoo", "hparams": {"server": "mu_minus_e"}},
        {"model": "mlp", "model_options": {"hidden_units": (3, 4), "init": "keras"}},
        {"model": "swin_s", "model_options": {"depths": (2, 1), "drop_path": 0.25}},
    ],
)
def test_every_kind_of_entry(values):
    """Truths, words, tuples; what is given as a list is a tuple of the run."""
    config = RunConfig(**values)
    received = described(*flags.of_config(config))
    assert received.resolve() == config.resolve()
    assert received.resolve().fingerprint() == config.resolve().fingerprint()
    assert config.resolve() != RunConfig().resolve()


def test_commands_can_be_typed_again():
    args = ["--lr=0.1", "--data_file=my data's.npz", "--trainable=a|b$"]
    expected = "python -m launch.main --lr=0.1 '--data_file=my data'\\''s.npz' '--trainable=a|b$'"
    assert flags.command(args) == expected
    assert flags.command(["x"], module="sweep") == "python -m launch.sweep x"
