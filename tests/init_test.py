"""The package itself: its names are imported when they are first used."""

import subprocess
import sys

import pytest

import tf_fedsam


def test_the_package_loads_without_tensorflow():
    script = "import sys, tf_fedsam; assert 'tensorflow' not in sys.modules; dir(tf_fedsam)"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_all_names_are_there():
    for name in tf_fedsam.__all__:
        assert getattr(tf_fedsam, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        _ = tf_fedsam.nothing


def test_names_are_the_things_they_stand_for():
    from tf_fedsam.algorithms.registry import find
    from tf_fedsam.runs.config import RunConfig

    assert tf_fedsam.RunConfig is RunConfig
    assert tf_fedsam.find_algorithm is find  # under another name
    assert tf_fedsam.tree.__name__ == "tf_fedsam.tree"  # a module
    assert set(tf_fedsam.__all__) <= set(dir(tf_fedsam))
