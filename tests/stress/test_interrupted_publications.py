"""A conversion that is interrupted at any call while it publishes leaves nothing to another one."""

from pathlib import Path

import fsspec
import pytest
from helpers.publications import check_at_url, check_in_folder

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk", "short_pauses")


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
@pytest.mark.parametrize("replaced", [False, True])
def test_nothing_stays_in_a_folder(photos: Path, tmp_path: Path, container: str, replaced: bool) -> None:
    assert check_in_folder(photos, tmp_path, container, replaced=replaced, every=True) > 10


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_nothing_stays_at_a_url(photos: Path, container: str) -> None:
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    assert check_at_url(photos, memory, container, every=True) > 20
