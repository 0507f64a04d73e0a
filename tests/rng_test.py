"""One function of (seed, purpose, ids): stable for ever, independent in each of its arguments."""

import ast
import collections
import pathlib
import random

import numpy as np
import pytest

from tf_fedsam import rng


def test_golden_values():
    """Runs made by earlier versions must be made again bit for bit.

    As NumPy promises for SeedSequence and PCG64, from SeedSequence([seed, crc32(purpose), *ids]):
    crc32(b"batches") = 4033766739, crc32(b"client") = 3343123541.
    """
    sequence = np.random.SeedSequence([1, 4033766739, 2, 3])
    expected = np.random.Generator(np.random.PCG64(sequence)).integers(0, 1000, 5)
    received = rng.generator(1, "batches", 2, 3).integers(0, 1000, 5)
    np.testing.assert_array_equal(received, expected)
    assert received.tolist() == [878, 36, 18, 388, 209]
    state = np.random.SeedSequence([0, 3343123541, 7]).generate_state(1, np.uint32)[0]
    assert rng.key(0, "client", 7) == int(state) // 2 == 1467468307


PLACES = [
    *((0, "a", 0, 0), (1, "a", 0, 0), (0, "b", 0, 0), (0, "a", 1, 0), (0, "a", 0, 1)),
    *((0, "a", 1, 1), (2**40, "a", 0, 0), (2**40 + 2**32, "a", 0, 0)),
]


def test_every_argument_counts():
    keys = [rng.key(*place) for place in PLACES]
    draws = [rng.generator(*place).bytes(16) for place in PLACES]
    # Eight values of 31 bits are all different but for one chance in 2^31 / 28.
    assert len(set(keys)) == len(set(draws)) == len(PLACES)


def test_the_same_place_is_the_same_again():
    for place in PLACES:
        assert rng.key(*place) == rng.key(*place)
        assert rng.generator(*place).bytes(16) == rng.generator(*place).bytes(16)


@pytest.mark.parametrize("other", [(0, "b", 0), (1, "a", 0), (0, "a", 1)])
def test_neighbours_are_independent(other):
    """4096 pairs of independent normal numbers: a correlation beyond 5 / 64 is one in 1e6."""
    one, two = (rng.generator(*p).standard_normal(4096) for p in ((0, "a", 0), other))
    assert abs(np.corrcoef(one, two)[0, 1]) < 5 / 64


def test_keys_fill_31_bits():
    """Of 1000 uniform numbers about half are in the upper half; 5 deviations of 16 off is never."""
    keys = np.array([rng.key(0, "dropout", i) for i in range(1000)])
    assert keys.min() >= 0
    assert keys.max() < 2**31
    assert abs((keys >= 2**30).sum() - 500) < 80


def test_global_generators_are_neither_read_nor_seeded():
    before = random.getstate(), np.random.get_state()
    first = rng.generator(3, "split").random()
    assert random.getstate() == before[0]
    np.testing.assert_array_equal(np.random.get_state()[1], before[1][1])
    try:
        np.random.seed(1)
        assert rng.generator(3, "split").random() == first
    finally:
        np.random.set_state(before[1])


def test_negative_seeds_have_no_meaning():
    with pytest.raises(ValueError, match="non-negative"):
        rng.generator(-1, "split")


def test_a_purpose_has_always_as_many_ids():
    """NumPy fills up with zeros, so (0, "a") and (0, "a", 0) are the same place."""
    assert rng.key(0, "a") == rng.key(0, "a", 0)
    used = collections.defaultdict(set)
    root = pathlib.Path(__file__).parents[1]
    for path in (p for package in ("tf_fedsam", "tasks") for p in (root / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            called = isinstance(node, ast.Call) and ast.unparse(node.func)
            if called in ("rng.generator", "rng.key") and not isinstance(node.args[1], ast.Name):
                used[ast.unparse(node.args[1])].add(len(node.args))
    assert used["'batches'"] == {4}
    assert {purpose: n for purpose, n in used.items() if len(n) != 1} == {}
