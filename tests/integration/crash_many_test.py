"""Hundreds of kills of all methods and plug-ins, each run killed again and again until it ends.

A third of the kills comes at a random time, a third before a random call that changes the disk, and
a third before one of those of the first checkpoint after a resume. ``TF_FEDSAM_KILLS`` is the
number of kills to reach, 300 by default; each case takes its share of them.
"""

import collections
import dataclasses
import os
import random

import pytest

from tests.integration.crashes import Chain, assert_as_if_never_killed, timed
from tests.launch.running import toy_args
from tf_fedsam.algorithms.registry import all_algorithms

KILLS = int(os.environ.get("TF_FEDSAM_KILLS", "300"))
MOST_KILLS_OF_A_RUN = 10
OPTIONS = (
    [],
    ["--checkpoint_every=3"],
    ["--keep_checkpoints=1"],
    ["--dropout_rate=0.3"],
    ["--eval_every=2", "--keep_checkpoints=4"],
    ["--step_fraction_min=0.5"],
    ["--keep_local_models", "--probes=divergence", "--probe_every=3"],
)
SWA = ["--swa_cycle=2", "--swa_start=2"]
DP = ["--dp_clip_norm=0.5", "--dp_noise_multiplier=0.3"]
PLUG_INS = {
    "scaffold, on the disk": ["--algo=scaffold", "--client_state=disk"],
    "fedsmoo, on the disk": ["--algo=fedsmoo", "--client_state=disk", "--checkpoint_every=2"],
    "scaffold, relaxed": ["--algo=scaffold", "--relaxed_init=0.1"],
    "fedsmoo, relaxed, one kept": ["--algo=fedsmoo", "--relaxed_init=0.1", "--keep_checkpoints=1"],
    "fedsam, nesterov": ["--algo=fedsam", "--nesterov=0.9"],
    "mofedsam, nesterov": ["--algo=mofedsam", "--nesterov=0.5", "--checkpoint_every=2"],
    "feddyn, both": ["--algo=feddyn", "--nesterov=0.9", "--relaxed_init=0.1"],
    "fedcm, averaged": ["--algo=fedcm", *SWA],
    "scaffold, averaged, on the disk": ["--algo=scaffold", *SWA, "--client_state=disk"],
    "fedsam, private": ["--algo=fedsam", *DP],
    "fedavg, private and averaged": ["--algo=fedavg", *DP, *SWA, "--checkpoint_every=2"],
    "fedsam, kept momentum": [
        *("--algo=fedsam", "--local_momentum=0.9", "--local_momentum_state=keep"),
        *("--lr_schedule=cosine", "--rho_schedule=linear"),
    ],
}
CASES = {
    name: [f"--algo={name}", *OPTIONS[i % len(OPTIONS)]]
    for i, name in enumerate(sorted(all_algorithms()))
} | PLUG_INS


@dataclasses.dataclass
class Counts:
    """What has been done so far."""

    kills: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    runs: int = 0
    cases: int = 0


@pytest.fixture(scope="module")
def counts(request):
    counts = Counts()
    yield counts
    kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(counts.kills.items()))
    with request.config.pluginmanager.get_plugin("capturemanager").global_and_fixture_disabled():
        print(
            f"\n{counts.kills.total()} kills ({kinds}) of {counts.runs} runs of {counts.cases} "
            f"cases, each compared bit for bit with an undisturbed one"
        )


def moment(generator: random.Random, seconds: float) -> tuple[str, dict]:
    """When to kill, in words and for ``Server.run``."""
    kind = generator.choice(["at a time", "before a call", "in the first checkpoint"])
    if kind == "at a time":
        return kind, {"kill_after": generator.uniform(0.05, seconds)}
    if kind == "before a call":
        return kind, {"kill_at": generator.randint(1, 150)}
    return kind, {"kill_at": generator.randint(1, 30), "from_checkpoint": True}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_killed_until_it_ends(case, server, tmp_path, counts):
    args = [*toy_args(tmp_path), "--rounds=8", *CASES[case]]
    seconds = timed(server, args)
    generator, share = random.Random(case), -(-KILLS // len(CASES))
    num_kills = 0
    while num_kills < share:
        cut = tmp_path / f"cut{counts.runs}"
        chain = Chain(server, args, cut)
        while chain.num_kills < MOST_KILLS_OF_A_RUN:
            kind, when = moment(generator, seconds)
            if not chain.kill(**when):
                break
            counts.kills[kind] += 1
        chain.end()
        assert_as_if_never_killed(tmp_path / "run", cut)
        num_kills += chain.num_kills
        counts.runs += 1
    counts.cases += 1
