"""Images that stay in their files are the images that would be in memory."""

import numpy as np
import pytest

from tasks import registry, sources
from tasks.base import Request
from tests.launch.running import image_files
from tf_fedsam.data.files import FileImages
from tf_fedsam.errors import InputError


@pytest.fixture
def folder(tmp_path):
    image_files(tmp_path, 5, 2)
    return tmp_path


def load(folder, **options):
    return registry.find("image_folder").load(Request(data_dir=folder, **options))


@pytest.mark.parametrize("size", [None, 6])
def test_streamed_images_are_the_same(folder, size):
    in_memory = load(folder, image_size=size, stream="never")
    streamed = load(folder, image_size=size, stream="always")
    assert isinstance(in_memory.train.x, np.ndarray)
    for part in ("train", "test"):
        mine, other = getattr(in_memory, part), getattr(streamed, part)
        assert isinstance(other.x, FileImages)
        np.testing.assert_array_equal(mine.x, other.x[:])
        np.testing.assert_array_equal(mine.y, other.y)


def test_auto_streams_what_is_too_large(folder, monkeypatch):
    assert isinstance(load(folder).train.x, np.ndarray)
    monkeypatch.setattr(sources, "STREAM_BYTES", 10 * 8 * 8 * 3 - 1)
    assert isinstance(load(folder).train.x, FileImages)
    assert isinstance(load(folder).test.x, np.ndarray)


def test_subset_is_streamed_too(folder):
    in_memory = load(folder, subset=6, stream="never")
    streamed = load(folder, subset=6, stream="always")
    np.testing.assert_array_equal(in_memory.train.x, streamed.train.x[:])


def test_data_in_one_piece_cannot_be_streamed():
    part = sources.in_memory(np.zeros((3, 4, 4, 1), np.uint8), np.zeros(3, np.int32))
    with pytest.raises(InputError, match="stream"):
        part.examples(None, None, "always")
