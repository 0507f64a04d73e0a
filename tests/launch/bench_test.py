"""The benchmarks' command line; what they measure is no business of a test."""

import dataclasses
import json
import re
import subprocess
import time

import keras
import pytest

from launch import bench
from launch.benchmarks import analysis, images, models, plan, tables, works
from launch.benchmarks.measuring import How, elsewhere


def refused(capsys, *args):
    assert bench.run(args) == 2
    printed, said = capsys.readouterr()
    assert printed == ""
    return said


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--nothing=1"], "nothing"),
        (["--repeats=0"], "--repeats must be at least 1. Received: 0"),
        (["--repeats=many"], "many"),
        (["--models", "--microbatch=-1"], "--microbatch must be at least 1. Received: -1"),
        (["--microbatch=2"], "--microbatch needs --models"),
        (["--remat"], "--remat needs --models"),
        (["--models", "--algorithms"], "Received: --algorithms --models"),
        (["--models", "--only=fedsam,lenet5"], "Received: fedsam. Expected: linear, mlp"),
        (["--algorithms", "--only=lenet5"], "Received: lenet5. Expected: fedacg"),
        (["--only=lenet5"], "--only needs --algorithms, --models or --plan"),
        (["--works=W1"], "--works needs --algorithms"),
        (["--algorithms", "--works=W1,W3"], "Received: W3. Expected: W1, W2, W4"),
        (["--plan", "--workers=0"], "--workers must be at least 1. Received: 0"),
        (["--workers=2"], "--workers needs --plan"),
        (["--baseline=nothing.json"], "--baseline must be a file that --json wrote"),
        (["lenet5"], "Received: 'lenet5'"),
        (["--devices=tpu:1"], "tpu:1"),
    ],
)
def test_bad_input(capsys, args, words):
    assert words in refused(capsys, *args)


def test_help_lists_the_flags(capsys):
    assert bench.run(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"  --{name}=false" in said for name in bench.MODES)


def test_a_model(capsys):
    """In a process of its own, with both methods, in parts of a batch."""
    args = ["--models", "--only=linear", "--repeats=1", "--microbatch=8", "--devices=cpu:1"]
    assert bench.run(args) == 0
    row = capsys.readouterr().out.splitlines()[0]
    name, shape, batch, parameters, plain, sam, ratio, *peaks = re.split("  +", row)
    assert (name, shape, batch, parameters) == ("linear", "28x28x1", "32", "48,670")
    assert float(plain) > 0
    assert float(ratio) == pytest.approx(float(sam) / float(plain), rel=0.02)
    assert len(peaks) == 2


def test_probes(capsys, monkeypatch):
    """Each beside a round; here of four clients with 60 images."""
    small = {"NUM_CLIENTS": 4, "CLIENT_SIZE": 60, "COHORT": 2}
    for name, value in small.items():
        monkeypatch.setattr(works, name, value)
    monkeypatch.setattr(analysis, "PROBES", ("clients", "personal"))
    monkeypatch.setattr(
        works,
        "network",
        lambda work: keras.Sequential(
            [keras.Input((28, 28, 1)), keras.layers.Flatten(), keras.layers.Dense(10)]
        ),
    )
    assert bench.run(["--analysis", "--repeats=1", "--devices=cpu:1"]) == 0
    told = capsys.readouterr().out
    assert "and a test every round" in told
    for probe in ("clients", "personal"):
        [(seconds, ratio)] = re.findall(rf"^{probe} +(\S+) +(\S+)$", told, re.MULTILINE)
        assert float(seconds) > 0
        assert float(ratio) > 0


class TestAlgorithms:
    def test_works_are_chosen(self, capsys, monkeypatch):
        """FedSAM takes twice as long as FedAvg on W1, and three times on W4."""
        seconds = {"fedavg": 1.0, "fedsam": 2.0}

        def rounds_of(work, method, *args):
            return lambda: seconds[method] * (1.5 if (work, method) == ("W4", "fedsam") else 1)

        monkeypatch.setattr(works, "rounds_of", rounds_of)
        monkeypatch.setattr(works, "examples", lambda work: None)
        args = ["--algorithms", "--only=fedavg,fedsam", "--devices=cpu:1"]
        assert bench.run([*args, "--works=W1,W4"]) == 0
        told = capsys.readouterr().out.splitlines()
        lines = [re.split("  +", line.strip()) for line in told]
        assert ["method", "gradients a step", "W1: x FedAvg", "W4: x FedAvg"] in lines
        assert lines[-2:] == [["fedavg", "1", "1.00", "1.00"], ["fedsam", "2", "2.00", "3.00"]]
        assert bench.run(args) == 0
        assert "W1: x FedAvg  W2: x FedAvg" in capsys.readouterr().out

    def test_the_papers_work(self, monkeypatch):
        """Their network of 11,181,642 parameters, with 25 steps of 2 clients, decay and clipping;
        a round of it is run here with a small one."""
        assert works.network("W4").count_params() == 11_181_642
        own = works.size("W4")
        assert (own.examples * own.epochs / works.BATCH, own.cohort) == (25, 2)
        monkeypatch.setitem(works.OF_PAPERS, "W4", dataclasses.replace(own, examples=50))
        monkeypatch.setattr(
            works,
            "network",
            lambda work: keras.Sequential(
                [keras.Input((32, 32, 3)), keras.layers.Flatten(), keras.layers.Dense(10)]
            ),
        )
        data = works.examples("W4")
        assert data.x.shape == (4 * 50, 32, 32, 3)
        strategy = How(devices="cpu:1").strategy()
        options = works.process_of("W4", "fedavg", strategy, data).options
        assert (options.weight_decay, options.clip_norm) == (0.001, 10.0)
        assert works.rounds_of("W4", "fedavg", strategy, data)() > 0

    def test_the_others_are_as_they_were(self):
        assert works.size("W1") == works.Size(100, 600, 10, 5, decay=0.0, clip=None)
        assert works.size("W2") == works.Size(100, 600, 10, 1, decay=0.0, clip=None)


class TestPlan:
    def test_of_two_machines(self, capsys, monkeypatch):
        """A round of W1's size is seconds of training and what a ring of four devices carries."""
        monkeypatch.setattr(works, "CLIENT_SIZE", 10)
        monkeypatch.setattr(works, "EPOCHS", {"W1": 1})
        monkeypatch.setattr(plan, "seconds_a_client", lambda *args: 0.25)
        assert bench.run(["--plan", "--workers=2", "--repeats=1", "--devices=cpu:2"]) == 0
        rows = [re.split("  +", r) for r in capsys.readouterr().out.splitlines() if "W1" in r]
        assert [row[1:4] for row in rows] == [
            *(["FedAvg", "4", "0.250"], ["FedAvg", "10", "0.750"], ["FedAvg", "40", "2.500"]),
            *(["SCAFFOLD", "4", "0.250"], ["SCAFFOLD", "10", "0.750"], ["SCAFFOLD", "40", "2.500"]),
        ]
        size = 4 * (785 * 200 + 201 * 100 + 101 * 10)
        (fedavg, *_), (*_, scaffold) = rows[:3], rows[3:]
        assert float(fedavg[5]) == pytest.approx(8 * 3 / 4 * 2 * 3 * size / 1e9, abs=1e-3)
        more = 3 / 4 * (2 * size + 40 * size)  # one more mean, and the controls of 40 clients
        assert float(scaffold[5]) == pytest.approx(float(fedavg[5]) + 8 * more / 1e9, abs=2e-3)
        assert float(scaffold[7]) == pytest.approx(float(scaffold[5]) / 100, abs=1e-3)

    def test_seconds_are_those_of_a_round(self):
        states, trained = iter(range(9)), []

        class Process:
            def initialize(self):
                return next(states)

            def next(self, state, clients):
                trained.append((state, len(clients)))
                time.sleep(0.02)
                return next(states), None

        assert plan.seconds_a_client(Process(), 2, repeats=2) >= 0.02 * 2 / 8
        assert trained == [(0, 8), (1, 8), (2, 8)]


class TestTables:
    def test_numbers_of_two_installs(self, capsys, tmp_path, monkeypatch):
        rows = [("W1", "FedAvg", "0.40", "0.5 x"), ("W2", "FedAvg", "1,000", "2.0 x")]
        header = ("work", "method", "s", "ratio")
        monkeypatch.setattr(bench, "measure", lambda how: tables.show("rounds", header, rows) or 0)
        path = tmp_path / "kept" / "then.json"
        assert bench.run([f"--json={path}"]) == 0
        told = json.loads(path.read_text())
        assert told["command"] == f"python -m launch.bench --json={path}"
        assert told["tables"]["rounds"] == {"header": [*header], "rows": [[*r] for r in rows]}
        capsys.readouterr()
        rows = [("W1", "FedAvg", "0.80", "0.4 x"), ("W3", "FedSAM", "1", "1 x")]
        assert bench.run([f"--baseline={path}"]) == 0
        *_, titles, _, w1 = capsys.readouterr().out.splitlines()
        assert titles.split() == [*header]
        assert w1.split() == ["W1", "FedAvg", "2.00", "0.80"]

    def test_quick(self):
        assert bench.parse(["--quick", "--repeats=7"]).repeats == 2
        assert bench.parse(["--repeats=7"]).repeats == 7
        assert bench.parse([]) == How()


def test_images(capsys, monkeypatch):
    monkeypatch.setattr(images, "NUM_FILES", 20)
    monkeypatch.setattr(images, "DECODED", (("JPEG", 9, 4), ("PNG", 4, 4)))
    assert bench.run(["--images", "--repeats=1"]) == 0
    *_, jpeg, png = capsys.readouterr().out.splitlines()
    for row, files in ((jpeg, "JPEG, 9 x 9 to 4 x 4"), (png, "PNG, 4 x 4 to 4 x 4")):
        name, piped, pooled, ratio = re.split("  +", row.strip())
        assert name == files
        piped, pooled = (float(x.replace(",", "")) for x in (piped, pooled))
        assert float(ratio) == pytest.approx(piped / pooled, abs=0.01, rel=0.01)


def test_work_that_dies(capsys, monkeypatch):
    """Its last words are told, the other models are measured, and the exit code says so."""
    monkeypatch.setitem(models.NETWORKS, "broken", ("broken", (1,), 2, 1, 1))
    assert bench.run(["--models", "--only=broken", "--repeats=1", "--devices=cpu:1"]) == 1
    assert "--step_of=broken:fedavg" in capsys.readouterr().out


def test_work_that_is_killed(monkeypatch):
    """A process that ends by SIGKILL, as the kernel does it for want of memory."""
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    start = subprocess.Popen
    monkeypatch.setattr(
        "subprocess.Popen", lambda command, **o: start([command[0], "-c", code], **o)
    )
    with elsewhere("--raw=W1") as work, pytest.raises(ChildProcessError, match="memory"):
        work()


@pytest.mark.parametrize("what", ["--raw=W1", "--serve=W1"])
def test_rounds_in_another_process(what):
    with elsewhere(what, "--devices=cpu:1") as work:
        assert work() > 0


def test_client_state(capsys, monkeypatch, tmp_path):
    """In memory and on the disk; here of four clients with 60 images."""
    monkeypatch.chdir(tmp_path)
    for name, value in {"NUM_CLIENTS": 4, "CLIENT_SIZE": 60, "COHORT": 2}.items():
        monkeypatch.setattr(works, name, value)
    assert bench.run(["--client_state", "--repeats=2", "--devices=cpu:1"]) == 0
    row = capsys.readouterr().out.splitlines()[-1]
    work, method, *numbers = re.split("  +", row.strip())
    assert (work, method) == ("W1", "SCAFFOLD")
    assert len(numbers) == 3
    assert all(float(number) > 0 for number in numbers)
    assert list((tmp_path / "runs").iterdir()) == []


def test_xla(capsys, monkeypatch):
    """Both ways of a round; here of four clients with 60 images."""
    for name, value in {"NUM_CLIENTS": 4, "CLIENT_SIZE": 60, "COHORT": 2}.items():
        monkeypatch.setattr(works, name, value)
    monkeypatch.setattr(works, "EPOCHS", {"W1": 1})
    assert bench.run(["--xla", "--repeats=1", "--devices=cpu:1"]) == 0
    work, *numbers = re.split("  +", capsys.readouterr().out.splitlines()[-1].strip())
    assert work == "W1"
    plain, compiled, ratio = map(float, numbers)
    assert ratio == pytest.approx(compiled / plain, rel=0.2)
