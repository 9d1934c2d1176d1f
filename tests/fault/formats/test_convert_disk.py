"""A conversion in which the disk refuses a call: a typed error, no dataset, and the same command resumes."""

import errno
import os
import resource
import shutil
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from helpers.datasets import WORDS, read_files
from helpers.options import convert_options
from helpers.processes import DiskFault, FailingConversion, full_disk, os_error

import stoker
from stoker.errors import DatasetError, LockedError, WriteError
from stoker.formats.dataset.manifest import MANIFEST_NAME

OPTIONS: dict[str, Any] = {"seed": 3, "shards": 3, "val": "25%", "num_threads": 2}


@pytest.mark.parametrize(("container", "code"), [("tfrecord", errno.ENOSPC), ("lmdb", errno.EIO)])
def test_a_conversion_resumes_after_a_fault_in_a_call_of_each_kind(
    photos: Path, tmp_path: Path, container: Any, code: int
) -> None:
    """The first, a middle and the last call of each kind fail; in tests/stress every call does."""
    conversion = FailingConversion(photos, tmp_path, container, code)
    for name, count in conversion.calls.counts.items():
        for number in sorted({1, (count + 1) // 2, count}):
            assert conversion.fails_and_resumes(number, name)
    assert len(conversion.calls.counts) >= 6


def test_a_replacement_resumes_after_a_fault_in_any_rename_or_removal(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of the old dataset and of the new one have the same names, and must not be mixed up."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    (tmp_path / "text").write_text("one\ntwo\nthree\n")
    stoker.convert_text(
        tmp_path / "text", tmp_path / "old", tokenizer=WORDS, storage=stoker.Storage(shards=3)
    )
    stoker.convert(photos, tmp_path / "fresh", seed=1, storage=stoker.ImageStorage(shards=2))
    expected = read_files(tmp_path / "fresh")
    for n in range(1, 1000):
        out = shutil.copytree(tmp_path / "old", tmp_path / f"out-{n}")
        fault = DiskFault(n, os_error(errno.EIO))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Path, "rename", fault.wrap(Path.rename))
            patch.setattr(Path, "unlink", fault.wrap(Path.unlink))
            with suppress(WriteError):
                stoker.convert(photos, out, seed=1, overwrite=True, storage=stoker.ImageStorage(shards=2))
        stoker.convert(photos, out, seed=1, overwrite=True, storage=stoker.ImageStorage(shards=2))
        assert read_files(out) == expected
        if not fault.hit:
            break
    assert n > 30, "the calls that a conversion takes"


def test_a_state_that_cannot_be_removed_is_set_aside(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, rmtree = tmp_path / "out", shutil.rmtree

    def refuse(path: str | Path, **named: Any) -> None:
        if Path(path).name.startswith(".stoker-"):
            raise OSError(errno.EBUSY, "Device or resource busy")
        rmtree(path, **named)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", refuse)
        stoker.convert(photos, out, **convert_options(OPTIONS))
    assert not (out / ".stoker-convert").exists()
    assert list(out.glob(".stoker-*"))
    assert stoker.convert(photos, out, **convert_options(OPTIONS)).already
    assert not list(out.glob(".stoker-*"))


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_a_limit_of_file_sizes_is_a_write_error(photos: Path, tmp_path: Path, container: Any) -> None:
    """The kernel itself refuses to write beyond a size: at every stage of every file."""
    stoker.convert(photos, tmp_path / "reference", container=container, **convert_options(OPTIONS))
    expected = read_files(tmp_path / "reference")
    largest = max(len(data) for data in expected.values())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    failed = 0
    try:
        for limit in range(1, largest, max(1, largest // 25)):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            try:
                stoker.convert(photos, tmp_path / "out", container=container, **convert_options(OPTIONS))
            except WriteError:
                failed += 1
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            assert not list((tmp_path / "out").glob(f"*/{MANIFEST_NAME}"))
    finally:
        signal.signal(signal.SIGXFSZ, handler)
    assert failed >= 20
    stoker.convert(photos, tmp_path / "out", container=container, **convert_options(OPTIONS))
    assert read_files(tmp_path / "out") == expected


@pytest.mark.parametrize("writers", [2, 8])
def test_one_of_several_conversions_into_a_folder_makes_the_dataset(
    photos: Path, tmp_path: Path, writers: int
) -> None:
    stoker.convert(photos, tmp_path / "reference", **convert_options(OPTIONS))
    outcomes: list[type[Exception] | bool] = []
    together = threading.Barrier(writers)

    def work() -> None:
        together.wait()
        try:
            outcomes.append(stoker.convert(photos, tmp_path / "out", **convert_options(OPTIONS)).already)
        except LockedError as error:
            outcomes.append(type(error))

    threads = [threading.Thread(target=work) for _ in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count(False) == 1
    # A conversion that begins after the end of the first finds the whole dataset.
    assert len(outcomes) == writers
    assert read_files(tmp_path / "out") == read_files(tmp_path / "reference")


class TestUnfinishedConversions:
    @pytest.fixture
    def unfinished(self, photos: Path, tmp_path: Path) -> Path:
        """A conversion that a full disk stopped after its first shards."""
        with DiskFault(40, os_error(errno.ENOSPC)).installed(), pytest.raises(WriteError):
            stoker.convert(photos, tmp_path / "out", **convert_options(OPTIONS))
        return tmp_path / "out"

    def test_other_options_are_refused(self, photos: Path, unfinished: Path) -> None:
        with pytest.raises(DatasetError, match="unfinished conversion with other options"):
            stoker.convert(photos, unfinished, **convert_options({**OPTIONS, "seed": 4}))
        stoker.convert(photos, unfinished, **convert_options(OPTIONS))

    def test_a_source_that_has_changed_is_refused(self, photos: Path, unfinished: Path) -> None:
        os.utime(photos / "class-0/0.jpg", ns=(1, 1))
        with pytest.raises(DatasetError, match="has changed since"):
            stoker.convert(photos, unfinished, **convert_options(OPTIONS))

    def test_overwrite_starts_anew(self, photos: Path, unfinished: Path, tmp_path: Path) -> None:
        stoker.convert(photos, unfinished, overwrite=True, storage=stoker.ImageStorage(shards=1))
        stoker.convert(photos, tmp_path / "fresh", storage=stoker.ImageStorage(shards=1))
        assert read_files(unfinished) == read_files(tmp_path / "fresh")

    def test_another_number_of_threads_resumes(self, photos: Path, unfinished: Path) -> None:
        assert not stoker.convert(
            photos, unfinished, **convert_options({**OPTIONS, "num_threads": 7})
        ).already
        assert stoker.verify(unfinished / "train").ok

    def test_shards_that_are_finished_are_not_made_again(self, photos: Path, unfinished: Path) -> None:
        finished = [file.with_suffix(".tfrecord") for file in unfinished.glob(".stoker-convert/0*.json")]
        assert finished
        for shard in finished:
            os.utime(shard, (0, 0))
        stoker.convert(photos, unfinished, **convert_options(OPTIONS))
        assert [shard.stat().st_mtime for shard in unfinished.glob("*/*.tfrecord")].count(0) == len(finished)

    def test_files_of_a_killed_attempt_are_removed_first(self, photos: Path, unfinished: Path) -> None:
        attempt = unfinished / ".stoker-convert/attempt-1"
        attempt.mkdir()
        with full_disk(), pytest.raises(WriteError):
            stoker.convert(photos, unfinished, **convert_options(OPTIONS))
        assert not attempt.exists()

    @pytest.mark.parametrize("plan", ["", "{", "{}", "[]", '{"fingerprint": 3}', "\udcff"])
    def test_a_damaged_state_is_another_conversion(self, photos: Path, unfinished: Path, plan: str) -> None:
        (unfinished / ".stoker-convert/plan.json").write_bytes(plan.encode(errors="surrogateescape"))
        with pytest.raises(DatasetError, match="unfinished conversion"):
            stoker.convert(photos, unfinished, **convert_options(OPTIONS))
        stoker.convert(photos, unfinished, overwrite=True, **convert_options(OPTIONS))
