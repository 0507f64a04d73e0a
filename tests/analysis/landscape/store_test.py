"""Kept points."""

import numpy as np
import pytest

from tests.analysis.landscape.networks import around, linear_net
from tf_fedsam.analysis.landscape.points import surface_points
from tf_fedsam.analysis.landscape.store import PointStore, fill, fingerprint
from tf_fedsam.data.federated_dataset import Examples


def test_a_stopped_evaluation_goes_on(tmp_path):
    """Each call is kept: after a stop only the rest is evaluated, with the same values."""
    asked: list = []

    def value(points):
        asked.extend(points)
        if len(asked) > 20:
            raise KeyboardInterrupt
        return np.asarray([[x + 10 * y, x] for x, y in points])

    points = surface_points(7, 1.0)
    path = tmp_path / "points.npz"
    with pytest.raises(KeyboardInterrupt):
        fill(PointStore(path), points, value)
    store = PointStore(path)
    kept = len(store.known)
    assert 0 < kept <= 20
    asked.clear()
    asked_before = list(store.known)

    def rest(points):
        asked.extend(points)
        return np.asarray([[x + 10 * y, x] for x, y in points])

    done: list[int] = []
    fill(store, points, rest, done.append)
    assert sum(done) == len(asked) == 49 - kept
    assert not set(asked) & set(asked_before)
    expected = [[x + 10 * y, x] for x, y in points]
    np.testing.assert_array_equal(PointStore(path).read(points), expected)
    fill(PointStore(path), points, None)  # nothing is missing, so it is not called
    finer = surface_points(13, 1.0)
    assert len(PointStore(path).missing(finer)) == 169 - 49


def test_values_that_are_not_finite_are_kept(tmp_path):
    store = PointStore(tmp_path / "p.npz")
    store.add([(0.0, 0.0), (1.0, 0.0)], np.asarray([[np.inf, 0.5], [np.nan, 0.1]]))
    found = PointStore(tmp_path / "p.npz").read([(0.0, 0.0), (1.0, 0.0)])
    np.testing.assert_array_equal(found, [[np.inf, 0.5], [np.nan, 0.1]])


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no zip", None])
def test_an_unreadable_store_is_empty(tmp_path, content):
    path = tmp_path / "points.npz"
    if content is None:
        np.savez(path, points=np.zeros((3, 2)), values=np.zeros((2, 2)))
    else:
        path.write_bytes(content)
    assert PointStore(path).known == {}


def test_fingerprint_sees_what_decides():
    network = linear_net()
    plane, examples = around(network), Examples(np.ones((3, 2), np.float32), np.asarray([0, 1, 1]))
    base = fingerprint(plane, examples, "a")
    assert fingerprint(around(network), examples, "a") == base
    others = [
        fingerprint(plane, examples, "b"),
        fingerprint(around(network, seed=1), examples, "a"),
        fingerprint(plane, Examples(examples.x, np.asarray([0, 1, 0])), "a"),
        fingerprint(plane, Examples(2 * examples.x, examples.y), "a"),
    ]
    network.trainable_variables[0].assign(2 * network.trainable_variables[0].numpy())
    others.append(fingerprint(around(network), examples, "a"))
    assert len({base, *others}) == 6
