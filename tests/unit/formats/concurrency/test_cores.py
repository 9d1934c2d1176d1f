"""Tests of the number of cores: affinity, limited by the quota of the control group."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from stoker.errors import ConfigError
from stoker.formats.concurrency import cores
from stoker.formats.concurrency.cores import available_cores, check_threads

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("limit", "expected"),
    [("max 100000", 6), ("250000 100000", 2), ("50000 100000", 1), ("9900000 100000", 6)],
)
def test_cores_within_the_quota(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limit: str, expected: int
) -> None:
    (tmp_path / "cpu.max").write_text(limit)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)))
    monkeypatch.setattr(cores, "open", lambda _: (tmp_path / "cpu.max").open(), raising=False)
    assert available_cores() == check_threads(None) == expected


def test_cores_without_a_control_group(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)))
    monkeypatch.setattr(cores, "open", missing, raising=False)
    assert available_cores() == 6


@pytest.mark.parametrize("given", ["2", 2.0, 0, -1, 10**6, True], ids=repr)
def test_other_values_are_no_numbers_of_threads(given: Any) -> None:
    with pytest.raises(ConfigError, match="num_threads must be an integer from 1 to 4096"):
        check_threads(given)


def test_numbers_of_threads() -> None:
    assert (check_threads(np.int64(3)), check_threads(None, 5)) == (3, 5)
