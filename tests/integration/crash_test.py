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
    generator, num_kills = random.Random(algo), 0
    for number in range(3):
        cut = tmp_path / f"cut{number}"
        chain = Chain(server, args, cut)
        for _ in range(3):
            chain.kill(kill_at=generator.randint(1, 120))
            random_kills(chain, seconds, 1, generator)
        chain.end()
        assert_as_if_never_killed(tmp_path / "run", cut)
        num_kills += chain.num_kills
    print(f"{algo}: {num_kills} kills, 3 runs compared")
    assert num_kills >= 9
