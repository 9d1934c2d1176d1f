"""A conversion in which each single call that changes the disk fails in turn, and which resumes."""

import errno
import itertools
from pathlib import Path
from typing import Any

import pytest
from helpers.processes import FailingConversion


@pytest.mark.parametrize("kind", ["tfrecord", "lmdb"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO], ids=["ENOSPC", "EIO"])
def test_a_conversion_resumes_after_a_fault_in_any_call(
    photos: Path, tmp_path: Path, kind: Any, code: int
) -> None:
    conversion = FailingConversion(photos, tmp_path, kind, code)
    failed = next(n for n in itertools.count() if not conversion.fails_and_resumes(n + 1))
    assert failed >= 50
