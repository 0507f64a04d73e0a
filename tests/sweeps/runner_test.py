"""Cells in processes: how many at a time, failures, folders in use, the end of the sweep."""

import json
import signal
import threading
import time

import pytest

from tests.sweeps.pretending import cells_of, complete
from tf_fedsam.state.lock import RunLock
from tf_fedsam.sweeps import display, runner
from tf_fedsam.sweeps.runner import DONE, ELSEWHERE, FAILED, STOPPED, WAITING, Display, Runner
from tf_fedsam.sweeps.sweep import python_arguments


def runner_of(tmp_path, cells=None, **options):
    """For two methods and two seeds, if nothing else is said."""
    if cells is None:
        cells, _ = cells_of(tmp_path, algos=["fedavg", "fedsam"], seeds=[0, 1], fixed={"rounds": 2})
    return Runner(cells, tmp_path / "out", python_arguments, **options)


def statuses(made):
    return {job.cell.name: job.status for job in made.jobs}


def in_file(tmp_path):
    return json.loads((tmp_path / "out/sweep.json").read_text())


class Seen(Display):
    """Keeps what it is told."""

    def __init__(self):
        self.lines = []

    def ended(self, job):
        self.lines.append(f"{job.status} {job.cell.name}")


def test_everything_runs_once(tmp_path, pretend):
    cells, shown = pretend(), Seen()
    made = runner_of(tmp_path, about={"command": "me"})
    made.run(shown)
    names = [f"{algo}-glyphs-seed{seed}" for seed in (0, 1) for algo in ("fedavg", "fedsam")]
    assert cells.started == names
    assert statuses(made) == dict.fromkeys(names, DONE)
    assert shown.lines == [f"done {name}" for name in names]
    written = in_file(tmp_path)
    assert written["command"] == "me"
    first = written["cells"][0]
    assert first.pop("seconds") >= 0
    assert first.pop("command").startswith('python -m tf_fedsam.runs \'{"dataset": "glyphs"')
    assert first == {
        "folder": names[0],
        "status": DONE,
        "algo": "fedavg",
        "dataset": "glyphs",
        "seed": 0,
        "varied": {},
        "rounds": 2,
        "log": f"logs/{names[0]}.log",
        "attempts": 1,
        "exit_code": 0,
        "error": "",
    }
    cells.started.clear()
    runner_of(tmp_path).run(Seen())
    assert cells.started == []


@pytest.mark.parametrize("number", [1, 3])
def test_so_many_at_a_time(tmp_path, pretend, number):
    cells = pretend(polls=3)
    runner_of(tmp_path, num_jobs=number).run(Display())
    assert cells.most == number


def test_a_gpu_each(tmp_path, pretend):
    cells = pretend(polls=2)
    runner_of(tmp_path, num_jobs=2, gpus=["4", "7"], environment={"A": "B"}).run(Display())
    given = [environment["CUDA_VISIBLE_DEVICES"] for environment in cells.environments]
    assert given == ["4", "7", "4", "7"]
    assert all(environment["A"] == "B" for environment in cells.environments)


def test_no_gpu_for_cells_with_devices_of_their_own(tmp_path, pretend):
    cells = pretend()
    made, _ = cells_of(tmp_path, algos=["fedavg"], fixed={"devices": "cpu:1"})
    runner_of(tmp_path, made, num_jobs=2, gpus=["4"]).run(Display())
    assert cells.environments == [{}]


def test_a_failing_cell_does_not_stop_the_others(tmp_path, pretend):
    cells = pretend(codes={"fedavg-glyphs-seed0": [1], "fedsam-glyphs-seed1": [-9]})
    made = runner_of(tmp_path)
    made.run(Display())
    assert list(statuses(made).values()) == [FAILED, DONE, DONE, FAILED]
    entry = in_file(tmp_path)["cells"][0]
    assert (entry["exit_code"], entry["attempts"]) == (1, 1)
    assert entry["error"] == "first line\nerror: fedavg-glyphs-seed0 went wrong"
    cells.started.clear()
    runner_of(tmp_path).run(Display())
    assert cells.started == ["fedavg-glyphs-seed0", "fedsam-glyphs-seed1"]


def test_retries(tmp_path, pretend):
    """Two of three attempts fail; bad input is not tried again."""
    first, second = "fedavg-glyphs-seed0", "fedsam-glyphs-seed0"
    cells = pretend(codes={first: [1, -9], second: [2, 1]})
    made = runner_of(tmp_path, retries=2)
    made.run(Display())
    assert (cells.started.count(first), cells.started.count(second)) == (3, 1)
    assert (statuses(made)[first], statuses(made)[second]) == (DONE, FAILED)
    log = (tmp_path / f"out/logs/{first}.log").read_text()
    assert log.count("$ python -m tf_fedsam.runs") == 3  # no attempt's words are lost


def test_an_exit_without_results_is_a_failure(tmp_path, pretend):
    pretend(write=lambda folder, config: None)
    made = runner_of(tmp_path)
    made.run(Display())
    assert set(statuses(made).values()) == {FAILED}


@pytest.mark.parametrize("started", [False, True])
def test_a_cell_in_use_is_waited_for(tmp_path, pretend, started):
    """Another process holds its folder, before or just after the sweep starts it."""
    made = runner_of(tmp_path)
    busy = made.jobs[0].cell
    lock, held = RunLock(busy.run.path), threading.Event()
    cells = pretend(codes={busy.name: [2]} if started else {})
    real = cells.start

    def start(args, log, environment):
        if args[3].endswith(busy.name) and not held.is_set():
            lock.__enter__()
            held.set()
        return real(args, log, environment)

    def free():
        held.wait(10)
        time.sleep(0.2)
        if not started:
            complete(busy.run.path, busy.resolved)
        lock.__exit__(None, None, None)

    if started:
        runner.start = start  # put back with the fixture
    else:
        lock.__enter__()
        held.set()
    thread = threading.Thread(target=free)
    thread.start()
    shown = Seen()
    made.run(shown)
    thread.join()
    assert f"{ELSEWHERE} {busy.name}" in shown.lines
    assert cells.started.count(busy.name) == (2 if started else 0)
    assert set(statuses(made).values()) == {DONE}


def test_an_error_of_the_sweep_leaves_no_process_behind(tmp_path, pretend, monkeypatch):
    """The terminal goes away while a cell runs: the cell is asked to end and waited for."""
    pretended, asked = pretend(polls=10**9), []
    real = pretended.start

    def start(*args):
        process = real(*args)
        process.send_signal = lambda number: (
            asked.append(number),
            setattr(process, "poll", lambda: 1),
        )
        return process

    monkeypatch.setattr(runner, "start", start)

    class Broken(Display):
        def update(self, jobs, stopping):
            raise BrokenPipeError

    made = runner_of(tmp_path)
    with pytest.raises(BrokenPipeError):
        made.run(Broken())
    assert asked == [signal.SIGTERM]
    assert list(statuses(made).values()) == [STOPPED, *[WAITING] * 3]


def test_rounds_of_a_cell_that_stopped_early(tmp_path, pretend):
    """4 of 9 rounds are all there will be: nothing is left to do after them."""
    cells, _ = cells_of(tmp_path, algos=["fedavg"], fixed={"rounds": 9, "stop_at": 0.4})
    pretend(write=lambda folder, config: complete(folder, config, rounds=4))
    made = runner_of(tmp_path, cells)
    made.run(Display())
    (job,) = made.jobs
    assert (job.status, job.first_round, job.last_round) == (DONE, 0, 4)
    assert display.ended_line(job).startswith("done    fedavg-glyphs-seed0  4 rounds  50.00%")
