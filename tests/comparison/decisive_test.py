"""What makes a problem and what a series follows from the roles of the settings."""

import pytest

from tests.comparison.runs import TITLES, group, labels, run
from tf_fedsam.comparison.decisive import INDECISIVE, PROBLEM, decisive, problem
from tf_fedsam.comparison.grouping import group_runs
from tf_fedsam.runs.config import SETTINGS
from tf_fedsam.runs.settings import Role

# Values that are none of the defaults, by the kind of a setting.
OTHERS = {str: "other", int: 77, float: 0.77, bool: True, dict: {"a": 1}}
SAVED = {name: s for name, s in SETTINGS.items() if not s.goes_into}
GIVEN = ("algo", "dataset", "model", "hparams", "model_options")  # those the runs here have


def with_setting(name):
    """Two series, one of which has another value of a setting."""
    more = {name: OTHERS[SAVED[name].kind]}
    groups, repeated = group_runs([run(), run("fedsam", **more)], TITLES)
    return groups, repeated


@pytest.mark.parametrize("name", [n for n in SAVED if n not in (*GIVEN, "seed")])
def test_every_setting_decides_what_its_role_says(name):
    groups, _ = with_setting(name)
    role = SAVED[name].role
    if role is Role.PROBLEM:
        assert len(groups) == 2
        return
    assert len(groups) == 1
    shown = {word for s in groups[0].series for word in s.label.split()[1:]}
    assert any(word.startswith(f"{name}=") for word in shown) == (
        role in (Role.METHOD, Role.TUNING)
    )


@pytest.mark.parametrize(
    "name",
    [
        *("participation", "sampling", "client_schedule", "dropout_rate", "step_fraction_min"),
        *("rounds", "stop_at", "alpha", "num_clients", "trainable", "client_noise"),
    ],
)
def test_who_takes_part_is_a_part_of_the_problem(name):
    assert name in PROBLEM


def test_every_saved_setting_is_of_one_kind_only():
    assert not set(PROBLEM) & set(INDECISIVE)
    assert {"seed", "devices", "data_dir", "eval_every"} <= set(INDECISIVE)
    assert "hidden_units" not in PROBLEM  # it is an entry of the model's options


def test_what_this_version_does_not_know_decides():
    assert labels(run(), run("fedsam", future=3)) == {"FedAvg", "FedSAM future=3"}
    assert labels(run(future=1), run(future=2)) == {"FedAvg future=1", "FedAvg future=2"}
    assert decisive(run(future=[1]))["future"] == [1]


def test_runs_of_before_a_setting_are_those_with_its_default():
    assert group(run(seed=0), run(seed=1, stop_at=None)).series[0].seeds == [0, 1]


def test_files_of_the_problem_count_by_their_content():
    """Two copies of a schedule are one problem; other content is another."""

    def scheduled(algo, path, content):
        return run(
            algo, sampling="schedule", client_schedule=path, inputs={"client_schedule": content}
        )

    same = group(scheduled("fedavg", "a.json", "f1"), scheduled("fedsam", "b.json", "f1"))
    assert same.problem["content of client_schedule"] == "f1"
    assert "client_schedule" not in same.problem
    other = [scheduled("fedavg", "a.json", "f1"), scheduled("fedsam", "a.json", "f2")]
    assert len(group_runs(other, TITLES)[0]) == 2


def test_files_of_a_method_count_by_their_content():
    def own(content):
        return run("own.py:Mine", inputs={"algo": content})

    assert labels(own("f1"), own("f2")) == {"Mine content of algo=f1", "Mine content of algo=f2"}
    started = [run(seed=s, init_weights=f"{s}.npz", inputs={"init_weights": "w"}) for s in (0, 1)]
    assert group(*started).series[0].seeds == [0, 1]


def test_changed_code_of_a_model_is_another_problem():
    runs = [run(algo, model="net.py:make", inputs={"model": algo}) for algo in TITLES]
    assert len(group_runs(runs, TITLES)[0]) == 2


def test_sizes_are_a_part_of_the_problem():
    one = run()
    config = {**one.config, "data": {"num_classes": 10}, "num_parameters": 7}
    found = problem(type(one)("x", config, one.records))
    assert (found["num_classes"], found["num_parameters"], found["input_shape"]) == (10, 7, None)
