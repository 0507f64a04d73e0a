"""How clients train: defaults of the published code, and values that have no meaning."""

import dataclasses
import math

import pytest

from tf_fedsam.errors import InputError
from tf_fedsam.options import TrainingOptions

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("batch_size", (0, -1, 1.5)),
        ("local_epochs", (0,)),
        ("local_steps", (0, -3)),
        ("lr", (-0.1, NAN, INF)),
        ("lr_decay", (0, 1.1, NAN)),
        ("weight_decay", (-1e-3, NAN, INF)),
        ("clip_norm", (-1, NAN)),
        ("clip_scope", ("all", "")),
        ("weighting", ("equal",)),
        ("norm_state", ("own",)),
        ("precision", ("float64", "half")),
        ("microbatch", (0,)),
        ("diagnostics", ("yes",)),
        ("keep_local_models", (1,)),
    ],
)
def test_bad_values(name, values):
    for value in values:
        with pytest.raises(InputError, match=rf"^{name} must be .* Received: '?{value}"):
            TrainingOptions(**{name: value})


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("batch_size", (1,)),
        ("local_steps", (1, None)),
        ("lr", (0, 0.0, 1e-9)),
        ("lr_decay", (1, 1e-9)),
        ("weight_decay", (0,)),
        ("clip_norm", (1e-9, None)),
        ("precision", ("bfloat16", "float16")),
        ("microbatch", (1, None)),
    ],
)
def test_the_ends_of_what_is_possible(name, values):
    for value in values:
        assert getattr(TrainingOptions(**{name: value}), name) == value


def test_no_clipping_has_one_form():
    assert TrainingOptions(clip_norm=0) == TrainingOptions(clip_norm=None)
    assert TrainingOptions(clip_norm=0.0).clip_norm is None


def test_learning_rate():
    """lr * lr_decay^t: 0.5 * 0.5^3 = 1/16."""
    options = TrainingOptions(lr=0.5, lr_decay=0.5)
    assert [options.learning_rate(t) for t in (0, 1, 3)] == [0.5, 0.25, 0.0625]
    assert TrainingOptions(lr=0.3, lr_decay=1).learning_rate(1000) == 0.3


def test_loss_scale():
    """Only float16 has too few small numbers; a power of two changes no digits."""
    assert TrainingOptions().loss_scale == TrainingOptions(precision="bfloat16").loss_scale == 1
    assert TrainingOptions(precision="float16").loss_scale == 2**10


def test_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        TrainingOptions().lr = 1.0


def test_every_option_is_told():
    told = TrainingOptions.__doc__
    for field in dataclasses.fields(TrainingOptions):
        assert f"        {field.name}: " in told
