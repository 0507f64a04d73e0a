"""The embedded data as a task; how they are drawn: glyphs_images_test.py."""

import numpy as np
import pytest

from tasks.base import Request
from tasks.glyphs import TASK
from tf_fedsam.errors import InputError


def load(**options):
    return TASK.load(Request(**options))


def test_the_seed_of_a_run_does_not_draw_others():
    """Runs of different seeds differ in split, schedule and weights, not in the data."""
    one, two = load(seed=1), load(seed=2)
    assert one.train.x is two.train.x
    assert len(one.class_names) == 62
    assert len(one.client_id) == len(one.train)


def test_the_embedded_data_in_another_size():
    """So that networks for larger images can be tried without a download."""
    plain, large = load(subset=60), load(subset=60, image_size=56)
    assert large.train.x.shape[1:] == (56, 56, 1)
    np.testing.assert_array_equal(large.train.y, plain.train.y)
    halved = large.train.x.reshape(-1, 28, 2, 28, 2, 1).mean((2, 4))
    assert np.abs(halved - plain.train.x).mean() < 10  # of 255: the same pictures


def test_what_is_read_in_one_piece_is_not_streamed():
    with pytest.raises(InputError, match="stream=always is for images in single files"):
        load(stream="always")


def test_subsets_of_the_embedded_data():
    loaded = load(subset=500)
    assert len(loaded.train) + len(loaded.test) == 500
    assert len(loaded.client_id) == len(loaded.train)
