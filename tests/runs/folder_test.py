"""The files of a run: what is written, what is read back, what is refused."""

import json
import math
import pathlib

import pytest

from tf_fedsam.errors import InputError
from tf_fedsam.runs.config import FREE, with_defaults
from tf_fedsam.runs.folder import (
    FIRST_EXPORTS,
    RunFolder,
    differences,
    read_config,
    without_nan,
)

OLD_SETTINGS = {"lr": 0.1, "rounds": 3, "algo": "fedsam", "hparams": {"rho": 0.5}}
SETTINGS = with_defaults(OLD_SETTINGS)
INPUTS = {"data": "abc", "split": "def"}


@pytest.fixture
def folder(tmp_path):
    """Of a run with two rounds."""
    made = RunFolder(tmp_path / "run")
    made.write_config({"settings": SETTINGS, "inputs": INPUTS})
    for number in (1, 2):
        made.append({"round": number})
    return made


def refused(folder, *words, settings=SETTINGS, inputs=INPUTS):
    with pytest.raises(InputError) as caught:
        folder.check(settings, inputs)
    for word in words:
        assert word in caught.value.with_flags()


class TestCheck:
    def test_a_folder_that_is_not_there(self, tmp_path):
        RunFolder(tmp_path / "a/b").check(SETTINGS, INPUTS)
        assert not (tmp_path / "a").exists()

    def test_an_empty_one(self, tmp_path):
        (tmp_path / ".lock").touch()
        (tmp_path / ".config.json.0123abcd.tmp").touch()  # killed at its very first file
        RunFolder(tmp_path).check(SETTINGS, INPUTS)

    def test_the_same_run(self, folder):
        folder.check(SETTINGS, INPUTS)
        folder.check({**SETTINGS, "rounds": 9}, INPUTS)

    def test_a_run_from_before_there_were_some_settings(self, folder):
        """They had their defaults then."""
        assert set(SETTINGS) > set(OLD_SETTINGS)
        folder.write_config({"settings": OLD_SETTINGS, "inputs": INPUTS})
        folder.check(SETTINGS, INPUTS)
        name = max(set(SETTINGS) - set(OLD_SETTINGS) - set(FREE))
        refused(folder, "holds another run", name, settings={**SETTINGS, name: "new"})

    def test_a_file(self, tmp_path):
        (tmp_path / "run").touch()
        refused(RunFolder(tmp_path / "run"), f"--output_dir={tmp_path / 'run'} is a file")

    def test_other_files(self, tmp_path):
        for name in ("thesis.tex", "notes"):
            (tmp_path / name).touch()
        refused(RunFolder(tmp_path), "not of a run: notes, thesis.tex. Choose another folder")

    def test_another_run(self, folder):
        other = {**SETTINGS, "lr": 0.2, "hparams": {"rho": 0.6}}
        words = ("holds another run", "hparams: {'rho': 0.5} there, {'rho': 0.6} now", "lr: 0.1")
        refused(folder, *words, settings=other)

    def test_settings_that_were_chosen_to_suit_the_rounds(self, folder):
        """Their defaults depend on the rounds; what a run began with stays."""
        began = {**SETTINGS, "swa_cycle": 1, "swa_start": 2}
        folder.write_config({"settings": began, "inputs": INPUTS})
        now = {**began, "rounds": 8, "swa_start": 6}
        refused(
            folder,
            "swa_start: 2 there, 6 now",
            "go on with other rounds, give --swa_start=2.",
            settings=now,
        )
        folder.check({**began, "rounds": 8}, INPUTS)
        folder.write_config(
            {"settings": {**SETTINGS, "dp_noise_multiplier": 0.9}, "inputs": INPUTS}
        )
        now = {**SETTINGS, "rounds": 8, "dp_noise_multiplier": 1.2}
        refused(folder, "other rounds, give --dp_noise_multiplier=0.9.", settings=now)
        same = {**SETTINGS, "dp_noise_multiplier": 1.2}
        with pytest.raises(InputError) as caught:
            folder.check(same, INPUTS)
        assert "other rounds" not in str(caught.value)

    def test_free_settings_may_be_others(self, folder):
        assert "devices" in FREE
        folder.check({**SETTINGS, "devices": "cpu:7"}, INPUTS)

    def test_tuples_are_lists_in_json(self, folder):
        with_tuple = {**SETTINGS, "model_options": {"hidden_units": (3, 4)}}
        folder.write_config({"settings": with_tuple, "inputs": INPUTS})
        folder.check(with_tuple, INPUTS)

    def test_other_inputs(self, folder):
        words = ("read something else", "data: 'abc' there, 'xyz' now")
        refused(folder, *words, inputs={**INPUTS, "data": "xyz"})

    def test_fewer_rounds_than_there_are(self, folder):
        words = ("holds 2 rounds of this run", "--rounds=1. Expected: at least 2")
        refused(folder, *words, settings={**SETTINGS, "rounds": 1})

    def test_names_that_are_not_text(self):
        refused(RunFolder(pathlib.Path("runs/a\udcff")), "UTF-8")


class TestLog:
    def test_rounds_are_read_back(self, folder):
        assert folder.records() == [{"round": 1}, {"round": 2}]
        assert folder.rounds_file.read_bytes() == b'{"round": 1}\n{"round": 2}\n'
        assert RunFolder(folder.path / "none").records() == []

    def test_names_of_the_first_version_are_those_of_now(self, folder):
        """Also of a run that goes on: each round has the names of its time in the file."""
        folder.append(
            {"round": 3, "client_validation_accuracy_mean": 0.5, "validation_accuracy": 1}
        )
        folder.append({"round": 4, "client_test_accuracy_mean": 0.6})
        *_, old, new = folder.records()
        assert old == {"round": 3, "client_test_accuracy_mean": 0.5, "validation_accuracy": 1}
        assert new == {"round": 4, "client_test_accuracy_mean": 0.6}

    def test_a_line_that_was_cut_off_is_left_out(self, folder):
        with folder.rounds_file.open("a") as file:
            file.write('{"round": 3, "lo')
        assert [r["round"] for r in folder.records()] == [1, 2]

    @pytest.mark.parametrize(
        "line", ['{"round": 4}', '{"round": 2}', "{", "[3]", '{"loss": 1}', "[" * 100_000]
    )
    def test_what_is_no_log_is_refused(self, line, folder):
        with folder.rounds_file.open("a") as file:
            file.write(line + "\n")
        with pytest.raises(InputError, match="not a log of rounds"):
            folder.records()

    def test_numbers_that_json_cannot_hold_are_a_mistake(self, folder):
        with pytest.raises(ValueError, match="JSON"):
            folder.append({"round": 3, "loss": math.nan})
        folder.append(without_nan({"round": 3, "loss": math.nan}))
        assert folder.records()[2] == {"round": 3, "loss": None}

    def test_cut_back(self, folder):
        """To the first line: 13 bytes."""
        assert folder.cut_log(13) == [{"round": 1}]
        assert folder.records() == [{"round": 1}]


class TestComplete:
    @pytest.fixture
    def done(self, folder):
        names = ["final_weights.npz", "network.keras", "model.keras", "saved_model"]
        for name in (*names, "MODEL_CARD.md", "events.out.tfevents.1"):
            if name == "saved_model":
                (folder.path / name).mkdir()
            else:
                (folder.path / name).write_bytes(b"1234")
        folder.mark_exported(names, free=["MODEL_CARD.md"])
        folder.write_summary({"rounds": 3})
        return folder

    @pytest.fixture
    def first(self, folder):
        """As the first runs were: no mark, no network.keras, a folder for events."""
        for name in ("saved_model", "tensorboard"):
            (folder.path / name).mkdir()
        for name in ("final_weights.npz", "model.keras"):
            (folder.path / name).write_bytes(b"1234")
        folder.write_summary({"rounds": 3})
        return folder

    def test_with_all_results(self, done):
        assert done.is_complete({"rounds": 3})
        assert not done.is_complete({"rounds": 4})

    @pytest.mark.parametrize(
        "name",
        [*FIRST_EXPORTS, "network.keras", "MODEL_CARD.md", "events.out.tfevents.1", "summary.json"],
    )
    def test_not_without_one_of_them(self, done, name):
        path = done.path / name
        path.rmdir() if path.is_dir() else path.unlink()
        assert not done.is_complete({"rounds": 3})

    @pytest.mark.parametrize(
        "name", ["model.keras", "network.keras", "saved_model/variables.index"]
    )
    def test_not_if_one_was_changed(self, done, name):
        (done.path / name).write_bytes(b"12345")
        assert not done.is_complete({"rounds": 3})

    @pytest.mark.parametrize("name", ["model.keras", "saved_model/variables.index"])
    def test_another_content_of_the_same_size_is_noticed(self, done, name):
        (done.path / "saved_model/variables.index").write_bytes(b"abcd")
        done.mark_exported(["model.keras", "saved_model"])
        assert done.damaged() == []
        (done.path / name).write_bytes(b"1235")
        assert done.damaged() == [name.partition("/")[0]]
        assert done.is_complete({"rounds": 3})  # which does not read it

    def test_more_exports(self, done):
        """What was damaged before is still known to be; the first runs knew nothing of that."""
        (done.path / "model.keras").write_bytes(b"1235")
        (done.path / "model.tflite").write_bytes(b"1")
        before = done.exports()
        done.mark_more_exported(["model.tflite"])
        assert done.exports() == {**before, "model.tflite": 1}
        assert done.damaged() == ["model.keras"]

    def test_more_exports_of_the_first_runs(self, first):
        assert first.damaged() == []
        first.mark_more_exported(["model.keras"])
        assert first.exports() == {**dict.fromkeys(FIRST_EXPORTS), "model.keras": 4}
        (first.path / "model.keras").write_bytes(b"1235")
        assert first.damaged() == ["model.keras"]

    def test_the_card_may_be_changed(self, done):
        (done.path / "MODEL_CARD.md").write_text("with a remark of mine")
        assert done.is_complete({"rounds": 3})

    def test_only_what_was_exported_counts(self, done):
        (done.path / "model.keras").unlink()
        done.mark_exported(["final_weights.npz", "network.keras"])
        assert done.is_complete({"rounds": 3})

    def test_the_first_runs_stay_complete(self, first):
        assert first.is_complete({"rounds": 3})
        assert first.tensorboard == first.path / "tensorboard"
        assert list(first.exports()) == list(FIRST_EXPORTS)

    @pytest.mark.parametrize("name", [*FIRST_EXPORTS, "tensorboard", "summary.json"])
    def test_the_first_runs_need_what_they_had(self, first, name):
        path = first.path / name
        path.rmdir() if path.is_dir() else path.unlink()
        assert not first.is_complete({"rounds": 3})

    def test_where_events_are(self, done):
        assert done.tensorboard == done.path
        assert [p.name for p in done.events()] == ["events.out.tfevents.1"]
        assert RunFolder(done.path / "none").events() == []

    def test_a_log_that_was_changed_is_noticed(self, done):
        """Another digit, a line less, none at all; and a log of before that had no checksum."""
        done.write_summary({"rounds": 2})
        done.check_log()
        log = done.rounds_file.read_bytes()
        done.append({"round": 3})
        with pytest.raises(InputError, match=r"has 3 rounds\. Expected: the 2"):
            done.check_log()
        done.rounds_file.write_bytes(log.replace(b"}", b" }"))
        with pytest.raises(InputError, match="another content"):
            done.check_log()
        (done.path / ".exported").write_text("{}")
        done.check_log()
        done.rounds_file.unlink()
        with pytest.raises(InputError, match="has 0 rounds"):
            done.check_log()

    def test_what_a_kill_left_half_written_goes(self, done):
        left = [".summary.json.0123abcd.tmp", ".new.final_weights.npz", ".new.model.keras"]
        for name in left:
            (done.path / name).touch()
        (done.path / ".new.saved_model/variables").mkdir(parents=True)
        (done.path / "mine.tmp").touch()
        done.begin()
        names = {p.name for p in done.path.iterdir()}
        assert not names & {*left, ".new.saved_model"}
        assert "mine.tmp" in names

    def test_stopped_early(self, done):
        """Complete for whoever wants the same number of rounds and the same accuracy."""
        wanted = {"rounds": 9, "stop_at": 0.5}
        done.write_summary({"rounds": 2, "stopped": {"reason": "r", "wanted": wanted}})
        assert done.is_complete({"rounds": 9, "stop_at": 0.5})
        assert not done.is_complete({"rounds": 9, "stop_at": 0.6})
        assert not done.is_complete({"rounds": 9})
        assert done.is_complete({"rounds": 2})  # these are all that are wanted

    @pytest.mark.parametrize("text", ["", "{", "[]", "3", "[" * 100_000])
    def test_a_summary_that_cannot_be_read_is_none(self, done, text):
        done.summary_file.write_text(text)
        assert done.summary() == {}
        assert not done.is_complete({"rounds": 3})

    def test_begin_takes_the_mark_away(self, done):
        half = done.path / ".summary.json.0123abcd.tmp"
        half.touch()
        other = done.path / ".summary.json.mine.tmp"
        other.touch()
        done.begin()
        assert not done.is_complete({"rounds": 3})
        assert not half.exists()
        assert other.exists()
        assert (done.path / "model.keras").exists()
        done.begin()

    def test_clear(self, done):
        done.mark_saved()
        done.checkpoints.mkdir()
        (done.checkpoints / "x").touch()
        assert done.was_saved()
        done.clear()
        assert not done.was_saved()
        assert done.records() == []
        assert not done.checkpoints.exists()
        assert done.config_exists()
        done.clear()

    def test_sizes(self, done):
        (done.path / "saved_model/a").mkdir()
        (done.path / "saved_model/a/b").write_bytes(b"123")
        (done.path / "saved_model/c").write_bytes(b"12")
        assert done.size("saved_model") == 5
        assert done.size("model.keras") == 4


class TestConfig:
    def test_as_it_was_written(self, folder):
        assert folder.config() == {"settings": SETTINGS, "inputs": INPUTS}
        text = folder.config_file.read_text()
        assert text.endswith("}\n")
        assert '\n    "lr": 0.1,\n' in text  # for people, too

    @pytest.mark.parametrize(
        "content",
        [
            "",
            "[]",
            "null",
            "[" * 100_000,
            '{"settings": {}}',
            '{"settings": [], "inputs": {}}',
            '{"settings": {}, "inputs": {}, "versions": 3}',
            '{"settings": {}, "inputs": {}, "resumes": [3]}',
        ],
    )
    def test_what_is_none_is_refused(self, content, tmp_path):
        path = tmp_path / "config.json"
        path.write_text(content)
        with pytest.raises(InputError, match=r"could not be read.*Expected: the config.json"):
            read_config(path)

    def test_parts_that_may_be_missing(self, tmp_path):
        path = tmp_path / "config.json"
        path.write_text(json.dumps({"settings": {}, "inputs": {}}))
        assert read_config(path)["settings"] == {}

    def test_no_file(self, tmp_path):
        with pytest.raises(InputError, match="No such file"):
            read_config(tmp_path / "config.json")


def test_differences():
    there, now = {"a": 1, "b": 2, "free": 3}, {"a": 1, "b": "2", "c": None, "free": 4}
    assert differences(there, now, ["free"]) == ["b: 2 there, '2' now"]
    assert differences({}, {"x": 1}) == ["x: None there, 1 now"]


def test_without_nan():
    record = {"a": math.nan, "b": math.inf, "c": 1.5, "d": None, "e": [math.nan], "f": 3}
    received = without_nan(record)
    assert (received["a"], received["b"], received["c"], received["f"]) == (None, None, 1.5, 3)
    assert math.isnan(record["a"])
