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


def test_a_busy_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(fake_nvml(), monkeypatch) == EVERYTHING


@pytest.mark.parametrize(
    ("function", "missing"),
    [
        ("nvmlDeviceGetUtilizationRates", "sm_percent"),
        ("nvmlDeviceGetJpgUtilization", "jpeg_percent"),
        ("nvmlDeviceGetMemoryInfo", "memory_gib"),
    ],
)
def test_a_function_that_fails_is_not_a_gpu_at_rest(
    function: str, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = {name: value for name, value in EVERYTHING.items() if name != missing}
    assert found(fake_nvml(**{function: 3}), monkeypatch) == expected  # 3: NVML_ERROR_NOT_SUPPORTED


def test_a_driver_that_does_not_know_the_jpeg_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = fake_nvml()
    del nvml.nvmlDeviceGetJpgUtilization
    assert set(found(nvml, monkeypatch)) == {"sm_percent", "memory_gib"}


@pytest.mark.parametrize("function", ["nvmlInit_v2", "nvmlDeviceGetHandleByIndex_v2"])
def test_without_nvml_nothing_is_known(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(fake_nvml(**{function: 9}), monkeypatch) == {}
    assert found(None, monkeypatch) == {}
    assert found(fake_nvml(), monkeypatch, number=None) == {}
    with GpuUsage("cpu") as gpu:
        pass
    assert gpu.found() == {}
