"""The house: imports point one way, launchers are commands only, tests mirror the packages."""

import ast
import functools
import graphlib
import pathlib
import re
from collections.abc import Iterator

import pytest

from tf_fedsam.runs.config import SETTINGS

ROOT = pathlib.Path(__file__).parents[1]
TESTS = ROOT / "tests"
PACKAGES = ("tf_fedsam", "tasks", "launch")

# The rooms of the house, from the ground up. What is in a room knows only rooms of layers below.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("tf_fedsam",),  # names that are imported when they are first used
    ("tf_fedsam.errors", "tf_fedsam.lazy"),
    ("tf_fedsam.checks", "tf_fedsam.looks", "tf_fedsam.paths"),
    ("tf_fedsam.rng", "tf_fedsam.text", "tf_fedsam.tree"),
    ("tf_fedsam.workers",),
    (
        *("tf_fedsam.devices", "tf_fedsam.hparams", "tf_fedsam.layers", "tf_fedsam.losses"),
        *("tf_fedsam.own_code", "tf_fedsam.privacy", "tf_fedsam.schedules"),
    ),
    ("tf_fedsam.options",),
    ("tf_fedsam.client", "tf_fedsam.data", "tf_fedsam.models", "tf_fedsam.state"),
    ("tf_fedsam.algorithms",),
    ("tf_fedsam.diagnostics",),
    ("tf_fedsam.engine",),
    ("tf_fedsam.process",),
    ("tf_fedsam.analysis",),
    ("tf_fedsam.runs",),
    ("tf_fedsam.analysis.landscape", "tf_fedsam.comparison"),
    ("tf_fedsam.report",),
    ("tf_fedsam.sweeps",),
    ("tf_fedsam.reproduction",),
    ("tasks",),
    ("launch",),
)
# What a room knows at most, where that is less than the layers below it.
ONLY = {
    "tf_fedsam.client": ("lazy", "losses", "tree"),
    "tf_fedsam.models": ("checks", "errors", "layers", "lazy", "own_code", "paths"),
    "tf_fedsam.state": ("checks", "errors", "paths"),
    "tf_fedsam.algorithms": (
        *("checks", "client", "errors", "hparams", "layers", "lazy", "losses", "own_code"),
        *("rng", "tree"),
    ),
    "tasks": ("checks", "data", "errors", "lazy", "paths", "rng", "runs"),
}

COMMANDS = {"main", "sweep", "report", "landscape", "partition", "bench", "reproduce"}
# What commands share, and what one of them measures.
FOLDERS = {
    "command_line": {"commands", "exits", "flags", "helping", "own_flags", "start"},
    "benchmarks": {
        *("analysis", "images", "measuring", "models", "plan", "rounds", "states", "tables"),
        "works",
    },
}
MAX_LINES = 210
PROGRAMS = {"tf_fedsam.runs.__main__"}  # have arguments of their own

# Imports inside a function that close a circle: TFDS is loaded only for who asks for it.
LOADED_LATE = {"tasks.sources": {"tasks.tfds_source"}}

# Modules whose tests are not in the file of their name: in which, and why.
DECLARED = "tests/tasks/declarations_test.py"
BENCH = "tests/launch/bench_test.py"
ELSEWHERE: dict[str, tuple[str, str]] = {
    **{
        f"launch.benchmarks.{name}": (BENCH, "is measured as the command does it")
        for name in sorted(FOLDERS["benchmarks"])
    },
    "tasks.cifar10": (DECLARED, "declares a data set, as all of them are checked"),
    "tasks.cifar100": (DECLARED, "declares a data set, as all of them are checked"),
    "tasks.emnist": (DECLARED, "declares a data set, as all of them are checked"),
    "tasks.fashion_mnist": (DECLARED, "declares a data set, as all of them are checked"),
    "tasks.mnist": (DECLARED, "declares a data set, as all of them are checked"),
    "tasks.office_home": (DECLARED, "declares a data set, as all of them are checked"),
    "tasks.tiny_imagenet": (DECLARED, "declares a data set, as all of them are checked"),
    "tasks.image_folder": ("tests/integration/raw_data_test.py", "reads folders as a run does"),
    "tasks.formats.images": (
        "tests/tasks/formats/image_folder_test.py",
        "decodes what image folders and Tiny-ImageNet find",
    ),
    "tasks.protocol": (DECLARED, "values of settings, as the data sets that share them have them"),
}
# Test files that are about more than one module.
ACROSS: dict[str, str] = {
    "tests/algorithms/behaviour_test.py": "each extra term of a method: there, its sign, neutral",
    "tests/algorithms/contract_test.py": "what holds for all methods and plug-ins",
    "tests/algorithms/extension_test.py": "what methods of a user's own can do",
    "tests/algorithms/identities_test.py": "methods that are others at some hyper-parameter",
    "tests/algorithms/wire_test.py": "what goes up and down is what is counted",
    "tests/docs_test.py": "README and manual",
    "tests/examples_test.py": "notebooks",
    "tests/launch/analysis_test.py": "what a run measures of itself",
    "tests/launch/bad_input_test.py": "messages for everything that can be wrong",
    "tests/layout_test.py": "the house",
    "tests/models/contract_test.py": "what holds for all models",
    "tests/models/training_test.py": "what models need of the engine",
    "tests/state/checkpoint/faults_test.py": "disks that fail while a checkpoint is written",
    "tests/state/checkpoint/resume_test.py": "writer and reader together",
    "tests/tasks/declarations_test.py": "what data sets declare",
    "tests/tasks/publishers_test.py": "publishers' files of all data sets",
    "tests/tasks/stream_test.py": "images that stay in files, from task to engine",
}


@functools.cache
def modules() -> dict[str, pathlib.Path]:
    """All modules by name; a package is called as it is imported."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = path
    return found


@functools.cache
def parsed(path: pathlib.Path) -> ast.Module:
    return ast.parse(path.read_text())


def imports(path: pathlib.Path) -> set[str]:
    """All that is imported, also inside functions, except for type checking only."""
    found, tree = set(), parsed(path)
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def imported_modules(module: str) -> set[str]:
    """The modules of the house that a module imports."""
    found = set()
    for name in imports(modules()[module]):
        while name and name not in modules():
            name = name.rpartition(".")[0]
        found.add(name)
    return found - {"", module}


def room(module: str) -> str:
    """The room that a module is in, the innermost one."""
    around = [r for layer in LAYERS for r in layer if module == r or module.startswith(r + ".")]
    return max(around, key=len)


@functools.cache
def arrows() -> dict[str, dict[str, set[str]]]:
    """Which rooms a room knows, and by which imports."""
    found: dict[str, dict[str, set[str]]] = {r: {} for layer in LAYERS for r in layer}
    for module in modules():
        for other in imported_modules(module):
            if room(other) != room(module):
                ways = found[room(module)].setdefault(room(other), set())
                ways.add(f"{module} -> {other}")
    return found


# Imports.


def test_every_module_has_a_room():
    placed = {room(module) for module in modules()}
    assert placed == {r for layer in LAYERS for r in layer}
    at_home = {m for m in modules() if room(m) == "tf_fedsam"}
    assert at_home == {"tf_fedsam"}, "a new room: put it into LAYERS"


@pytest.mark.parametrize("name", [r for layer in LAYERS for r in layer])
def test_rooms_know_only_rooms_below(name):
    level = next(i for i, layer in enumerate(LAYERS) if name in layer)
    below = {r for layer in LAYERS[:level] for r in layer}
    if name in ONLY:
        below &= {"tf_fedsam", *(f"tf_fedsam.{other}" for other in ONLY[name])}
    wrong = {way for other, ways in arrows()[name].items() if other not in below for way in ways}
    assert wrong == set()


def test_modules_do_not_import_each_other_in_circles():
    known = {m: imported_modules(m) for m in modules()}
    known["tasks.sources"] -= LOADED_LATE["tasks.sources"]
    graphlib.TopologicalSorter(known).prepare()


@pytest.mark.parametrize("package", ["tf_fedsam", "tasks"])
def test_flags_are_the_launchers(package):
    users = {
        module
        for module, path in modules().items()
        if module.partition(".")[0] == package
        and any(name.startswith("absl") and "flags" in name for name in imports(path))
    }
    assert users == set()


def test_plotting_is_imported_where_it_is_used():
    """Keras itself loads matplotlib where it is installed; this package does so only to draw."""
    for module, path in modules().items():
        for node in parsed(path).body:
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.startswith("matplotlib") for name in names), module


def test_the_checks_see_imports():
    assert "tf_fedsam.engine.Engine" in imports(ROOT / "tf_fedsam/process.py")
    assert "tf_fedsam.engine" in arrows()["tf_fedsam.process"]
    assert len(modules()) > 200


# Launchers.


def test_launchers_are_commands_only():
    launch = ROOT / "launch"
    assert {path.stem for path in launch.glob("*.py")} == COMMANDS | {"__init__"}
    folders = {path.name for path in launch.iterdir() if path.is_dir() and path.name[0] != "_"}
    assert folders == set(FOLDERS)
    for folder, names in FOLDERS.items():
        found = {path.stem for path in (launch / folder).iterdir() if path.suffix}
        assert found == {*names, "__init__"}


@pytest.mark.parametrize(
    "name",
    sorted([*COMMANDS, *(f"{folder}/{n}" for folder, names in FOLDERS.items() for n in names)]),
)
def test_a_launcher_is_a_short_recipe(name):
    assert (ROOT / f"launch/{name}.py").read_text().count("\n") <= MAX_LINES


def texts(path: pathlib.Path) -> Iterator[str]:
    """The strings of a module, but for docstrings."""
    tree = parsed(path)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            yield str(node.value)


@functools.cache
def run_flags() -> set[str]:
    """The flags of a run: the settings, and those of the launcher itself."""
    own = re.findall(r'DEFINE_\w+\(\s*"(\w+)"', (ROOT / "launch/command_line/flags.py").read_text())
    assert "output_dir" in own
    return {*SETTINGS, *own}


def mentioned_flags(text: str) -> set[str]:
    """The flags of a run that a text speaks of."""
    return run_flags().intersection(re.findall(r"(?<![\w-])--(?:no)?([a-z_]+)", text))


def test_flags_are_recognised():
    assert mentioned_flags("Use --lr=1, or --nodiagnostics; --hparams.rho") == {
        *("lr", "diagnostics", "hparams")
    }
    assert mentioned_flags("pip install --upgrade; var(--grid); a--lr") == set()


@pytest.mark.parametrize("package", ["tf_fedsam", "tasks"])
def test_only_launchers_speak_of_flags(package):
    """Messages call settings by their names; the command line translates."""
    told = {
        (module, flag)
        for module, path in modules().items()
        if module.partition(".")[0] == package and module not in PROGRAMS
        for text in texts(path)
        for flag in mentioned_flags(text)
    }
    assert told == set()


# Tests.


def mirror(module: str) -> pathlib.Path:
    """Where the tests of a module are looked for."""
    parts = module.split(".")
    if modules()[module].name == "__init__.py":
        parts.append("init")
    place = parts[1:] if parts[0] == "tf_fedsam" else parts
    return TESTS.joinpath(*place[:-1], f"{place[-1].strip('_')}_test.py")


def has_code(module: str) -> bool:
    """Whether there is something to test: not if a package only says what is in it."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    path = modules()[module]
    return path.name != "__init__.py" or any(isinstance(n, kinds) for n in parsed(path).body)


def test_every_module_has_its_tests():
    missing = {m for m in modules() if has_code(m) and not mirror(m).is_file()}
    assert missing - set(ELSEWHERE) == set(), "write the file, or say in ELSEWHERE why not"
    assert set(ELSEWHERE) - missing == set(), "these have their own tests, or are gone"


@pytest.mark.parametrize("module", ELSEWHERE)
def test_tests_elsewhere_are_there(module):
    file, reason = ELSEWHERE[module]
    assert re.search(rf"\b{module.rpartition('.')[2]}\b", (ROOT / file).read_text())
    assert len(reason) > 10


def test_every_test_file_is_about_something():
    """A file whose module is gone is found."""
    mirrors = {mirror(module) for module in modules()}
    files = {path for path in TESTS.rglob("*_test.py") if path not in mirrors}
    names = {path.relative_to(ROOT).as_posix() for path in files}
    elsewhere = {file for file, _ in ELSEWHERE.values()}
    rest = {n for n in names if not n.startswith(("tests/integration/", "tests/reference/"))}
    assert rest - elsewhere - set(ACROSS) == set(), "what are they about? Say it in ACROSS"
    assert set(ACROSS) - rest == set(), "these are gone, or are about one module"


def test_the_mirror():
    assert mirror("tf_fedsam.tree") == TESTS / "tree_test.py"
    assert mirror("tf_fedsam.runs.config") == TESTS / "runs/config_test.py"
    assert mirror("tf_fedsam.runs.__main__") == TESTS / "runs/main_test.py"
    assert mirror("tf_fedsam") == TESTS / "init_test.py"
    assert mirror("tasks.npz") == TESTS / "tasks/npz_test.py"
    assert mirror("launch.main") == TESTS / "launch/main_test.py"


def test_test_folders_are_packages():
    """So that files of the same name do not get in each other's way."""
    folders = {path.parent for path in TESTS.rglob("*_test.py")}
    assert [f for f in folders if not (f / "__init__.py").is_file()] == []
