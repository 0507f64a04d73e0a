"""Pictures of loss surfaces, read to be put into a page."""

import io
import json
import os
import pathlib
from collections.abc import Sequence

from PIL import Image

from tf_fedsam import paths
from tf_fedsam.errors import InputError
from tf_fedsam.report.sections import Picture

MOST_BYTES = 8_000_000


def read_pictures(folders: Sequence[str | os.PathLike]) -> list[Picture]:
    """The PNG files that the ``landscape.json`` of each folder lists, from within it."""
    found = []
    for folder in (paths.expanded(name) for name in folders):
        try:
            listed = json.loads(paths.regular(folder / "landscape.json").read_text())["pictures"]
            entries = [(str(entry["file"]), str(entry["alt"])) for entry in listed]
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise InputError(
                f"{folder} has no landscape.json with pictures "
                f"({getattr(error, 'strerror', None) or error!r}). Expected: a folder that loss "
                f"surfaces were drawn into."
            ) from None
        found += [_picture(folder, file, alt) for file, alt in entries]
    return found


def _picture(folder: pathlib.Path, file: str, alt: str) -> Picture:
    path = folder / file
    try:
        if not path.resolve().is_relative_to(folder.resolve()):
            raise ValueError("it is outside of the folder")
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES // 10**6} MB")
        content = paths.regular(path).read_bytes()
        with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
            image.verify()
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"The picture {path} of landscape.json cannot be used: {reason}. Expected: a PNG file "
            f"in that folder. Draw the loss surfaces again."
        ) from None
    return Picture(content, alt, str(folder), file)
