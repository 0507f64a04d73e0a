"""Loss surfaces are what they were when they are read back."""

import json
import shutil

import numpy as np
import pytest

from tests.analysis.landscape.paraboloids import survey
from tf_fedsam.analysis.landscape.drawing import draw
from tf_fedsam.analysis.landscape.results import write
from tf_fedsam.errors import InputError
from tf_fedsam.report.surfaces import read_surfaces


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("surfaces")
    (folder / "out").mkdir()
    write(survey(folder, between=True), folder / "out", tensorboard=False)
    return folder / "out"


@pytest.fixture
def folder(made, tmp_path):
    """A copy that may be changed."""
    return shutil.copytree(made, tmp_path / "out")


def test_as_they_were_drawn(folder, tmp_path):
    surveyed = survey(tmp_path / "again", between=True)
    drawn, found = draw(surveyed), read_surfaces(folder)
    assert drawn.surfaces is not None
    for before, after in zip(drawn.surfaces.panels, found.panels, strict=True):
        assert (before.title, before.note) == (after.title, after.note)
        np.testing.assert_allclose(before.loss, after.loss, rtol=1e-8)
    np.testing.assert_allclose(found.axis, drawn.surfaces.axis)
    assert found.num_classes == surveyed.data.num_classes
    scale = found.scale([panel.loss for panel in found.panels])
    assert scale.high == pytest.approx(drawn.surfaces.scale.high)
    assert [c.label for c in found.lines] == ["flat", "sharp"]
    assert found.lines[0].method == "fedavg"
    assert [c.label for c in found.between] == ["flat to sharp"]
    assert (found.between[0].at[0], found.between[0].at[-1]) == pytest.approx(
        (min(found.between[0].at), max(found.between[0].at))
    )


def test_only_a_line(folder):
    for name in ("surface_2d", "between"):
        (folder / f"{name}.csv").unlink()
    found = read_surfaces(folder)
    assert (found.panels, found.between) == ([], [])
    assert len(found.lines) == 2


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("landscape.json", "{"),
        ("landscape.json", "[]"),
        ("landscape.json", json.dumps({"runs": [], "settings": {"ring_radius": 1}})),
        ("surface_2d.csv", "run,x,y,loss,accuracy\nnobody,0,0,1,1\n"),
        ("line_1d.csv", "run,x\n"),
        ("between.csv", "from,to,t,loss,accuracy\na,b,x,1,1\n"),
    ],
)
def test_what_was_changed_is_refused(folder, file, content):
    (folder / file).write_text(content)
    if content == "run,x\n":  # no rows are no lines
        assert read_surfaces(folder).lines == []
        return
    with pytest.raises(InputError, match="no loss surfaces that can be drawn again"):
        read_surfaces(folder)


def test_no_folder(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read_surfaces(tmp_path / "none")
