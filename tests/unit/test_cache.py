"""What is here of a remote dataset, for processes that share it."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import stoker
from stoker.formats.dataset import Dataset
from stoker.formats.remote.cache import CachedDataset

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")


@pytest.fixture
def dataset(tmp_path: Path, make_jpeg: Callable[..., bytes]) -> CachedDataset:
    photos = tmp_path / "photos" / "class"
    photos.mkdir(parents=True)
    for number in range(3):
        (photos / f"{number}.jpg").write_bytes(make_jpeg(seed=number))
    stoker.convert(photos.parent, tmp_path / "there")
    cached = stoker.open(tmp_path / "there", cache=tmp_path / "cache", cache_size="1GB")
    assert isinstance(cached, CachedDataset)
    return cached


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_evicts_nothing_that_its_parent_reads(dataset: CachedDataset) -> None:
    expected = dataset.read(0)  # its files are open when the process forks
    begin, go = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.read(begin, 1)
            dataset._files.shrink(0)
            os._exit(7)
        finally:
            os._exit(1)
    with dataset._files.here(dataset.ranges(np.array([0]))):
        os.write(go, b".")
        assert _status(child) == 7
        assert Dataset._read(dataset, 0, 0, ("offset", "length", "crc"), "payload") == expected
    for descriptor in (begin, go):
        os.close(descriptor)


def _status(child: int) -> int | None:
    """How a process has ended; None where it had not for a minute."""
    end = time.monotonic() + 60
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(0.01)
    return os.waitstatus_to_exitcode(ended[1])
