"""The cores that a process may use: its affinity, within the quota of its control group."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from stoker.formats import cores
from stoker.formats.cores import available_cores
from stoker.formats.execution import check_workers

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
    assert available_cores() == check_workers(None) == expected


def test_cores_without_a_control_group(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)))
    monkeypatch.setattr(cores, "open", missing, raising=False)
    assert available_cores() == 6
