"""The documentation says what the code does: tables, commands, examples, pages, links."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
import yaml

from launch import main
from tests.algorithms.harness import some_in_gate
from tests.launch.running import records, run, toy_args
from tf_fedsam.algorithms.registry import accounting, all_algorithms
from tf_fedsam.runs import task
from tf_fedsam.runs.config import SETTINGS

pytestmark = pytest.mark.no_cover

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md")))
}
BLOCK = re.compile(r"(?:^<!-- ([^>]*) -->\n)?^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)

LOADED = r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=\"?([^\s\">]+)"


def blocks(page: str, language: str) -> list[tuple[str, str]]:
    """The code of a page in a language, each with the remark above it."""
    return [(mark, code) for mark, kind, code in BLOCK.findall(PAGES[page]) if kind == language]


def files(page: str) -> dict[str, str]:
    """Files that a reader is to write, by name."""
    found = [(mark.partition("file: ")[2], code) for mark, code in blocks(page, "python")]
    return {name: code for name, code in found if name}


def read(page: str) -> dict:
    """Runs a page as a reader would: writes its files, runs its other blocks in order."""
    for name, code in files(page).items():
        pathlib.Path(name).write_text(code)
    names: dict = {}
    for mark, code in blocks(page, "python"):
        if not mark.startswith(("file: ", "not run: ")):
            exec(compile(code, page, "exec"), names)
    return names


def test_readme_is_short():
    assert len(README.splitlines()) <= 200
    assert (ROOT / "docs/images/report.png").stat().st_size < 200_000


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
    told = " ".join(result.out.split())  # long ones are wrapped
    for one in all_algorithms().values():
        _, down, up, gradients = accounting(one())
        assert f" {one.name} {down} {up} {gradients} {one.summary} {one.paper}" in told
    assert max(map(len, result.out.splitlines())) <= 80


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


HOW_TO = [page for page in PAGES if "how_to" in page and blocks(page, "python")]
BEGINNING = [page for page in PAGES if page not in HOW_TO and blocks(page, "python")]


@pytest.mark.parametrize("page", [*BEGINNING, *some_in_gate(HOW_TO, 6)])
def test_python_examples(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(task, "_own", {})  # what a page makes known ends with it
    read(page)


def test_examples_are_found():
    """What the other tests run is not nothing."""
    assert sum(bool(blocks(page, "python")) for page in PAGES) >= 10
    assert set(files("docs/tutorials/own_method.md")) == {"fedrandom.py"}
    skipped = [mark for page in PAGES for mark, _ in blocks(page, "python") if "not run" in mark]
    assert skipped == ["not run: needs wandb"]


def test_own_method(capsys, tmp_path):
    """The manual's file runs, learns, and honours its hyper-parameters."""
    code = files("docs/tutorials/own_method.md")["fedrandom.py"]
    (tmp_path / "fedrandom.py").write_text(code)
    assert len(code.splitlines()) < 45
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
    """The manual's file trains, with its option."""
    path = tmp_path / "small_cnn.py"
    path.write_text(files("docs/tutorials/own_model.md")["small_cnn.py"])
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
    """Every ``python -m launch.main`` line is a valid command."""
    lines = [
        line
        for page in PAGES
        for _, block in blocks(page, "sh")
        for line in block.replace("\\\n", " ").splitlines()
        if line.startswith("python -m launch.main")
    ]
    assert len(lines) >= 15
    for line in lines:
        for flag in line.split()[3:]:
            name = flag.removeprefix("--").split("=")[0]
            known = name.split(".")[0] in ("hparams", "model_options", "helpshort")
            assert known or name in main.flags.FLAGS, line


def test_the_log_is_documented():
    from tests.launch.main_test import RECORD_KEYS, TEST_KEYS

    for key in RECORD_KEYS | TEST_KEYS:
        assert f"`{key}`" in PAGES["docs/reference/log.md"], key


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built manual; broken links and pages outside of the navigation fail it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", f"--site-dir={folder}"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_manual_has_every_setting_method_and_name(site):
    import tf_fedsam

    settings = (site / "reference/settings.html").read_text()
    assert [name for name in SETTINGS if f'id="{name}"' not in settings] == []
    methods = (site / "reference/methods.html").read_text()
    assert [name for name in all_algorithms() if f'<h3 id="{name}">' not in methods] == []
    names = (site / "api/index.html").read_text()
    assert [name for name in tf_fedsam.__all__ if f"<code>{name}</code></a>" not in names] == []


def test_manual_loads_nothing_from_elsewhere(site):
    """Links lead anywhere, but scripts, styles, fonts and pictures are its own."""
    pages = list(site.rglob("*.html"))
    reports = [page for page in pages if (ROOT / "docs" / page.relative_to(site)).exists()]
    made = len([p for p in PAGES if p.startswith("docs/")]) + 1  # and 404.html
    assert len(pages) == made + len(reports)
    for page in pages:
        loaded = re.findall(LOADED, page.read_text())
        assert bool(loaded) == (page not in reports)  # which have all in themselves
        assert not [url for url in loaded if url.startswith(("http:", "https:", "//"))], page


def test_citation_and_changelog_name_the_version():
    import tf_fedsam

    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    first = re.search(r"^## (\S+) \((\S+)\)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert first is not None
    assert (citation["version"], str(citation["date-released"])) == first.groups()
    assert citation["version"] == tf_fedsam.__version__


def test_the_library_stands_alone():
    """Importing the library loads neither the launchers nor what only some runs need."""
    script = (
        "import sys, tf_fedsam\n"
        "loaded = {name.split('.')[0] for name in sys.modules}\n"
        "assert not loaded & {'launch', 'tasks', 'keras_hub', 'tensorflow_datasets'}\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT, env=os.environ)
