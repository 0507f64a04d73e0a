"""Sweeps: which cells there are, what is refused, running, resuming, failing, and the tables."""

import contextlib
import io
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from absl.testing import flagsaver

from launch import (
    main,
    paper_grids,
    sweep,
    sweep_cells,
    sweep_config,
    sweep_display,
    sweep_results,
    sweep_runner,
)
from launch.sweep_runner import DONE, ELSEWHERE, FAILED, RUNNING, STOPPED, WAITING
from tests.launch.running import Result, records, toy_file
from tf_fedsam.errors import InputError
from tf_fedsam.state.lock import RunLock

ROOT = pathlib.Path(__file__).parents[2]


def cells_of(tmp_path, config=None, **flags):
    """The cells of a sweep, and how many were the same as another."""
    flags = {"out": str(tmp_path / "out"), **flags}
    with flagsaver.flagsaver():
        return sweep_cells.make(sweep_config.make(config, **flags))


def names(tmp_path, *args, **flags):
    return [cell.name for cell in cells_of(tmp_path, *args, **flags)[0]]


def yaml_file(tmp_path, text):
    path = tmp_path / "sweep.yaml"
    path.write_text(text)
    return str(path)


class TestCells:
    def test_product_with_hyper_parameters_only_where_they_exist(self, tmp_path):
        """2 learning rates; 2 radii for two of three methods; 2 seeds: (2 + 4 + 4) x 2."""
        cells, num_same = cells_of(
            tmp_path,
            algos=["fedavg", "fedsam", "mofedsam"],
            seeds=["3", "4"],
            grid=["lr=0.03,0.1", "hparams.rho=0.05,0.1"],
            passed=["--rounds=7"],
        )
        assert (len(cells), num_same) == (20, 0)
        assert [cell.name for cell in cells][:4] == [
            "fedavg-glyphs-lr0.03-seed3",
            "fedavg-glyphs-lr0.1-seed3",
            "fedsam-glyphs-lr0.03-rho0.05-seed3",
            "fedsam-glyphs-lr0.03-rho0.1-seed3",
        ]
        assert [cell.seed for cell in cells] == [3] * 10 + [4] * 10
        third = cells[2]
        assert third.args[:5] == (
            *("--algo=fedsam", "--dataset=glyphs", "--seed=3", "--lr=0.03"),
            "--hparams.rho=0.05",
        )
        assert third.args[5:] == ("--rounds=7", f"--output_dir={tmp_path / 'out' / third.name}")
        assert third.varied == {"lr": 0.03, "hparams.rho": 0.05}
        assert (third.settings.lr, third.settings.hparams["rho"]) == (0.03, 0.05)
        assert all(cell.rounds == 7 for cell in cells)

    def test_what_is_said_for_some_replaces_what_is_said_for_all(self, tmp_path):
        file = yaml_file(
            tmp_path,
            """
            algos: [fedavg, fedsam, fedprox]
            datasets: [glyphs, mnist]
            settings: {lr_decay: 0.99, hparams: {rho: 0.3}}
            grid: {lr: [0.01, 0.02]}
            per_dataset:
              mnist: {settings: {lr_decay: 0.98, lr: 0.5}}
            per_algo:
              fedsam: {grid: {hparams.rho: [0.1, 0.2], lr: [0.7]}}
              fedprox: {settings: {lr: 0.9}}
            """,
        )
        found = {
            (cell.algo, cell.dataset, s.lr, s.lr_decay, s.hparams.get("rho"))
            for cell in cells_of(tmp_path, file)[0]
            for s in [cell.settings]
        }
        assert found == {
            ("fedavg", "glyphs", 0.01, 0.99, None),
            ("fedavg", "glyphs", 0.02, 0.99, None),
            ("fedavg", "mnist", 0.5, 0.98, None),
            ("fedsam", "glyphs", 0.7, 0.99, 0.1),
            ("fedsam", "glyphs", 0.7, 0.99, 0.2),
            ("fedsam", "mnist", 0.7, 0.98, 0.1),
            ("fedsam", "mnist", 0.7, 0.98, 0.2),
            ("fedprox", "glyphs", 0.9, 0.99, None),
            ("fedprox", "mnist", 0.9, 0.98, None),
        }

    def test_flags_win_over_the_file(self, tmp_path):
        file = yaml_file(
            tmp_path,
            "{algos: [fedavg, fedsam], seeds: [0, 1], settings: {rounds: 9, lr_decay: 1},"
            " grid: {lr: [0.1, 0.2]}, per_algo: {fedavg: {settings: {batch_size: 5}}}}",
        )
        (cell,) = cells_of(
            tmp_path,
            file,
            algos=["fedsam"],
            seeds=["5"],
            grid=["lr=0.4"],
            passed=["--rounds=2"],
        )[0]
        assert cell.name == "fedsam-glyphs-lr0.4-seed5"
        assert (cell.settings.rounds, cell.settings.lr_decay) == (2, 1.0)
        assert "--rounds=9" not in cell.args

    def test_settings_that_go_together(self, tmp_path):
        file = yaml_file(
            tmp_path,
            """
            algos: [fedavg]
            grid:
              split: [{partition: iid}, {partition: dirichlet, alpha: 0.6}]
              relaxed_init: [null, 0.1]
            """,
        )
        assert names(tmp_path, file) == [
            f"fedavg-glyphs-{split}-relaxed_init{beta}-seed0"
            for split in ("partition-iid", "alpha0.6-partition-dirichlet")
            for beta in ("-none", "0.1")
        ]

    def test_the_same_settings_are_one_cell(self, tmp_path):
        cells, num_same = cells_of(tmp_path, algos=["fedavg"], grid=["lr=0.1,1e-1,none,0.2"])
        assert [cell.name for cell in cells] == [
            "fedavg-glyphs-lr0.1-seed0",  # also the default
            "fedavg-glyphs-lr0.2-seed0",
        ]
        assert num_same == 2

    def test_options_only_where_the_model_has_them(self, tmp_path):
        grid = ["model=mlp;cnn", "model_options.dense_dropout=0.1,0.2", "hidden_units=50,20;10"]
        with pytest.raises(InputError) as error:
            names(tmp_path, algos=["fedavg"], grid=grid)
        assert "--hidden_units is for --model=mlp" in str(error.value)
        assert names(tmp_path, algos=["fedavg"], grid=grid[:2]) == [
            "fedavg-glyphs-model-mlp-seed0",
            "fedavg-glyphs-dense_dropout0.1-model-cnn-seed0",
            "fedavg-glyphs-dense_dropout0.2-model-cnn-seed0",
        ]
        assert names(tmp_path, algos=["fedavg"], grid=grid[2:]) == [
            "fedavg-glyphs-hidden_units50x20-seed0",
            "fedavg-glyphs-hidden_units10-seed0",
        ]

    def test_grids_of_papers(self, tmp_path):
        """Qu et al. tuned beta of MoFedSAM; FedInit's beta is another thing."""
        cells, _ = cells_of(
            tmp_path, algos=["mofedsam", "fedinit", "fedavg"], grid=["hparams.beta=@qu2022"]
        )
        assert [(c.algo, c.varied.get("hparams.beta")) for c in cells] == [
            *(("mofedsam", beta) for beta in (0.01, 0.1, 0.2, 0.5, 1.0)),
            ("fedinit", None),
            ("fedavg", None),
        ]
        cells, _ = cells_of(tmp_path, yaml_file(tmp_path, "{algos: [fedavg], grid: {lr: qu2022}}"))
        rates = [cell.settings.lr for cell in cells]
        assert rates == pytest.approx([0.3162278, 0.1, 0.0316228, 0.01])
        assert cells[0].name == "fedavg-glyphs-lr0.316228-seed0"

    @pytest.mark.parametrize(("paper", "name"), paper_grids.GRIDS)
    def test_every_grid_of_a_paper_can_run(self, tmp_path, paper, name):
        grid = paper_grids.find(paper, name)
        algos = grid.algos or ("fedwmsam",)
        cells, _ = cells_of(tmp_path, algos=algos, grid=[f"{name}=@{paper}"])
        assert len(cells) == len(algos) * len(grid.values)
        assert grid.source

    def test_names_stay_when_others_are_added_or_the_order_changes(self, tmp_path):
        few = names(tmp_path, algos=["fedsam"], grid=["lr=0.1", "hparams.rho=0.1"])
        many = names(
            tmp_path,
            algos=["fedavg", "fedsam"],
            seeds=["1", "0"],
            grid=["hparams.rho=0.2,0.1", "lr=0.3,0.1"],
        )
        assert set(few) < set(many)

    def test_names_of_files_and_of_what_has_a_flag_of_the_same_name(self, tmp_path):
        own = tmp_path / "mine.py"
        own.write_text("from tf_fedsam.algorithms.fedavg import FedAvg\nclass A(FedAvg): ...\n")
        assert names(tmp_path, algos=[f"{own}:A"]) == ["mine-A-glyphs-seed0"]
        assert names(tmp_path, algos=["fedcm"], grid=["hparams.alpha=0.5", "alpha=0.2"]) == [
            "fedcm-glyphs-alpha0.2-hparams.alpha0.5-seed0"
        ]

    def test_long_names_are_cut_and_stay_different(self, tmp_path):
        names_ = [f"{'a' * 200}{i}" for i in range(2)]
        for name in names_:
            (tmp_path / f"{name}.npz").touch()
        found = names(
            tmp_path,
            algos=["fedavg"],
            datasets=["npz"],
            grid=[f"data_file={','.join(str(tmp_path / f'{name}.npz') for name in names_)}"],
        )
        assert len(set(found)) == 2
        assert {len(name) for name in found} == {150}
        assert all(name.startswith("fedavg-npz-data_file-aaa") for name in found)

    def test_a_flag_that_is_no_setting(self, tmp_path):
        assert names(tmp_path, algos=["fedavg"], grid=["verbosity=0"]) == [
            "fedavg-glyphs-verbosity0-seed0"
        ]

    def test_forms_are_equal(self, tmp_path):
        flags = {
            "algos": ["fedavg", "fedsam"],
            "datasets": ["glyphs", "mnist"],
            "seeds": ["0", "1"],
            "grid": ["lr=0.001,0.1", "hparams.rho=0.5,0.05", "replacement=true,false"],
            "passed": ["--rounds=8", "--model_options.hidden_units=(30, 20)", "--targets=0.5,0.6"],
        }
        content = {
            "algos": ["fedavg", "fedsam"],
            "datasets": ["glyphs", "mnist"],
            "seeds": [0, 1],
            "settings": {
                "rounds": 8,
                "model_options": {"hidden_units": [30, 20]},
                "targets": [0.5, 0.6],
            },
            "grid": {
                "lr": [0.001, 0.1],
                "hparams": {"rho": [0.5, 0.05]},
                "replacement": [True, False],
            },
        }
        (tmp_path / "as_yaml.yaml").write_text(json.dumps(content).replace("0.001", "1e-3"))
        (tmp_path / "as_dict.py").write_text(f"sweep = {content!r}\n")
        (tmp_path / "as_config.py").write_text(
            "import ml_collections\n\n\ndef get_config():\n"
            f"    return ml_collections.ConfigDict({content!r})\n"
        )
        expected = {c.name: c.settings for c in cells_of(tmp_path, **flags)[0]}
        assert len(expected) == 2 * 2 * (1 + 2) * 2 * 2  # data, rates, methods, replacement, seeds
        for name in ("as_yaml.yaml", "as_dict.py", "as_config.py", "as_config.py:get_config"):
            cells, _ = cells_of(tmp_path, str(tmp_path / name))
            assert {c.name: c.settings for c in cells} == expected

    def test_folder_of_a_file(self, tmp_path):
        file = yaml_file(tmp_path, "algos: [fedavg]")
        assert sweep_config.make(file).out == pathlib.Path("sweeps/sweep")
        assert sweep_config.make(file, out="else").out == pathlib.Path("else")


class TestRefusals:
    def test_all_wrong_cells_at_once(self, tmp_path):
        with pytest.raises(InputError) as error:
            cells_of(
                tmp_path,
                algos=["fedavg", "fedsm", "fedsam"],
                seeds=["0", "-1"],
                grid=["lr=0.1,x", "hparams.rh=1,2"],
                passed=["--no_such_flag=1", "--seed=3"],
            )
        text = str(error.value)
        assert text.startswith("The sweep cannot run; nothing was started.\n- ")
        assert "Unknown algorithm 'fedsm'. Did you mean 'fedsam'" in text
        assert "Unknown hyper-parameter of any of fedavg, fedsm, fedsam: 'rh'" in text
        assert "Unknown command line flag 'no_such_flag'" in text
        assert "--seed is given by the sweep. Use seeds" in text
        with pytest.raises(InputError) as error:
            cells_of(tmp_path, algos=["fedavg", "fedsam"], seeds=["0", "-1"], grid=["lr=0.1,x"])
        lines = str(error.value).splitlines()
        assert lines[1:] == [
            "- flag --lr=x: could not convert string to float: 'x'. See --helpshort for all flags.",
            "  in fedavg-glyphs-lr-x-seed0, fedsam-glyphs-lr-x-seed0, fedavg-glyphs-lr-x-seed-1, "
            "fedsam-glyphs-lr-x-seed-1",
            "- --seed must be 0 or more. Received: -1.",
            "  in fedavg-glyphs-lr0.1-seed-1, fedsam-glyphs-lr0.1-seed-1",
        ]

    @pytest.mark.parametrize(
        ("flags", "part"),
        [
            ({}, "algos must be a list of names. Received: none"),
            ({"algos": ["fedavg", "fedavg"]}, "each once. Received: fedavg,fedavg"),
            ({"algos": ["fedavg"], "seeds": ["a"]}, "seeds must be a list of whole numbers"),
            ({"algos": ["fedavg"], "out": ""}, "Expected: --out=FOLDER"),
            ({"algos": ["fedavg"], "grid": ["lr"]}, "--grid must be NAME=VALUE,VALUE"),
            ({"algos": ["fedavg"], "grid": ["lr=1", "lr=2"]}, "--grid has a name twice"),
            ({"algos": ["fedavg"], "grid": ["seed=1,2"]}, "seed cannot be a setting or a grid"),
            ({"algos": ["fedavg"], "grid": ["lr=@who"]}, "lr=@who does not exist. Expected"),
            ({"algos": ["fedavg"], "grid": ["hparams.rho=1"]}, "There is no hyper-parameter of"),
            ({"algos": ["fedsam"], "grid": ["hparams.rho=-1"]}, "rho must be"),
            ({"algos": ["fedavg"], "grid": ["batch_size=0"]}, "batch_size must be"),
            ({"algos": ["fedsam"], "grid": ["hparams.beta=@qu2022"]}, "beta for mofedsam"),
            ({"algos": ["fedavg"], "datasets": ["emnits"]}, "Did you mean 'emnist'"),
            (
                {"algos": ["fedavg"], "grid": ["model=mlp", "model_options.norm=group"]},
                "Unknown option of any of mlp: 'norm'",
            ),
            (
                {"algos": ["fedavg"], "grid": ["lr=1,2"], "passed": ["--lr", "3"]},
                "lr is varied in the grid and given after --",
            ),
            ({"algos": ["fedavg"], "passed": ["--from_config=x"]}, "not for a sweep"),
            ({"algos": ["fedavg"], "grid": ["lr=0.1,0.1000001"]}, "would have the same folder"),
            ({"algos": ["fedavg"], "passed": ["rounds=3"]}, "Every argument is a flag"),
            (
                {
                    "algos": ["fedavg"],
                    "seeds": [str(i) for i in range(101)],
                    "grid": [f"lr={','.join(map(str, range(100)))}"],
                },
                "The sweep would have 10,100 cells",
            ),
            ({"config": "nothing.yaml"}, "nothing.yaml cannot be read: No such file"),
            ({"config": "nothing.py"}, "there is no file"),
            ({"config": "nothing.txt"}, "must be a .yaml or a .py file"),
        ],
    )
    def test_bad_flags(self, tmp_path, flags, part):
        with pytest.raises(InputError) as error:
            cells_of(tmp_path, **flags)
        assert part in str(error.value)

    @pytest.mark.parametrize(
        ("text", "part"),
        [
            ("[fedavg]", "must hold a mapping"),
            ("", "must hold a mapping. Received: None"),
            ("algos: [fedavg]\nalgo: [x]", "Unknown key"),
            ("algos: fedavg", "algos must be a list of names. Received: 'fedavg'"),
            ("algos: [fedavg]\nseeds: 3", "seeds must be a list of whole numbers. Received: 3"),
            ("algos: [fedavg]\nseeds: [0, true]", "whole numbers"),
            ("algos: [fedavg]\ngrid: {lr: 0.1}", "lr must be a list of values"),
            ("algos: [fedavg]\ngrid: {lr: []}", "lr must be a list of values"),
            ("algos: [fedavg]\ngrid: [lr]", "grid of the file must be a mapping"),
            ("algos: [fedavg]\ngrid: {lr: [{a: {b: 1}}]}", "no setting can have"),
            ("algos: [fedavg]\nsettings: {lr: 2020-01-01}", "no setting can have"),
            ("algos: [fedavg]\nsettings: {lr: 1}\ngrid: {lr: [2]}", "says twice what lr is"),
            ("algos: [fedavg]\nsettings: {dataset: x}", "Use datasets instead"),
            ("algos: [fedavg]\nper_algo: {fedsam: {}}", "Unknown name in per_algo 'fedsam'"),
            ("algos: [fedavg]\nper_algo: {fedavg: {lr: 1}}", "mapping of settings and grid"),
            ("algos: [fedavg]\ngrid: {lr: [1]}\ngrid: {lr: [2]}", "has 'grid' twice"),
            ("algos: [fedavg", "is not YAML"),
            ("algos: !!python/object/apply:os.getcwd []", "is not YAML"),
            ("a: " + "[" * 1500, "is not YAML"),
        ],
    )
    def test_bad_files(self, tmp_path, text, part):
        with pytest.raises(InputError) as error:
            cells_of(tmp_path, yaml_file(tmp_path, text))
        assert part in str(error.value)

    @pytest.mark.parametrize(
        ("text", "part"),
        [
            ("x = 1", "has no get_config or sweep"),
            ("sweep = [1]", "has no get_config or sweep"),
            ("def get_config():\n    return 1 / 0", "get_config() failed: ZeroDivisionError"),
        ],
    )
    def test_bad_python_files(self, tmp_path, text, part):
        (tmp_path / "bad.py").write_text(text)
        with pytest.raises(InputError) as error:
            cells_of(tmp_path, str(tmp_path / "bad.py"))
        assert part in str(error.value)


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


class Ended:
    """A process that has ended."""

    def __init__(self, code):
        self._code = code

    def poll(self):
        return self._code

    def send_signal(self, sig):
        raise ProcessLookupError

    def kill(self):
        pass


@pytest.fixture
def inside(monkeypatch):
    """Cells run in this process; gives the names of those that were started."""
    started = []

    def start(args, log, environment):
        started.append(pathlib.Path(args[-1]).name)
        with (
            flagsaver.flagsaver(),
            log.open("a") as output,
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(output),
        ):
            return Ended(main.run(list(args)))

    monkeypatch.setattr(sweep_runner, "start", start)
    monkeypatch.setattr(sweep_runner, "POLL_SECONDS", 0.001)
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
        one_round = main.one_round

        def cut(experiment, state):
            result = one_round(experiment, state)
            if result[0].round_num == 2:
                os.kill(os.getpid(), signal.SIGTERM)
            return result

        with monkeypatch.context() as patch:
            patch.setattr(main, "one_round", cut)
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


def complete(cell_args, accuracy=0.5, targets=None):
    """Writes what a complete run leaves, without training."""
    with flagsaver.flagsaver():
        settings = sweep_cells._resolve(cell_args[:-1])
    folder = pathlib.Path(cell_args[-1].partition("=")[2])
    for name in ("saved_model", "tensorboard"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name in ("final_weights.npz", "model.keras"):
        (folder / name).touch()
    config = {"settings": settings.as_dict(), "inputs": {}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "rounds.jsonl").write_text(
        "".join(
            json.dumps({"round": r + 1, "test_accuracy": accuracy}) + "\n"
            for r in range(settings.rounds)
        )
    )
    summary = {
        "rounds": settings.rounds,
        "test_accuracy": accuracy,
        "best_test_accuracy": accuracy + 0.1,
        "mean_last_10_test_accuracy": accuracy - 0.1,
        "targets": targets or {},
    }
    (folder / "summary.json").write_text(json.dumps(summary))


class Pretended:
    """Processes that only write; ``codes`` has the exit codes of some cells, one an attempt."""

    def __init__(self, codes=None, polls=0):
        self.codes, self.polls = {k: list(v) for k, v in (codes or {}).items()}, polls
        self.started, self.environments, self.most, self._open = [], [], 0, 0

    def start(self, args, log, environment):
        name = pathlib.Path(args[-1]).name
        self.started.append(name)
        self.environments.append(environment)
        self._open += 1
        self.most = max(self.most, self._open)
        left = self.codes.get(name, [])
        code = left.pop(0) if left else 0
        if code:
            with log.open("a") as file:
                print(f"first line\nerror: {name} went wrong", file=file)
        else:
            complete(args)
        return self._process(code)

    def _process(self, code):
        process, polls = Ended(code), iter(range(self.polls))

        def poll():
            if next(polls, None) is not None:
                return None
            self._open -= 1
            return code

        process.poll = poll
        return process


@pytest.fixture
def pretend(monkeypatch):
    def install(**options):
        pretended = Pretended(**options)
        monkeypatch.setattr(sweep_runner, "start", pretended.start)
        monkeypatch.setattr(sweep_runner, "POLL_SECONDS", 0.001)
        monkeypatch.setattr(sweep_runner, "LOOK_SECONDS", 0.01)
        return pretended

    return install


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

    def test_many_failures_are_told_in_short(self, capsys, tmp_path, pretend):
        seeds = [str(i) for i in range(13)]
        pretend(codes={f"fedavg-npz-seed{seed}": [1] for seed in seeds})
        result = run(capsys, *toy(tmp_path, "--algos=fedavg", f"--seeds={','.join(seeds)}"))
        assert result.code == 1
        assert result.out.count("Failed: ") == 10
        rest = "fedavg-npz-seed10, fedavg-npz-seed11, fedavg-npz-seed12"
        assert f"Failed, too: {rest}\n" in result.out
        assert "launch.report" not in result.out  # there is nothing to compare

    def test_what_is_shown_of_a_failure(self):
        assert sweep.reason("a\nerror: x\nb\nerror: y\nmore") == ["error: y", "more"]
        assert sweep.reason("Traceback\n  line\nValueError: z") == [
            *("Traceback", "  line", "ValueError: z"),
        ]

    def test_retries(self, capsys, tmp_path, pretend):
        """Two of three attempts fail; bad input is not tried again."""
        cells = pretend(codes={"fedavg-npz-seed0": [1, -9], "fedsam-npz-seed0": [2, 1]})
        result = run(capsys, *toy(tmp_path, "--algos=fedavg,fedsam", "--retries=2"))
        assert result.code == 1
        assert cells.started.count("fedavg-npz-seed0") == 3
        assert cells.started.count("fedsam-npz-seed0") == 1
        assert statuses(tmp_path / "out") == {"fedavg-npz-seed0": DONE, "fedsam-npz-seed0": FAILED}
        log = (tmp_path / "out/logs/fedavg-npz-seed0.log").read_text()
        assert log.count("$ python -m launch.main") == 3  # no attempt's words are lost

    def test_an_exit_without_results_is_a_failure(self, capsys, tmp_path, pretend, monkeypatch):
        pretend()
        monkeypatch.setattr("tests.launch.sweep_test.complete", lambda args: None)
        assert run(capsys, *toy(tmp_path, "--algos=fedavg")).code == 1
        assert statuses(tmp_path / "out") == {"fedavg-npz-seed0": FAILED}

    @pytest.mark.parametrize("started", [False, True])
    def test_a_cell_in_use_is_waited_for(self, capsys, tmp_path, pretend, started):
        """Another process holds its folder, before or just after the sweep starts it."""
        busy, lock = "fedavg-npz-seed0", RunLock(tmp_path / "out/fedavg-npz-seed0")
        cells = pretend(codes={busy: [2]} if started else {})
        held = threading.Event()

        def free():
            held.wait(10)
            time.sleep(0.2)
            if not started:
                complete(arguments)
            lock.__exit__(None, None, None)

        (cell,) = cells_of(tmp_path, algos=["fedavg"], datasets=["npz"], passed=toy(tmp_path)[3:])[
            0
        ]
        arguments = cell.args
        real = cells.start

        def start(args, log, environment):
            if args[-1].endswith(busy) and not held.is_set():
                lock.__enter__()
                held.set()
            return real(args, log, environment)

        if started:
            sweep_runner.start = start  # put back with the fixture
        else:
            lock.__enter__()
            held.set()
        thread = threading.Thread(target=free)
        thread.start()
        result = run(capsys, *toy(tmp_path, "--algos=fedavg,fedsam"))
        thread.join()
        assert result.code == 0
        assert re.search(rf"^{ELSEWHERE} +{busy} +by another process, for which", result.out, re.M)
        assert cells.started.count(busy) == (2 if started else 0)
        assert statuses(tmp_path / "out") == {busy: DONE, "fedsam-npz-seed0": DONE}

    def test_an_error_of_the_sweep_leaves_no_process_behind(self, tmp_path, pretend, monkeypatch):
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

        monkeypatch.setattr(sweep_runner, "start", start)

        class Broken:
            def update(self, jobs, stopping):
                raise BrokenPipeError

            ended = update

        cells, _ = cells_of(tmp_path, algos=["fedavg"])
        runner = sweep_runner.Runner(cells, tmp_path / "out")
        with pytest.raises(BrokenPipeError):
            runner.run(Broken())
        assert asked == [signal.SIGTERM]
        assert runner.jobs[0].status == STOPPED


class TestJobs:
    def test_so_many_at_a_time(self, capsys, tmp_path, pretend):
        for number in (1, 3):
            cells = pretend(polls=3)
            out = f"out{number}"
            args = toy(tmp_path, "--algos=fedavg,fedsam", "--seeds=0,1,2", out=out)
            assert run(capsys, f"--jobs={number}", *args).code == 0
            assert cells.most == number

    def test_a_gpu_each(self, capsys, tmp_path, pretend, monkeypatch):
        monkeypatch.setattr(sweep, "visible_gpus", lambda jobs: ["4", "7"])
        cells = pretend(polls=2)
        args = [a for a in toy(tmp_path, "--algos=fedavg", "--seeds=0,1,2,3") if "devices" not in a]
        assert run(capsys, "--jobs=2", *args).code == 0
        assert [e["CUDA_VISIBLE_DEVICES"] for e in cells.environments] == ["4", "7", "4", "7"]

    def test_cores_are_shared(self, monkeypatch):
        monkeypatch.setattr(sweep.devices, "available_cores", lambda: 9)
        found = [sweep.cell_devices(jobs, False) for jobs in (1, 2, 4, 20)]
        assert found == [None, "cpu:4", "cpu:2", "cpu:1"]
        assert sweep.cell_devices(4, True) is None

    def test_given_devices_stay(self, tmp_path):
        flags = {"algos": ["fedavg"], "seeds": (0,), "out": "x"}
        for passed, expected in (([], "cpu:3"), (["--devices=cpu:2"], "cpu:2")):
            made = sweep_config.make(**flags, passed=passed)
            assert sweep_cells.make(made, "cpu:3")[0][0].settings.devices == expected

    @pytest.mark.parametrize(
        ("args", "part"),
        [
            (["--jobs=0"], "--jobs must be at least 1"),
            (["--retries=-1"], "--retries at least 0"),
            (["--rounds=3"], "Flags of launch.main go behind --"),
            (["fedavg"], "Every argument is a flag"),
        ],
    )
    def test_bad_input(self, capsys, args, part):
        result = run(capsys, "--algos=fedavg", "--out=nowhere", *args)
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


def finished(tmp_path, accuracies, targets=None, **flags):
    """Cells with chosen accuracies; ``None``: not run."""
    cells, _ = cells_of(tmp_path, passed=["--rounds=20"], **flags)
    for index, (cell, accuracy) in enumerate(zip(cells, accuracies, strict=True)):
        if accuracy is not None:
            complete(cell.args, accuracy, None if targets is None else {"0.7": targets[index]})
    return cells


class TestResults:
    def test_table(self, tmp_path):
        """Seeds 0 and 1 of FedAvg, FedSAM 0.1, FedSAM 0.2.

        FedAvg: 0.50, 0.60: mean 55, deviation of a sample 0.1 / sqrt(2) = 7.07 %.
        FedSAM: 0.1 has 0.70, 0.74: 72 and 2.83; 0.2 has 0.90 and no second seed.
        """
        cells = finished(
            tmp_path,
            [0.5, 0.7, 0.9, 0.6, 0.74, None],
            [None, {"round": 12}, {"round": 3}, None, {"round": 15}, None],
            algos=["fedavg", "fedsam"],
            seeds=["0", "1"],
            grid=["hparams.rho=0.1,0.2"],
        )
        lines = [re.split(r" {2,}", line) for line in sweep_results.table(cells).splitlines()]
        assert lines[0] == [
            *("algo", "dataset", "rho", "seeds", "last", "best", "mean of last 10"),
            "rounds to 0.7",
        ]
        # FedAvg has one setting; of FedSAM, 0.2 lacks a seed, so 0.1 is the best.
        assert lines[2:5] == [
            ["fedavg", "glyphs", "2", "55.00 ± 7.07", "65.00 ± 7.07", "45.00 ± 7.07", "never"],
            [
                *("fedsam *", "glyphs", "0.1", "2", "72.00 ± 2.83", "82.00 ± 2.83", "62.00 ± 2.83"),
                "13.5 ± 2.1",
            ],
            ["fedsam", "glyphs", "0.2", "1 of 2", "90.00", "100.00", "80.00", "3"],
        ]
        assert "chosen on test accuracy" in re.sub(r"\s+", " ", sweep_results.table(cells))

    def test_the_best_is_chosen_within_a_problem(self, tmp_path):
        """Splits and plug-ins are compared, not tuned; the accuracies go up from cell to cell."""
        cells = finished(
            tmp_path,
            [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8],
            algos=["fedavg"],
            grid=["alpha=0.1,0.6", "relaxed_init=none,0.1", "lr=0.01,0.1"],
        )
        best = [row.best for row in sweep_results.rows(cells)]
        assert best == [False, True] * 4

    def test_many_settings_show_the_best(self, tmp_path):
        rates = [0.01 * (i + 1) for i in range(70)]
        cells = finished(
            tmp_path,
            [0.2 + 0.001 * i for i in range(70)],
            algos=["fedavg"],
            grid=[f"lr={','.join(f'{r:g}' for r in rates)}"],
        )
        text = sweep_results.table(cells)
        assert re.findall(r"^fedavg.*$", text, re.M) == [
            "fedavg *  glyphs   0.7  1      26.90  36.90  16.90"
        ]
        assert "launch.report has all 70 settings" in text


class TestDisplay:
    @pytest.fixture
    def jobs(self, tmp_path):
        """Five cells of 20 rounds: done, running in round 5, just started, waiting, failed."""
        cells, _ = cells_of(
            tmp_path,
            algos=["fedavg"],
            seeds=["0", "1", "2", "3", "4"],
            passed=["--rounds=20"],
        )
        complete(cells[0].args, 0.5)
        cells[1].run.path.mkdir(parents=True)
        lines = [{"round": r + 1} for r in range(5)]
        lines[3]["test_accuracy"] = 0.625  # the last test was in round 4
        text = "".join(json.dumps(line) + "\n" for line in lines)
        cells[1].run.rounds_file.write_text(text + '{"round": 6')  # being written
        jobs = [sweep_runner.Job(cell, tmp_path / "log") for cell in cells]
        for job, status in zip(jobs, (DONE, RUNNING, RUNNING, WAITING, FAILED), strict=True):
            job.status = status
        jobs[4].exit_code = 1
        return jobs

    def test_status(self, jobs):
        """25 rounds in 50 s; 15 + 20 + 20 to go: 110 s."""
        assert sweep_display.status_line(jobs, 50, False) == (
            "1 of 5 cells done, 2 running, 1 waiting, 1 failed   50 s so far, "
            "about 1 min 50 s to go"
        )
        assert sweep_display.status_line(jobs, 50, True).endswith(
            "50 s so far, stopping after the rounds under way"
        )

    def test_what_was_there_before_does_not_count(self, jobs):
        """Then 5 rounds were made in 50 s: 550 s."""
        jobs[0].first_round = 20
        assert sweep_display.seconds_left(jobs, 50) == 550
        jobs[1].first_round = 5
        assert sweep_display.seconds_left(jobs, 50) is None

    def test_live(self, jobs, monkeypatch):
        monkeypatch.setattr(sweep_display, "DRAW_SECONDS", 0.0)
        monkeypatch.setenv("COLUMNS", "90")
        stream = io.StringIO()
        live = sweep_display.Live(22, stream)
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
        assert after.startswith(
            f"{up}done    fedavg-glyphs-seed0     20 rounds  50.00%  0.0 s\n\n1 of"
        )
        assert after.endswith("starting\n" + up)
        assert after.count(up) == 2

    def test_live_fits_the_terminal(self, jobs, monkeypatch):
        monkeypatch.setattr(sweep_display, "DRAW_SECONDS", 0.0)
        monkeypatch.setenv("COLUMNS", "40")
        monkeypatch.setenv("LINES", "5")
        stream = io.StringIO()
        sweep_display.Live(22, stream).update(jobs, False)
        lines = stream.getvalue().splitlines()
        assert max(map(len, lines)) == 39
        assert lines[-1] == "        ... and 1 more"

    def test_heartbeat(self, jobs, monkeypatch):
        stream = io.StringIO()
        lines = sweep_display.Lines(0, stream)
        lines.update(jobs, False)
        assert stream.getvalue() == ""
        monkeypatch.setattr(sweep_display, "HEARTBEAT_SECONDS", 0.0)
        lines.update(jobs, False)
        assert re.fullmatch(
            r"1 of 5 cells done, 2 running, 1 waiting, 1 failed   .* so far, about .* to go; "
            r"fedavg-glyphs-seed1 #+\.+  round 5/20  62.50%; fedavg-glyphs-seed2 starting\n",
            stream.getvalue(),
        )

    def test_failed(self, jobs):
        line = sweep_display.ended_line(jobs[4])
        assert line == f"failed  fedavg-glyphs-seed4  exit code 1, see {jobs[4].log}  0.0 s"


class TestWords:
    def test_help(self, capsys):
        for flag in ("--help", "--helpshort"):
            result = run(capsys, flag)
            assert result.code == 0
            for words in ("--grid", "--retries", "per_algo", "lr=@qu2022", "0.316, 0.1, 0.0316"):
                assert words in result.out

    def test_values_tuned_for_one_method_are_said(self, tmp_path):
        flags = {"algos": ["fedavg", "mofedsam"]}
        (note,) = sweep_cells.tuned_notes(cells_of(tmp_path, **flags)[0])
        assert note.startswith("glyphs brings hparams.beta=0.3 for mofedsam")
        set_by_user = cells_of(tmp_path, **flags, grid=["hparams.beta=0.1,0.3"])[0]
        assert sweep_cells.tuned_notes(set_by_user) == []

    def test_examples_of_the_readme(self, capsys, tmp_path):
        """The file and the command line stand for real sweeps."""
        readme = (ROOT / "README.md").read_text()
        section = readme[readme.index("## Sweeps") :]
        section = section[: section.index("\n## ", 1)]
        example = re.search(r"```yaml\n(.*?)```", section, re.DOTALL)[1]
        file = yaml_file(tmp_path, example)
        result = run(capsys, f"--config={file}", f"--out={tmp_path / 'out'}", "--dry_run")
        assert (result.code, result.err) == (0, "")
        number = int(re.search(r"cells +(\d+):", result.out)[1])
        assert f"{number} cells" in section
        command = re.search(r"^python -m launch.sweep --algos.*?(?<!\\)$", section, re.M | re.S)[0]
        args = command.replace("\\\n", " ").split()[3:]
        result = run(capsys, "--dry_run", f"--out={tmp_path / 'out'}", *args)
        assert (result.code, result.err) == (0, "")
