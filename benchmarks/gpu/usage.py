"""The use of a GPU while something runs, as NVML samples it."""

from __future__ import annotations

import ctypes
import threading
from statistics import mean
from types import TracebackType
from typing import Any

__all__ = ["GpuUsage"]

_INTERVAL = 0.1  # seconds


class _Utilization(ctypes.Structure):  # nvml.h, nvmlUtilization_t
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):  # nvml.h, nvmlMemory_t
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class GpuUsage:
    """Samples a GPU on a thread of its own, between ``with`` and its end. Samples nothing on the CPU.

    Args:
        device: "cuda:N" or "cpu".
    """

    def __init__(self, device: str) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._samples: list[tuple[int, int, int]] = []
        self._nvml: Any = None
        if device != "cpu":
            self._nvml = ctypes.CDLL("libnvidia-ml.so.1")
            self._nvml.nvmlInit_v2()
            self._handle = ctypes.c_void_p()
            number = ctypes.c_uint(int(device.partition(":")[2] or 0))
            self._nvml.nvmlDeviceGetHandleByIndex_v2(number, ctypes.byref(self._handle))

    def __enter__(self) -> GpuUsage:
        if self._nvml:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._nvml:
            self._thread.join()

    def found(self) -> dict[str, float]:
        """Mean use of the multiprocessors and the JPEG engines in per cent, and the largest memory in GiB."""
        if not self._samples:
            return {}
        kernels, jpeg, memory = zip(*self._samples, strict=True)
        return {
            "sm_percent": round(mean(kernels), 1),
            "jpeg_percent": round(mean(jpeg), 1),
            "memory_gib": round(max(memory) / 2**30, 2),
        }

    def _sample(self) -> None:
        use, memory = _Utilization(), _Memory()
        jpeg, period = ctypes.c_uint(), ctypes.c_uint()
        while not self._ended.wait(_INTERVAL):
            self._nvml.nvmlDeviceGetUtilizationRates(self._handle, ctypes.byref(use))
            self._nvml.nvmlDeviceGetMemoryInfo(self._handle, ctypes.byref(memory))
            if hasattr(self._nvml, "nvmlDeviceGetJpgUtilization"):
                self._nvml.nvmlDeviceGetJpgUtilization(self._handle, ctypes.byref(jpeg), ctypes.byref(period))
            self._samples.append((use.gpu, jpeg.value, memory.used))
