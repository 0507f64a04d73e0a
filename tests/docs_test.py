"""The documentation says what the code does: tables, commands, layout, examples."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from launch import main
from tests.launch.running import records, run, toy_args
from tf_fedsam.algorithms.registry import accounting, all_algorithms

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def files() -> dict[str, str]:
    """Files that a reader is to write, by name."""
    return dict(re.findall(r"<!-- file: (\S+) -->\n```python\n(.*?)```", README, re.DOTALL))


def test_algorithm_table():
    rows = [
        [cell.strip() for cell in line.strip("|\n").split("|")]
        for line in README.splitlines()
        if re.match(r"\| `\w+` \| \S+: ", line)
    ]
    expected = [
        [
            f"`{a.name}`",
            f"{a.title}: {a.paper}",
            *map(str, accounting(a())),
            a.summary,
        ]
        for a in all_algorithms().values()
    ]
    assert rows == expected


def test_list_algorithms(capsys):
    result = run(capsys, "--list_algorithms")
    assert result.code == 0
    for algorithm in all_algorithms().values():
        assert re.search(rf"^{algorithm.name} .*{re.escape(algorithm.summary)}", result.out, re.M)


@pytest.mark.parametrize("name", all_algorithms())
def test_one_algorithm_one_file_one_name(name):
    algorithm = all_algorithms()[name]
    source = ROOT / "tf_fedsam/algorithms" / f"{name}.py"
    assert algorithm.__module__ == f"tf_fedsam.algorithms.{name}"
    assert algorithm.name == name
    assert algorithm.__name__.lower() == name.replace("_", "")
    assert algorithm.paper
    assert algorithm.summary
    assert (ROOT / f"tests/algorithms/{name}_test.py").exists()
    text = source.read_text()
    assert len(text.splitlines()) <= 170
    assert re.search(r"^    (client|server|controls|duals)", text, re.M), "no update rule on top"


def test_python_examples(tmp_path, monkeypatch):
    """Every Python block but the files, one after another as a reader would paste them."""
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in blocks("python"):
        if block not in files().values():
            exec(compile(block, "README", "exec"), names)
    assert names["metrics"]["train_loss"] < 0.8  # log(3) = 1.1 is a guess
    assert (tmp_path / "mine.npz").exists()


def test_own_algorithm(capsys, tmp_path):
    """The README's file runs, learns, and honours its hyper-parameters."""
    (tmp_path / "fedrandom.py").write_text(files()["fedrandom.py"])
    assert len(files()["fedrandom.py"].splitlines()) < 45
    args = [*toy_args(tmp_path), f"--algo={tmp_path / 'fedrandom.py'}:FedRandom", "--rounds=3"]
    assert run(capsys, *args, "--relaxed_init=0.1").code == 0
    assert run(capsys, *args, "--hparams.rho=5", f"--output_dir={tmp_path / 'b'}").code == 0
    first, second = records(tmp_path / "run"), records(tmp_path / "b")
    assert first[-1]["train_loss"] < first[0]["train_loss"]
    assert second[-1]["train_loss"] != first[-1]["train_loss"]
    result = run(capsys, *args[:-2], f"--algo={tmp_path / 'fedrandom.py'}:FedRandm")
    assert result.code == 2
    assert "FedRandom" in result.err


def test_own_model(capsys, tmp_path):
    """The README's file trains, with its option."""
    path = tmp_path / "small_cnn.py"
    path.write_text(files()["small_cnn.py"])
    sizes = []
    for width in (4, 8):
        args = ["--dataset=glyphs", "--subset=400", f"--model={path}:small_cnn", "--rounds=2"]
        args += [f"--model_options.width={width}", f"--output_dir={tmp_path / str(width)}"]
        result = run(capsys, "--algo=fedsam", "--num_clients=4", "--participation=1", *args)
        assert result.code == 0, result.err
        first, second = (record["train_loss"] for record in records(tmp_path / str(width)))
        assert second < first
        sizes.append(json.loads((tmp_path / str(width) / "config.json").read_text()))
    conv, norm, dense = 3 * 3 * 4 + 4, 2 * 4, 13 * 13 * 4 * 62
    assert [config["num_parameters"] for config in sizes] == [
        conv + norm + dense + 62,
        2 * (conv + norm + dense) + 62,
    ]


def test_commands_parse():
    """Every ``python -m launch.main`` line of the README is a valid command."""
    lines = [
        line
        for block in blocks("sh")
        for line in block.splitlines()
        if line.startswith("python -m launch.main")
    ]
    assert len(lines) >= 5
    for line in lines:
        flags = line.split()[3:]
        for flag in flags:
            name = flag.removeprefix("--").split("=")[0]
            known = name.split(".")[0] in ("hparams", "model_options", "helpshort")
            assert known or name in main.flags.FLAGS, line


def test_run_folder_is_documented():
    from tests.launch.main_test import RECORD_KEYS, TEST_KEYS

    for key in RECORD_KEYS | TEST_KEYS:
        assert f"`{key}`" in README, key


def test_the_library_stands_alone():
    """Importing the library loads neither the launchers nor what only some runs need."""
    script = (
        "import sys, tf_fedsam\n"
        "loaded = {name.split('.')[0] for name in sys.modules}\n"
        "assert not loaded & {'launch', 'tasks', 'keras_hub', 'tensorflow_datasets'}\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT, env=os.environ)
