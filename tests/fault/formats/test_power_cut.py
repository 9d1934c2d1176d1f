"""Power cuts at any moment: the disk then holds a whole dataset or none.

After a power cut a disk holds the content that was synced, under the names that were synced. It may hold any
part of the later changes. So wherever there is a manifest, now or after a power cut, the disk must already
hold all other files of its dataset, and these may not have changed since.
"""

import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.datasets import read_files
from helpers.options import convert_options

import stoker
from stoker.formats.dataset import versions as history
from stoker.formats.dataset.manifest import MANIFEST_NAME
from stoker.formats.dataset.versions import SHA256_NAME
from stoker.formats.in_place import shards as external_index
from stoker.formats.remote.stage import stage

Dataset = dict[str, bytes]
RMTREE = shutil.rmtree


class Disk:
    """Follows the calls that change a disk, and knows which files a power cut cannot lose."""

    def __init__(self) -> None:
        self._files: dict[int, bytes] = {}
        self._names: dict[int, dict[str, int]] = {}
        self._lock = threading.RLock()

    @contextmanager
    def watched(self, check: Callable[[], None]) -> Iterator[None]:
        """Calls ``check`` after each of these calls."""

        def followed(call: Callable[..., Any]) -> Callable[..., Any]:
            def called(*arguments: Any, **named: Any) -> Any:
                with self._lock:
                    result = call(*arguments, **named)
                    check()
                    return result

            return called

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", followed(self._sync))
            patch.setattr(shutil, "rmtree", followed(self._rmtree))
            for name in ("rename", "unlink"):
                patch.setattr(Path, name, followed(getattr(Path, name)))
            yield

    def _sync(self, descriptor: int) -> None:
        status, path = os.fstat(descriptor), f"/proc/self/fd/{descriptor}"
        if stat.S_ISDIR(status.st_mode):
            with os.scandir(descriptor) as entries:
                self._names[status.st_ino] = {entry.name: entry.inode() for entry in entries}
        else:
            self._files[status.st_ino] = Path(path).read_bytes()

    def _rmtree(self, folder: Path | str, **options: Any) -> None:
        # New files may get the inode numbers of removed ones.
        for path in (Path(folder), *Path(folder).rglob("*")):
            self._names.pop(path.lstat().st_ino, None)
            self._files.pop(path.lstat().st_ino, None)
        RMTREE(folder, **options)

    def holds(self, folder: Path) -> Dataset:
        """Returns the files in a folder that a power cut cannot lose, with their content."""
        return dict(self._walk(folder.stat().st_ino, "")) if folder.exists() else {}

    def is_sure_of(self, file: Path) -> bool:
        """Returns whether a power cut cannot lose the content of a file, under any name."""
        return self._files.get(file.stat().st_ino) == file.read_bytes()

    def _walk(self, inode: int, prefix: str) -> Iterator[tuple[str, bytes]]:
        for name, child in self._names.get(inode, {}).items():
            if child in self._files:
                yield prefix + name, self._files[child]
            yield from self._walk(child, f"{prefix}{name}/")


def present(folder: Path, versions: list[Dataset]) -> Dataset:
    """Returns the files of any of the versions that exist now."""
    files = {name: folder / name for version in versions for name in version}
    return {name: file.read_bytes() for name, file in files.items() if file.exists()}


@contextmanager
def watched(datasets: dict[Path, list[Dataset]]) -> Iterator[Disk]:
    """Checks after each call that every folder would hold a whole version after a power cut, or none."""
    disk = Disk()

    def check() -> None:
        for folder, versions in datasets.items():
            sure, now = disk.holds(folder), present(folder, versions)
            for manifest in {files[MANIFEST_NAME] for files in (sure, now) if MANIFEST_NAME in files}:
                (version,) = (files for files in versions if files[MANIFEST_NAME] == manifest)
                # Entries of sha256.json come before their version, as lines of versions.jsonl do.
                rest = {n: data for n, data in version.items() if n not in (MANIFEST_NAME, SHA256_NAME)}
                assert rest.items() <= sure.items()
                assert rest.items() <= now.items()
            if MANIFEST_NAME in now:
                assert disk.is_sure_of(folder / MANIFEST_NAME)

    with disk.watched(check):
        yield disk


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_a_conversion_and_its_replacement_are_whole_or_absent(
    photos: Path, tmp_path: Path, container: Any
) -> None:
    conversions: list[dict[str, Any]] = [
        {"shards": 3, "val": "25%", "format": container},
        {"shards": 2, "val": "50%", "format": "tfrecord", "overwrite": True},
    ]
    for number, options in enumerate(conversions):
        stoker.convert(photos, tmp_path / f"reference-{number}", **convert_options(options))
    out = tmp_path / "out"
    versions = {
        split: [read_files(tmp_path / f"reference-{n}" / split) for n in (0, 1)] for split in ("train", "val")
    }
    with watched({out / split: some for split, some in versions.items()}) as disk:
        for number, options in enumerate(conversions):
            stoker.convert(photos, out, **convert_options(options))
            assert read_files(tmp_path / f"reference-{number}").items() <= disk.holds(out).items()


def write(target: Path, container: str, first: int) -> None:
    with stoker.Writer(
        target, container=container, append=True, storage=stoker.ImageStorage(shard_records=2)
    ) as writer:
        for i in range(first, first + 5):
            writer.write(np.full((4, 4, 3), i, np.uint8), label=i, vector=np.arange(i))


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_a_written_dataset_and_its_next_version_are_whole_or_absent(
    tmp_path: Path, container: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A version states the second of its making, and callers cannot choose it.
    monkeypatch.setattr(history, "_iso", lambda time: "2026-01-01T00:00:00Z")
    versions = []
    for first in (0, 5):
        write(tmp_path / "reference", container, first)
        versions.append(read_files(tmp_path / "reference"))
    with watched({tmp_path / "out": versions}) as disk:
        for first, version in zip((0, 5), versions, strict=True):
            write(tmp_path / "out", container, first)
            assert version.items() <= disk.holds(tmp_path / "out").items()


def test_the_result_of_a_shard_comes_after_the_shard(photos: Path, tmp_path: Path) -> None:
    """A conversion that resumes takes a shard with a result as finished."""
    state = tmp_path / "out" / ".stoker-convert"
    disk, results = Disk(), set[str]()

    def check() -> None:
        sure = disk.holds(state)
        for result in state.glob("0000?.json"):
            assert disk.is_sure_of(result)
            if result.name not in results:
                results.add(result.name)
                for suffix in (".tfrecord", ".idx", ".arrow"):
                    file = result.with_suffix(suffix)
                    assert sure.get(file.name) == file.read_bytes()

    with disk.watched(check):
        stoker.convert(photos, tmp_path / "out", storage=stoker.ImageStorage(shards=3))
    assert len(results) == 3


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_an_external_index_and_a_staged_copy_are_whole_or_absent(
    photos: Path, tmp_path: Path, container: Any
) -> None:
    stoker.convert(photos, tmp_path / "shards", container=container, storage=stoker.ImageStorage(shards=2))
    shards = sorted((tmp_path / "shards").glob(f"*.{container}"))
    actions: list[Callable[[Path], object]] = [
        lambda into: external_index.index(shards, into),
        lambda into: stage(tmp_path / "shards", into),
    ]
    for number, action in enumerate(actions):
        out, reference = tmp_path / f"out-{number}", tmp_path / f"reference-{number}"
        action(reference)
        with watched({out: [read_files(reference)]}) as disk:
            action(out)
        assert read_files(reference).items() <= disk.holds(out).items()
