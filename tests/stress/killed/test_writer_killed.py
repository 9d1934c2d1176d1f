"""A writer that is killed at any call which changes the disk: a whole dataset is left, or none."""

from pathlib import Path

import pytest
from helpers.processes import run_program


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
@pytest.mark.parametrize("kind", ["writer", "appender"])
def test_a_writer_that_is_killed_at_any_call_leaves_a_whole_dataset_or_none(
    tmp_path: Path, container: str, kind: str
) -> None:
    assert int(run_program("killed.py", kind, tmp_path, container, "every")) > 20
