"""Mappings in files of YAML or JSON: descriptions of runs, of sweeps, of papers' tables."""

import os
import pathlib
from collections.abc import Mapping
from typing import Any

import yaml

from tf_fedsam import paths
from tf_fedsam.errors import InputError


def read_mapping(path: str | os.PathLike) -> dict[str, Any]:
    """The mapping that a file of YAML or JSON holds."""
    path = paths.regular(paths.expanded(path))
    if path.suffix not in (".yaml", ".yml", ".json"):
        raise InputError(f"config must be a .yaml or a .json file. Received: {path}.", "config")
    try:
        text = path.read_text()
        _refuse_repeated_keys(yaml.compose(text, Loader=yaml.SafeLoader), path)
        content = yaml.safe_load(text)
    except OSError as error:
        raise InputError(f"config={path} cannot be read: {error.strerror}.", "config") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"config={path} is not YAML: {reason}.", "config") from None
    if not isinstance(content, Mapping) or not all(isinstance(key, str) for key in content):
        raise InputError(
            f"config={path} must hold a mapping from names. Received: {content!r:.60}.", "config"
        )
    return dict(content)


def _refuse_repeated_keys(node: yaml.Node | None, path: pathlib.Path) -> None:
    """YAML would quietly take the last one."""
    if isinstance(node, yaml.MappingNode):
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for key in keys:
            if keys.count(key) > 1:
                line = node.start_mark.line + 1
                raise InputError(f"{path} has {key!r} twice in the mapping of line {line}.")
    for child in node.value if isinstance(node, yaml.CollectionNode) else ():
        for inner in child if isinstance(child, tuple) else (child,):
            _refuse_repeated_keys(inner, path)
