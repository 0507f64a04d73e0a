"""What is shown while a sweep runs."""

import io
import json
import re

import pytest

from tests.sweeps.pretending import cells_of, complete
from tf_fedsam.sweeps import display
from tf_fedsam.sweeps.runner import DONE, FAILED, RUNNING, WAITING, Job


@pytest.fixture
def jobs(tmp_path):
    """Five cells of 20 rounds: done, running in round 5, just started, waiting, failed."""
    cells, _ = cells_of(
        tmp_path,
        algos=["fedavg"],
        seeds=range(5),
        fixed={"rounds": 20},
    )
    complete(cells[0].run.path, cells[0].resolved, 0.5)
    cells[1].run.path.mkdir(parents=True)
    lines = [{"round": r + 1} for r in range(5)]
    lines[3]["test_accuracy"] = 0.625  # the last test was in round 4
    text = "".join(json.dumps(line) + "\n" for line in lines)
    cells[1].run.rounds_file.write_text(text + '{"round": 6')  # being written
    jobs = [Job(cell, (), tmp_path / "log") for cell in cells]
    for job, status in zip(jobs, (DONE, RUNNING, RUNNING, WAITING, FAILED), strict=True):
        job.status = status
    jobs[0].last_round, jobs[4].exit_code = 20, 1
    return jobs


def test_status(jobs):
    """25 rounds in 50 s; 15 + 20 + 20 to go: 110 s."""
    assert display.status_line(jobs, 50, False) == (
        "1 of 5 cells done, 2 running, 1 waiting, 1 failed   50 s so far, about 1 min 50 s to go"
    )
    assert display.status_line(jobs, 50, True).endswith(
        "50 s so far, stopping after the rounds under way"
    )


def test_what_was_there_before_does_not_count(jobs):
    """Then 5 rounds were made in 50 s: 550 s."""
    jobs[0].first_round = 20
    assert display.seconds_left(jobs, 50) == 550
    jobs[1].first_round = 5
    assert display.seconds_left(jobs, 50) is None


def test_live(jobs, monkeypatch):
    monkeypatch.setattr(display, "DRAW_SECONDS", 0.0)
    monkeypatch.setenv("COLUMNS", "90")
    stream = io.StringIO()
    live = display.Live(22, stream)
    live.update(jobs, False)
    block = stream.getvalue().splitlines()
    assert len(block) == 4
    assert block[2:] == [
        "        fedavg-glyphs-seed1     #####...............  round 5/20  62.50%",
        "        fedavg-glyphs-seed2     starting",
    ]
    live.ended(jobs[0])
    live.update(jobs, False)
    live.close()
    after = stream.getvalue()[sum(len(line) + 1 for line in block) :]
    # The ended cell takes the place of the block, which comes again below it and then goes.
    up = "\x1b[4F\x1b[J"
    assert after.startswith(f"{up}done    fedavg-glyphs-seed0     20 rounds  50.00%  0.0 s\n\n1 of")
    assert after.endswith("starting\n" + up)
    assert after.count(up) == 2


def test_live_fits_the_terminal(jobs, monkeypatch):
    monkeypatch.setattr(display, "DRAW_SECONDS", 0.0)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("LINES", "5")
    stream = io.StringIO()
    display.Live(22, stream).update(jobs, False)
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) == 39
    assert lines[-1] == "        ... and 1 more"


def test_heartbeat(jobs, monkeypatch):
    stream = io.StringIO()
    lines = display.Lines(0, stream)
    lines.update(jobs, False)
    assert stream.getvalue() == ""
    monkeypatch.setattr(display, "HEARTBEAT_SECONDS", 0.0)
    lines.update(jobs, False)
    assert re.fullmatch(
        r"1 of 5 cells done, 2 running, 1 waiting, 1 failed   .* so far, about .* to go; "
        r"fedavg-glyphs-seed1 #+\.+  round 5/20  62.50%; fedavg-glyphs-seed2 starting\n",
        stream.getvalue(),
    )


def test_failed(jobs):
    line = display.ended_line(jobs[4])
    assert line == f"failed  fedavg-glyphs-seed4  exit code 1, see {jobs[4].log}  0.0 s"
