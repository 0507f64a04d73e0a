"""Draws `glyphs`: an offline data set shaped like EMNIST ByClass (28x28x1, 62 classes).

The 62 characters come from the scalable fonts that ship inside matplotlib. Every image belongs to
a writer, as in FEMNIST: a writer has one font, a personal bend for each character, and a personal
slant, size, aspect, stroke width, contrast, blur and noise; each image adds its own jitter to all
of these. As in EMNIST, characters are white on black and scaled towards one size, which leaves
0/O/o, 1/I/l, C/c, S/s and their like only partly separable.

Each (font, character) is rendered once and kept as a signed distance to its outline, in pixels of
the canvas. Distances survive a bilinear warp, and adding a number to them changes the stroke
width, so whole batches are drawn by one gather per bilinear tap.
"""

import contextlib
import dataclasses
import functools
import hashlib
import importlib.util
import json
import os
import pathlib
import string
import tempfile

import numpy as np
import PIL
from PIL import Image, ImageDraw, ImageFont, features

from tf_fedsam import rng
from tf_fedsam.errors import InputError, unknown

CLASSES: tuple[str, ...] = tuple(string.digits + string.ascii_uppercase + string.ascii_lowercase)

# The fonts of matplotlib that hold all 62 characters; its other files hold symbols only.
FONTS: tuple[str, ...] = (
    "DejaVuSans.ttf",
    "DejaVuSans-Bold.ttf",
    "DejaVuSans-Oblique.ttf",
    "DejaVuSans-BoldOblique.ttf",
    "DejaVuSansMono.ttf",
    "DejaVuSansMono-Bold.ttf",
    "DejaVuSansMono-Oblique.ttf",
    "DejaVuSansMono-BoldOblique.ttf",
    "DejaVuSerif.ttf",
    "DejaVuSerif-Bold.ttf",
    "DejaVuSerif-Italic.ttf",
    "DejaVuSerif-BoldItalic.ttf",
    "STIXGeneral.ttf",
    "STIXGeneralBol.ttf",
    "STIXGeneralItalic.ttf",
    "STIXGeneralBolIta.ttf",
    "cmb10.ttf",
    "cmmi10.ttf",
    "cmr10.ttf",
    "cmss10.ttf",
    "cmti10.ttf",
    "cmtt10.ttf",
)

_SIDE = 28  # pixels of an image's side
_CANVAS = 64  # pixels of the side of the canvas that holds one rendered character
_GLYPH = 44  # canvas pixels of the longer side of a capital letter
_ZOOM = 2.3  # canvas pixels per image pixel: a capital fills about 19 of the 28
_REACH = 8  # canvas pixels beyond which a distance to the outline is not told apart
_SIZE_CUE = 0.45  # 1 keeps the font's ratio of small to capital letters, 0 draws all equally large
_KNOTS = 5  # control points along each side of an elastic field
_CHUNK = 512  # images warped at once; part of what a seed means

_Array = np.ndarray


@dataclasses.dataclass(frozen=True)
class Glyphs:
    """A drawn data set; labels index `CLASSES`, and test images are by the training writers.

    Attributes:
      x_train: uint8 [num_train, 28, 28, 1], white on black.
      y_train: int32 [num_train], the class; every class has equally many images, up to one.
      writer_train: int32 [num_train], who drew it; every writer has equally many, up to one.
      x_test: uint8 [num_test, 28, 28, 1], other drawings by the same writers.
      y_test: int32 [num_test].
      writer_test: int32 [num_test].
    """

    x_train: _Array
    y_train: _Array
    writer_train: _Array
    x_test: _Array
    y_test: _Array
    writer_test: _Array


@dataclasses.dataclass(frozen=True)
class _Options:
    """What decides the pictures; the arguments of `draw`."""

    num_train: int = 24_800
    num_test: int = 6_200
    num_writers: int = 200
    seed: int = 0

    def __post_init__(self):
        for name, value in vars(self).items():
            least = 0 if name == "seed" else 1
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(
                    f"glyphs received {name}={value!r}, expected an integer of at least {least}. "
                    f"Pass for example {name}={getattr(_Options, name)}."
                )
        if self.num_writers > self.num_train:
            raise InputError(
                f"glyphs received num_writers={self.num_writers} and num_train={self.num_train}, "
                "expected at least one training image for each writer. "
                f"Raise num_train to {self.num_writers} or more, or lower num_writers."
            )


def draw(
    num_train: int = _Options.num_train,
    num_test: int = _Options.num_test,
    num_writers: int = _Options.num_writers,
    seed: int = _Options.seed,
) -> Glyphs:
    """Draws the data set; the same arguments give the same bits on the same machine."""
    _Options(num_train, num_test, num_writers, seed)  # validates
    outlines = _outlines()
    styles = _Styles.draw(num_writers, seed)
    y_train, writer_train = _assign(num_train, num_writers, seed, "train")
    y_test, writer_test = _assign(num_test, num_writers, seed, "test")
    return Glyphs(
        x_train=_images(y_train, writer_train, styles, outlines, seed, "train"),
        y_train=y_train,
        writer_train=writer_train,
        x_test=_images(y_test, writer_test, styles, outlines, seed, "test"),
        y_test=y_test,
        writer_test=writer_test,
    )


def load(cache_dir: pathlib.Path | None = None, **options: int) -> Glyphs:
    """The data set of `draw(**options)`, drawn the first time and then read from the cache.

    Args:
      cache_dir: Folder of the cache; by default `tf_fedsam` in $XDG_CACHE_HOME or ~/.cache. A
        folder that cannot be used is no error: the data set is then drawn every time.
      **options: The arguments of `draw`.
    """
    names = [field.name for field in dataclasses.fields(_Options)]
    for name in options:
        if name not in names:
            raise unknown("option of glyphs", name, names)
    checked = _Options(**options)
    path = _cache_path(cache_dir, checked)
    glyphs = _read(path, checked) if path else None
    if glyphs is None:
        glyphs = draw(**dataclasses.asdict(checked))
        if path:
            _write(path, glyphs)
    return glyphs


# ---- who draws what ------------------------------------------------------------------------------


def _assign(num: int, num_writers: int, seed: int, split: str) -> tuple[_Array, _Array]:
    """Labels and writers, each in equal shares, paired and ordered at random."""
    random = rng.generator(seed, f"glyphs/{split}/assign")
    labels = random.permutation(np.arange(num, dtype=np.int32) % len(CLASSES))
    writers = random.permutation(np.arange(num, dtype=np.int32) % num_writers)
    return labels, writers


@dataclasses.dataclass(frozen=True)
class _Styles:
    """One entry per writer: the centre around which that writer's images jitter.

    Attributes:
      font: Index into `FONTS`.
      rotation, slant, log_size, log_aspect: The affine habit, in radians, tangent and logarithms.
      stroke: Wanted width of a stroke, in canvas pixels.
      contrast: Brightness of the ink, 0 to 1.
      blur: Half width of an outline's ramp, in canvas pixels.
      noise: Standard deviation of the pixel noise, 0 to 1.
      wobble: Canvas pixels by which two drawings of a character differ in shape.
      bend: [num_writers, 62, 2, knots, knots], this writer's shape of each character, in canvas
        pixels by which the font's shape is moved.
    """

    font: _Array
    rotation: _Array
    slant: _Array
    log_size: _Array
    log_aspect: _Array
    stroke: _Array
    contrast: _Array
    blur: _Array
    noise: _Array
    wobble: _Array
    bend: _Array

    @classmethod
    def draw(cls, num_writers: int, seed: int) -> "_Styles":
        random = rng.generator(seed, "glyphs/writers")
        n = num_writers
        return cls(
            font=random.permutation(np.arange(n) % len(FONTS)),
            rotation=random.normal(0.0, 0.08, n),
            slant=random.normal(0.0, 0.20, n),
            log_size=random.normal(0.0, 0.07, n),
            log_aspect=random.normal(0.0, 0.12, n),
            stroke=random.uniform(3.0, 9.0, n),
            contrast=random.uniform(0.65, 1.0, n),
            blur=random.uniform(1.1, 2.4, n),
            noise=random.uniform(0.0, 0.08, n),
            wobble=random.uniform(1.4, 2.8, n),
            bend=random.normal(0.0, 2.0, (n, len(CLASSES), 2, _KNOTS, _KNOTS)),
        )


# ---- drawing -------------------------------------------------------------------------------------


def _images(
    labels: _Array, writers: _Array, styles: _Styles, outlines: "_Outlines", seed: int, split: str
) -> _Array:
    images = np.empty((len(labels), _SIDE, _SIDE, 1), np.uint8)
    for number, start in enumerate(range(0, len(labels), _CHUNK)):
        part = slice(start, start + _CHUNK)
        random = rng.generator(seed, f"glyphs/{split}/images", number)
        images[part, :, :, 0] = _chunk(labels[part], writers[part], styles, outlines, random)
    return images


def _chunk(
    labels: _Array,
    writers: _Array,
    styles: _Styles,
    outlines: "_Outlines",
    random: np.random.Generator,
) -> _Array:
    """Draws one uint8 [n, 28, 28] batch: writer's habit plus this image's jitter, warp, ink."""
    n = len(labels)

    def jitter(scale: float) -> _Array:
        return random.normal(0.0, scale, n)

    rotation = styles.rotation[writers] + jitter(0.12)
    slant = styles.slant[writers] + jitter(0.12)
    size = np.exp(styles.log_size[writers] + jitter(0.08))
    aspect = np.exp(styles.log_aspect[writers] + jitter(0.10))
    cos, sin = np.cos(rotation) * _ZOOM / size, np.sin(rotation) * _ZOOM / size
    # Canvas position of an image pixel: shear and stretch of a rotation, row by row (y, then x).
    matrix = np.array(
        [[cos * aspect, sin * aspect], [(slant * cos - sin) / aspect, (slant * sin + cos) / aspect]]
    )
    shift = random.normal(0.0, 1.1 * _ZOOM, (2, n))
    wobble = random.normal(size=(n, 2, _KNOTS, _KNOTS)) * styles.wobble[writers, None, None, None]
    field = _smooth(styles.bend[writers, labels] + wobble)
    pixels = np.arange(_SIDE, dtype=np.float32) - np.float32((_SIDE - 1) / 2)
    positions = [
        _per_image(matrix[axis, 0]) * pixels[:, None]
        + _per_image(matrix[axis, 1]) * pixels[None, :]
        + _per_image(shift[axis] + (_CANVAS - 1) / 2)
        + field[:, axis]
        for axis in (0, 1)
    ]

    font = styles.font[writers]
    distance = _sample(outlines.distance, font * len(CLASSES) + labels, *positions)
    # Hairlines vanish when eroded, so a font is thickened freely but thinned only a little.
    widen = (styles.stroke[writers] - outlines.stroke[font]) / 2 + jitter(0.5)
    pressure = _smooth(random.normal(0.0, 0.5, (n, 1, _KNOTS, _KNOTS)))[:, 0]
    distance += _per_image(np.clip(widen, -0.3, 2.5)) + pressure
    blur = np.maximum(styles.blur[writers] * np.exp(jitter(0.2)), 1.0)
    ink = np.clip(distance / _per_image(2 * blur) + np.float32(0.5), 0.0, 1.0)
    ink *= _per_image(np.clip(styles.contrast[writers] + jitter(0.08), 0.4, 1.0))
    noise = random.standard_normal(ink.shape, dtype=np.float32)
    ink += noise * _per_image(styles.noise[writers] * np.exp(jitter(0.3)))
    return np.clip(ink * np.float32(255) + np.float32(0.5), 0, 255).astype(np.uint8)


def _per_image(values: _Array) -> _Array:
    return values.astype(np.float32)[:, None, None]


def _smooth(control: _Array) -> _Array:
    """Spreads [..., knots, knots] control points over the image by cubic B-splines."""
    basis = _spline_basis()
    rows = np.einsum("pk,ncki->ncpi", basis, control.astype(np.float32))
    return np.einsum("qi,ncpi->ncpq", basis, rows)


@functools.cache
def _spline_basis() -> _Array:
    """float32 [28, knots]: the uniform cubic B-spline of each knot at each pixel of a side."""
    position = (np.arange(_SIDE) + 0.5) / _SIDE * (_KNOTS - 1)
    gap = np.abs(position[:, None] - np.arange(_KNOTS))
    near = 2 / 3 - gap**2 + gap**3 / 2
    far = np.maximum(2 - gap, 0) ** 3 / 6
    return np.where(gap < 1, near, far).astype(np.float32)


def _sample(canvases: _Array, which: _Array, y: _Array, x: _Array) -> _Array:
    """Bilinear samples of canvases[which] at (y, x); outside a canvas its border goes on."""
    top = np.float32(_CANVAS - 1.001)
    y, x = np.clip(y, 0, top), np.clip(x, 0, top)
    row, column = y.astype(np.int32), x.astype(np.int32)
    y -= row
    x -= column
    start = (which * _CANVAS**2).astype(np.int32)[:, None, None] + row * _CANVAS + column
    flat = canvases.reshape(-1)
    upper = flat[start] * (1 - x) + flat[start + 1] * x
    lower = flat[start + _CANVAS] * (1 - x) + flat[start + _CANVAS + 1] * x
    return upper * (1 - y) + lower * y


# ---- fonts ---------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Outlines:
    """Every character of every font.

    Attributes:
      distance: float32 [fonts * 62, 64, 64], canvas pixels to the outline, positive inside the ink.
      stroke: [fonts], typical width of the font's strokes in canvas pixels.
    """

    distance: _Array
    stroke: _Array


def _font_paths() -> list[pathlib.Path]:
    """The files of `FONTS`, found without importing matplotlib."""
    spec = importlib.util.find_spec("matplotlib")
    if spec is None or not spec.submodule_search_locations:
        raise InputError(
            "glyphs received no fonts: matplotlib is not installed. Expected the fonts that ship "
            "inside it. Install it with: pip install matplotlib"
        )
    folder = pathlib.Path(spec.submodule_search_locations[0], "mpl-data", "fonts", "ttf")
    paths = [folder / name for name in FONTS]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise InputError(
            f"glyphs received a matplotlib without {', '.join(missing)} in {folder}. Expected the "
            "fonts that ship inside it. Install it with: pip install --force-reinstall matplotlib"
        )
    return paths


def _outlines() -> _Outlines:
    ink = np.stack([_render(path) for path in _font_paths()])
    distance = np.where(ink, _distance_to(~ink), -_distance_to(ink))
    distance -= np.copysign(np.float32(0.5), distance)
    # A stroke of length L and width W has about W L pixels of ink, 2 L of them on its outline.
    area = ink.sum((1, 2, 3))
    outline = (ink & (distance < 1)).sum((1, 2, 3))
    return _Outlines(distance.reshape(-1, _CANVAS, _CANVAS), 2 * area / outline)


def _render(path: pathlib.Path) -> _Array:
    """bool [62, 64, 64]: each character of the font, centred, almost equally large."""
    font = ImageFont.truetype(str(path), 3 * _GLYPH, layout_engine=ImageFont.Layout.BASIC)
    crops = []
    for character in CLASSES:
        left, top, right, bottom = font.getbbox(character)
        picture = Image.new("L", (int(right - left) + 2, int(bottom - top) + 2))
        ImageDraw.Draw(picture).text((1 - left, 1 - top), character, fill=255, font=font)
        crops.append(picture.crop(picture.getbbox()))
    capital = crops[CLASSES.index("H")].height
    canvases = np.zeros((len(CLASSES), _CANVAS, _CANVAS), bool)
    for canvas, crop in zip(canvases, crops, strict=True):
        longest = max(crop.size)
        scale = _GLYPH * (longest / capital) ** _SIZE_CUE / longest
        width, height = (max(1, round(length * scale)) for length in crop.size)
        small = np.asarray(crop.resize((width, height), Image.Resampling.BOX))
        row, column = (_CANVAS - height) // 2, (_CANVAS - width) // 2
        canvas[row : row + height, column : column + width] = small > 96  # keeps hairlines whole
    return canvases


def _distance_to(mask: _Array) -> _Array:
    """float32 Euclidean distance of each pixel to the nearest True of its canvas, up to the reach.

    Exact and separable: squared distances add up, so the nearest along y of the nearest along x.
    Bytes suffice, as a capped square plus the square of a step is at most 64 + 49.
    """
    squared = np.where(mask, np.uint8(0), np.uint8(_REACH**2))
    for axis in (squared.ndim - 1, squared.ndim - 2):
        source = squared.swapaxes(axis, -1)
        nearest = source.copy()
        for step in range(1, _REACH):
            away = np.uint8(step**2)
            np.minimum(nearest[..., step:], source[..., :-step] + away, out=nearest[..., step:])
            np.minimum(nearest[..., :-step], source[..., step:] + away, out=nearest[..., :-step])
        squared = nearest.swapaxes(axis, -1)
    return np.sqrt(squared, dtype=np.float32)


# ---- cache ---------------------------------------------------------------------------------------


def _cache_path(cache_dir: pathlib.Path | None, options: _Options) -> pathlib.Path | None:
    """Where these pictures are cached, or None where this user has no home for a cache."""
    if cache_dir is None:
        base = pathlib.Path(os.environ.get("XDG_CACHE_HOME", ""))
        if not base.is_absolute():  # the XDG specification ignores relative folders
            try:
                base = pathlib.Path.home() / ".cache"
            except RuntimeError:
                return None
        cache_dir = base / "tf_fedsam"
    return pathlib.Path(cache_dir) / f"glyphs-{_fingerprint(options)}.npz"


def _fingerprint(options: _Options) -> str:
    """Changes with anything that may change a pixel: options, this code, fonts and libraries."""
    versions = [np.__version__, PIL.__version__, features.version("freetype2")]
    digest = hashlib.sha256(json.dumps([dataclasses.asdict(options), versions]).encode())
    for path in [pathlib.Path(__file__), *_font_paths()]:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _read(path: pathlib.Path, options: _Options) -> Glyphs | None:
    """The cached pictures, or None if there are none that are whole."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            glyphs = Glyphs(**{name: arrays[name] for name in arrays.files})
    except Exception:  # a torn archive fails in as many ways as it has bytes; all mean "draw again"
        return None
    expected = {"train": options.num_train, "test": options.num_test}
    for split, num in expected.items():
        image = getattr(glyphs, f"x_{split}")
        if image.shape != (num, _SIDE, _SIDE, 1) or image.dtype != np.uint8:
            return None
        for name in (f"y_{split}", f"writer_{split}"):
            if getattr(glyphs, name).shape != (num,) or getattr(glyphs, name).dtype != np.int32:
                return None
    return glyphs


def _write(path: pathlib.Path, glyphs: Glyphs) -> None:
    """Writes beside and moves into place, so that no process ever reads half a file."""
    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as file:
            temporary = file.name
            np.savez(file, **vars(glyphs))
        os.replace(temporary, path)
    except OSError:
        pass  # no cache is slower, not wrong
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)  # left over only if the move into place was not reached
