"""Steps that come first: the versions of what is installed, and the datasets."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import json
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from stoker.benchmarks.comparison.photographs import PHOTOGRAPHS
from stoker.benchmarks.comparison.workloads import WORKLOADS, make_dataset
from stoker.benchmarks.gpu.context import Context
from stoker.benchmarks.report.machine import allowed_cores, describe
from stoker.formats.open import open as open_dataset
from stoker.pipeline.engines.selection.gpus import gpu_count, gpu_model

__all__ = ["data", "machine", "tests"]

_PACKAGES = (
    "nvidia-dali-cuda120",
    "nvidia-dali-cuda130",
    "nvidia-nvimgcodec-cu12",
    "nvidia-nvimgcodec-cu13",
    "nvidia-nvjpeg-cu12",
    "torch",
    "torchvision",
    "jax",
    "tensorflow",
    "cupy-cuda12x",
)
_TESTS = Path(__file__).resolve().parents[3] / "tests" / "gpu"


def machine(context: Context) -> None:
    """Write the machine, its GPUs, their driver and JPEG engines, and the versions of packages."""
    versions = {}
    for package in _PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    found: dict[str, Any] = {
        **describe(allowed_cores()),
        "gpus": gpu_count(),
        "gpu": gpu_model(),
        "packages": versions,
    }
    if context.on_gpu:
        found |= {"driver": _driver(), "jpeg_engines": _jpeg_engines()}
    context.write(found)


def _driver() -> str:
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    nvml.nvmlInit_v2()
    text = ctypes.create_string_buffer(96)
    nvml.nvmlSystemGetDriverVersion(text, 96)
    return text.value.decode()


def _jpeg_engines() -> int | str:
    """Number of JPEG engines of the first GPU, as nvJPEG says, or why it is unknown."""
    package = importlib.util.find_spec("nvidia.nvjpeg")
    folders = list(package.submodule_search_locations or ()) if package else []
    names = [str(file) for folder in folders for file in Path(folder).glob("lib/libnvjpeg.so*")]
    try:
        library = ctypes.CDLL([*names, "libnvjpeg.so.12", "libnvjpeg.so.13"][0])
        handle, engines, cores = ctypes.c_void_p(), ctypes.c_uint(), ctypes.c_uint()
        status = library.nvjpegCreateSimple(ctypes.byref(handle))
        status = status or library.nvjpegGetHardwareDecoderInfo(
            handle, ctypes.byref(engines), ctypes.byref(cores)
        )
    except (OSError, AttributeError) as error:
        return str(error)
    return engines.value if status == 0 else f"nvJPEG status {status}"


def data(context: Context) -> None:
    """Make the datasets: photographs of ImageNet's size, of 256 pixels, and raw pixels."""
    found: dict[str, Any] = {}
    for name in ("imagenet", "short256", "raw256"):
        sized = replace(WORKLOADS[name], copies=context.scale.images)
        folder = make_dataset(sized, PHOTOGRAPHS, context.folder / "data")
        found[name] = str(folder.relative_to(context.folder))
        found[f"{name} KB"] = round(float(open_dataset(folder).column("length").mean()) / 1000, 1)
        context.write(found)


def tests(context: Context, seconds: str) -> None:
    """Run ``tests/gpu/run.py``, and write which tests failed. Without a GPU all are skipped."""
    results = context.folder / "tests.json"
    results.unlink(missing_ok=True)
    command = [sys.executable, str(_TESTS / "run.py"), str(results), "--crashes", "3", "--seconds", seconds]
    subprocess.run(command, check=False, cwd=_TESTS.parents[1])
    document = json.loads(results.read_text())
    outcomes = {name: test["outcome"] for name, test in document["tests"].items()}
    counts = Counter(outcomes.values())
    failed = {name: outcome for name, outcome in outcomes.items() if outcome not in ("passed", "skipped")}
    context.write({"outcomes": dict(counts), "not_run": len(document["left"]), "failed": failed})
