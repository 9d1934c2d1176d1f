"""Writers whose disk fails at any byte: an OSError, no open descriptor, and no shard that looks whole."""

import random
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from stoker.errors import CorruptRecordError
from stoker.formats.containers.container import WrittenShard, find_container, find_writing, writable


@contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """Limits files to ``size`` bytes: a write beyond them is cut short, and the next one fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def write(container: str, path: Path) -> WrittenShard:
    rng = random.Random(0)
    with find_writing(container).writer(path) as writer:
        for i in range(40):
            writer.write(b"%d" % i, b"<", rng.randbytes(rng.choice([10, 2500, 300_000])), b">")
        return writer.finish()


@pytest.mark.parametrize("container", writable())
def test_a_write_that_fails_at_any_of_a_hundred_offsets_leaves_no_file_open(
    container: str, tmp_path: Path, open_files: Callable[[], list[Path]]
) -> None:
    whole = write(container, tmp_path / "whole")
    rng = random.Random(1)
    limits = [0, 1, 4095, 4096, 8192, whole.data_bytes - 1]
    limits += [rng.randrange(whole.data_bytes) for _ in range(100 - len(limits))]
    for number, limit in enumerate(limits):
        path = tmp_path / str(number)
        with files_limited_to(limit), pytest.raises(OSError, match=r"\[Errno"):
            write(container, path)
        file = find_container(container).data_file(path)
        if file.is_file():
            assert file.stat().st_size <= limit
            with suppress(CorruptRecordError):
                assert sum(1 for _ in find_container(container).scan(file)) < whole.records
            file.unlink()
    assert open_files() == []


@pytest.mark.parametrize("container", writable())
def test_a_writer_that_is_left_early_leaves_no_descriptor(
    container: str, tmp_path: Path, open_files: Callable[[], list[Path]]
) -> None:
    with suppress(ZeroDivisionError), find_writing(container).writer(tmp_path / "shard") as writer:
        writer.write(b"a", b"", b"payload", b"")
        assert open_files()
        raise ZeroDivisionError
    assert open_files() == []
