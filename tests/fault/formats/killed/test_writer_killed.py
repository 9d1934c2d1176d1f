"""A writer that is killed at a call which changes the disk leaves nothing half-written that can be opened."""

from pathlib import Path

import pytest
from helpers.processes import run_in_fork
from helpers.warm_python import WarmPython

import stoker

FORKED = """
import os, sys
import numpy as np
import stoker
from stoker.errors import LockedError

with stoker.Writer(sys.argv[1]) as writer:
    writer.write(np.zeros((4, 4, 3), np.uint8))
    child = os.fork()
    if not child:
        try:
            writer.write(np.zeros((4, 4, 3), np.uint8))
        except LockedError:
            del writer  # it must not remove files of the parent
            os._exit(7)
        os._exit(8)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    writer.write(np.zeros((4, 4, 3), np.uint8))
"""


@pytest.mark.parametrize("container", ["tfrecord", "lmdb"])
def test_a_killed_writer_leaves_a_whole_dataset_or_none_and_can_write_again(
    tmp_path: Path, container: str, warm_python: WarmPython
) -> None:
    assert int(run_in_fork(warm_python, "killed.py", "writer", tmp_path, container, "calls")) >= 6


def test_a_forked_child_cannot_write_and_its_end_does_not_harm_the_writer_of_its_parent(
    tmp_path: Path, warm_python: WarmPython
) -> None:
    warm_python.output(FORKED, tmp_path / "out")
    assert len(stoker.open(tmp_path / "out")) == 2
