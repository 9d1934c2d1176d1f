"""``stoker.duplicates``: groups of images that are equal or nearly equal, within datasets and across them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from stoker._native import crc32c
from stoker.arguments import check_progress, whole_number
from stoker.errors import ConfigError
from stoker.formats.changes.remove import write_keys
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.dataset.index import NO_CHECKSUM
from stoker.formats.dataset.versions import split_version
from stoker.formats.open import open as open_dataset

from .near_pairs import hamming_distances, near_pairs
from .perceptual_hash import hash_images

Int64 = npt.NDArray[np.int64]

_LARGEST_DISTANCE = 16


@dataclass(frozen=True)
class DuplicateImage:
    """An image of a group.

    Attributes:
        dataset: Number of its dataset among those that were given.
        position: Its position there.
        key: Its key.
        distance: Bits in which its hash differs from that of the group's first image.
        exact: Whether it has the pixels of the first image.
    """

    dataset: int
    position: int
    key: str
    distance: int
    exact: bool


@dataclass(frozen=True)
class Duplicates:
    """The result of :func:`stoker.duplicates`.

    Attributes:
        paths: Folders of the datasets, as given, without versions.
        datasets: The datasets.
        groups: Groups of images; the first one of a group is kept, and all others are near it.
        images: Number of images that were compared.
        skipped: Number of images that cannot be decoded.
    """

    paths: tuple[Path, ...]
    datasets: tuple[Dataset, ...]
    groups: tuple[tuple[DuplicateImage, ...], ...]
    images: int
    skipped: int

    @property
    def surplus(self) -> list[DuplicateImage]:
        """The images that are not kept."""
        return [image for group in self.groups for image in group[1:]]

    @property
    def across(self) -> int:
        """Number of groups with images of several datasets."""
        return sum(len({image.dataset for image in group}) > 1 for group in self.groups)

    def write(self, file: str | os.PathLike[str]) -> None:
        """Write the keys of :attr:`surplus` to a file for :func:`stoker.remove` of each dataset."""
        write_keys(Path(file), ((image.key, self.paths[image.dataset]) for image in self.surplus))


def duplicates(
    datasets: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    distance: int = 4,
    keep: str | os.PathLike[str] | None = None,
    num_threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Duplicates:
    """Find images that are equal or nearly equal, within datasets and across them.

    Images are near if their perceptual hashes of 64 bits differ in few bits (pHash, see
    :mod:`stoker.pipeline.duplicates.perceptual_hash`): the same photograph at another size or quality. Crops,
    rotations and mirrored images are not found. Images are exact duplicates if all their pixels are equal.

    Args:
        datasets: Folder of a dataset, or several, such as those for training and validation. Folders of
            images that were not converted work, too.
        distance: Largest number of bits that differ, 0 to 16. More bits find more copies, and more images
            that only look alike.
        keep: One of the datasets, whose image is kept if a group has images of several. Otherwise the first
            image of a group is kept, in the order of the datasets.
        num_threads: Threads that decode; by default the cores that this process may use.
        progress: Called with the numbers of images done and of all images, from the calling thread.

    Raises:
        ConfigError: A dataset holds no images, ``distance`` is out of range, or ``keep`` is none of the
            datasets.
        DatasetError: A folder is no dataset.
    """
    check_progress(progress)
    distance = whole_number("distance", distance, 0)
    if distance > _LARGEST_DISTANCE:
        raise ConfigError(f"distance must be from 0 to {_LARGEST_DISTANCE} bits, not {distance}")
    paths_with_versions = [datasets] if isinstance(datasets, (str, os.PathLike)) else list(datasets)
    opened = [open_dataset(path) for path in paths_with_versions]
    paths = tuple(Path(split_version(path)[0]) for path in paths_with_versions)
    total = sum(map(len, opened))
    images = _hashed(opened, _order(paths, keep), num_threads, progress, total)
    chains = _components(images.hashes, distance)
    groups = [group for members in chains for group in images.groups(members, distance)]
    described = tuple(tuple(_described(opened, images, group)) for group in groups)
    return Duplicates(paths, tuple(opened), described, len(images.hashes), total - len(images.hashes))


def _order(paths: tuple[Path, ...], keep: str | os.PathLike[str] | None) -> list[int]:
    """Return the numbers of the datasets, that of ``keep`` first."""
    numbers = list(range(len(paths)))
    if keep is None:
        return numbers
    folders = [path.resolve() for path in paths]
    if (kept := Path(keep).resolve()) not in folders:
        raise ConfigError(f"keep must be one of the datasets, not {os.fspath(keep)!r}")
    numbers.insert(0, numbers.pop(folders.index(kept)))
    return numbers


@dataclass(frozen=True, eq=False)
class _Images:
    """The hashed images of all datasets, those to keep first: (N,) each."""

    datasets: Int64
    positions: Int64
    hashes: npt.NDArray[np.uint64]

    def groups(self, members: Int64, distance: int) -> list[Int64]:
        """Divide images that are near in chains into groups whose images are near the first one."""
        groups = []
        while len(members):
            near = self.distances(members) <= distance
            if near.sum() > 1:
                groups.append(members[near])
            members = members[~near]
        return groups

    def distances(self, members: Int64) -> Int64:
        """Number of bits, (M,) int64, in which the hash of each image differs from that of the first one."""
        return hamming_distances(self.hashes[members], self.hashes[members[:1]].repeat(len(members)))


def _hashed(
    opened: list[Dataset],
    order: list[int],
    num_threads: int | None,
    progress: Callable[[int, int], None] | None,
    total: int,
) -> _Images:
    done = 0

    def count(more: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress(done, total)

    hashed = [hash_images(opened[number], num_threads, count) for number in order]
    owners = [np.full(len(hashes), number) for number, (_, hashes) in zip(order, hashed, strict=True)]
    positions, hashes = (np.concatenate(column) for column in zip(*hashed, strict=True))
    return _Images(np.concatenate(owners), positions, hashes)


def _components(hashes: npt.NDArray[np.uint64], distance: int) -> list[Int64]:
    """Return the indices of images that are near each other or linked by near ones, in ascending order."""
    values, of_image = np.unique(hashes, return_inverse=True)
    parent = list(range(len(values)))

    def root(value: int) -> int:
        while parent[value] != value:
            parent[value] = parent[parent[value]]
            value = parent[value]
        return value

    for first, second in zip(*(side.tolist() for side in near_pairs(values, distance)), strict=True):
        parent[root(second)] = root(first)
    component = np.array([root(value) for value in range(len(values))], np.int64)[of_image.reshape(-1)]
    order = np.argsort(component, kind="stable")
    starts = np.flatnonzero(np.diff(component[order])) + 1
    return sorted((part for part in np.split(order, starts) if len(part) > 1), key=lambda part: int(part[0]))


def _described(opened: list[Dataset], images: _Images, group: Int64) -> Iterator[DuplicateImage]:
    first = opened[images.datasets[group[0]]], int(images.positions[group[0]])
    for index, distance in zip(group.tolist(), images.distances(group).tolist(), strict=True):
        number, position = int(images.datasets[index]), int(images.positions[index])
        exact = index == int(group[0]) or _are_equal(first, (opened[number], position))
        yield DuplicateImage(number, position, opened[number].keys([position])[0], distance, exact)


def _are_equal(first: tuple[Dataset, int], second: tuple[Dataset, int]) -> bool:
    """Return whether two images have the same pixels; they are decoded only if their sizes are equal."""
    first_sample, second_sample = (dataset.samples([position]) for dataset, position in (first, second))

    def same(*names: str) -> bool:
        return all(getattr(first_sample, name)[0] == getattr(second_sample, name)[0] for name in names)

    if not same("height", "width"):
        return False
    if first_sample.crc[0] != NO_CHECKSUM and same("crc", "length", "orientation"):
        return True
    return len({crc32c(dataset[position].image.tobytes()) for dataset, position in (first, second)}) == 1
