"""Which clients take part in a round.

A schedule is a function of the seed and the round alone, so that it is the same for every
algorithm, number of devices and resumed run. Rounds are counted from 0, clients are positions
0 .. num_clients - 1 in the partition, and every answer is sorted by position.
"""

import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tf_fedsam import paths, rng
from tf_fedsam.errors import InputError

# Bernoulli sampling draws again until somebody takes part: 1000 draws per round here.
_MIN_EXPECTED_COHORT = 1e-3


class Sampler(Protocol):
    """A client schedule."""

    def __call__(self, round_num: int) -> np.ndarray:
        """int64 [cohort], the distinct positions of the clients of this round, ascending."""


def fixed(num_clients: int, participation: float, seed: int) -> Sampler:
    """max(1, floor(participation * num_clients)) distinct clients, uniformly, in every round."""
    _check(num_clients, participation)
    cohort = cohort_size(num_clients, participation)

    def sample(round_num: int) -> np.ndarray:
        return _distinct(rng.generator(seed, "sampling.fixed", round_num), num_clients, cohort)

    return sample


def cohort_size(num_clients: int, participation: float) -> int:
    """Clients of a round with fixed sampling."""
    return max(1, math.floor(participation * num_clients + 1e-9))  # 0.29 * 100 is 28.99999...


def share(num_clients: int, participation: float, min_cohort: int) -> float:
    """The share of the clients in a round: `participation`, or enough for so many clients."""
    return max(participation, min(1.0, min_cohort / num_clients))


def bernoulli(
    num_clients: int, participation: float, seed: int, may_be_empty: bool = False
) -> Sampler:
    """Every client independently with probability `participation`.

    A cohort of nobody is drawn again, unless it `may_be_empty`, as privacy wants it: then who
    takes part does not depend on whether others do.

    Drawn as the size of the cohort, binomial, and then its members, uniformly: the same
    distribution as one coin per client, at a cost that grows with the cohort only.
    """
    _check(num_clients, participation)
    if participation * num_clients < _MIN_EXPECTED_COHORT:
        raise InputError(
            f"Received participation={participation:g} with {num_clients} clients, on average "
            f"{participation * num_clients:g} per round. Expected at least {_MIN_EXPECTED_COHORT:g}"
            f". Raise participation to {1 / num_clients:g} for one client per round."
        )

    def sample(round_num: int) -> np.ndarray:
        generator = rng.generator(seed, "sampling.bernoulli", round_num)
        cohort = int(generator.binomial(num_clients, participation))
        while not (cohort or may_be_empty):
            cohort = int(generator.binomial(num_clients, participation))
        return _distinct(generator, num_clients, cohort)

    return sample


class Schedule:
    """A sampler that reads the clients of each round from a list; see `from_schedule`."""

    def __init__(self, rounds: Sequence[np.ndarray]):
        self._rounds = tuple(rounds)

    def __len__(self) -> int:
        return len(self._rounds)

    def __call__(self, round_num: int) -> np.ndarray:
        if round_num < 0:
            raise IndexError(f"round {round_num}")
        self.require(round_num + 1)
        return self._rounds[round_num].copy()

    def require(self, rounds: int) -> None:
        """Raises unless the schedule has at least this many rounds."""
        if rounds > len(self):
            raise InputError(
                f"Received a client schedule of {len(self)} rounds. Expected at least {rounds}. "
                "Add rounds to the schedule or train for fewer."
            )


def from_schedule(
    schedule: Sequence[Sequence[int | str]], client_names: Sequence[Any] | np.ndarray | int
) -> Schedule:
    """A schedule that the user wrote: for each round the ids of its clients.

    Args:
      schedule: schedule[t] holds the ids of the clients of round t.
      client_names: the id of the client at each position, or the number of clients if they are
        called 0 .. num_clients - 1.
    """
    if isinstance(client_names, (int, np.integer)):
        names: list[Any] = list(range(int(client_names)))
    else:
        names = np.asarray(client_names).tolist()
    position = {name: i for i, name in enumerate(names)}
    if not names or len(position) < len(names):
        raise InputError(
            f"Received {len(names)} client names of which {len(position)} are distinct. Expected "
            "one distinct name per client. Correct the names."
        )
    _check_schedule(schedule, "a client schedule")
    return Schedule([_positions(t, ids, position) for t, ids in enumerate(schedule)])


def load_schedule(path: str | os.PathLike[str]) -> list[list[int | str]]:
    """Reads a JSON file that holds, for each round, the list of its client ids.

    Example: [[0, 3], [1, 2]] is two rounds of two clients.
    """
    try:
        with paths.regular(paths.expanded(path)).open(encoding="utf-8") as file:
            schedule = json.load(file)
    except InputError:
        raise
    except OSError as error:
        raise InputError(
            f"Received the client schedule {str(path)!r}, which cannot be read "
            f"({error.strerror or error}). Expected a JSON file. Check the path."
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"Received the client schedule {str(path)!r}, which is not JSON ({error}). Expected a "
            "list of lists of client ids such as [[0, 3], [1, 2]]. Correct the file."
        ) from error
    _check_schedule(schedule, f"the client schedule {str(path)!r}")
    return schedule


def available(ids: np.ndarray, dropout_rate: float, seed: int, round_num: int) -> np.ndarray:
    """The clients of `ids` that still report when each fails with probability `dropout_rate`.

    At least one reports: if all fail, one of them, uniformly, is taken back.
    """
    if not 0 <= dropout_rate < 1:
        raise InputError(
            f"Received dropout_rate={dropout_rate}. Expected 0 (nobody fails) or more, below 1. "
            "Use a value such as 0.1."
        )
    ids = np.sort(np.asarray(ids, np.int64))
    if dropout_rate == 0 or not len(ids):
        return ids
    luck = _uniform(ids, "sampling.unavailable", seed, round_num)
    return ids[luck >= min(dropout_rate, luck.max())]


def step_fraction(ids: np.ndarray, minimum: float, seed: int, round_num: int) -> np.ndarray:
    """float64 [len(ids)], the share of its local steps that each client does this round.

    Uniform in [minimum, 1], per client of `ids` in the order given; 1 if minimum is 1.
    """
    if not 0 < minimum <= 1:
        raise InputError(
            f"Received a minimum step fraction of {minimum}. Expected more than 0, at most 1 "
            "(everybody does all steps). Use a value such as 0.5."
        )
    if minimum == 1:
        return np.ones(len(ids))
    return minimum + (1 - minimum) * _uniform(ids, "sampling.step_fraction", seed, round_num)


def _distinct(generator: np.random.Generator, num_clients: int, cohort: int) -> np.ndarray:
    return np.sort(generator.choice(num_clients, cohort, replace=False, shuffle=False))


def _uniform(ids: np.ndarray, purpose: str, seed: int, round_num: int) -> np.ndarray:
    """One number in [0, 1) per client, whoever else is in the round."""
    return np.array([rng.generator(seed, purpose, round_num, int(i)).random() for i in ids])


def _check(num_clients: int, participation: float) -> None:
    if num_clients < 1:
        raise InputError(
            f"Received num_clients={num_clients}. Expected at least 1. Use more clients."
        )
    if not 0 < participation <= 1:
        raise InputError(
            f"Received participation={participation}. Expected the share of the clients in each "
            "round, more than 0 and at most 1. Use a value such as 0.1."
        )


def _check_schedule(schedule: Any, what: str) -> None:
    """Raises unless it is a non-empty list of lists of integers or strings."""
    expected = "Expected a list with, for each round, the list of its client ids (integers or"
    fix = "strings), such as [[0, 3], [1, 2]]. Correct it."
    if not isinstance(schedule, (list, tuple)) or not schedule:
        found = "an empty list" if schedule == [] else type(schedule).__name__
        raise InputError(f"Received {what} that is {found}. {expected} {fix}")
    for t, ids in enumerate(schedule):
        if not isinstance(ids, (list, tuple)):
            raise InputError(
                f"Received {what} whose round {t} (counted from 0) is {ids!r:.50}. {expected} {fix}"
            )
        for name in ids:
            if isinstance(name, bool) or not isinstance(name, (int, np.integer, str)):
                raise InputError(
                    f"Received {what} whose round {t} (counted from 0) holds {name!r:.50}. "
                    f"{expected} {fix}"
                )


def _positions(t: int, ids: Sequence[int | str], position: Mapping[Any, int]) -> np.ndarray:
    where = f"Round {t} (counted from 0) of the client schedule"
    if not ids:
        raise InputError(
            f"{where} received no clients. Expected at least one. Add a client or delete the round."
        )
    for name in ids:
        if name not in position:
            names = list(position)
            raise InputError(
                f"{where} received the unknown client {name!r:.50}. Expected one of the "
                f"{len(names)} clients {names[0]!r} to {names[-1]!r}. Correct the id."
            )
    result = np.sort(np.array([position[name] for name in ids], np.int64))
    if np.any(result[1:] == result[:-1]):
        twice = next(name for name in ids if list(ids).count(name) > 1)
        raise InputError(
            f"{where} received the client {twice!r} more than once. Expected distinct clients. "
            "Delete the repetition."
        )
    return result
