"""The command line of sweeps: real cells, resuming, failing, what is said and refused."""

import contextlib
import functools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from absl.testing import flagsaver

from launch import main, sweep
from launch.command_line import flags as settings_flags
from tests.launch.running import Result, records, toy_file
from tests.sweeps.pretending import Ended, install, yaml_file
from tf_fedsam.runs.experiment import Experiment
from tf_fedsam.state.lock import RunLock
from tf_fedsam.sweeps import runner
from tf_fedsam.sweeps import sweep as library
from tf_fedsam.sweeps.runner import DONE, FAILED, STOPPED

ROOT = pathlib.Path(__file__).parents[2]
pytestmark = [pytest.mark.no_cover, pytest.mark.usefixtures("usual_signals")]


def run(capsys, *args) -> Result:
    """Runs ``launch.sweep`` with these arguments."""
    with flagsaver.flagsaver():
        code = sweep.run([str(a) for a in args])
    captured = capsys.readouterr()
    return Result(code, captured.out, captured.err)


def toy(tmp_path, *args, out="out"):
    """A sweep over the toy file; arguments are for the sweep, or after -- for its cells."""
    own, passed = list(args), []
    if "--" in own:
        split = own.index("--")
        own, passed = own[:split], own[split + 1 :]
    return [
        *("--datasets=npz", f"--out={tmp_path / out}", *own, "--"),
        *(f"--data_file={toy_file(tmp_path)}", "--model=linear", "--partition=given"),
        *("--participation=0.5", "--rounds=2", "--devices=cpu:2", *passed),
    ]


def of_flags(args):
    """The folder and the config of a cell from the command that the sweep shows."""
    with flagsaver.flagsaver():
        settings_flags.parse(["launch.main", *args[2:]])
        return pathlib.Path(settings_flags.flags.FLAGS.output_dir), (
            settings_flags.run_config().resolve()
        )


@pytest.fixture
def pretend(monkeypatch):
    return functools.partial(install, monkeypatch, of_args=of_flags)


@pytest.fixture
def inside(monkeypatch):
    """Cells run in this process; gives the names of those that were started."""
    started = []

    def start(args, log, environment):
        assert args[:2] == ("-m", "launch.main")
        started.append(pathlib.Path(args[-1]).name)
        with (
            flagsaver.flagsaver(),
            log.open("a") as output,
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(output),
        ):
            return Ended(main.run(list(args[2:])))

    monkeypatch.setattr(runner, "start", start)
    monkeypatch.setattr(runner, "POLL_SECONDS", 0.001)
    return started


def files(folder):
    return {p: p.stat().st_mtime_ns for p in folder.rglob("*") if p.name != ".lock"}


def statuses(folder):
    content = json.loads((folder / "sweep.json").read_text())
    return {cell["folder"]: cell["status"] for cell in content["cells"]}


def assert_same(a, b):
    """Bit for bit the same weights, and the same log but for the times."""
    for name in ("initial_weights.npz", "final_weights.npz"):
        with np.load(a / name) as first, np.load(b / name) as second:
            assert first.files == second.files
            for array in first.files:
                np.testing.assert_array_equal(first[array], second[array])
    logs = [
        [{k: v for k, v in record.items() if "seconds" not in k} for record in records(folder)]
        for folder in (a, b)
    ]
    assert logs[0] == logs[1]


class TestRunning:
    def test_runs_pairs_skips_and_adds(self, capsys, tmp_path, inside):
        args = toy(tmp_path, "--algos=fedavg,mofedsam")
        result = run(capsys, *args)
        assert (result.code, result.err) == (0, "")
        out = tmp_path / "out"
        pair = ["fedavg-npz-seed0", "mofedsam-npz-seed0"]
        assert inside == pair
        assert statuses(out) == dict.fromkeys(pair, DONE)
        assert {p.name for p in out.iterdir()} == {*pair, "logs", "sweep.json", ".lock"}
        for name in pair:
            log = (out / "logs" / f"{name}.log").read_text()
            assert log.startswith("$ python -m launch.main --algo=")
            assert "round    2/2" in log
            assert re.search(rf"^done +{name} +2 rounds  \d+\.\d\d%", result.out, re.M)

        before = [files(out / name) for name in pair]
        inside.clear()
        again = run(capsys, *args)
        assert again.code == 0
        assert inside == []
        assert "2: 2 done, 0 begun, 0 new" in again.out
        assert [files(out / name) for name in pair] == before
        table = lambda text: text[text.index("\nalgo ") :]  # noqa: E731
        assert table(again.out) == table(result.out)

        more = run(capsys, *toy(tmp_path, "--algos=fedavg", "--seeds=0,1"))
        assert more.code == 0
        assert inside == ["fedavg-npz-seed1"]
        others = "runs that are not of this sweep, which are left alone: mofedsam-npz-seed0."
        assert others in more.out

        # The same seed: the same split, the same clients, the same steps; another: others.
        names_of_three = (*pair, "fedavg-npz-seed1")
        configs = [json.loads((out / n / "config.json").read_text()) for n in names_of_three]
        fingerprints = [config["partition"]["fingerprint"] for config in configs]
        cohorts = [
            [(r["client_ids"], r["num_steps"]) for r in records(out / n)] for n in names_of_three
        ]
        assert fingerprints[0] == fingerprints[1]
        assert cohorts[0] == cohorts[1] != cohorts[2]

    def test_a_cut_cell_goes_on_to_the_same_weights(self, capsys, tmp_path, inside, monkeypatch):
        sweep_args = ["--algos=fedsmoo", "--seeds=0", "--", "--rounds=4"]
        assert run(capsys, *toy(tmp_path, *sweep_args, out="whole")).code == 0
        one_round = Experiment.round

        def cut(experiment, state):
            result = one_round(experiment, state)
            if result[0].round_num == 2:
                os.kill(os.getpid(), signal.SIGTERM)
            return result

        with monkeypatch.context() as patch:
            patch.setattr(Experiment, "round", cut)
            result = run(capsys, *toy(tmp_path, *sweep_args))
        assert result.code == 1
        assert "Failed: fedsmoo-npz-seed0, exit code 1 after 1 attempt" in result.out
        assert "Stopped after round 2 of 4; everything is saved" in result.out
        again = run(capsys, *toy(tmp_path, *sweep_args))
        assert again.code == 0
        assert "1: 0 done, 1 begun, 0 new" in again.out
        assert_same(tmp_path / "whole/fedsmoo-npz-seed0", tmp_path / "out/fedsmoo-npz-seed0")

    def test_another_configuration_is_refused_before_anything_runs(self, capsys, tmp_path, pretend):
        cells = pretend()
        assert run(capsys, *toy(tmp_path, "--algos=fedavg")).code == 0
        before = files(tmp_path / "out")
        cells.started.clear()
        changed = toy(tmp_path, "--algos=fedsam,fedavg", "--", "--lr=0.7")
        result = run(capsys, *changed)
        assert result.code == 2
        assert "fedavg-npz-seed0 holds another run. Different settings: lr: 0.1 there, 0.7 now" in (
            result.err
        )
        assert (cells.started, files(tmp_path / "out")) == ([], before)

    def test_data_are_looked_at_first(self, capsys, tmp_path, inside):
        args = toy(tmp_path, "--algos=fedavg,fedsam")
        (tmp_path / "toy.npz").unlink()
        result = run(capsys, *args)
        assert result.code == 2
        assert "toy.npz" in result.err
        assert "in fedavg-npz-seed0, fedsam-npz-seed0" in result.err
        assert not (tmp_path / "out").exists()

    def test_dry_run_writes_nothing(self, capsys, tmp_path, inside):
        result = run(capsys, *toy(tmp_path, "--algos=fedavg,fedsam", "--dry_run"))
        assert result.code == 0
        assert "new   fedsam-npz-seed0\n      python -m launch.main --algo=fedsam" in result.out
        assert not (tmp_path / "out").exists()
        assert inside == []

    def test_one_sweep_a_folder(self, capsys, tmp_path, inside):
        with RunLock(tmp_path / "out"):
            result = run(capsys, *toy(tmp_path, "--algos=fedavg"))
        assert result.code == 2
        assert f"is in use by process {os.getpid()}" in result.err
        assert inside == []


class TestFailures:
    def test_a_failing_cell_does_not_stop_the_others(self, capsys, tmp_path, pretend):
        cells = pretend(codes={"fedavg-npz-seed0": [1], "fedsam-npz-seed1": [-9]})
        args = toy(tmp_path, "--algos=fedavg,fedsam", "--seeds=0,1")
        result = run(capsys, *args)
        assert result.code == 1
        assert len(cells.started) == 4
        assert statuses(tmp_path / "out") == {
            "fedavg-npz-seed0": FAILED,
            "fedsam-npz-seed0": DONE,
            "fedavg-npz-seed1": DONE,
            "fedsam-npz-seed1": FAILED,
        }
        log = tmp_path / "out/logs/fedavg-npz-seed0.log"
        assert (
            "Failed: fedavg-npz-seed0, exit code 1 after 1 attempt\n"
            "    error: fedavg-npz-seed0 went wrong\n"
            f"  log    {log}\n"
            "  alone  python -m launch.main --algo=fedavg --dataset=npz --seed=0 "
        ) in result.out
        assert "killed by signal 9 (often: out of memory)" in result.out
        assert "2 of 4 cells are done, 2 failed. The same command runs what is missing" in (
            result.out
        )
        entry = json.loads((tmp_path / "out/sweep.json").read_text())["cells"][0]
        assert (entry["exit_code"], entry["attempts"]) == (1, 1)
        assert entry["error"] == "first line\nerror: fedavg-npz-seed0 went wrong"
        assert entry["log"] == "logs/fedavg-npz-seed0.log"
        # The same command runs only what failed.
        cells.started.clear()
        assert run(capsys, *args).code == 0
        assert cells.started == ["fedavg-npz-seed0", "fedsam-npz-seed1"]


class TestJobs:
    def test_a_gpu_each(self, capsys, tmp_path, pretend, monkeypatch):
        monkeypatch.setattr(library, "visible_gpus", lambda jobs: ["4", "7"])
        cells = pretend(polls=2)
        args = [a for a in toy(tmp_path, "--algos=fedavg", "--seeds=0,1,2,3") if "devices" not in a]
        assert run(capsys, "--jobs=2", *args).code == 0
        assert [e["CUDA_VISIBLE_DEVICES"] for e in cells.environments] == ["4", "7", "4", "7"]

    def test_retries(self, capsys, tmp_path, pretend):
        """Two of three attempts fail; bad input is not tried again."""
        codes = {"fedavg-npz-seed0": [1, -9], "fedsam-npz-seed0": [2, 1]}
        cells = pretend(codes=codes)
        result = run(capsys, *toy(tmp_path, "--algos=fedavg,fedsam", "--retries=2"))
        assert result.code == 1
        assert cells.started.count("fedavg-npz-seed0") == 3
        assert cells.started.count("fedsam-npz-seed0") == 1


class TestPassed:
    """What stands after --."""

    def test_settings_and_other_flags(self, capsys, tmp_path, pretend):
        """Every cell gets them in words that launch.main reads; of_flags parses them again."""
        cells, seen = pretend(), []
        cells.of_args = lambda args: seen.append(args) or of_flags(args)
        own = ["--lr", "0.25", "--noreplacement", "--hparams.rho", "0.5", "--callback=a.py:A"]
        own += ["--callback=b.py:B", "--verbosity=0", "--model_options.hidden_units=(7, 3)"]
        args = toy(tmp_path, "--algos=fedsam", "--", "--partition=dirichlet", *own)
        args = [arg.replace("--model=linear", "--model=mlp") for arg in args]
        assert run(capsys, *args).code == 0
        (found,) = seen
        assert found[:5] == (*("-m", "launch.main", "--algo=fedsam", "--dataset=npz", "--seed=0"),)
        for arg in (
            *("--lr=0.25", "--replacement=false", "--hparams.rho=0.5", "--callback=a.py:A"),
            *("--callback=b.py:B", "--verbosity=0", "--model_options.hidden_units=(7, 3)"),
            *("--partition=dirichlet", f"--output_dir={tmp_path / 'out/fedsam-npz-seed0'}"),
        ):
            assert found.count(arg) == 1
        settings = json.loads((tmp_path / "out/fedsam-npz-seed0/config.json").read_text())
        assert settings["settings"]["hparams"]["rho"] == 0.5
        assert settings["settings"]["model_options"]["hidden_units"] == [7, 3]

    def test_a_file_of_settings(self, capsys, tmp_path):
        file = tmp_path / "run.yaml"
        file.write_text("{lr: 0.25, hparams: {rho: 0.5}}")
        args = [
            "--algos=fedsam",
            f"--out={tmp_path / 'out'}",
            "--dry_run",
            "--",
            f"--config={file}",
        ]
        result = run(capsys, *args, "--lr=0.75")
        assert (result.code, result.err) == (0, "")
        assert "--hparams.rho=0.5 --lr=0.75 " in result.out

    @pytest.mark.parametrize(
        ("args", "part"),
        [
            (["--no_such_flag=1"], "Unknown flag --no_such_flag"),
            (["--lr=x"], "--lr must be a number. Received: 'x'"),
            (["--seed=3"], "--seed is given by the sweep. Use seeds, and remove it."),
            (["--output_dir=x"], "--output_dir is given by the sweep. Use out, and remove it."),
            (
                ["--from_config=x"],
                "--list_algorithms, --describe are not for a sweep.",
            ),
            (
                ["--list_algorithms"],
                "--list_algorithms, --describe are not for a sweep.",
            ),
            (["rounds=3"], "Every argument is a flag"),
            (["--alpha", "3"], "alpha is varied in the grid and given after --"),
            (["--hparams.rho=1"], "- There is no hyper-parameter of fedavg. Received: hparams.rho"),
        ],
    )
    def test_refused(self, capsys, args, part):
        result = run(
            capsys, "--algos=fedavg,fedsam", "--grid=alpha=1,2", "--out=nowhere", "--", *args
        )
        assert (result.code, result.out) == (2, "")
        assert part in result.err


class TestRefused:
    @pytest.mark.parametrize(
        ("args", "part"),
        [
            ([], "--algos must be a list of names. Received: none. Try --algos=fedavg,fedsam."),
            (["--algos=fedavg", "--jobs=0"], "--jobs must be at least 1 and --retries at least 0"),
            (["--algos=fedavg", "--retries=-1"], "Received: --jobs=1, --retries=-1."),
            (["--algos=fedavg", "--rounds=3"], "Flags of launch.main go behind --"),
            (["fedavg"], "Every argument is a flag"),
            (["--algos=fedavg", "--seeds=a"], "--seeds must be a list of whole numbers"),
            (["--algos=fedavg", "--out="], "Expected: --out=FOLDER"),
            (["--algos=fedavg", "--grid=lr"], "--grid must be NAME=VALUE,VALUE"),
            (["--algos=fedavg", "--grid=lr=1", "--grid=lr=2"], "--grid has a name twice"),
            (["--config=nothing.yaml"], "--config=nothing.yaml cannot be read: No such file"),
            (["--config=nothing.txt"], "--config must be a .yaml or a .py file"),
            (
                ["--algos=fedavg", "--grid=hidden_units=3", "--grid=model=cnn"],
                "- --hidden_units is for --model=mlp. Received: --model=cnn. Remove it.\n"
                "  in fedavg-glyphs-hidden_units3-model-cnn-seed0",
            ),
        ],
    )
    def test_in_the_words_of_flags(self, capsys, args, part):
        result = run(capsys, "--out=nowhere", *args)
        assert (result.code, result.out) == (2, "")
        assert result.err.startswith("error: ")
        assert part in result.err


def test_interrupted_by_ctrl_c(capsys, tmp_path, inside):
    """The real program: it passes the signal on, its cell saves, and the same command goes on."""
    args = toy(tmp_path, "--algos=fedsam", "--seeds=0,1", "--", "--rounds=40")
    process = subprocess.Popen(
        [sys.executable, "-m", "launch.sweep", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    cell = tmp_path / "out/fedsam-npz-seed0"
    deadline = time.monotonic() + 120
    while not (cell / "rounds.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (1, "")
    with RunLock(cell):  # nobody is left in it
        cut = len(records(cell))
    assert 0 < cut < 40
    assert statuses(tmp_path / "out") == {"fedsam-npz-seed0": STOPPED, "fedsam-npz-seed1": STOPPED}
    assert "0 of 2 cells are done, 2 not finished. The same command runs what is missing" in out
    assert re.search(rf"^stopped +fedsam-npz-seed0 +{cut} of 40 rounds", out, re.M)

    result = run(capsys, *toy(tmp_path, "--algos=fedsam", "--seeds=0", "--", "--rounds=40"))
    assert result.code == 0
    assert "1: 0 done, 1 begun, 0 new" in result.out
    whole = toy(tmp_path, "--algos=fedsam", "--", "--rounds=40", out="whole")
    assert run(capsys, *whole).code == 0
    assert_same(tmp_path / "whole/fedsam-npz-seed0", cell)


class TestWords:
    def test_help(self, capsys):
        for flag in ("--help", "--helpshort"):
            result = run(capsys, flag)
            assert result.code == 0
            for words in ("--grid", "--retries", "per_algo", "lr=@qu2022", "0.316, 0.1, 0.0316"):
                assert words in result.out

    def test_examples_of_the_manual(self, capsys, tmp_path):
        """The file and the command line stand for real sweeps."""
        section = (ROOT / "docs/how_to/sweeps.md").read_text()
        example = re.search(r"```yaml\n(.*?)```", section, re.DOTALL)[1]
        file = yaml_file(tmp_path, example)
        result = run(capsys, f"--config={file}", f"--out={tmp_path / 'out'}", "--dry_run")
        assert (result.code, result.err) == (0, "")
        number = int(re.search(r"cells +(\d+):", result.out)[1])
        assert f"These are {number} cells" in section
        command = re.search(r"^python -m launch.sweep --algos.*?(?<!\\)$", section, re.M | re.S)[0]
        args = command.replace("\\\n", " ").split()[3:]
        result = run(capsys, "--dry_run", f"--out={tmp_path / 'out'}", *args)
        assert (result.code, result.err) == (0, "")
