"""Steps that decode: the first batches in every way to decode, and the rate of each way."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

import stoker
from stoker.augment import RandomResizedCrop
from stoker.benchmarks.gpu.context import Context, Refused
from stoker.pipeline.engines.base import EngineSettings, ImageFormat, Work
from stoker.pipeline.engines.dali import DaliEngine, DaliOptions
from stoker.pipeline.images.engine.typical_samples import largest_size

__all__ = ["decode", "smoke"]

_ALLOWED = 1.5
"""Largest mean difference from Pillow, in levels. nvJPEG rounds colours and upsamples chroma differently."""


def smoke(context: Context, region: str, load: str) -> None:
    """Decode two batches in one way, and compare them with the reference engine."""
    batch_size = context.scale.batch_size
    options: dict[str, Any] = {
        "batch_size": batch_size,
        "transforms": [RandomResizedCrop(context.scale.side)],
        "layout": "NHWC",
        "columns": ("image",),
    }
    decoding = DaliOptions(region_decode=region == "1", hw_decoder_load=float(load))
    folder = context.dataset("imagenet")
    on_device: dict[str, Any] = {"device": context.device, "output": "torch" if context.on_gpu else "numpy"}
    began, differences, seconds = perf_counter(), [], []
    with (
        stoker.ImageLoader(folder, engine="dali", dali=decoding, **on_device, **options) as loader,
        stoker.ImageLoader(folder, engine="reference", device="cpu", **options) as reference,
    ):
        for number, (batch, expected) in enumerate(zip(loader, reference, strict=True)):
            found = batch.image.cpu().numpy() if context.on_gpu else batch.image
            seconds.append(round(perf_counter() - began, 3))
            differences.append(float(np.abs(found.astype(int) - expected.image).mean()))
            passed = max(differences) <= _ALLOWED
            context.write({"passed": passed and number == 1, "differences": differences, "seconds": seconds})
            if number == 1:
                return


def decode(context: Context, region: str, threads: str) -> None:
    """Measure the rate of decoding for every share of the JPEG engines, one after the other."""
    passed = [step for name, step in context.results().items() if name.startswith("smoke")]
    rows: list[dict[str, Any]] = []
    if not any(step.get("found", {}).get("passed") for step in passed):
        raise Refused("no way to decode has passed the smoke test")
    for load in context.scale.loads:
        rate = _decoded_per_second(context, region == "1", load, int(threads))
        row = {"region": region == "1", "load": load, "threads": int(threads)}
        rows.append({**row, "images_per_second": round(rate, 1)})
        context.write({"decode": rows})


def _decoded_per_second(context: Context, region: bool, load: float, threads: int) -> float:
    """Images per second of an engine that decodes, crops and resizes."""
    dataset = stoker.open(context.dataset("imagenet"))
    size = context.scale.batch_size
    plan = stoker.augment.compile_image([RandomResizedCrop(context.scale.side)])
    works = []
    for first in range(0, len(dataset) - size + 1, size):
        samples = dataset.samples(np.arange(first, first + size))
        works.append(Work(samples, plan.draw(samples.height, samples.width, samples.row, 0, 0)))
    engine = DaliEngine(
        EngineSettings(
            dataset.data_files,
            dataset.data_sizes,
            ImageFormat("uint8", "NHWC"),
            device=context.device,
            num_threads=threads,
            depth=3,
            batch_size=size,
            max_pixels=10**8,
            dali=DaliOptions(region_decode=region, hw_decoder_load=load),
            largest=largest_size(dataset),
            typical=works[0],
        )
    )
    try:
        return _rate(context, engine, works)
    finally:
        engine.close()


def _rate(context: Context, engine: DaliEngine, works: list[Work]) -> float:
    images, submitted, collected, began = 0, 0, 0, 0.0
    while True:
        while submitted - collected < engine.max_in_flight:
            engine.submit(works[submitted % len(works)])
            submitted += 1
        found = engine.collect()
        collected += 1
        if collected <= engine.max_in_flight:  # warm-up
            context.wait()
            began = perf_counter()
            continue
        images += len(found.status)
        elapsed = perf_counter() - began
        if elapsed >= context.scale.seconds:
            context.wait()
            return images / (perf_counter() - began)
