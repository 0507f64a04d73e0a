"""Client schedules."""

import json
import math
import time

import numpy as np
import pytest

from tf_fedsam.data import sampling
from tf_fedsam.errors import InputError

EXPLAINED = r"(?s)[Rr]eceived .*Expected .*\. [A-Z].*\.$"
SAMPLERS = {"fixed": sampling.fixed, "bernoulli": sampling.bernoulli}


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_round_depends_on_the_seed_and_its_number_alone(name):
    make = SAMPLERS[name]
    forward = [make(100, 0.1, 7)(t) for t in range(20)]
    one_sampler = make(100, 0.1, 7)
    backward = [one_sampler(t) for t in reversed(range(20))][::-1]
    for a, b in zip(forward, backward, strict=True):
        np.testing.assert_array_equal(a, b)
    assert len({tuple(ids) for ids in forward}) == 20  # equal rounds: below 190 / C(100, 10)
    other = [make(100, 0.1, 8)(t) for t in range(20)]
    assert not {tuple(ids) for ids in forward} & {tuple(ids) for ids in other}


@pytest.mark.parametrize("name", SAMPLERS)
def test_clients_are_distinct_sorted_and_in_range(name):
    sampler = SAMPLERS[name](30, 0.4, 1)
    for t in range(200):
        ids = sampler(t)
        assert np.all(np.diff(ids) > 0)
        assert ids[0] >= 0
        assert ids[-1] < 30


@pytest.mark.parametrize(
    ("num_clients", "participation", "cohort"),
    # 0.29 * 100 = 28.999999999999996 in floating point.
    [(100, 0.1, 10), (100, 0.29, 29), (10, 0.19, 1), (10, 0.01, 1), (7, 1.0, 7), (1, 0.5, 1)],
)
def test_fixed_cohort(num_clients, participation, cohort):
    assert len(sampling.fixed(num_clients, participation, 1)(0)) == cohort


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_client_is_equally_likely(name):
    sampler, rounds = SAMPLERS[name](50, 0.2, 1), 4000
    times = np.bincount(np.concatenate([sampler(t) for t in range(rounds)]), minlength=50)
    # Binomial(4000, 0.2) (the redraw adds 0.8^50 = 1e-5): sd 25.3; 5 sd in any of 50: 3e-5.
    assert np.abs(times - 800).max() < 127


def test_bernoulli_size_has_the_binomial_mean_and_variance():
    sampler, rounds = sampling.bernoulli(100, 0.2, 1), 4000
    sizes = np.array([len(sampler(t)) for t in range(rounds)])
    # Binomial(100, 0.2): mean 20, variance 16. Standard error of the mean 4 / sqrt(4000) = 0.063,
    # of the variance 16 sqrt(2 / 4000) = 0.36; 5 of them: 6e-7 each.
    assert abs(sizes.mean() - 20) < 0.32
    assert abs(sizes.var() - 16) < 1.8


def test_bernoulli_draws_again_when_nobody_is_in():
    sampler, rounds = sampling.bernoulli(3, 0.1, 1), 2000
    sizes = np.array([len(sampler(t)) for t in range(rounds)])
    assert sizes.min() == 1
    # Given at least one: P(1) = 3 * 0.1 * 0.81 / (1 - 0.729) = 0.8967; standard error 0.0068.
    assert abs(np.mean(sizes == 1) - 0.8967) < 5 * 0.0068


def test_bernoulli_may_leave_a_round_empty():
    """As privacy wants it; the other rounds are the same."""
    plain = sampling.bernoulli(3, 0.1, 1)
    sampler, rounds = sampling.bernoulli(3, 0.1, 1, may_be_empty=True), 2000
    cohorts = [sampler(t) for t in range(rounds)]
    # P(0) = 0.9**3 = 0.729; standard error sqrt(0.729 * 0.271 / 2000) = 0.0099.
    assert abs(np.mean([len(c) == 0 for c in cohorts]) - 0.729) < 5 * 0.0099
    assert all(np.array_equal(c, plain(t)) for t, c in enumerate(cohorts) if len(c))


def test_everybody_takes_part():
    for make in SAMPLERS.values():
        assert make(5, 1.0, 1)(3).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_billion_clients_cost_what_the_cohort_costs(name):
    sampler = SAMPLERS[name](10**9, 1e-8, 1)
    start = time.perf_counter()
    for t in range(100):
        assert len(sampler(t)) < 50
    assert time.perf_counter() - start < 1.0  # 0.01 s; 100 permutations would take minutes


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize(
    ("num_clients", "participation"), [(0, 0.5), (-3, 0.5), (10, 0.0), (10, -1), (10, 1.1)]
)
def test_bad_participation_is_explained(name, num_clients, participation):
    with pytest.raises(InputError, match=EXPLAINED):
        SAMPLERS[name](num_clients, participation, 1)


def test_more_bad_participation_is_explained():
    with pytest.raises(InputError, match=EXPLAINED):
        sampling.fixed(10, math.nan, 1)
    with pytest.raises(InputError, match="one client per round"):
        sampling.bernoulli(10, 1e-5, 1)  # would draw 10,000 times per round


# --- a schedule written by the user -------------------------------------------------------------


def test_schedule_by_number_and_by_name():
    schedule = sampling.from_schedule([[3, 0], [np.int64(2)]], 4)
    assert len(schedule) == 2
    assert schedule(0).tolist() == [0, 3]
    assert schedule(1).tolist() == [2]
    named = sampling.from_schedule([["cy", "al"]], np.array(["al", "bob", "cy"]))
    assert named(0).tolist() == [0, 2]
    gaps = sampling.from_schedule([[70, 5]], np.array([5, 60, 70]))
    assert gaps(0).tolist() == [0, 2]


def test_schedule_must_be_long_enough():
    schedule = sampling.from_schedule([[0], [1]], 2)
    schedule.require(2)
    with pytest.raises(InputError, match=r"2 rounds\. Expected at least 3\."):
        schedule.require(3)
    with pytest.raises(InputError, match="at least 6"):
        schedule(5)
    with pytest.raises(IndexError):
        schedule(-1)


@pytest.mark.parametrize(
    ("schedule", "names", "message"),
    [
        ([[0], [1, 9]], 4, r"Round 1 .*unknown client 9\. .*4 clients 0 to 3\."),
        ([[0], [-1]], 4, r"Round 1 .*unknown client -1\."),
        ([["3"]], 4, r"Round 0 .*unknown client '3'\."),
        ([["dan"]], ["al", "bob"], r"Round 0 .*unknown client 'dan'\. .*'al' to 'bob'\."),
        ([[0], [2, 1, 2]], 4, r"Round 1 .*client 2 more than once\."),
        ([[0], [1], []], 4, r"Round 2 .*no clients\."),
        ([], 4, "an empty list"),
        ({"0": [1]}, 4, "dict"),
        ([[0], 1], 4, "round 1 .* is 1"),
        ([[0], "12"], 4, "round 1 .* is '12'"),
        ([[True]], 4, "holds True"),
        ([[0.0]], 4, r"holds 0\.0"),
        ([[None]], 4, "holds None"),
        ([[0]], ["al", "al"], "1 are distinct"),
        ([[0]], [], "0 client names"),
    ],
)
def test_bad_schedule_is_explained(schedule, names, message):
    with pytest.raises(InputError, match=EXPLAINED) as error:
        sampling.from_schedule(schedule, names)
    error.match(message)


def test_load_schedule(tmp_path):
    path = tmp_path / "schedule.json"
    path.write_text(json.dumps([[0, 3], ["al"]]))
    assert sampling.load_schedule(path) == [[0, 3], ["al"]]
    assert sampling.load_schedule(str(path)) == [[0, 3], ["al"]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not JSON"),
        (b"[[0, 1]", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[" * 200_000, "not JSON"),
        (b"{}", "dict"),
        (b"3", "int"),
        (b"[]", "an empty list"),
        (b"[0, 1]", "round 0 .* is 0"),
        (b"[[0], [[1]]]", r"round 1 .* holds \[1\]"),
        (b"[[NaN]]", "holds nan"),
    ],
)
def test_bad_schedule_file_is_explained(tmp_path, content, message):
    path = tmp_path / "schedule.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=EXPLAINED) as error:
        sampling.load_schedule(path)
    error.match(message)
    error.match("schedule.json")


def test_unreadable_schedule_file_is_explained(tmp_path):
    for path in (tmp_path / "missing.json", tmp_path):
        with pytest.raises(InputError, match="cannot be read") as error:
            sampling.load_schedule(path)
        error.match(EXPLAINED)


# --- clients that fail or are slow --------------------------------------------------------------


def test_nobody_fails_at_rate_zero():
    assert sampling.available(np.array([4, 2, 9]), 0.0, 1, 0).tolist() == [2, 4, 9]


def test_failures_have_their_rate_and_depend_on_the_client_alone():
    ids = np.arange(50)
    reporting = [sampling.available(ids, 0.3, 1, t) for t in range(100)]
    # Binomial(5000, 0.7): sd 32.4; 5 sd.
    assert abs(sum(map(len, reporting)) - 3500) < 162
    assert not np.array_equal(reporting[0], reporting[1])
    np.testing.assert_array_equal(reporting[3], sampling.available(ids[::-1], 0.3, 1, 3))
    fewer = sampling.available(ids[:20], 0.3, 1, 3)
    np.testing.assert_array_equal(fewer, reporting[3][reporting[3] < 20])


def test_somebody_always_reports():
    saved = [sampling.available(np.array([1, 5]), 0.999, 1, t) for t in range(400)]
    assert all(len(ids) >= 1 for ids in saved)
    # Nearly always one of two, uniformly: Binomial(400, 1/2), sd 10; 5 sd.
    assert abs(sum(5 in ids for ids in saved) - 200) < 55


def test_step_fraction():
    ids = np.arange(100)
    fractions = np.array([sampling.step_fraction(ids, 0.4, 1, t) for t in range(40)])
    assert fractions.shape == (40, 100)
    assert fractions.min() >= 0.4
    assert fractions.max() <= 1
    # Uniform on [0.4, 1]: mean 0.7, sd 0.6 / sqrt(12) = 0.173; 4000 of them; 5 standard errors.
    assert abs(fractions.mean() - 0.7) < 5 * 0.173 / math.sqrt(4000)
    np.testing.assert_array_equal(
        sampling.step_fraction(ids[10:12], 0.4, 1, 3), fractions[3, 10:12]
    )
    np.testing.assert_array_equal(sampling.step_fraction(ids, 1.0, 1, 0), np.ones(100))


@pytest.mark.parametrize("rate", [-0.1, 1.0, 2.0, math.nan])
def test_bad_dropout_rate_is_explained(rate):
    with pytest.raises(InputError, match=EXPLAINED):
        sampling.available(np.arange(3), rate, 1, 0)


@pytest.mark.parametrize("minimum", [0.0, -1.0, 1.5, math.nan])
def test_bad_step_fraction_is_explained(minimum):
    with pytest.raises(InputError, match=EXPLAINED):
        sampling.step_fraction(np.arange(3), minimum, 1, 0)
