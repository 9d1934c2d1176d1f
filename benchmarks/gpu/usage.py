"""The use of a GPU while something runs, as NVML samples it."""

from __future__ import annotations

import ctypes
import threading
from statistics import mean
from types import TracebackType
from typing import Any

from stoker.pipeline.engines.registry import visible_gpus

_INTERVAL = 0.1  # seconds


class _Utilization(ctypes.Structure):  # nvml.h, nvmlUtilization_t
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):  # nvml.h, nvmlMemory_t
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class GpuUsage:
    """Samples a GPU on a thread of its own, between ``with`` and its end.

    Nothing is sampled on the CPU. What NVML does not say is left out.
    """

    def __init__(self, device: str) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample_until_the_end, daemon=True)
        self._samples: dict[str, list[int]] = {}
        self._handle = ctypes.c_void_p()
        self._nvml: Any = None if device == "cpu" else self._open(int(device.partition(":")[2] or 0))

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
        found = {
            f"{name}_percent": round(mean(self._samples[name]), 1)
            for name in ("sm", "jpeg")
            if name in self._samples
        }
        if "memory" in self._samples:
            found["memory_gib"] = round(max(self._samples["memory"]) / 2**30, 2)
        return found

    def _open(self, number: int) -> Any:
        try:
            nvml = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return None
        own = dict(enumerate(gpu.number for gpu in visible_gpus())).get(number)
        if own is None or nvml.nvmlInit_v2():
            return None
        failed = nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(own), ctypes.byref(self._handle))
        return None if failed else nvml

    def _sample_until_the_end(self) -> None:
        self.sample()
        while not self._ended.wait(_INTERVAL):
            self.sample()

    def sample(self) -> None:
        use, memory = _Utilization(), _Memory()
        jpeg, period = ctypes.c_uint(), ctypes.c_uint()
        if not self._nvml.nvmlDeviceGetUtilizationRates(self._handle, ctypes.byref(use)):
            self._note("sm", use.gpu)
        if not self._nvml.nvmlDeviceGetMemoryInfo(self._handle, ctypes.byref(memory)):
            self._note("memory", memory.used)
        # Drivers before 530 have no such function.
        jpeg_use = getattr(self._nvml, "nvmlDeviceGetJpgUtilization", None)
        if jpeg_use and not jpeg_use(self._handle, ctypes.byref(jpeg), ctypes.byref(period)):
            self._note("jpeg", jpeg.value)

    def _note(self, name: str, value: int) -> None:
        self._samples.setdefault(name, []).append(value)
