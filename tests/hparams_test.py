"""Declarations of hyper-parameters: checks and what is told of them derive from one line each."""

import dataclasses

import pytest

from tf_fedsam import hparams
from tf_fedsam.algorithms.base import Algorithm
from tf_fedsam.algorithms.registry import all_algorithms
from tf_fedsam.errors import InputError
from tf_fedsam.hparams import Checked, hparam


@dataclasses.dataclass(frozen=True)
class Numbers(Checked):
    rho: float = hparam(0.1, "[0, 1)", "A radius.", paper="0.5")
    count: int = hparam(3, "[1, inf)")
    any: float = hparam(-2.0)
    on: bool = hparam(True, help="A switch.")
    word: str = hparam("a", {"a": "the first", "b": "the second"})


@dataclasses.dataclass(frozen=True)
class More(Numbers):
    mu: float = hparam(1.0, "(0, inf)")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"rho": 1.0}, "rho must be in [0, 1). Received: 1.0."),
        ({"rho": -0.1}, "rho must be in [0, 1). Received: -0.1."),
        ({"rho": "x"}, "rho must be a number. Received: 'x'."),
        ({"rho": float("nan")}, "rho must be a finite number. Received: nan."),
        ({"any": float("inf")}, "any must be a finite number. Received: inf."),
        ({"count": 0}, "count must be at least 1. Received: 0."),
        ({"count": 1.5}, "count must be a whole number. Received: 1.5."),
        ({"on": 1}, "on must be true or false. Received: 1."),
        ({"word": "c"}, "word must be a or b. Received: 'c'."),
    ],
)
def test_wrong_values_are_refused(values, words):
    for kind in (Numbers, More):  # what is inherited is checked, too
        with pytest.raises(InputError) as caught:
            kind(**values)
        assert str(caught.value) == words
        assert caught.value.settings == (f"hparams.{next(iter(values))}",)


def test_a_field_of_a_subclass_is_checked():
    with pytest.raises(InputError, match="mu must be > 0"):
        More(mu=0.0)


def test_right_values_are_kept():
    made = More(rho=0.0, count=1, any=-1e9, on=False, word="b", mu=1e-9)
    assert dataclasses.astuple(made) == (0.0, 1, -1e9, False, "b", 1e-9)
    assert (Numbers.rho, Numbers().rho) == (0.1, 0.1)


def test_declared():
    found = hparams.declared(More)
    assert list(found) == ["rho", "count", "any", "on", "word", "mu"]
    rho = found["rho"]
    assert (rho.default, rho.valid, rho.help, rho.paper) == (0.1, "[0, 1)", "A radius.", "0.5")
    expected = [h.expected() for h in found.values()]
    numbers = ["in [0, 1)", "at least 1", "a number", "true or false", "a or b", "> 0"]
    assert expected == numbers


def test_a_plain_dataclass_is_as_good():
    """As a user writes it, with checks of its own or none."""

    @dataclasses.dataclass(frozen=True)
    class Plain:
        rate: float = 0.3

        def __post_init__(self):
            if self.rate < 0:
                raise InputError("rate must be at least 0.")

    class Mine(Algorithm):
        Hparams = Plain

    assert Mine(rate=1.0).hparams.rate == 1.0
    with pytest.raises(InputError, match="rate"):
        Mine(rate=-1.0)
    told = hparams.declared(Plain)["rate"]
    assert (told.default, told.help, told.paper, told.expected()) == (0.3, "", "", "a number")


# Of all methods: defaults and ranges as they were when each method checked itself.
RADIUS, SHARE = "[0, inf)", "(0, 1]"
DECLARED = {
    "fedacg": {"server_momentum": (0.85, "[0, 1)"), "mu": (2e-3, RADIUS)},
    "fedadagrad": {"beta1": (0.9, "[0, 1)"), "epsilon": (1e-2, "(0, inf)")},
    "fedadam": {"beta1": (0.9, "[0, 1)"), "beta2": (0.99, "[0, 1]"), "epsilon": (1e-2, "(0, inf)")},
    "fedasam": {"rho": (0.7, RADIUS), "eta": (0.2, RADIUS)},
    "fedavg": {},
    "fedavgm": {"server_momentum": (0.9, "[0, 1)")},
    "fedcm": {"alpha": (0.1, SHARE)},
    "feddyn": {"lamb": (0.1, RADIUS)},
    "fedgamma": {"rho": (0.01, RADIUS)},
    "fedinit": {"beta": (0.1, RADIUS), "aggregate": ("model", ["model", "delta"])},
    "fedlesam": {"rho": (0.01, RADIUS), "direction": ("client_old", ["client_old", "server_last"])},
    "fedgloss": {
        "rho": (0.1, RADIUS),
        "rho_local": (0.1, RADIUS),
        "lamb": (0.1, RADIUS),
        "warmup_rounds": (0, RADIUS),
        "rho_start": (0.001, RADIUS),
        "server_dual": ("all", ["all", "official"]),
    },
    "fedsol": {
        "rho": (1.0, RADIUS),
        "strength": ("adaptive", ["adaptive", "fixed"]),
        "temperature": (3.0, "(0, inf)"),
        "perturb": ("all", ["all", "head", "body"]),
    },
    "fedswa": {"lr_end": (0.1, "[0, 1]")},
    "fedmoswa": {
        "lr_end": (0.1, "[0, 1]"),
        "gamma": (0.2, SHARE),
        "normaliser": ("sum", ["sum", "midpoint"]),
        "first_round": ("full", ["full", "gamma"]),
    },
    "fednsam": {
        "rho": (0.1, RADIUS),
        "server_momentum": (0.85, "[0, 1)"),
        "extrapolate": (True, ""),
        "apply_momentum": (True, ""),
    },
    "fedprox": {"mu": (0.1, RADIUS)},
    "fedrobust": {
        "perturbation_lr": (0.1, RADIUS),
        "penalty": (1.0, RADIUS),
        "transform": ("auto", ["auto", "full", "channel"]),
    },
    "fedsam": {"rho": (0.1, RADIUS)},
    "fedsmoo": {
        "rho": (0.1, RADIUS),
        "lamb": (0.1, RADIUS),
        "server": ("mu", ["mu", "mu_minus_e"]),
    },
    "fedspeed": {
        "rho": (0.1, RADIUS),
        "lamb": (0.1, RADIUS),
        "alpha": (1.0, "[0, 1]"),
        "server": ("participants", ["participants", "all"]),
    },
    "fedwmsam": {
        "rho": (0.01, RADIUS),
        "alpha": (0.1, SHARE),
        "alpha_step": (0.01, "[0, 1]"),
        "correction": (True, ""),
        "direction": ("ascent", ["ascent", "deviation", "descent"]),
        "alpha_rule": ("update", ["update", "momentum"]),
    },
    "mofedsam": {"rho": (0.1, RADIUS), "beta": (0.1, SHARE)},
    "scaffold": {},
}
DECLARED |= {
    "fedlesam_d": DECLARED["fedlesam"] | {"lamb": (0.1, RADIUS)},
    "fedlesam_s": DECLARED["fedlesam"] | {"scale": (1.0, RADIUS)},
    "fednsam_d": DECLARED["fednsam"] | {"lamb": (0.1, RADIUS)},
    "fednsam_s": DECLARED["fednsam"],
    "fedyogi": DECLARED["fedadam"],
    "mimelite": DECLARED["fedcm"],
}


@pytest.mark.parametrize("name", sorted(DECLARED))
def test_defaults_and_ranges_of_methods(name):
    found = hparams.declared(all_algorithms()[name].Hparams)
    assert {n: (h.default, h.valid or list(h.choices) or "") for n, h in found.items()} == (
        DECLARED[name]
    )


@pytest.mark.parametrize("name", sorted(all_algorithms()))
def test_methods_say_what_their_hyper_parameters_are(name):
    for one in hparams.declared(all_algorithms()[name].Hparams).values():
        assert one.help.endswith("."), one.name
        assert one.valid or one.choices or one.kind is bool, one.name
        assert all(one.choices.values()), one.name
        assert not one.choices or one.default in one.choices, one.name
