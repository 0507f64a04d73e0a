"""What a run is about and what it came to, for people."""

import re
import types

import pytest

import tf_fedsam
from tests.runs.run_test import toy_config
from tf_fedsam.options import TrainingOptions
from tf_fedsam.runs import tables
from tf_fedsam.runs.room import Room

COST = {"bytes_down": 3000, "bytes_up": 1500, "gradient_evaluations": 1234, "seconds": 61}
SUMMARY = {
    "rounds": 20,
    "test_accuracy": 0.75,
    "best_test_accuracy": 0.8,
    "best_round": 17,
    "mean_last_10_test_accuracy": 0.74,
    "fedinit_test_accuracy": None,
    "test_loss": 0.5,
    "targets": {},
    "skipped_rounds": 0,
    "failed_reports": 0,
    "eval_seconds": 2.5,
    **COST,
}


def told(summary=None, **last):
    return {n.strip(): v for n, v in tables.result_rows({**SUMMARY, **(summary or {})}, last)}


def test_results():
    assert told() == {
        "rounds": 20,
        "test accuracy": "75.00%",
        "best": "80.00% in round 17",
        "mean of last 10 tests": "74.00%",
        "test loss": "0.5000",
        "sent": "3 KB down, 1.5 KB up",
        "gradients": "1,234",
        "time": "1 min 1 s training, 2.5 s testing",
    }


def test_what_is_told_only_if_there_is_something():
    rows = told(
        {"fedinit_test_accuracy": 0.77, "test_loss": None, "skipped_rounds": 2}
        | {"failed_reports": 5, "stopped": {"reason": "the bell rang"}},
        sharpness=0.123456,
        divergence=None,
    )
    assert rows["best smoothed, last 50"].startswith("77.00%")
    assert rows["test loss"] == "not finite"
    assert rows["skipped"] == "2 rounds in which nobody reported"
    assert rows["left out"] == "5 updates that were not finite"
    assert rows["stopped early"] == "the bell rang"
    assert rows["sharpness"] == "0.1235"
    assert "divergence" not in rows


def test_plug_ins():
    rows = told({"test_accuracy_last": 0.5, "privacy": "epsilon 2 at delta 0.1 after 9 rounds"})
    assert list(rows)[1:3] == ["test accuracy", "of the last model"]
    assert rows["of the last model"] == "50.00%"
    assert rows["privacy"].startswith("epsilon 2 at")


def test_clients():
    names = {"mean": 0.5, "std": 0.1, "worst_decile": 0.25}
    rows = told(**{f"client_train_accuracy_{n}": v for n, v in names.items()})
    assert rows["clients' train"] == "50.00% (std 10.00%), worst tenth 25.00%"
    assert "test in clients' mix" not in rows
    rows = told(**{f"client_test_accuracy_{n}": v for n, v in names.items()})
    assert rows["test in clients' mix"] == "50.00% (std 10.00%), worst tenth 25.00%"


def test_eigenvalues():
    """All that were found; that of the probe eigenvalue is one alone."""
    found = {"hessian_eigenvalue": 3.14159, "hessian_eigenvalue_2": 2.0, "hessian_eigenvalue_3": -1}
    assert told(**found)["hessian eigenvalues"] == "3.142, 2, -1"
    assert told(hessian_eigenvalue=3.0)["hessian eigenvalue"] == "3"
    assert not [name for name in told() if "eigenvalue" in name]


def test_held_out_examples():
    """What was chosen by them, with the test accuracy of that round."""
    found = {"validation_accuracy": 0.61, "best_validation_accuracy": 0.7, "chosen_round": 4}
    rows = tables.result_rows(SUMMARY | found | {"chosen_test_accuracy": 0.65}, {})
    at = [name for name, _ in rows].index("held-out accuracy")
    assert rows[at : at + 2] == [
        ("held-out accuracy", "61.00%"),
        ("  best", "70.00% in round 4, test accuracy there 65.00%"),
    ]


def test_what_probes_found():
    rows = told(
        personal_clients=5,
        personal_accuracy_before_mean=0.5,
        **{
            f"personal_accuracy_after_{n}": v
            for n, v in (("mean", 0.6), ("std", 0.1), ("worst_decile", 0.4))
        },
        hessian_trace=12.5,
        hessian_trace_error=0.123,
        **{
            f"sharpness_{kind}_on_{data}": v
            for kind, data, v in (
                ("local", "own", 0.01),
                ("local", "all", 0.5),
                ("global", "own", 0.2),
            )
        },
    )
    assert rows["5 clients, fine-tuned"] == (
        "50.00% before, 60.00% (std 10.00%) after, worst tenth 40.00%"
    )
    assert rows["hessian trace"] == "12.5 ± 0.12"
    assert rows["sharpness, local"] == "0.01 on own examples, 0.5 on all"
    assert "sharpness, global" not in rows  # half of it is not there


def test_targets():
    rows = told({"targets": {"0.7": {"round": 9, **COST}, "0.9": None}})
    assert rows["to 70.00%"] == "round 9: 4.5 KB sent, 1,234 gradients, 1 min 1 s"
    assert rows["to 90.00%"] == "not in 20 rounds"


def test_results_table():
    lines = tables.results_table("FedSAM", SUMMARY, {}).splitlines()
    assert lines[0] == "Results of FedSAM"
    assert lines[1] == "  rounds                   20"


@pytest.mark.parametrize(
    ("sampling", "participation", "num_clients", "words"),
    [
        ("fixed", 0.1, 100, "10 of 100"),
        ("fixed", 0.29, 100, "29 of 100"),  # 0.29 * 100 is 28.999999999999996
        ("fixed", 0.001, 100, "1 of 100"),
        ("fixed", 0.0001, 1_000_000, "100 of 1,000,000"),
        ("bernoulli", 0.105, 1000, "about 105 of 1,000"),
        ("bernoulli", 0.33333, 10, "about 3.333 of 10"),
    ],
)
def test_expected_cohort(sampling, participation, num_clients, words):
    share = lambda n: participation  # noqa: E731
    config = types.SimpleNamespace(sampling=sampling, share_of=share)
    assert tables.expected_cohort(config, num_clients) == words


def test_one_client_a_round_is_warned_of():
    config = tf_fedsam.RunConfig(dataset="glyphs", participation=0.1).resolve()
    message, *settings = tables.cohort_warning(config, 12)
    assert message.startswith("Warning: one of 12 clients takes part in a round")
    assert settings == ["participation", "min_cohort"]
    assert tables.cohort_warning(config, 20) is None  # two
    assert tables.cohort_warning(config, 1) is None  # there is no other
    other = tf_fedsam.RunConfig(dataset="glyphs", participation=0.1, min_cohort=2).resolve()
    assert tables.cohort_warning(other, 12) is None


ROOM = Room(1000, 200, 30, 400, free_memory=None, free_disk=None)


def start_rows(tmp_path, **given):
    experiment = tf_fedsam.build(toy_config(tmp_path, **given))
    text = tables.start_table(experiment, tmp_path / "run", ROOM)
    text = re.sub(r"\n {8,}", " ", text)  # long values are wrapped
    rows = (line.strip().partition("  ") for line in text.splitlines() if line)
    return {name: value.strip() for name, _, value in rows}


def test_start(tmp_path):
    """The toy: clients of 4, 9, 13 and 14 examples, 5 inputs and 3 classes, 12 test examples."""
    rows = start_rows(tmp_path, algo="fedsam", hparams={"rho": 0.25}, lr=0.5, seed=7)
    assert rows["devices"] == "CPU:0, CPU:1"
    assert rows["data"].endswith(": 40 training and 12 test examples, 3 classes")
    assert rows["source"].endswith("toy.npz")
    assert rows["clients"] == "2 of 4 a round, fixed"
    assert rows["sizes"] == "min 4, median 11, max 14 examples"
    assert rows["model"] == "linear, 18 parameters"
    assert rows["algorithm"] == "FedSAM (rho=0.25)"
    assert rows["training"].startswith("2 rounds, 5 local epochs, batch 50, lr 0.5 x ")
    assert rows["seed"] == "7"
    assert rows["may need"] == ROOM.row()
    assert rows["folder"] == str(tmp_path / "run")


def test_start_with_schedules(tmp_path):
    """4 of 40 examples are held out; two rounds."""
    given = {"lr_schedule": "cosine", "lr_final_factor": 0.1, "lr_warmup_rounds": 1}
    given |= {"rho_schedule": "step", "local_momentum": 0.9, "holdout": 0.1}
    rows = start_rows(tmp_path, algo="fedsam", **given)
    assert rows["data"].endswith(
        "36 training, 4 held-out (from each client's share) and 12 test examples, 3 classes"
    )
    assert (
        "lr 0.1, cosine to 0.1 of it in 2 rounds after 1 round of warm-up, local momentum 0.9 "
        "(fresh each round), " in rows["training"]
    )
    assert rows["radius"] == "rho x 0.1 every 50 rounds"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"lr": 0.5, "lr_decay": 0.9}, "lr 0.5 x 0.9 a round"),
        ({"lr_schedule": "constant"}, "lr 0.1"),
        ({"lr_schedule": "step", "lr_step_rounds": 7}, "lr 0.1 x 0.1 every 7 rounds"),
        (
            {"lr_schedule": "constant", "local_momentum": 0.5, "local_momentum_state": "keep"},
            "lr 0.1, local momentum 0.5 (kept)",
        ),
    ],
)
def test_rate_words(given, words):
    assert tables.rate_words(TrainingOptions(**given)) == words


def test_start_with_privacy(tmp_path):
    given = {"sampling": "bernoulli", "dp_clip_norm": 0.5, "dp_delta": 1e-5, "participation": 1.0}
    rows = start_rows(tmp_path, dp_noise_multiplier=1.0, rounds=10, **given)
    assert rows["privacy"] == "epsilon 19.054 at delta 1e-05 after 10 rounds"
    rows = start_rows(tmp_path, dp_clip_norm=0.5, rounds=10)
    assert rows["privacy"].startswith("not accounted")


def test_notes(tmp_path):
    """Each said once, before the run."""
    made = lambda **given: tf_fedsam.build(toy_config(tmp_path, **given))  # noqa: E731
    assert tables.notes(made()) == []
    assert tables.notes(made(swa_cycle=1, rounds=4)) == []
    ((some, *settings),) = tables.notes(made(accuracy_clients=3))
    assert "there are 4 clients" in some
    assert "accuracy_clients=3 of them" in some
    assert settings == ["accuracy_clients="]
    assert tables.notes(made(probes="confusion")) == []
    ((none, *settings),) = tables.notes(made(swa_cycle=2, rounds=4))
    assert "first cycle of 2 rounds begins with round 4 and does not end" in none
    assert settings == ["swa_start", "swa_cycle"]
    ((warning,),) = tables.notes(made(dp_clip_norm=0.5))
    assert "a published seed is no privacy" in warning
    assert "probes measure of the clients are not private" in warning


def test_start_of_other_runs(tmp_path):
    (tmp_path / "rounds.json").write_text("[[0], [1, 2]]")
    given = {"sampling": "schedule", "client_schedule": str(tmp_path / "rounds.json")}
    rows = start_rows(tmp_path, local_steps=3, participation=None, **given)
    assert rows["clients"] == f"4, a round's from {tmp_path / 'rounds.json'}"
    assert rows["algorithm"] == "FedAvg"
    assert "3 local steps" in rows["training"]
