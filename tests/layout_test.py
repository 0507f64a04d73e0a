"""Imports point one way: launch -> tasks -> tf_fedsam, process -> engine -> client."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = ("tf_fedsam", "tasks", "launch")
FORBIDDEN = {
    "tf_fedsam": ("tasks", "launch", "absl.flags"),
    "tasks": ("launch", "absl.flags"),
    "tf_fedsam.algorithms": (
        "tf_fedsam.engine",
        "tf_fedsam.process",
        "tf_fedsam.data",
        "tf_fedsam.state",
    ),
    "tf_fedsam.client": (
        "tf_fedsam.algorithms",
        "tf_fedsam.engine",
        "tf_fedsam.process",
        "tf_fedsam.data",
    ),
    "tf_fedsam.engine": ("tf_fedsam.process", "tf_fedsam.state"),
    "tf_fedsam.data": ("tf_fedsam.algorithms", "tf_fedsam.engine", "tf_fedsam.process"),
    "tf_fedsam.models": ("tf_fedsam.algorithms", "tf_fedsam.engine", "tf_fedsam.process"),
}


def modules() -> dict[str, pathlib.Path]:
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
    }


def imports(path: pathlib.Path) -> set[str]:
    """All imported modules, except those for type checking only."""
    found = set()
    tree = ast.parse(path.read_text())
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


@pytest.mark.parametrize("module", modules())
def test_arrows(module):
    used = imports(modules()[module])
    for part, forbidden in FORBIDDEN.items():
        if module == part or module.startswith(part + "."):
            wrong = {u for u in used for f in forbidden if u == f or u.startswith(f + ".")}
            assert not wrong


@pytest.mark.parametrize("module", modules())
def test_plotting_is_imported_where_it_is_used(module):
    """Keras itself loads matplotlib where it is installed; this package does so only to draw."""
    for node in ast.parse(modules()[module].read_text()).body:
        if isinstance(node, ast.Import):
            assert not any(alias.name.startswith("matplotlib") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not (node.module or "").startswith("matplotlib")


def test_the_check_sees_imports():
    assert "tf_fedsam.engine.Engine" in imports(ROOT / "tf_fedsam/process.py")
    assert len(modules()) > 40
