"""Kill it at any moment: the same command ends with the same result, bit for bit.

The kills are real: SIGKILL to a process of its own, at random moments and before chosen calls that
change the disk, which are those between a checkpoint's rename and the log line, too. Many more of
them are in ``crash_many_test.py``.
"""

import random

from tests.integration.crashes import (
    Chain,
    assert_as_if_never_killed,
    random_kills,
    timed,
)
from tests.launch.running import toy_args


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
