"""The use of a GPU: what NVML does not say is left out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stoker.benchmarks.gpu import usage
from stoker.benchmarks.gpu.usage import GpuUsage
from stoker.pipeline.engines.registry import Gpu


def fake_nvml(**failed: int) -> Any:
    """NVML of a machine with a busy GPU, whose functions of these names fail with a status."""

    def rates(device: Any, use: Any) -> int:
        use._obj.gpu = 80
        return failed.get("nvmlDeviceGetUtilizationRates", 0)

    def memory(device: Any, found: Any) -> int:
        found._obj.used = 3 << 30
        return failed.get("nvmlDeviceGetMemoryInfo", 0)

    def jpeg(device: Any, use: Any, period: Any) -> int:
        use._obj.value = 95
        return failed.get("nvmlDeviceGetJpgUtilization", 0)

    return SimpleNamespace(
        nvmlInit_v2=lambda: failed.get("nvmlInit_v2", 0),
        nvmlDeviceGetHandleByIndex_v2=lambda *_: failed.get("nvmlDeviceGetHandleByIndex_v2", 0),
        nvmlDeviceGetUtilizationRates=rates,
        nvmlDeviceGetMemoryInfo=memory,
        nvmlDeviceGetJpgUtilization=jpeg,
    )


def found(nvml: Any, monkeypatch: pytest.MonkeyPatch, number: int | None = 0) -> dict[str, float]:
    def load(name: str) -> Any:
        if nvml is None:
            raise OSError(name)
        return nvml

    monkeypatch.setattr(usage.ctypes, "CDLL", load)
    monkeypatch.setattr(usage, "visible_gpus", lambda: [Gpu(number, "")])
    with GpuUsage("cuda:0") as gpu:
        pass
    return gpu.found()


EVERYTHING = {"sm_percent": 80, "jpeg_percent": 95, "memory_gib": 3.0}


@pytest.mark.parametrize(
    ("function", "missing"),
    [
        (None, set()),
        ("nvmlDeviceGetUtilizationRates", {"sm_percent"}),
        ("nvmlDeviceGetJpgUtilization", {"jpeg_percent"}),
        ("nvmlDeviceGetMemoryInfo", {"memory_gib"}),
        ("nvmlInit_v2", set(EVERYTHING)),
        ("nvmlDeviceGetHandleByIndex_v2", set(EVERYTHING)),
    ],
)
def test_what_nvml_does_not_say_is_left_out(
    function: str | None, missing: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = {function: 3} if function else {}  # 3: NVML_ERROR_NOT_SUPPORTED
    expected = {name: value for name, value in EVERYTHING.items() if name not in missing}
    assert found(fake_nvml(**failed), monkeypatch) == expected


def test_a_machine_without_the_library_the_function_or_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    old = fake_nvml()
    del old.nvmlDeviceGetJpgUtilization
    assert set(found(old, monkeypatch)) == {"sm_percent", "memory_gib"}
    assert found(None, monkeypatch) == {}
    assert found(fake_nvml(), monkeypatch, number=None) == {}
    with GpuUsage("cpu") as gpu:
        pass
    assert gpu.found() == {}
