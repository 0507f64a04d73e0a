"""Decoding JPEG and PNG files into arrays of one size, with bounded work for each file."""

import io
from collections.abc import Callable

import numpy as np
from PIL import Image

from tasks.formats.files import bad_file
from tf_fedsam.data.files import FileImages
from tf_fedsam.errors import InputError

MAX_FILE_BYTES = 1 << 26
MAX_PIXELS = 1 << 26

# A progressive JPEG of a few bytes for each of its scans makes the decoder pass over the whole
# picture for each. Encoders write about ten scans.
_MAX_JPEG_SCANS = 1_000

Read = Callable[[int], tuple[bytes, str]]


def decode_image(
    data: bytes, name: object, size: int, channels: int = 3, max_pixels: int = MAX_PIXELS
) -> np.ndarray:
    """One JPEG or PNG as uint8 [size, size, channels].

    Another size is resampled bilinearly (with antialiasing) to the square, whatever the original's
    proportions. Grey becomes RGB and RGB grey as `channels` asks, 16-bit values keep their upper
    eight bits, transparent pixels are laid on white.

    Raises:
        InputError: not a JPEG or PNG, cut short, or more than `max_pixels`.
    """
    if not data:
        raise bad_file(name, "an empty file", "a JPEG or PNG image")
    if data.count(b"\xff\xda") > _MAX_JPEG_SCANS and data[:2] == b"\xff\xd8":
        raise bad_file(name, "a JPEG with an absurd number of scans", "an ordinary image")
    if data[:4] == b"\x89PNG" and b"IEND" not in data:
        raise bad_file(name, "a PNG without its end", "a complete image")  # Pillow may accept it
    try:
        with Image.open(io.BytesIO(data), formats=("JPEG", "PNG")) as image:
            width, height = image.size
            if width * height > max_pixels:
                raise _too_large(name, f"{width} x {height} pixels", max_pixels)
            flat = _flat(image, "RGB" if channels == 3 else "L")
            if flat.size != (size, size):
                flat = flat.resize((size, size), Image.Resampling.BILINEAR)
            return np.asarray(flat, np.uint8).reshape(size, size, channels)
    except InputError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise _too_large(name, "an image of far more", max_pixels) from None
    # Pillow's parsers answer broken files with nearly every kind of exception.
    except Exception as error:
        raise _undecodable(name, error) from None


def dimensions(data: bytes, name: object) -> tuple[int, int]:
    """Width and height of a JPEG or PNG, from its header alone.

    Raises:
        InputError: not a JPEG or PNG.
    """
    try:
        with Image.open(io.BytesIO(data), formats=("JPEG", "PNG")) as image:
            return image.size
    except Exception as error:  # of nearly every kind, as in decode_image
        raise _undecodable(name, error) from None


def stored(
    read: Read, num_images: int, size: int, channels: int = 3, max_pixels: int = MAX_PIXELS
) -> FileImages:
    """Images in files as an array of uint8 [num_images, size, size, channels].

    Args:
        read: the content of the file with this number, and the name that a message about it shows.
        num_images: how many there are.
        size: height and width of the result.
        channels: 3 (RGB) or 1 (grey).
        max_pixels: the largest image that is decoded.
    """
    if size < 1 or channels not in (1, 3):
        raise InputError(
            f"Image shape: received size={size}, channels={channels}; expected a size of at least "
            "1 and 1 or 3 channels."
        )

    def decode(number: int) -> np.ndarray:
        data, name = read(number)
        return decode_image(data, name, size, channels, max_pixels)

    return FileImages(decode, num_images, (size, size, channels))


def _flat(image: Image.Image, mode: str) -> Image.Image:
    """The image in `mode` ("RGB" or "L"), without transparency, palette or 16-bit values."""
    if image.mode.startswith("I"):
        values = np.clip(np.asarray(image, np.int64), 0, 0xFFFF) >> 8
        return Image.fromarray(values.astype(np.uint8)).convert(mode)
    if "A" in image.mode or "a" in image.mode or "transparency" in image.info:
        layer = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert(mode)
    return image if image.mode == mode else image.convert(mode)


def _too_large(name: object, received: str, max_pixels: int) -> InputError:
    return bad_file(
        name, received, f"at most {max_pixels:,} pixels", "Shrink the image or remove the file."
    )


def _undecodable(name: object, error: Exception) -> InputError:
    return bad_file(
        name,
        f"an image that cannot be decoded ({type(error).__name__})",
        "a complete JPEG or PNG image",
        "Replace or remove the file.",
    )
