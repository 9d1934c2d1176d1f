"""A model of three ways to feed a GPU, from parts that are measured here and parts that are given.

    python -m stoker.benchmarks.gpu.model [--cores 16] [--copy 50] [--jpeg-engines 20000] [--json FILE]

docs/proposals/three-ways-to-feed-a-gpu.md describes the three ways. The program measures the rates of the
native engine on one core. The figures of a GPU are given: the bandwidth of its copies and of its memory, and
the rate of its JPEG engines. Nothing was measured on a GPU, so the result is called a model.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

import stoker
from stoker.augment import RandomHorizontalFlip, RandomResizedCrop
from stoker.benchmarks.arguments import make_parser, write_json
from stoker.benchmarks.comparison.photographs import PHOTOGRAPHS
from stoker.benchmarks.comparison.workloads import WORKLOADS, make_dataset
from stoker.benchmarks.report.machine import allowed_cores, describe

_SIDE = 224
_RAW_SIDES = 256 * 341
"""Pixels of an image whose short side has 256, at the aspect ratio of 4:3."""
_TOUCHES = 2.0
"""Reads and writes of device memory by one kernel, in bytes for each byte of its input and output."""


@dataclass(frozen=True)
class Parts:
    """The parts of the model; rates are images a second, bandwidths are GB/s."""

    # JPEGs of ImageNet's size decoded, cropped and resized to uint8, for each second of CPU time, so that
    # other programs on the machine do not count. Measured
    crops_per_core: float
    raw_per_core: float  # Raw pixels of short side 256 checked and copied, likewise. Measured
    cores: int = 16  # Cores that feed the GPU. Given
    copy: float = 50.0  # Bandwidth of copies from page-locked memory to the GPU. Given
    memory: float = 4000.0  # Bandwidth of the GPU's memory. Given
    jpeg_engines: float = 20_000.0  # JPEGs that the GPU's JPEG engines decode. Given
    cache: float = 100.0  # Device memory for decoded images, GB. Given


def model(parts: Parts) -> dict[str, dict[str, Any]]:
    """Images a second of the three ways, and the part that limits each."""
    crop_bytes, raw_bytes = 3 * _SIDE**2, 3 * _RAW_SIDES
    output_bytes = 2 * crop_bytes  # bfloat16
    copied = {"crops": 1e9 * parts.copy / crop_bytes, "raw": 1e9 * parts.copy / raw_bytes}
    kernel = 1e9 * parts.memory / (_TOUCHES * (raw_bytes + output_bytes))
    native = parts.crops_per_core * parts.cores
    share = parts.jpeg_engines / (parts.jpeg_engines + native)
    return {
        "split decode": {
            "decoded_by_the_gpu": round(share, 3),
            **_slowest(
                {
                    "cores and JPEG engines": native + parts.jpeg_engines,
                    "copies": copied["crops"] / (1 - share),
                    "memory of the GPU": kernel,
                }
            ),
        },
        "raw pixels": _slowest(
            {"cores": parts.raw_per_core * parts.cores, "copies": copied["raw"], "memory of the GPU": kernel}
        ),
        "device cache": {
            "images_that_fit": int(1e9 * parts.cache / raw_bytes),
            **_slowest({"memory of the GPU": kernel}),
        },
    }


def _slowest(rates: dict[str, float]) -> dict[str, Any]:
    limit = min(rates, key=lambda name: rates[name])
    return {
        "images_per_second": round(rates[limit]),
        "limit": limit,
        "each": {name: round(rate) for name, rate in rates.items()},
    }


def _measure(folder: Path, images: int, seconds: float) -> tuple[float, float]:
    """Crops, and raw images, for each second of CPU time of one thread; the median of three."""
    datasets = [
        make_dataset(replace(WORKLOADS[name], copies=images), PHOTOGRAPHS, folder)
        for name in ("imagenet", "raw256")
    ]
    rounds = [[_rate(datasets[0], seconds), _raw_rate(datasets[1], seconds)] for _ in range(3)]
    crops, raw = np.median(rounds, axis=0).tolist()
    return crops, raw


def _rate(dataset: Path, seconds: float) -> float:
    """Images a second through the loader, uint8 crops, on one thread."""
    loader = stoker.ImageLoader(
        dataset,
        batch_size=32,
        transforms=[RandomResizedCrop(_SIDE), RandomHorizontalFlip()],
        engine="native",
        num_threads=1,
        shuffle=True,
    )
    with loader:
        for _ in loader:  # warms the page cache
            pass
        images, began = 0, process_time()
        while process_time() - began < seconds:
            images += sum(len(batch.label) for batch in loader)
        return images / (process_time() - began)


def _raw_rate(dataset: Path, seconds: float) -> float:
    """Raw images a second that one thread checks and copies into one buffer, as into page-locked memory."""
    from stoker.pipeline.engines.base import EngineSettings, ImageFormat
    from stoker.pipeline.engines.dali.payloads import PayloadReader

    opened = stoker.open(dataset)
    reader = PayloadReader(
        EngineSettings(opened.data_files, opened.data_sizes, ImageFormat(), max_pixels=10**8)
    )
    samples = [opened.samples(np.arange(i, min(i + 32, len(opened)))) for i in range(0, len(opened), 32)]
    buffer = np.empty(int(opened.column("length").max()), np.uint8)
    images, began = 0, process_time()
    while process_time() - began < seconds:
        for batch in samples:
            for pixels in reader.read(batch).data:
                flat = pixels.reshape(-1)
                np.copyto(buffer[: len(flat)], flat)
                images += 1
    rate = images / (process_time() - began)
    reader.close()
    return rate


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__, "json")
    parser.add_argument("--cores", type=int, default=16, help="cores that feed the GPU")
    parser.add_argument("--copy", type=float, default=50.0, help="GB/s of copies to the GPU")
    parser.add_argument("--memory", type=float, default=4000.0, help="GB/s of the GPU's memory")
    parser.add_argument("--jpeg-engines", type=float, default=20_000.0, help="JPEGs/s of the JPEG engines")
    parser.add_argument("--cache", type=float, default=100.0, help="GB of device memory for images")
    parser.add_argument("--images", type=int, default=256, help="samples of each dataset")
    parser.add_argument("--seconds", type=float, default=2.0, help="seconds of each of three measurements")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stoker-model-") as folder:
        crops, raw = _measure(Path(folder), given.images, given.seconds)
    parts = Parts(crops, raw, given.cores, given.copy, given.memory, given.jpeg_engines, given.cache)
    found = model(parts)
    print(f"measured, for a second of CPU: {crops:,.0f} crops of JPEGs, {raw:,.0f} raw images")
    print(f"given: {asdict(parts)}")
    for name, way in found.items():
        print(f"modelled, {name}: {way['images_per_second']:,} images/s, limited by {way['limit']}")
    document = {
        "kind": "model: nothing was measured on a GPU",
        "machine": describe(allowed_cores()),
        "measured": {"crops_per_core": round(crops, 1), "raw_per_core": round(raw, 1)},
        "given": {name: value for name, value in asdict(parts).items() if not name.endswith("_core")},
        "modelled": found,
    }
    write_json(given.json, document)


if __name__ == "__main__":
    main()
