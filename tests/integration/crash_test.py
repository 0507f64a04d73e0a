"""Kill it at any moment: the same command ends with the same result, bit for bit.

The kills are real: SIGKILL to a process of its own, at random moments and before chosen calls that
change the disk, which are those between a checkpoint's rename and the log line, too.
"""

import random

import pytest

from tests.integration.crashes import (
    Chain,
    assert_as_if_never_killed,
    random_kills,
    timed,
)
from tests.launch.running import toy_args

KILLS = 10  # at least, of each
LONG = {
    "fedavg": [],
    "scaffold": ["--checkpoint_every=3"],
    "fedsmoo": ["--keep_checkpoints=1"],
    "fedwmsam": ["--dropout_rate=0.3"],
    "fedadam": ["--relaxed_init=0.1", "--eval_every=2"],
    "mofedsam": ["--nesterov=0.5", "--step_fraction_min=0.5"],
}


def test_kills_at_chosen_and_random_moments(server, tmp_path):
    """Before the first checkpoint, in one, after it, in the export; then at random moments."""
    args = [*toy_args(tmp_path), "--algo=scaffold", "--rounds=5"]
    seconds = timed(server, args)
    chain = Chain(server, args, tmp_path / "cut")
    for number in (3, 20, 44, 70, 90):
        chain.kill(kill_at=number)
    random_kills(chain, seconds, 2, random.Random(7))
    chain.end()
    assert chain.num_kills >= 4
    assert_as_if_never_killed(tmp_path / "run", tmp_path / "cut")


@pytest.mark.slow
@pytest.mark.parametrize("algo", LONG)
def test_many_kills(algo, server, tmp_path):
    args = [*toy_args(tmp_path), f"--algo={algo}", "--rounds=8", *LONG[algo]]
    seconds = timed(server, args)
    generator, num_kills, num_runs = random.Random(algo), 0, 0
    while num_kills < KILLS:
        cut = tmp_path / f"cut{num_runs}"
        chain = Chain(server, args, cut)
        for number in range(4):
            at_call = {"kill_at": generator.randint(1, 120)}
            at_time = {"kill_after": generator.uniform(0.05, seconds)}
            if not chain.kill(**(at_time if number % 2 else at_call)):
                break
        chain.end()
        assert_as_if_never_killed(tmp_path / "run", cut)
        num_kills += chain.num_kills
        num_runs += 1
    print(f"{algo}: {num_kills} kills, {num_runs} runs compared")
