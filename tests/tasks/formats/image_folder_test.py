import io
import os
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from PIL import Image

from tasks.formats import image_folder
from tasks.formats.images import decode_image, stored
from tests.tasks.formats.helpers import damaged, fuzz, only_input_errors, refused


def encoded(image, form="PNG", **options):
    buffer = io.BytesIO()
    (Image.fromarray(image) if isinstance(image, np.ndarray) else image).save(
        buffer, form, **options
    )
    return buffer.getvalue()


PIXEL = encoded(np.full((2, 2, 3), (10, 20, 30), np.uint8))


def write(folder, *names, content=PIXEL):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def decoded(files, size, **options):
    return stored(image_folder.reader(files), len(files), size, **options).in_memory()


def relative(files, root):
    return [os.path.relpath(file, root) for file in files]


def test_train_and_test_folders(tmp_path):
    write(tmp_path, "train/dog/b.png", "train/dog/a.JPG", "train/cat/c.jpeg", "test/dog/d.jpg")
    found = image_folder.scan(tmp_path)
    assert found.class_names == ("cat", "dog")
    assert found.domain_names == ()
    assert relative(found.train.files, tmp_path) == [
        "train/cat/c.jpeg",
        "train/dog/a.JPG",
        "train/dog/b.png",
    ]
    assert relative(found.test.files, tmp_path) == ["test/dog/d.jpg"]
    assert found.train.labels.tolist() == [0, 1, 1]
    assert found.test.labels.tolist() == [1]
    assert found.train.labels.dtype == found.train.domains.dtype == np.int32
    assert found.train.domains.tolist() == [0, 0, 0]
    assert found.num_ignored == 0


def test_what_is_not_an_image_is_ignored_and_counted(tmp_path):
    write(tmp_path, "train/a/1.png", "test/a/2.png")
    write(tmp_path, "train/.DS_Store", "train/a/._1.png", "train/a/notes.txt", "README.md")
    write(tmp_path, "train/.hidden/x.png", "train/__MACOSX/x.png", "extra/a/3.png", "preview.png")
    write(tmp_path, "val/a/4.png")
    found = image_folder.scan(tmp_path)
    assert len(found.train.files) == len(found.test.files) == 1
    # .DS_Store, ._1.png, notes.txt, README.md, .hidden, __MACOSX, extra, preview.png, val
    assert found.num_ignored == 9


@pytest.mark.parametrize("name", ["val", "validation"])
def test_a_validation_folder_serves_as_test(tmp_path, name):
    write(tmp_path, "train/a/1.png", f"{name}/a/2.png")
    assert relative(image_folder.scan(tmp_path).test.files, tmp_path) == [f"{name}/a/2.png"]


@pytest.mark.parametrize("base", ["", "train/"])
def test_without_a_test_folder_a_seed_splits_each_class(tmp_path, base):
    sizes = {"a": 10, "b": 5, "c": 2, "d": 1}
    for label, count in sizes.items():
        write(tmp_path, *(f"{base}{label}/{i:02}.png" for i in range(count)))
    write(tmp_path, "list.csv")
    found = image_folder.scan(tmp_path, test_fraction=0.3, seed=1)
    # 0.3 * (10, 5, 2, 1) = 3, 1.5, 0.6, 0.3: rounded, at least one, never all of a class.
    assert np.bincount(found.test.labels, minlength=4).tolist() == [3, 2, 1, 0]
    assert np.bincount(found.train.labels, minlength=4).tolist() == [7, 3, 1, 1]
    together = (*found.train.files, *found.test.files)
    assert len(together) == len(set(together)) == 18
    assert found.num_ignored == 1
    again = image_folder.scan(tmp_path, test_fraction=0.3, seed=1)
    assert again.test.files == found.test.files
    other = image_folder.scan(tmp_path, test_fraction=0.3, seed=2)
    assert other.test.files != found.test.files
    # Neither the first nor the last of a class by name, which would follow the files' order.
    chosen = [
        int(file[-6:-4])
        for file, label in zip(found.test.files, found.test.labels, strict=True)
        if label == 0
    ]
    assert chosen not in ([0, 1, 2], [7, 8, 9])


@pytest.mark.parametrize("world", ["Real World", "RealWorld"])
def test_domains_as_in_office_home(tmp_path, world):
    domains = ("Art", "Clipart", "Product", world)
    for domain in domains:
        for label in ("Alarm_Clock", "Bed"):
            write(tmp_path, *(f"{domain}/{label}/{i:05}.jpg" for i in range(4)))
    write(tmp_path, "ImageInfo.csv", "Art/imagelist.txt")
    found = image_folder.scan(tmp_path, test_fraction=0.25)
    assert found.domain_names == domains
    assert found.class_names == ("Alarm_Clock", "Bed")
    assert found.num_ignored == 2
    # Four images of each class and domain: one is set aside.
    for part, count in ((found.train, 3), (found.test, 1)):
        pairs = np.stack([part.domains, part.labels], 1)
        expected = [(d, k) for d in range(4) for k in range(2) for _ in range(count)]
        np.testing.assert_array_equal(pairs, expected)


def test_domains_below_train_and_test(tmp_path):
    write(tmp_path, "train/Art/a/1.png", "train/Photo/b/2.png", "test/Sketch/a/3.png")
    found = image_folder.scan(tmp_path)
    assert found.domain_names == ("Art", "Photo", "Sketch")
    assert found.train.domains.tolist() == [0, 1]
    assert found.train.labels.tolist() == [0, 1]
    assert found.test.domains.tolist() == [2]


@pytest.mark.parametrize(
    ("names", "parts"),
    [
        ([], ["no images"]),
        (["readme.txt"], ["no images"]),
        (["a.png"], ["a.png", "outside a class folder"]),
        (["train/a.png"], ["a.png", "outside a class folder"]),
        (["train/a/x.txt"], ["train", "no images"]),
        (["test/a/1.png"], ["'train'"]),
        (["train/a/1.png", "train/b/x.txt"], ["train/b", "without images"]),
        (["train/a/1.png", "train/b/c/2.png"], ["'a'", "'b'"]),
        (["train/a/1.png", "train/a/c/2.png"], ["'a'"]),
        (["Art/a/1.png", "Photo/x.txt"], ["Photo", "no images"]),
        (["Art/a/1.png", "Art/b/deep/1.png"], ["deep", "inside a class folder"]),
        (["data/train/a/1.png", "data/test/a/1.png"], ["train", "inside a class folder"]),
        (["train/a/1.png", "test/b/1.png"], ["'b'", "no training images"]),
        (["train/a/1.png", "test/Art/a/1.png"], ["only one of train/ and test/"]),
        (["train/Art/a/1.png", "test/a/1.png"], ["only one of train/ and test/"]),
        (["a/1.png", "b/1.png"], ["one image in each class"]),
    ],
)
def test_other_layouts_are_refused(tmp_path, names, parts):
    write(tmp_path, *names)
    refused(lambda: image_folder.scan(tmp_path), tmp_path.name, *parts)


def test_a_missing_folder_a_file_and_a_wrong_fraction_are_refused(tmp_path):
    refused(lambda: image_folder.scan(tmp_path / "none"), "none", "No such file")
    write(tmp_path, "file.png")
    refused(lambda: image_folder.scan(tmp_path / "file.png"), "file.png")
    refused(lambda: image_folder.scan("nul\0byte"))
    for fraction in (0, 1, -0.5, float("nan")):
        refused(lambda f=fraction: image_folder.scan(tmp_path, test_fraction=f), "test_fraction")


def test_links_that_lead_outside_are_refused(tmp_path):
    root = tmp_path / "root"
    write(root, "train/a/1.png", "test/a/2.png")
    write(tmp_path, "outside/secret.png", "root-2/secret.png")
    link = root / "train/a/link.png"
    for target in ("../../../outside/secret.png", tmp_path / "root-2/secret.png"):
        link.symlink_to(target)
        refused(lambda: image_folder.scan(root), "link.png", "outside")
        link.unlink()
    (root / "train/b").symlink_to(tmp_path / "outside")
    refused(lambda: image_folder.scan(root), "train/b", "outside")


def test_links_inside_work_and_broken_ones_are_refused(tmp_path):
    write(tmp_path, "train/a/1.png", "test/a/2.png")
    link = tmp_path / "train/a/link.png"
    link.symlink_to("1.png")
    assert len(image_folder.scan(tmp_path).train.files) == 2
    link.unlink()
    link.symlink_to("gone.png")
    refused(lambda: image_folder.scan(tmp_path), "link.png", "broken link")
    link.unlink()
    link.symlink_to("link.png")  # a loop
    refused(lambda: image_folder.scan(tmp_path), "link.png")


def test_a_root_that_is_itself_a_link_works(tmp_path):
    write(tmp_path, "real/train/a/1.png", "real/test/a/2.png")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert len(image_folder.scan(tmp_path / "link").train.files) == 1


def test_pipes_and_unprintable_names_are_refused(tmp_path):
    write(tmp_path, "train/a/1.png", "test/a/2.png")
    os.mkfifo(tmp_path / "train/a/pipe.png")
    refused(lambda: image_folder.scan(tmp_path), "pipe.png", "regular file")
    refused(lambda: decoded([tmp_path / "train/a/pipe.png"], 2), "pipe.png")
    os.unlink(tmp_path / "train/a/pipe.png")
    os.mkdir(os.fsencode(tmp_path) + b"/train/\xff\x1b[31m")
    message = refused(lambda: image_folder.scan(tmp_path), "unprintable")
    message.encode()  # and can be printed
    assert "\x1b" not in message


# --- decoding --------------------------------------------------------------------------------


def test_decoding_keeps_the_order_and_the_values(tmp_path):
    # More than one worker's share, so that the order is the pipeline's doing.
    images = np.random.default_rng(0).integers(0, 256, (150, 4, 4, 3), np.uint8)
    files = [tmp_path / f"{i:03}.png" for i in range(150)]
    for file, image in zip(files, images, strict=True):
        file.write_bytes(encoded(image))
    result = decoded(files, 4)
    assert result.dtype == np.uint8
    np.testing.assert_array_equal(result, images)
    assert decoded([], 4).shape == (0, 4, 4, 3)


def test_resizing_and_channels():
    halves = np.zeros((8, 4, 3), np.uint8)
    halves[4:] = (200, 100, 50)
    result = decode_image(encoded(halves), "x", 2)
    # Two rows: the antialiased average of mostly black, then of mostly colour, in equal shares.
    assert result.shape == (2, 2, 3)
    np.testing.assert_allclose(result[0].astype(int) + result[1], [[200, 100, 50]] * 2, atol=2)
    assert (result[0] < result[1]).all()
    grey = decode_image(encoded(np.full((3, 3, 3), (10, 200, 30), np.uint8)), "x", 3, channels=1)
    # ITU-R 601: (299 * 10 + 587 * 200 + 114 * 30) / 1000 = 123.81
    np.testing.assert_array_equal(grey, np.full((3, 3, 1), 124))


def palette_with_transparency():
    image = Image.new("P", (2, 2), 1)
    image.putpalette([0, 0, 0, 9, 8, 7])
    return encoded(image, transparency=bytes([0, 255]))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (encoded(np.full((2, 2), 77, np.uint8)), (77, 77, 77)),
        (encoded(Image.new("1", (2, 2), 1)), (255, 255, 255)),
        (encoded(Image.new("I;16", (2, 2), 0x1234)), (0x12, 0x12, 0x12)),  # the upper eight bits
        (encoded(Image.new("RGBA", (2, 2), (1, 2, 3, 255))), (1, 2, 3)),
        (encoded(Image.new("RGBA", (2, 2), (1, 2, 3, 0))), (255, 255, 255)),  # laid on white
        (encoded(Image.new("LA", (2, 2), (40, 255))), (40, 40, 40)),
        (encoded(Image.new("RGB", (2, 2), (1, 2, 3)), transparency=(1, 2, 3)), (255, 255, 255)),
        (palette_with_transparency(), (9, 8, 7)),
        # No ink at all is white; JPEG keeps a constant picture.
        (encoded(Image.new("CMYK", (2, 2), (0, 0, 0, 0)), "JPEG"), (255, 255, 255)),
    ],
)
def test_every_kind_of_image_becomes_rgb(data, expected):
    np.testing.assert_array_equal(decode_image(data, "x", 2), np.broadcast_to(expected, (2, 2, 3)))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"text",
        b"GIF89a" + bytes(100),
        PIXEL[:-20],
        PIXEL[:-12],  # all pixels, but no end
        encoded(np.zeros((64, 64, 3), np.uint8), "JPEG")[:-100],
        encoded(np.zeros((4, 4, 3), np.uint8), "BMP"),  # a format that is not asked for
    ],
)
def test_a_damaged_file_is_named(tmp_path, content):
    write(tmp_path, *(f"{i:03}.png" for i in range(100)))
    write(tmp_path, "042.png", "099.png", content=content)
    files = sorted(tmp_path.iterdir())
    refused(lambda: decoded(files, 2), "042.png")
    refused(lambda: decoded([tmp_path / "none.png"], 2), "none.png", "No such file")


def png_claiming(width, height):
    header = b"IHDR" + struct.pack(">2I5B", width, height, 8, 0, 0, 0, 0)
    chunk = struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    return b"\x89PNG\r\n\x1a\n" + chunk + PIXEL[33:]


@pytest.mark.parametrize(
    "side",
    [
        8_193,  # just beyond 2**26 pixels, which is our bound
        12_000,  # where Pillow warns
        50_000,  # where Pillow raises
    ],
)
def test_decompression_bombs_are_refused(tmp_path, side):
    write(tmp_path, "bomb.png", content=png_claiming(side, side))
    refused(lambda: decoded([tmp_path / "bomb.png"], 2), "bomb.png", "67,108,864")


def test_a_jpeg_of_countless_scans_is_refused(tmp_path):
    jpeg = encoded(np.zeros((8, 8, 3), np.uint8), "JPEG", progressive=True)
    start = jpeg.index(b"\xff\xda")
    write(tmp_path, "scans.jpg", content=jpeg[:-2] + jpeg[start:-2] * 2_000 + jpeg[-2:])
    refused(lambda: decoded([tmp_path / "scans.jpg"], 8), "scans.jpg", "scans")


def test_a_large_file_is_refused_unread(tmp_path):
    with open(tmp_path / "large.png", "wb") as file:
        file.truncate((1 << 26) + 1)  # sparse
    refused(lambda: decoded([tmp_path / "large.png"], 2), "large.png", "67,108,864")


def test_wrong_arguments_are_refused(tmp_path):
    refused(lambda: decoded([], 0), "size=0")
    refused(lambda: decoded([], 2, channels=2), "channels=2")
    with pytest.raises(MemoryError):
        decoded(["x"] * 1000, 1 << 30)


@fuzz
@given(content=damaged(encoded(np.arange(48, dtype=np.uint8).reshape(4, 4, 3))))
def test_damaged_png_raises_input_errors_only(content):
    only_input_errors(lambda: decode_image(content, "fuzz.png", 4), "fuzz.png")


@fuzz
@given(content=damaged(encoded(np.arange(48, dtype=np.uint8).reshape(4, 4, 3), "JPEG")))
def test_damaged_jpeg_raises_input_errors_only(content):
    only_input_errors(lambda: decode_image(content, "fuzz.jpg", 4), "fuzz.jpg")
