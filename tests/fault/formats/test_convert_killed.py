"""A conversion that is killed at a call which changes the disk: it resumes and ends with the same bytes."""

from pathlib import Path

import pytest
from helpers.processes.programs import run_program


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_a_conversion_resumes_after_a_kill_at_a_call_of_each_kind(
    photos: Path, tmp_path: Path, container: str
) -> None:
    assert int(run_program("killed/conversions.py", photos, tmp_path / "out", container, "calls")) >= 6
