"""A user's own images: folders named after classes, optionally below folders named after domains.

    ROOT/train/CLASS/*.jpg   with  ROOT/test/CLASS/*.jpg  (or val/, validation/)
    ROOT/CLASS/*.jpg         split by a seed
    ROOT/DOMAIN/CLASS/*.jpg  as in OfficeHome (Art, Clipart, Product, Real World); likewise below
                             train/ and test/

Images end in .jpg, .jpeg or .png, in any case. Hidden entries and files of other kinds are left out
and counted. Which of the forms a folder has is seen from where its images are; anything between
the forms is refused rather than read in part.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tasks.formats.files import PathLike, bad_file, read_bytes, reason
from tasks.formats.images import MAX_FILE_BYTES, Read
from tf_fedsam import rng
from tf_fedsam.errors import InputError

TEST_FOLDERS = ("test", "val", "validation")
SUFFIXES = (".jpg", ".jpeg", ".png")

_LAYOUT = "ROOT/train/CLASS/*.jpg, ROOT/CLASS/*.jpg or ROOT/DOMAIN/CLASS/*.jpg"


@dataclass(frozen=True)
class Split:
    """The training or the test images.

    Attributes:
        files: their paths, sorted by domain, class and name.
        labels: int32 [n], indices into `ImageFolder.class_names`.
        domains: int32 [n], indices into `ImageFolder.domain_names`; zeros without domains.
    """

    files: tuple[str, ...]
    labels: np.ndarray
    domains: np.ndarray


@dataclass(frozen=True)
class ImageFolder:
    """What a folder holds; nothing is decoded yet.

    Attributes:
        train: the training images.
        test: the test images.
        class_names: sorted; a class may be absent from a domain or from the test images.
        domain_names: sorted; empty if the folder has no domain level.
        num_ignored: hidden entries, files that are not images and unused folders beside train/.
    """

    train: Split
    test: Split
    class_names: tuple[str, ...]
    domain_names: tuple[str, ...]
    num_ignored: int


def scan(root: PathLike, *, test_fraction: float = 0.2, seed: int = 0) -> ImageFolder:
    """Lists the images of a folder with their classes and domains.

    Args:
        root: the folder.
        test_fraction: without a test folder, the share of each class (of each domain) that is set
            aside: at least one image, never all.
        seed: decides which images are set aside.

    Raises:
        InputError: a missing or empty folder, images at no or at two levels, a class folder
            without images, a test class that was not trained, or a link that leads outside.
    """
    if not 0 < test_fraction < 1:
        raise InputError(
            f"test_fraction: received {test_fraction}; expected a number between 0 and 1."
        )
    lister = _Lister(root)
    top = lister.entries(lister.root)
    by_name = {entry.name: entry for entry in top.folders}
    tests = [by_name[name] for name in TEST_FOLDERS if name in by_name]
    if "train" in by_name:
        lister.num_ignored += len(top.images) + len(by_name) - 1 - len(tests[:1])
        train = lister.tree(by_name["train"].path)
        test = lister.tree(tests[0].path) if tests else None
    elif tests:
        raise bad_file(
            root, f"a folder {tests[0].name!r} but none named 'train'", _LAYOUT, "Add train/."
        )
    else:
        lister.num_ignored = 0  # the root is listed a second time
        train, test = lister.tree(lister.root), None

    class_names = tuple(sorted({label for _, label in train}))
    if test is not None:
        for domain, label in test:
            if label not in class_names:
                raise bad_file(
                    Path(tests[0].path, domain or "", label),
                    f"the class {label!r}, which has no training images",
                    "only classes of train/",
                    "Rename or remove the folder.",
                )
            if (domain is None) != (None in {domain for domain, _ in train}):
                raise bad_file(
                    root,
                    "domain folders in only one of train/ and test/",
                    "the same levels in both",
                    "Arrange both in the same way.",
                )
    domains = {domain for domain, _ in (*train, *(test or ()))}
    domain_names = tuple(sorted(domain for domain in domains if domain is not None))
    if test is None:
        train, test = _divide(root, train, test_fraction, seed)
    return ImageFolder(
        _split(train, class_names, domain_names),
        _split(test, class_names, domain_names),
        class_names,
        domain_names,
        lister.num_ignored,
    )


def reader(files: Sequence[PathLike]) -> Read:
    """Reads these files by their numbers, for `images.stored`."""

    def read(number: int) -> tuple[bytes, str]:
        path = files[number]
        return read_bytes(path, MAX_FILE_BYTES), os.fspath(path)

    return read


# The files of each (domain or None, class).
Tree = dict[tuple[str | None, str], list[str]]


@dataclass(frozen=True)
class _Entries:
    folders: list[os.DirEntry[str]]
    images: list[str]


class _Lister:
    """Lists folders below one root and refuses what leads out of it."""

    def __init__(self, root: PathLike):
        self.root = os.fspath(root)
        try:
            self._real_root = os.path.realpath(self.root)
        except (OSError, ValueError) as error:
            raise _unreadable(self.root, error) from None
        self.num_ignored = 0

    def tree(self, base: str) -> Tree:
        """The images in base/CLASS or base/DOMAIN/CLASS."""
        top = self.entries(base)
        if top.images:
            raise bad_file(
                top.images[0], "an image outside a class folder", _LAYOUT, "Move the image."
            )
        inner = {entry.name: (entry.path, self.entries(entry.path)) for entry in top.folders}
        with_images = [name for name, (_, entries) in inner.items() if entries.images]
        with_folders = [name for name, (_, entries) in inner.items() if entries.folders]
        if with_images and with_folders:
            raise bad_file(
                base,
                f"images in {with_images[0]!r} and folders in {with_folders[0]!r}",
                f"all images at one level: {_LAYOUT}",
                "Arrange all classes in the same way.",
            )
        if not with_images and not with_folders:
            raise bad_file(base, "no images", _LAYOUT, "Check that this is the right folder.")
        found: Tree = {}
        for name, (path, entries) in sorted(inner.items()):
            if with_images:
                found[None, name] = self._class_images(path, entries)
                continue
            for folder in entries.folders:
                found[name, folder.name] = self._class_images(
                    folder.path, self.entries(folder.path)
                )
            if not entries.folders:
                raise bad_file(path, "no images", "class folders", "Remove the empty folder.")
        return found

    def entries(self, folder: str) -> _Entries:
        """The folders and images directly in a folder, sorted by name; all else is counted."""
        folders: list[os.DirEntry[str]] = []
        images: list[str] = []
        for entry in self._sorted(folder):
            if entry.name.startswith(".") or entry.name == "__MACOSX":
                self.num_ignored += 1
            elif _holds(entry.is_dir):
                self._check_inside(entry)
                if not entry.name.isprintable():
                    raise bad_file(
                        entry.path,
                        "a folder name with unprintable characters",
                        "readable class names",
                        "Rename the folder.",
                    )
                folders.append(entry)
            elif entry.name.lower().endswith(SUFFIXES):
                self._check_inside(entry)
                if not _holds(entry.is_file):
                    raise bad_file(
                        entry.path,
                        "a broken link or special file",
                        "a regular file",
                        "Remove it or restore what it points to.",
                    )
                images.append(entry.path)
            else:
                self.num_ignored += 1
        return _Entries(folders, images)

    def _sorted(self, folder: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except (OSError, ValueError) as error:
            raise _unreadable(folder, error) from None

    def _check_inside(self, entry: os.DirEntry[str]) -> None:
        if not entry.is_symlink():
            return
        target = os.path.realpath(entry.path)
        if not Path(target).is_relative_to(self._real_root):
            raise bad_file(
                entry.path,
                "a link that leads outside the folder",
                f"files below {self.root!r}",
                "Copy the files into the folder.",
            )

    def _class_images(self, path: str, entries: _Entries) -> list[str]:
        if entries.folders:
            raise bad_file(
                entries.folders[0].path,
                "a folder inside a class folder",
                _LAYOUT,
                "Give the folder that holds train/ or the classes or domains themselves.",
            )
        if not entries.images:
            raise bad_file(
                path, "a class folder without images", "at least one", "Remove the empty folder."
            )
        return entries.images


def _holds(check: Callable[[], bool]) -> bool:
    try:
        return check()
    except OSError:  # a link to itself
        return False


def _unreadable(folder: str, error: Exception) -> InputError:
    return bad_file(
        folder, reason(error), "a readable folder", "Check the path and its permissions."
    )


def _divide(root: PathLike, tree: Tree, test_fraction: float, seed: int) -> tuple[Tree, Tree]:
    """Sets aside a share of each class of each domain."""
    train: Tree = {}
    test: Tree = {}
    for group, (key, files) in enumerate(sorted(tree.items(), key=_order)):
        num_test = min(len(files) - 1, max(1, int(test_fraction * len(files) + 0.5)))
        order = rng.generator(seed, "image folder test split", group).permutation(len(files))
        chosen = set(order[:num_test].tolist())
        train[key] = [file for index, file in enumerate(files) if index not in chosen]
        test[key] = [file for index, file in enumerate(files) if index in chosen]
    if not any(test.values()):
        raise bad_file(
            root,
            "one image in each class",
            "at least two in some class, to set one aside",
            "Add images or a test/ folder.",
        )
    return train, test


def _split(tree: Tree, class_names: Sequence[str], domain_names: Sequence[str]) -> Split:
    label_of = {name: index for index, name in enumerate(class_names)}
    domain_of: dict[str | None, int] = {name: index for index, name in enumerate(domain_names)}
    files: list[str] = []
    labels: list[int] = []
    domains: list[int] = []
    for (domain, label), group in sorted(tree.items(), key=_order):
        files += group
        labels += [label_of[label]] * len(group)
        domains += [domain_of.get(domain, 0)] * len(group)
    return Split(tuple(files), np.asarray(labels, np.int32), np.asarray(domains, np.int32))


def _order(item: tuple[tuple[str | None, str], list[str]]) -> tuple[str, str]:
    (domain, label), _ = item
    return domain or "", label
