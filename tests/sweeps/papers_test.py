"""Grids that papers state."""

import pytest

from tests.sweeps.pretending import cells_of
from tf_fedsam.sweeps import papers


def test_only_for_the_methods_of_the_paper(tmp_path):
    """Qu et al. tuned beta of MoFedSAM; FedInit's beta is another thing."""
    cells, _ = cells_of(
        tmp_path, algos=["mofedsam", "fedinit", "fedavg"], grid=["hparams.beta=@qu2022"]
    )
    assert [(c.algo, c.varied.get("hparams.beta")) for c in cells] == [
        *(("mofedsam", beta) for beta in (0.01, 0.1, 0.2, 0.5, 1.0)),
        ("fedinit", None),
        ("fedavg", None),
    ]


def test_by_name(tmp_path):
    cells, _ = cells_of(tmp_path, {"algos": ["fedavg"], "grid": {"lr": "qu2022"}})
    rates = [cell.resolved.lr for cell in cells]
    assert rates == pytest.approx([0.3162278, 0.1, 0.0316228, 0.01])
    assert cells[0].name == "fedavg-glyphs-lr0.316228-seed0"


@pytest.mark.parametrize(("paper", "name"), papers.GRIDS)
def test_every_grid_can_run(tmp_path, paper, name):
    grid = papers.find(paper, name)
    algos = grid.algos or ("fedwmsam",)
    cells, _ = cells_of(tmp_path, algos=algos, grid=[f"{name}=@{paper}"])
    assert len(cells) == len(algos) * len(grid.values)
    assert grid.source
