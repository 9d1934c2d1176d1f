"""A writer that is killed at a call which changes the disk leaves nothing half-written that can be opened."""

import os
from pathlib import Path

import numpy as np
import pytest
from helpers.processes.programs import run_program

import stoker
from stoker.errors import LockedError


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_a_killed_writer_leaves_a_whole_dataset_or_none_and_can_write_again(
    tmp_path: Path, container: str
) -> None:
    assert int(run_program("killed/writers.py", tmp_path, container, "calls")) >= 6


def test_a_forked_child_is_told_that_the_writer_is_its_parents_and_ends_without_harm(tmp_path: Path) -> None:
    with stoker.Writer(tmp_path / "out") as writer:
        writer.write(np.zeros((4, 4, 3), np.uint8))
        child = os.fork()
        if not child:
            try:
                writer.write(np.zeros((4, 4, 3), np.uint8))
            except LockedError:
                del writer  # which frees nothing of the parent's
                os._exit(7)
            os._exit(8)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        writer.write(np.zeros((4, 4, 3), np.uint8))
    assert len(stoker.open(tmp_path / "out")) == 2
