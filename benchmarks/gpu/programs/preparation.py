"""Steps that come first: the versions of what is installed, and the datasets."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from stoker.benchmarks.gpu.programs.decoding import make_reference
from stoker.formats.open import open as open_dataset
from stoker.pipeline.engines.registry import visible_gpus

from ...comparison.sources import WORKLOADS, make_dataset
from ...measuring import allowed_cores, describe
from ..context import Context

_PACKAGES = (
    "nvidia-dali-cuda120",
    "nvidia-dali-cuda130",
    "nvidia-nvimgcodec-cu12",
    "nvidia-nvimgcodec-cu13",
    "nvidia-nvjpeg-cu12",
    "nvidia-nvjpeg",
    "torch",
    "torchvision",
    "triton",
    "jax",
    "jaxlib",
    "tensorflow",
    "cupy-cuda12x",
    "cupy-cuda13x",
)
_LIBRARIES = ("libnvjpeg.so.12", "libnvjpeg.so.13")


def machine(context: Context) -> None:
    """Write the machine, its GPUs, their driver and JPEG engines, and the versions of packages.

    What it imports lies in the page cache for the steps after it.
    """
    versions = {}
    for package in _PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    found: dict[str, Any] = {
        **describe(allowed_cores()),
        "gpus": len(visible_gpus()),
        "gpu": visible_gpus()[context.gpu_number].model if context.on_gpu else "",
        "packages": versions,
    }
    context.write(found)
    if context.on_gpu:
        found |= {"driver": _driver(), **_nvjpeg()}
        context.write(found)
    with suppress(ImportError):
        import nvidia.dali

        found["dali"] = nvidia.dali.__version__
    with suppress(ImportError):
        import torch

        found |= {"cuda_of_torch": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}
        if context.on_gpu:
            found["capability"] = list(torch.cuda.get_device_capability(context.device))
    context.write(found)


def _driver() -> str:
    """Version of the driver, or why it is unknown."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        return str(error)
    text = ctypes.create_string_buffer(96)
    failed = nvml.nvmlInit_v2() or nvml.nvmlSystemGetDriverVersion(text, 96)
    return f"NVML status {failed}" if failed else text.value.decode()


def _nvjpeg() -> dict[str, Any]:
    """Version of nvJPEG, and the number of JPEG engines of the first GPU, or why it is unknown."""
    library = next(_nvjpeg_libraries(), None)
    if library is None:
        return {"jpeg_engines": "there is no nvJPEG"}
    version, numbers = ctypes.c_int(), []
    for part in range(3):  # library_types.h: MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL
        failed = library.nvjpegGetProperty(part, ctypes.byref(version))
        numbers.append("?" if failed else str(version.value))
    found: dict[str, Any] = {"nvjpeg": ".".join(numbers)}
    handle, engines, cores = ctypes.c_void_p(), ctypes.c_uint(), ctypes.c_uint()
    try:
        status = library.nvjpegCreateSimple(ctypes.byref(handle)) or library.nvjpegGetHardwareDecoderInfo(
            handle, ctypes.byref(engines), ctypes.byref(cores)
        )
    except AttributeError as error:
        return {**found, "jpeg_engines": str(error)}
    return {**found, "jpeg_engines": f"nvJPEG status {status}" if status else engines.value}


def _nvjpeg_libraries() -> Iterator[Any]:
    """The nvJPEG libraries that are found: that of a package first, which DALI uses."""
    package = None
    with suppress(ModuleNotFoundError):
        package = importlib.util.find_spec("nvidia.nvjpeg")
    folders = list(package.submodule_search_locations or ()) if package else []
    for name in [
        *(str(file) for one in folders for file in Path(one).glob("lib/libnvjpeg.so*")),
        *_LIBRARIES,
    ]:
        with suppress(OSError):
            yield ctypes.CDLL(name)


def data(context: Context) -> None:
    """Make the datasets: photographs of ImageNet's size, of 256 pixels, raw pixels; and reference images."""
    found: dict[str, Any] = {}
    folders = {}
    for name in ("imagenet", "short256", "raw256"):
        sized = replace(WORKLOADS[name], copies=context.scale.images)
        folders[name] = make_dataset(sized, context.photographs, context.work / "data")
        found[name] = str(folders[name].relative_to(context.work))
        found[f"{name} KB"] = round(float(open_dataset(folders[name]).column("length").mean()) / 1000, 1)
        context.write(found)
    reference = context.work / "data" / "reference.npy"
    if not reference.exists():
        unfinished = reference.with_name("unfinished.npy")
        make_reference(context, folders["imagenet"], unfinished)
        unfinished.replace(reference)
    context.write({**found, "reference": str(reference.relative_to(context.work))})
