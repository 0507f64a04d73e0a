"""Settings that go together, and what follows from them."""

import json

import pytest

import tasks  # noqa: F401  makes the data sets known
from tf_fedsam.errors import InputError
from tf_fedsam.runs.config import FREE, SETTINGS, RunConfig

TARGET = {"dp_clip_norm": 1, "dp_target_epsilon": 3, "sampling": "bernoulli"}


def test_what_does_not_apply_is_none():
    filled = RunConfig(partition="iid").resolve()
    assert filled.alpha is None
    assert filled.classes_per_client is None
    assert filled.num_clients == 100
    assert filled.validation_clients is None


def test_short_forms():
    filled = RunConfig(hidden_units=[30, 20]).resolve()
    assert filled.model_options["hidden_units"] == (30, 20)
    assert filled.hidden_units is None
    assert "hidden_units" not in filled.as_dict()


def test_server_swa():
    """From three quarters of the rounds on, down to a hundredth of lr."""
    filled = RunConfig(swa_cycle=5, rounds=50, lr=0.2).resolve()
    assert (filled.swa_start, filled.swa_collect) == (37, "end")
    assert filled.swa_lr == pytest.approx(0.002)
    filled = RunConfig(swa_cycle=2, swa_start=9, swa_lr=0.0).resolve()
    assert (filled.swa_start, filled.swa_lr) == (9, 0.0)
    assert RunConfig(swa_cycle=1).resolve().swa_lr is None  # it has no effect
    filled = RunConfig(rounds=50).resolve()
    assert (filled.swa_cycle, filled.swa_start, filled.swa_lr) == (None, None, None)


def test_privacy():
    assert RunConfig(dp_clip_norm=0.2).resolve().dp_noise_multiplier == 0.95
    assert RunConfig(dp_clip_norm=0.2, dp_noise_multiplier=0).resolve().dp_noise_multiplier == 0
    assert RunConfig().resolve().dp_noise_multiplier is None


def test_noise_for_a_target():
    """That of tests/privacy_test.py; what it was found for may be given again."""
    given = {"dp_clip_norm": 0.2, "dp_target_epsilon": 8, "sampling": "bernoulli"}
    config = RunConfig(**given, dp_delta=1e-5, participation=0.1, rounds=100)
    filled = config.resolve()
    assert filled.dp_noise_multiplier == pytest.approx(0.9937, abs=1e-4)
    saved = json.loads(json.dumps({"settings": filled.as_dict()}))
    assert RunConfig.of_run(saved, "it").resolve().as_dict() == filled.as_dict()
    more = config.with_values({"rounds": 200}).resolve()
    assert more.dp_noise_multiplier > filled.dp_noise_multiplier
    assert more.fingerprint() != filled.fingerprint()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"algo": "fedsan"}, ["fedsan", "fedsam"]),
        ({"swa_collect": "official"}, ["swa_collect", "swa_cycle"]),
        ({"swa_lr": 0.1}, ["swa_lr", "swa_cycle"]),
        ({"swa_lr": 0.1, "swa_cycle": 1}, ["swa_lr=0.1", "swa_cycle=1"]),
        ({"dp_delta": 0.1}, ["dp_delta", "dp_clip_norm"]),
        ({"dp_clip_norm": 1, "dropout_rate": 0.1}, ["dropout_rate=0.1", "taken back"]),
        ({"dp_clip_norm": 1, "dp_target_epsilon": 3}, ["sampling=bernoulli"]),
        (TARGET | {"dp_clip_scope": "tensor"}, ["dp_clip_scope=global"]),
        (TARGET | {"dp_noise_multiplier": 9}, ["dp_noise_multiplier=9, too", "one of them"]),
        (TARGET | {"num_clients": 1}, ["dp_delta"]),
        ({"dataset": "glyph"}, ["glyph", "glyphs"]),
        ({"model": "lenet"}, ["lenet5"]),
        ({"algo": "fedavg", "hparams": {"rho": 1}}, ["fedavg", "hparams.rho"]),
        ({"algo": "fedsam", "hparams": {"rh": 1}}, ["rh", "rho"]),
        ({"algo": "fedsam", "hparams": {"rho": float("inf")}}, ["finite"]),
        ({"partition": "iid", "alpha": 1.0}, ["alpha", "no effect", "partition=iid"]),
        ({"local_steps": 1, "local_epochs": 1}, ["local_steps", "local_epochs"]),
        ({"sampling": "schedule"}, ["client_schedule"]),
        ({"model": "cnn", "hidden_units": (3,)}, ["hidden_units", "mlp"]),
        ({"probes": "hessians"}, ["hessians", "hessian"]),
        ({"probes": "hess"}, ["Did you mean 'hessian'", "About hess: eigenvalue and hessian."]),
        ({"eigenvalues": 3}, ["probes=hessian. Received: probes=auto", "probes=auto,hessian"]),
        ({"probe_clients": 3, "probes": "clients"}, ["flatness or personal"]),
        ({"eigenvalues": 3, "probes": "none"}, ["Use probes=hessian,"]),
        ({"clip_scope": "official"}, ["proximal terms, and fedavg has none"]),
        ({"rho_schedule": "step"}, ["rho_schedule is for methods with a radius rho, and fed"]),
        ({"probes": "divergence"}, ["keep_local_models"]),
        ({"targets": "high"}, ["targets", "high"]),
        ({"validation_clients": 3}, ["validation=fresh"]),
    ],
)
def test_what_does_not_fit(given, words):  # said before TensorFlow is loaded
    with pytest.raises(InputError) as caught:
        RunConfig(**given).resolve()
    assert "--" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


class TestSchedules:
    def test_the_default_is_what_it_was(self):
        """Fingerprints, and with them names of folders, are those of before."""
        config = RunConfig().resolve()
        options = config.training_options()
        assert options.learning_rate(3) == options.lr * options.lr_decay**3
        assert options.rho_factor(3) is None
        saved = {n for n, s in SETTINGS.items() if s.since and not s.goes_into and not s.free}
        assert {n for n in saved if getattr(config, n) != SETTINGS[n].default} == set()

    def test_what_a_schedule_takes_is_filled_in(self):
        given = {"lr_schedule": "cosine", "rho_schedule": "step"}
        config = RunConfig(algo="fedsam", **given, rounds=30).resolve()
        assert config.schedule_rounds == 30
        assert config.lr_final_factor == 0
        assert config.lr_decay is None
        assert (config.rho_step_rounds, config.rho_step_factor) == (50, 0.1)
        assert config.training_options().learning_rate(15) == pytest.approx(0.5 * config.lr)

    def test_a_run_that_was_describes_itself(self):
        config = RunConfig(lr_schedule="linear", algo="fedsam", rho_schedule="exponential")
        written = {"settings": config.resolve().as_dict()}
        assert RunConfig.of_run(written, "here").resolve() == config.resolve()
        plain = {"settings": RunConfig().resolve().as_dict()}
        assert RunConfig.of_run(plain, "here").resolve() == RunConfig().resolve()

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"lr_schedule": "cosine", "lr_decay": 0.9}, "lr_decay has no effect with lr_schedule"),
            ({"lr_step_rounds": 9}, "lr_step_rounds has no effect .* it is for step"),
            ({"rho_final_factor": 0.5}, "it is for cosine and linear. Received: 0.5. Remove it"),
            ({"schedule_rounds": 9}, "schedule_rounds is for schedules that end"),
            (
                {"lr_schedule": "linear", "schedule_rounds": 5, "rounds": 9},
                "learning rate would be 0 after round 5. .* Give lr_final_factor",
            ),
            ({"local_momentum": 1.0}, r"local_momentum must be in \[0, 1\)"),
        ],
    )
    def test_what_does_not_fit_is_refused(self, given, message):
        with pytest.raises(InputError, match=message):
            RunConfig(**given).resolve()

    def test_kept_momentum_needs_momentum(self):
        with pytest.raises(InputError, match=r"is for local_momentum > 0\. Received: local_mom"):
            RunConfig(local_momentum_state="keep").resolve().training_options()


def test_client_state_is_on_the_disk_of_one_machine():
    with pytest.raises(InputError, match="client_state=disk is for one machine") as caught:
        RunConfig(client_state="disk", strategy="multi_worker").resolve()
    assert "--client_state=memory" in caught.value.with_flags()
    assert "client_state" in FREE
