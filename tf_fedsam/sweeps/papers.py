"""Grids of values from papers, by the paper's name instead of a list.

Only values that a paper's text or tables state. FedInit (Sun et al. 2023, arXiv:2306.05706) shows
its beta only in figures, so it has none here.
"""

import dataclasses

from tf_fedsam.errors import InputError


@dataclasses.dataclass(frozen=True)
class PaperGrid:
    """Values of one setting.

    Attributes:
        values: as the paper has them.
        source: the paper and the place in it.
        algos: the methods that the paper states them for, where the same name means something
            else in others; empty: all that have the setting.
    """

    values: tuple[float, ...]
    source: str
    algos: tuple[str, ...] = ()


_QU = "Qu et al. 2022, arXiv:2206.02618"
_LIU = "Liu et al. 2025 (FedNSAM)"
_HUANG = "Huang et al. 2025 (FedWMSAM, NeurIPS)"
_MOMENTUM = (0.01, 0.1, 0.2, 0.5, 1.0)

GRIDS: dict[tuple[str, str], PaperGrid] = {
    ("qu2022", "lr"): PaperGrid(
        (10**-0.5, 10**-1.0, 10**-1.5, 10**-2.0), f"{_QU}, experimental setup in the appendix"
    ),
    ("qu2022", "hparams.beta"): PaperGrid(
        _MOMENTUM, f"{_QU}, experimental setup in the appendix", ("mofedsam",)
    ),
    ("qu2022", "hparams.alpha"): PaperGrid(
        _MOMENTUM, f"{_QU}, experimental setup in the appendix", ("fedcm", "mimelite")
    ),
    ("qu2022", "hparams.rho"): PaperGrid(
        (0.2, 0.5, 0.6), f"{_QU}, section 5: the best for EMNIST, CIFAR-10 and CIFAR-100"
    ),
    ("liu2025", "lr"): PaperGrid(
        (0.001, 0.003, 0.01, 0.03, 0.1, 0.3),
        f"{_LIU}, hyper-parameter settings, with the dots filled in",
    ),
    ("liu2025", "hparams.server_momentum"): PaperGrid(
        (0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95),
        f"{_LIU}, impact of lambda",
        ("fednsam", "fednsam_d", "fednsam_s"),
    ),
    ("huang2025", "hparams.rho"): PaperGrid(
        (0.005, 0.01, 0.05, 0.1, 0.5), f"{_HUANG}, Table 6, for MoFedSAM and FedWMSAM"
    ),
    ("huang2025", "hparams.alpha_step"): PaperGrid(
        (0.005, 0.01, 0.05, 0.1, 0.5, 1.0), f"{_HUANG}, Table 9"
    ),
}


def find(paper: str, name: str) -> PaperGrid:
    """The values of a setting in a paper, written with or without ``@``."""
    try:
        return GRIDS[paper.removeprefix("@"), name]
    except KeyError:
        there = ", ".join(f"{setting}=@{key}" for key, setting in GRIDS)
        raise InputError(
            f"The grid {name}={paper} does not exist. Expected: a list of values, or one of "
            f"{there}."
        ) from None


def table() -> list[tuple[str, str, str]]:
    """Name, values and source of each."""
    return [
        (f"{name}=@{paper}", ", ".join(f"{v:.3g}" for v in grid.values), grid.source)
        for (paper, name), grid in GRIDS.items()
    ]
