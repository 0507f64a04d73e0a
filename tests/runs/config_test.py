"""The description of a run: filling in, saving, loading, comparing, without any flag."""

import dataclasses
import json
import re

import pytest

import tasks  # noqa: F401  makes the data sets known
from tf_fedsam.errors import InputError
from tf_fedsam.options import TrainingOptions
from tf_fedsam.runs import config as configs
from tf_fedsam.runs.config import FREE, GROUPED, SAVED, SETTINGS, RunConfig, of_group, of_role
from tf_fedsam.runs.settings import Group, Role


def test_every_field_is_declared_and_told():
    assert set(SETTINGS) == {field.name for field in dataclasses.fields(RunConfig)}
    for setting in SETTINGS.values():
        assert setting.help.endswith("."), setting.name
        if setting.default is not None:
            assert setting.check(setting.default) == setting.default, setting.name


def test_every_number_has_a_range():
    """Both ends as they are written: what is not in the range is refused, at its very end, too."""
    numbers = [s for s in SETTINGS.values() if s.kind in (int, float)]
    assert [s.name for s in numbers if not s.valid] == []
    for setting in numbers:
        low, high = (float(end) for end in setting.valid[1:-1].split(","))
        outside = [low - 1] + [low] * (setting.valid[0] == "(")
        outside += [high + 1] * (high < float("inf")) + [high] * (setting.valid[-1] == ")")
        for value in outside:
            with pytest.raises(InputError, match=f"^{setting.name} must be "):
                RunConfig(**{setting.name: value})


def test_hyper_parameters_that_suit_a_model():
    """A data set's value for a model comes before its value for all, and what is given first."""
    known = configs.tasks.find("glyphs")
    task = dataclasses.replace(
        known,
        hparams={"mofedsam": {"rho": 0.2, "beta": 0.3}},
        model_hparams={"linear": {"mofedsam": {"rho": 0.02}}},
    )

    def filled(**given):
        return RunConfig(algo="mofedsam", **given).resolve(task).hparams

    assert filled() == {"rho": 0.2, "beta": 0.3}
    assert filled(model="linear") == {"rho": 0.02, "beta": 0.3}
    assert filled(model="linear", hparams={"rho": 0.5}) == {"rho": 0.5, "beta": 0.3}
    assert RunConfig(algo="fedsam", model="linear").resolve(task).hparams["rho"] != 0.02


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"relaxed_init": -0.1}, "relaxed_init must be at least 0. Received: -0.1."),
        ({"nesterov": 1}, "nesterov must be in [0, 1). Received: 1.0."),
        ({"dropout_rate": 1}, "dropout_rate must be in [0, 1). Received: 1.0. 0 lets nobody fail"),
        ({"step_fraction_min": 0}, "step_fraction_min must be in (0, 1]. Received: 0.0. 1 lets"),
        ({"clip_norm": -1}, "clip_norm must be at least 0. Received: -1.0. 0 does not clip."),
    ],
)
def test_ranges(given, told):
    with pytest.raises(InputError, match=re.escape(told)):
        RunConfig(**given)


def test_roles_and_groups_are_each_setting_once():
    assert sorted(n for role in Role for n in of_role(role)) == sorted(SETTINGS)
    assert sorted(n for group in Group for n in of_group(group)) == sorted(SETTINGS)
    assert {"dataset", "alpha", "participation", "rounds", "model"} <= set(of_role(Role.PROBLEM))
    assert {"algo", "relaxed_init", "nesterov"} <= set(of_role(Role.METHOD))
    assert {"hparams", "lr", "batch_size"} <= set(of_role(Role.TUNING))
    assert of_role(Role.SEED) == ("seed",)


def test_a_run_that_goes_on_may_change_only_what_does_not_change_its_rounds():
    decided = {*of_role(Role.TUNING, Role.METHOD, Role.SEED, Role.SOURCE)}
    assert not decided & set(FREE)
    assert set(of_role(Role.PROBLEM)) & set(FREE) == {"rounds", "stop_at", "patience"}


class TestResolve:
    def test_order(self):
        """The user, the data set for the algorithm, the data set, the declaration."""
        filled = RunConfig(dataset="cifar10", algo="feddyn", lr=0.3).resolve()
        assert filled.lr == 0.3
        assert filled.lr_decay == 0.9995  # cifar10 for feddyn
        assert filled.model == "resnet18"  # cifar10
        assert filled.weight_decay == SETTINGS["weight_decay"].default == 1e-3
        assert filled.hparams == {"lamb": 0.1}
        assert filled.task.name == "cifar10"
        assert filled.algorithm.name == "feddyn"
        assert filled.resolve() is filled

    def test_hyper_parameters_take_the_type_of_their_default(self):
        filled = RunConfig(algo="fedwmsam", hparams={"rho": 1, "correction": False}).resolve()
        assert filled.hparams["rho"] == 1.0
        assert isinstance(filled.hparams["rho"], float)
        assert filled.hparams["correction"] is False
        assert filled.hparams["alpha_step"] == 0.01

    def test_training_options(self):
        options = RunConfig(clip_norm=0, local_steps=7).resolve().training_options()
        assert options == TrainingOptions(clip_norm=None, local_steps=7, batch_size=32)


@pytest.mark.parametrize(
    ("given", "word"),
    [({"rounds": 0}, "at least 1"), ({"rounds": "many"}, "many"), ({"participation": 2}, "(0, 1]")],
)
def test_wrong_values_are_refused_at_once(given, word):
    with pytest.raises(InputError, match="must be") as caught:
        RunConfig(**given)
    assert word in str(caught.value)


def test_fingerprint_tells_runs_apart():
    first = RunConfig(algo="fedsam").resolve()
    assert first.fingerprint() == RunConfig(algo="fedsam", rounds=7).resolve().fingerprint()
    assert first.fingerprint() != RunConfig(algo="fedsam", lr=0.2).resolve().fingerprint()
    later = [s for s in SETTINGS.values() if s.since and not s.free]
    for setting in later:  # at their default they are as if they were not there
        assert setting.name in first.as_dict()


def test_a_setting_that_came_later_had_its_default():
    saved = {"lr": 0.1}
    assert configs.with_defaults(saved)["stop_at"] is None
    assert configs.with_defaults({"stop_at": 0.5})["stop_at"] == 0.5


class TestFiles:
    def test_saved_and_loaded(self, tmp_path):
        given = RunConfig(algo="fedsam", hparams={"rho": 0.05}, hidden_units=(9,), stop_at=0.5)
        given.save(tmp_path / "run.yaml")
        assert RunConfig.load(tmp_path / "run.yaml") == given

    def test_dotted_names(self, tmp_path):
        (tmp_path / "run.yaml").write_text("algo: fedsam\nhparams.rho: 0.3\nrounds: 3\n")
        config = RunConfig.load(tmp_path / "run.yaml")
        assert (config.hparams, config.rounds) == ({"rho": 0.3}, 3)


class TestOfRun:
    def test_what_was_run_is_described_again(self):
        """Resolving the description that a run saved gives the same run."""
        for given in (
            RunConfig(algo="fedsmoo", hparams={"rho": 0.2}, hidden_units=(7,), local_steps=3),
            RunConfig(dataset="cifar10", algo="mofedsam", partition="natural", devices="cpu:1"),
        ):
            first = given.resolve()
            saved = json.loads(json.dumps({"settings": first.as_dict()}))
            again = RunConfig.of_run(saved, "it").resolve()
            if given.local_steps is not None:  # then epochs are not used
                assert again.local_epochs == first.local_epochs
            assert json.dumps(again.as_dict()) == json.dumps(first.as_dict())

    def test_places_are_those_of_then(self, tmp_path):
        saved = {"settings": {"data_file": "a.npz", "algo": "m.py:M", "model": "mlp"}}
        config = RunConfig.of_run({**saved, "working_folder": str(tmp_path)}, "it")
        assert config.data_file == str(tmp_path / "a.npz")
        assert config.algo == str(tmp_path / "m.py:M")
        assert config.model == "mlp"

    def test_devices_are_as_many_as_there_were(self):
        saved = {"settings": {"devices": "auto"}, "devices": ["/CPU:0", "/CPU:1"]}
        assert RunConfig.of_run(saved, "it").devices == "cpu:2"

    @pytest.mark.parametrize("settings", [{"flagfile": "x"}, {"lr": [1]}, {"hidden_units": [3]}])
    def test_refused(self, settings):
        with pytest.raises(InputError, match="it has a"):
            RunConfig.of_run({"settings": settings}, "it")


def test_values_on_top():
    base = RunConfig(algo="fedsam", hparams={"rho": 0.1}, rounds=3)
    changed = base.with_values({"rounds": 5, "hparams": {}, "lr": 0.2})
    assert (changed.rounds, changed.lr, changed.hparams) == (5, 0.2, {"rho": 0.1})
    assert changed.get("hparams.rho") == 0.1
    assert base.with_values({"hparams.rho": 0.3}).hparams == {"rho": 0.3}


@pytest.mark.parametrize(
    ("name", "text", "like", "value"),
    [
        ("lr", "0.1", None, 0.1),
        ("rounds", "3", None, 3),
        ("replacement", "true", None, True),
        ("hparams.rho", "1", 0.1, 1.0),
        ("hparams.server", "mu", "x", "mu"),
        ("model_options.hidden_units", "(3, 4)", (200, 100), (3, 4)),
    ],
)
def test_texts(name, text, like, value):
    assert configs.parse_value(name, text, like) == value


def test_saved_settings_are_all_but_the_short_forms():
    assert set(SETTINGS) - set(SAVED) == {"hidden_units", "pretrained"}
    assert set(GROUPED) <= set(SAVED)
