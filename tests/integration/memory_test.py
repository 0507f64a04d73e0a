"""Memory is flat: rounds leave nothing behind in memory, threads or open files."""

import json
import os

import pytest

from tests.launch.running import toy_args

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux")
AFTER = 10


def check(server, folder, args, allowed):
    measured = folder / "measured"
    assert server.run([*toy_args(folder), *args], measure=measured) == (0, "")
    lines = [json.loads(line) for line in measured.read_text().splitlines()]
    memory, threads, open_files = zip(*lines, strict=True)
    growth = memory[-1] / memory[AFTER - 1] - 1
    print(f"{' '.join(args)}: {memory[AFTER - 1]} to {memory[-1]} bytes, {growth:+.2%}")
    assert growth < allowed
    # The checkpoint thread may or may not have a file open at that moment.
    assert max(threads[AFTER:]) <= max(threads[:AFTER]) + 1
    assert max(open_files[AFTER:]) <= max(open_files[:AFTER]) + 2


def test_sixty_rounds(server, tmp_path):
    """A fifth of the rounds of the long check, and the same bound."""
    check(server, tmp_path, ["--algo=scaffold", "--rounds=60"], 0.03)


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["fedavg", "scaffold", "fedsmoo", "fedadam"])
def test_three_hundred_rounds(algo, server, tmp_path):
    check(server, tmp_path, [f"--algo={algo}", "--rounds=300"], 0.03)


@pytest.mark.slow
def test_three_hundred_rounds_with_ever_other_cohorts(server, tmp_path):
    args = ["--algo=scaffold", "--rounds=300", "--sampling=bernoulli", "--dropout_rate=0.3"]
    check(server, tmp_path, [*args, "--step_fraction_min=0.3"], 0.03)


@pytest.mark.slow
def test_three_hundred_rounds_of_images(server, tmp_path):
    args = ["--dataset=glyphs", "--subset=2000", "--num_clients=20", "--partition=dirichlet"]
    args += ["--model=cnn", "--rounds=300", "--local_steps=1", "--batch_size=10", "--data_file="]
    args = [*toy_args(tmp_path)[2:], *args[:-1]]  # without the toy's file
    measured = tmp_path / "measured"
    assert server.run([a for a in args if "partition=given" not in a], measure=measured) == (0, "")
    memory = [json.loads(line)[0] for line in measured.read_text().splitlines()]
    assert memory[-1] / memory[AFTER - 1] - 1 < 0.03
