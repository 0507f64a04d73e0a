"""Every data set from files in its publisher's format, through `Task.load`."""

import io
import tarfile

import numpy as np
import pytest
import requests

from tasks import registry
from tasks.base import Request
from tasks.formats import cifar
from tests.tasks.formats import cifar_files
from tests.tasks.formats import tiny_imagenet_test as tiny_files
from tests.tasks.formats.idx_test import write_pairs
from tests.tasks.stored import as_multiset, no_network, prepare_tfds, some_images, write_images
from tf_fedsam.errors import InputError

EMNIST = ("emnist-byclass-train", "emnist-byclass-test")


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setattr(requests, "head", no_network)


def load(name, folder=None, **options):
    return registry.find(name).load(Request(data_dir=folder, **options))


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_idx(tmp_path, name):
    x_train, y_train, x_test, y_test = write_pairs(tmp_path, counts=(20, 10))
    loaded = load(name, tmp_path)
    np.testing.assert_array_equal(loaded.train.x, x_train[..., None])
    np.testing.assert_array_equal(loaded.train.y, y_train)
    np.testing.assert_array_equal(loaded.test.x, x_test[..., None])
    np.testing.assert_array_equal(loaded.test.y, y_test)
    assert loaded.source == f"the publisher's IDX files in {tmp_path}"
    assert len(loaded.class_names) == 10
    # Black and white as the network sees them.
    mean, std = loaded.preprocess.mean[0], loaded.preprocess.std[0]
    seen = loaded.preprocess(np.array([0, 255], np.uint8)).numpy()
    np.testing.assert_allclose(seen, [-mean / std, (1 - mean) / std], rtol=1e-5)
    small = load(name, tmp_path, subset=9, image_size=32)
    assert small.train.x.shape == (6, 32, 32, 1)
    assert small.test.x.shape == (3, 32, 32, 1)


def test_emnist_is_upright_and_the_same_from_both_sources(tmp_path):
    x_train, y_train, x_test, y_test = write_pairs(
        tmp_path / "raw", EMNIST, counts=(9, 5), num_classes=62
    )
    published = load("emnist", tmp_path / "raw")
    splits = {"train": (x_train[..., None], y_train), "test": (x_test[..., None], y_test)}
    prepare_tfds(tmp_path, "emnist", splits, config="byclass", num_classes=62)
    prepared = load("emnist", tmp_path)
    assert "prepared" in prepared.source
    np.testing.assert_array_equal(published.train.x[..., 0], x_train.transpose(0, 2, 1))
    for part in ("train", "test"):
        first, second = getattr(published, part), getattr(prepared, part)
        np.testing.assert_array_equal(first.x, second.x)
        np.testing.assert_array_equal(first.y, second.y)
    assert published.class_names == prepared.class_names


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("form", ["binary", "python"])
@pytest.mark.parametrize("number", ["10", "100"])
def test_cifar(tmp_path, monkeypatch, number, form, packed):
    """With 14 images instead of 60,000; the next test holds the number."""
    data = cifar_files.Data()
    content = getattr(cifar_files, f"cifar{number}_{form}")(data)
    short = {"10binary": "cifar-10-batches-bin", "10python": "cifar-10-batches-py"}
    folder = short.get(number + form, f"cifar-{number}-{form}")
    if packed:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
            for name, text in content.items():
                member = tarfile.TarInfo(f"{folder}/{name}")
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text))
        (tmp_path / f"cifar-{number}-{form}.tar.gz").write_bytes(buffer.getvalue())
    else:
        cifar_files.write_folder(tmp_path / folder, content)
    monkeypatch.setitem(
        getattr(cifar, f"read_cifar{number}").__kwdefaults__, "expected_counts", cifar_files.COUNTS
    )
    loaded = load(f"cifar{number}", tmp_path)
    labels = data.labels if number == "10" else data.fine
    both = (loaded.train, loaded.test)
    data.check([array for part in both for array in (part.x, part.y)], labels)
    assert len(loaded.class_names) == int(number)
    assert loaded.source == f"the publisher's files in {tmp_path}"
    assert load(f"cifar{number}", tmp_path, image_size=16).test.x.shape == (4, 16, 16, 3)


def test_cifar_with_another_number_of_images_is_refused(tmp_path):
    cifar_files.write_folder(tmp_path, cifar_files.cifar10_binary(cifar_files.Data()))
    with pytest.raises(InputError, match="10,000"):
        load("cifar10", tmp_path)


@pytest.mark.parametrize("packed", [True, False])
def test_tiny_imagenet(tmp_path, packed):
    files, images = tiny_files.dataset()
    if packed:
        (tmp_path / "tiny-imagenet-200.zip").write_bytes(tiny_files.zip_bytes(files))
    else:
        tiny_files.write_folder(tmp_path / "tiny-imagenet-200", files)
    loaded = load("tiny_imagenet", tmp_path)
    assert loaded.train.x.shape == (6, 64, 64, 3)
    assert loaded.class_names == ("Egyptian cat", "goldfish, Carassius auratus", "n07747607")
    wnids = [name.split("/")[1] for name in sorted(n for n in images if n.startswith("train"))]
    np.testing.assert_array_equal(loaded.train.y, [tiny_files.WNIDS.index(w) for w in wnids])
    np.testing.assert_array_equal(
        loaded.train.x, [images[n] for n in sorted(images) if n.startswith("train")]
    )
    np.testing.assert_array_equal(loaded.test.x[0], images["val/images/val_2.JPEG"])
    np.testing.assert_array_equal(loaded.test.y, [1, 2, 0])
    assert "validation images are the test set" in loaded.source
    assert loaded.preprocess.mean == (0.5,)

    large = load("tiny_imagenet", tmp_path, image_size=224, subset=6)
    assert large.train.x.shape == (4, 224, 224, 3)
    assert large.preprocess.mean == (0.485, 0.456, 0.406)  # as the transformers were trained
    labels = load("tiny_imagenet", tmp_path, labels_only=True)
    np.testing.assert_array_equal(labels.train.y, loaded.train.y)


def write_office_home(folder, num_classes=65, domains=("Art", "Clipart", "Product", "Real World")):
    for number, domain in enumerate(domains):
        for label in range(num_classes):
            write_images(folder / domain / f"Class{label:02}", some_images(5, 2, 3, 3, seed=number))


def test_office_home(tmp_path):
    write_office_home(tmp_path / "OfficeHomeDataset_10072016")
    for folder in (tmp_path, tmp_path / "OfficeHomeDataset_10072016"):
        loaded = load("office_home", folder, image_size=4)
        # One of five images of each class of each domain is set aside.
        assert loaded.train.x.shape == (4 * 65 * 4, 4, 4, 3)
        assert len(loaded.test) == 4 * 65
        domains, counts = np.unique(loaded.client_id, return_counts=True)
        assert domains.tolist() == ["Art", "Clipart", "Product", "Real World"]
        assert counts.tolist() == [260] * 4
    tenth = load("office_home", tmp_path, labels_only=True, subset=130)
    assert len(tenth.client_id) == len(tenth.train) == 104
    assert load("office_home", tmp_path, subset=20).train.x.shape[1:] == (224, 224, 3)


@pytest.mark.parametrize(
    "changes", [{"num_classes": 3}, {"domains": ("Art", "Clipart", "Product")}]
)
def test_something_like_office_home_is_refused(tmp_path, changes):
    write_office_home(tmp_path, **({"num_classes": 65} | changes))
    with pytest.raises(InputError, match="expected Art, Clipart, Product, Real World and 65"):
        load("office_home", tmp_path, image_size=2)


def test_image_folder(tmp_path):
    cats, dogs, test = (
        some_images(6, 12, 12, 3),
        some_images(4, 12, 12, 3, 1),
        some_images(2, 12, 12, 3, 2),
    )
    write_images(tmp_path / "train" / "cat", cats)
    write_images(tmp_path / "train" / "dog", dogs)
    write_images(tmp_path / "test" / "dog", test)
    (tmp_path / "train" / "cat" / "notes.txt").write_text("not an image")
    loaded = load("image_folder", tmp_path)
    assert loaded.class_names == ("cat", "dog")
    np.testing.assert_array_equal(loaded.train.x, np.concatenate([cats, dogs]))
    np.testing.assert_array_equal(loaded.train.y, [0] * 6 + [1] * 4)
    np.testing.assert_array_equal(loaded.test.y, [1, 1])
    assert loaded.client_id is None
    assert loaded.source == f"the images in {tmp_path}, as 12 x 12 (1 other files left out)"
    other = load("image_folder", tmp_path, image_size=5, subset=6)
    assert other.train.x.shape == (5, 5, 5, 3)


def test_an_image_folder_with_domains_and_without_a_test_set(tmp_path):
    for domain in ("photo", "sketch"):
        for label in ("a", "b"):
            write_images(tmp_path / domain / label, some_images(10, 6, 6, 3))
    loaded = load("image_folder", tmp_path, seed=1)
    assert (len(loaded.train), len(loaded.test)) == (32, 8)
    assert sorted(set(loaded.client_id)) == ["photo", "sketch"]
    assert loaded.client_id.tolist() == ["photo"] * 16 + ["sketch"] * 16
    again, other = (load("image_folder", tmp_path, seed=seed) for seed in (1, 2))
    np.testing.assert_array_equal(again.test.x, loaded.test.x)
    assert as_multiset(other.test.x) != as_multiset(loaded.test.x)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [([(9, 9), (9, 9)], 9), ([(9, 9), (8, 8)], 64), ([(9, 8), (9, 8)], 64), ([(300, 300)] * 2, 64)],
)
def test_own_size_of_an_image_folder(tmp_path, sizes, expected):
    for number, (height, width) in enumerate(sizes):
        write_images(tmp_path / "train" / str(number), some_images(1, height, width, 3))
        write_images(tmp_path / "test" / str(number), some_images(1, height, width, 3))
    assert load("image_folder", tmp_path).train.x.shape[1:3] == (expected, expected)


def test_an_image_folder_needs_a_folder_and_images(tmp_path):
    with pytest.raises(InputError, match="no data_dir"):
        load("image_folder")
    with pytest.raises(InputError, match="no images"):
        load("image_folder", tmp_path)
    (tmp_path / "a").mkdir()
    for number in range(2):
        (tmp_path / "a" / f"{number}.png").write_text("not a picture")
    with pytest.raises(InputError, match=r"[01]\.png"):
        load("image_folder", tmp_path)


def test_labels_alone_decode_nothing(tmp_path, monkeypatch):
    write_images(tmp_path / "a", some_images(5, 6, 6, 3))
    monkeypatch.setattr("tasks.formats.images.decode_image", None)
    loaded = load("image_folder", tmp_path, labels_only=True)
    assert loaded.train.x.shape == (4, 0)
