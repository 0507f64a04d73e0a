"""Names of cells, which are those of their folders: they stay as they are for ever."""

from collections.abc import Mapping
from typing import Any

from tf_fedsam.runs.names import plain, short, shortened, words

__all__ = ["cell_name", "short", "shortened"]


def cell_name(algo: str, dataset: str, seed: int, varied: Mapping[str, Any]) -> str:
    """Does not depend on the order in which axes are given."""
    first = [plain("algo", algo), plain("dataset", dataset)]
    return "-".join([*first, *words(varied), f"seed{seed}"])
