"""A conversion that is killed at any moment: it resumes and ends with the same bytes."""

from pathlib import Path

import pytest
from helpers.processes import run_program


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_a_conversion_resumes_after_fifty_kills_at_random_moments(
    photos: Path, tmp_path: Path, container: str
) -> None:
    assert int(run_program("killed.py", "conversion", tmp_path, container, "moments", photos)) > 0
