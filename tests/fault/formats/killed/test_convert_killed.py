"""A conversion that is killed at a call which changes the disk: it resumes and ends with the same bytes."""

from pathlib import Path

import pytest
from helpers.processes import run_in_fork
from helpers.warm_python import WarmPython


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_a_conversion_resumes_after_a_kill_at_a_call_of_each_kind(
    photos: Path, tmp_path: Path, container: str, warm_python: WarmPython
) -> None:
    arguments = "conversion", tmp_path, container, "calls", photos
    assert int(run_in_fork(warm_python, "killed.py", *arguments)) >= 6
