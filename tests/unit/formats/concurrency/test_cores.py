"""Tests of the number of cores: affinity, limited by the quota of the control group."""

from __future__ import annotations

import io
import os
from typing import Any

import numpy as np
import pytest

from stoker.errors import ConfigError
from stoker.formats.concurrency import cores
from stoker.formats.concurrency.cores import available_cores, check_threads


@pytest.fixture
def control_group(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The files of the control group by name, on a machine of six cores."""
    files: dict[str, str] = {}

    def open_file(path: str) -> io.StringIO:
        if (name := path.removeprefix("/sys/fs/cgroup/")) in files:
            return io.StringIO(files[name])
        raise FileNotFoundError(path)

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)))
    monkeypatch.setattr(cores, "open", open_file, raising=False)
    return files


LIMITS = [("max", "100000", 6), ("250000", "100000", 2), ("50000", "100000", 1), ("9900000", "100000", 6)]


@pytest.mark.parametrize(("quota", "period", "expected"), LIMITS)
def test_the_quota_of_the_control_group_limits_the_cores(
    control_group: dict[str, str], quota: str, period: str, expected: int
) -> None:
    control_group["cpu.max"] = f"{quota} {period}\n"
    assert available_cores() == check_threads(None) == expected


@pytest.mark.parametrize("folder", ["cpu", "cpu,cpuacct"])
@pytest.mark.parametrize(("quota", "period", "expected"), LIMITS)
def test_the_quota_of_a_control_group_of_version_1_limits_the_cores(
    control_group: dict[str, str], folder: str, quota: str, period: str, expected: int
) -> None:
    control_group[f"{folder}/cpu.cfs_quota_us"] = "-1\n" if quota == "max" else f"{quota}\n"
    control_group[f"{folder}/cpu.cfs_period_us"] = f"{period}\n"
    assert available_cores() == check_threads(None) == expected


def test_all_cores_of_the_affinity_mask_are_available_without_a_control_group(
    control_group: dict[str, str],
) -> None:
    assert available_cores() == 6


@pytest.mark.parametrize("number", ["2", 2.0, 0, -1, 4097, True], ids=repr)
def test_a_number_of_threads_that_is_no_integer_from_1_to_4096_is_refused(number: Any) -> None:
    with pytest.raises(ConfigError, match="num_threads must be an integer from 1 to 4096"):
        check_threads(number)


def test_a_number_of_threads_may_be_numpys_and_none_takes_the_default() -> None:
    assert (check_threads(np.int64(3)), check_threads(4096), check_threads(None, 5)) == (3, 4096, 5)


def test_a_system_without_affinity_has_all_its_cores(
    control_group: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 10)
    assert available_cores() == 10
