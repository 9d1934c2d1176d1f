"""A change of a dataset that is killed at any call which changes the disk."""

from pathlib import Path

import pytest
from helpers.processes import run_program


@pytest.mark.parametrize("change", ["append", "remove", "merge"])
def test_a_change_that_is_killed_at_any_call_leaves_the_last_version(tmp_path: Path, change: str) -> None:
    assert int(run_program("killed.py", "change", tmp_path, change, "every")) > 10
