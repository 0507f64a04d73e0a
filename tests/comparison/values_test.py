"""Values of JSON files."""

import math

from tf_fedsam.comparison.values import key, number, plain


def test_numbers():
    assert number(3) == 3.0
    for wrong in (True, "3", None, math.nan, math.inf, 10**400, [1]):
        assert number(wrong) is None


def test_keys_are_of_values_not_of_their_writing():
    assert key({"a": 1, "b": [2.0]}) == key({"b": [2], "a": 1.0})
    assert key({"a": 1}) != key({"a": 1.5})
    assert key("1") != key(1)
    assert key(None) != key("None")


def test_plain():
    assert [plain(v) for v in (True, 0.10, 3, "x", [1, 0.5])] == ["true", "0.1", "3", "x", "1,0.5"]
