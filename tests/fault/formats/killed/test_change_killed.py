"""A change of a dataset that is killed at a call which changes the disk: the last version stands."""

from pathlib import Path

from helpers.processes import run_in_fork
from helpers.warm_python import WarmPython


def test_a_killed_change_leaves_the_last_version_and_can_be_made_again(
    tmp_path: Path, warm_python: WarmPython
) -> None:
    assert int(run_in_fork(warm_python, "killed.py", "change", tmp_path, "append,remove,merge", "calls")) >= 3
