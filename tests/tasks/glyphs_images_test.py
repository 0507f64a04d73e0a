"""The pictures are shaped like EMNIST ByClass, seed-stable, cached safely and honestly hard."""

import dataclasses
import hashlib
import pathlib
import subprocess
import sys
import types

import numpy as np
import pytest

from tasks import glyphs_images
from tf_fedsam.errors import InputError

# 2,480 = 40 per class = 248 per writer, so each of the 620 (writer, class) pairs has about 4.
SIZE = {"num_train": 2_480, "num_test": 620, "num_writers": 10}
TINY = {"num_train": 130, "num_test": 70, "num_writers": 7}


@pytest.fixture(scope="module")
def glyphs():
    return glyphs_images.draw(**SIZE, seed=0)


@pytest.fixture(scope="module")
def tiny():
    return glyphs_images.draw(**TINY, seed=3)


def _digest(drawn):
    parts = (drawn.x_train, drawn.y_train, drawn.writer_train)
    parts += (drawn.x_test, drawn.y_test, drawn.writer_test)
    return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()


def _count_draws(monkeypatch):
    """Lets `draw` through and notes each call's options."""
    calls = []
    draw = glyphs_images.draw

    def counted(**options):
        calls.append(options)
        return draw(**options)

    monkeypatch.setattr(glyphs_images, "draw", counted)
    return calls


# ---- the pictures --------------------------------------------------------------------------------


def test_classes_are_the_62_characters_in_the_order_of_emnist():
    assert "".join(glyphs_images.CLASSES) == (
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    )


def test_shapes_dtypes_and_ranges(glyphs):
    for x, y, writer, num in (
        (glyphs.x_train, glyphs.y_train, glyphs.writer_train, 2_480),
        (glyphs.x_test, glyphs.y_test, glyphs.writer_test, 620),
    ):
        assert x.shape == (num, 28, 28, 1)
        assert x.dtype == np.uint8
        assert y.shape == writer.shape == (num,)
        assert y.dtype == writer.dtype == np.int32
        assert set(y) == set(range(62))
        assert set(writer) == set(range(10))


def test_white_on_black_with_ink_in_every_image(glyphs):
    assert np.median(glyphs.x_train) < 16
    assert glyphs.x_train.max() == 255
    # The faintest pen has contrast 0.4 of 255 = 102; blur may halve a hairline's peak.
    assert glyphs.x_train.max(axis=(1, 2, 3)).min() > 50
    # Drawn in the middle: the frame of one pixel is darker than the 14x14 centre.
    frame = np.ones((28, 28), bool)
    frame[1:-1, 1:-1] = False
    mean = glyphs.x_train[..., 0].mean(axis=0)
    assert mean[7:21, 7:21].mean() > 5 * mean[frame].mean()


@pytest.mark.parametrize(("split", "num"), [("train", 130), ("test", 70)])
def test_classes_and_writers_have_equal_shares_up_to_one(tiny, split, num):
    classes = np.bincount(getattr(tiny, f"y_{split}"), minlength=62)
    writers = np.bincount(getattr(tiny, f"writer_{split}"), minlength=7)
    assert classes.sum() == writers.sum() == num
    assert np.ptp(classes) == 1  # neither 130 nor 70 is a multiple of 62
    assert np.ptp(writers) == (1 if num % 7 else 0)


def test_order_is_random(glyphs):
    for values, num_kinds in ((glyphs.y_train, 62), (glyphs.writer_train, 10)):
        # Neighbours are equal once in num_kinds; sorted, nearly always; in a cycle, never.
        assert 0.5 / num_kinds < np.mean(values[1:] == values[:-1]) < 2 / num_kinds
        # Sorted, the correlation with the index is 1; at random about 1 / sqrt(2480) = 0.02.
        assert abs(np.corrcoef(values, np.arange(len(values)))[0, 1]) < 0.1


def test_no_image_occurs_twice_not_even_across_train_and_test(glyphs):
    images = np.concatenate([glyphs.x_train, glyphs.x_test])
    assert len({image.tobytes() for image in images}) == 2_480 + 620


def test_every_font_has_62_different_characters():
    outlines = glyphs_images._outlines()
    canvases = outlines.distance.reshape(len(glyphs_images.FONTS), 62, -1)
    for name, font in zip(glyphs_images.FONTS, canvases, strict=True):
        # A missing character would be an empty canvas, or the same box as another missing one.
        assert (font > 0).any(axis=1).all(), name
        assert len({canvas.tobytes() for canvas in font}) == 62, name


def test_distances_are_those_of_brute_force():
    mask = np.zeros((1, 64, 64), bool)
    mask[0, [5, 30, 31], [60, 20, 28]] = True
    grid = np.stack(np.meshgrid(np.arange(64), np.arange(64), indexing="ij"), axis=-1)
    gaps = grid[:, :, None, :] - np.argwhere(mask[0])
    expected = np.minimum(np.sqrt((gaps**2).sum(-1)).min(-1), 8)  # told apart up to 8 pixels
    np.testing.assert_allclose(glyphs_images._distance_to(mask)[0], expected, rtol=1e-6)


def test_sampling_is_bilinear_and_continues_the_border():
    canvas = np.arange(2 * 64 * 64, dtype=np.float32).reshape(2, 64, 64)
    y = np.array([[[10.0, 2.25], [-7.0, 0.0]]], np.float32)
    x = np.array([[[20.5, 3.75], [5.0, -1.0]]], np.float32)
    # The second canvas rises by 64 per row and 1 per column from 4096, so it samples linearly.
    expected = [[4096 + 640 + 20.5, 4096 + 144 + 3.75], [4096 + 5, 4096]]
    sampled = glyphs_images._sample(canvas, np.array([1]), y, x)
    np.testing.assert_allclose(sampled[0], expected, rtol=1e-6)


# ---- seeds ---------------------------------------------------------------------------------------


def test_same_seed_draws_the_same_bits_in_another_process(tiny):
    code = (
        "from tasks import glyphs_images\n"
        "from tests.tasks import glyphs_images_test as here\n"
        "print(here._digest(glyphs_images.draw(**here.TINY, seed=3)))\n"
    )
    root = pathlib.Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == _digest(tiny)


def test_other_seed_draws_other_writers_and_other_pictures(tiny):
    other = glyphs_images.draw(**TINY, seed=4)
    assert not np.array_equal(other.y_train, tiny.y_train)
    assert not np.array_equal(other.writer_train, tiny.writer_train)
    seen = {image.tobytes() for image in tiny.x_train}
    assert not seen & {image.tobytes() for image in other.x_train}


# ---- what makes the task a task ------------------------------------------------------------------


def test_a_writer_has_a_style(glyphs):
    """Two drawings of one character are closer if one writer made both."""
    train = glyphs.x_train.reshape(len(glyphs.x_train), -1) / 255.0
    test = glyphs.x_test.reshape(len(glyphs.x_test), -1) / 255.0
    same, other, found = [], [], []
    for image, label, writer in zip(test, glyphs.y_test, glyphs.writer_test, strict=True):
        candidates = glyphs.y_train == label
        distances = ((train[candidates] - image) ** 2).sum(axis=1)
        by_writer = glyphs.writer_train[candidates] == writer
        same.extend(distances[by_writer])
        other.extend(distances[~by_writer])
        found.append(by_writer[distances.argmin()])
    # Measured with seeds 0, 1, 2: ratios of 0.76, 0.81, 0.73; without styles it would be 1.
    assert np.mean(same) < 0.9 * np.mean(other)
    # Measured 0.47, 0.33, 0.47; chance is 1 of 10 writers.
    assert np.mean(found) > 0.25


def test_nearest_class_mean_is_far_from_chance_and_from_perfect(glyphs):
    """Measured 0.36, 0.39, 0.31 with seeds 0, 1, 2; chance is 1 / 62 = 0.016."""
    train = glyphs.x_train.reshape(len(glyphs.x_train), -1) / 255.0
    test = glyphs.x_test.reshape(len(glyphs.x_test), -1) / 255.0
    means = np.stack([train[glyphs.y_train == label].mean(axis=0) for label in range(62)])
    # The nearest mean m to x maximises x.m - m.m / 2.
    accuracy = np.mean((test @ means.T - (means**2).sum(1) / 2).argmax(1) == glyphs.y_test)
    assert 0.2 < accuracy < 0.6


# ---- cache ---------------------------------------------------------------------------------------


def test_load_draws_once_then_reads_the_same_bits(tmp_path, monkeypatch, tiny):
    calls = _count_draws(monkeypatch)
    folder = tmp_path / "deep" / "cache"
    first = glyphs_images.load(folder, **TINY, seed=3)
    second = glyphs_images.load(folder, **TINY, seed=3)
    assert calls == [{**TINY, "seed": 3}]
    assert _digest(first) == _digest(second) == _digest(tiny)
    assert {k: v.dtype for k, v in vars(second).items()} == {
        k: v.dtype for k, v in vars(tiny).items()
    }
    assert [path.suffix for path in folder.iterdir()] == [".npz"]  # no temporary file stays


def test_other_options_never_share_a_cache_file(tmp_path):
    options = glyphs_images._Options(**TINY)
    paths = {glyphs_images._cache_path(tmp_path, options)}
    for field in dataclasses.fields(options):
        changed = dataclasses.replace(options, **{field.name: getattr(options, field.name) + 1})
        paths.add(glyphs_images._cache_path(tmp_path, changed))
    assert len(paths) == 1 + 4


def test_other_libraries_never_share_a_cache_file(monkeypatch):
    options = glyphs_images._Options(**TINY)
    before = glyphs_images._fingerprint(options)
    monkeypatch.setattr(glyphs_images.PIL, "__version__", "0.0")
    assert glyphs_images._fingerprint(options) != before


def test_the_default_cache_folder_follows_xdg_then_home(tmp_path, monkeypatch):
    options = glyphs_images._Options(**TINY)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for value, folder in (
        (str(tmp_path / "xdg"), tmp_path / "xdg" / "tf_fedsam"),
        ("", tmp_path / "home" / ".cache" / "tf_fedsam"),
        ("relative", tmp_path / "home" / ".cache" / "tf_fedsam"),
    ):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        path = glyphs_images._cache_path(None, options)
        assert path is not None
        assert path.parent == folder


@pytest.mark.parametrize("damage", ["torn", "flipped", "empty", "text", "other arrays", "too few"])
def test_a_damaged_cache_file_is_drawn_again_and_replaced(tmp_path, monkeypatch, tiny, damage):
    monkeypatch.setattr(glyphs_images, "draw", lambda **options: tiny)  # drawn for these options
    path = glyphs_images._cache_path(tmp_path, glyphs_images._Options(**TINY, seed=3))
    assert path is not None
    glyphs_images.load(tmp_path, **TINY, seed=3)
    whole = path.read_bytes()
    if damage == "torn":
        path.write_bytes(whole[: len(whole) // 2])
    elif damage == "flipped":  # one byte of a picture; the archive's checksum tells
        middle = len(whole) // 2
        path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "text":
        path.write_text("not an archive")
    elif damage == "other arrays":
        np.savez(path, x_train=tiny.x_train)
    else:
        np.savez(path, **{name: array[:5] for name, array in vars(tiny).items()})
    assert _digest(glyphs_images.load(tmp_path, **TINY, seed=3)) == _digest(tiny)
    replaced = glyphs_images._read(path, glyphs_images._Options(**TINY, seed=3))
    assert replaced is not None
    assert _digest(replaced) == _digest(tiny)


def test_an_unusable_cache_folder_is_no_error(tmp_path, monkeypatch, tiny):
    monkeypatch.setattr(glyphs_images, "draw", lambda **options: tiny)
    (tmp_path / "file").write_text("where the folder should be")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        assert glyphs_images.load(folder, **TINY, seed=3) is tiny
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_leaves_no_temporary_file(tmp_path, monkeypatch, tiny):
    monkeypatch.setattr(glyphs_images, "draw", lambda **options: tiny)

    def full(file, **arrays):
        file.write(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(glyphs_images.np, "savez", full)
    assert glyphs_images.load(tmp_path, **TINY, seed=3) is tiny
    assert not list(tmp_path.iterdir())


# ---- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_train": 0}, r"num_train=0, expected an integer of at least 1.*num_train=24800"),
        ({"num_test": -1}, r"num_test=-1, expected an integer of at least 1"),
        ({"num_writers": 2.5}, r"num_writers=2.5, expected an integer"),
        ({"num_writers": True}, r"num_writers=True, expected an integer"),
        ({"seed": -1}, r"seed=-1, expected an integer of at least 0"),
        ({"num_train": 5, "num_writers": 6}, r"at least one training image.*Raise num_train to 6"),
    ],
)
@pytest.mark.parametrize("function", [glyphs_images.draw, glyphs_images.load])
def test_bad_options_are_named(function, options, message):
    with pytest.raises(InputError, match=message):
        function(**options)


def test_an_unknown_option_is_answered_with_the_known_ones(tmp_path):
    with pytest.raises(InputError, match=r"'writers'.*num_writers"):
        glyphs_images.load(tmp_path, writers=3)


def test_missing_fonts_say_what_to_install(tmp_path, monkeypatch):
    find = glyphs_images.importlib.util
    monkeypatch.setattr(find, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install matplotlib"):
        glyphs_images.draw(**TINY)
    bare = types.SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(find, "find_spec", lambda name: bare)
    with pytest.raises(InputError, match=r"DejaVuSans\.ttf.*pip install --force-reinstall"):
        glyphs_images.load(tmp_path, **TINY)
