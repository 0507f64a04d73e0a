"""Pictures of loss surfaces are read from within their folder, and only PNG files."""

import os

import pytest
from PIL import Image

from tests.report.pages import landscape
from tf_fedsam.errors import InputError
from tf_fedsam.report.pictures import read_pictures


def test_pictures(tmp_path):
    folder = landscape(tmp_path)
    (found,) = read_pictures([folder])
    assert found.content == (folder / "a.png").read_bytes()
    assert (found.alt, found.folder) == ("FedSAM is <flatter>", str(folder))
    assert read_pictures([]) == []


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: folder / "none", "has no landscape.json"),
        (lambda folder: landscape(folder, file="b.png"), "No such file"),
        (lambda folder: landscape(folder, file="../secret.png"), "outside of the folder"),
        (lambda folder: landscape(folder, content=b"<svg onload=alert(1)>"), "cannot identify"),
    ],
)
def test_bad_pictures(tmp_path, make, words):
    Image.new("RGB", (4, 4)).save(tmp_path / "secret.png")
    with pytest.raises(InputError) as error:
        read_pictures([make(tmp_path)])
    assert words in str(error.value)


@pytest.mark.parametrize("name", ["landscape.json", "a.png"])
def test_a_pipe_is_not_waited_for(name, tmp_path):
    folder = landscape(tmp_path)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(InputError, match="no ordinary file"):
        read_pictures([folder])
