"""Steps that decode: the first batches in every way to decode, and the rate of each way."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import stoker
from stoker.augment import RandomResizedCrop
from stoker.pipeline.engines.base import EngineSettings, ImageFormat, Work
from stoker.pipeline.engines.dali.engine import DaliEngine
from stoker.pipeline.images.image_pipeline import largest_size
from stoker.pipeline.options import DaliOptions

from ..context import Context, Refused, has_passed

_ALLOWED = 1.5
"""Largest mean difference from Pillow, in levels. nvJPEG rounds colours and upsamples chroma differently."""
_BATCHES = 2


def make_reference(context: Context, dataset: Path, target: Path) -> None:
    """Write the first batches of the reference engine, with which the smoke test compares those of DALI."""
    batches = _first_batches(context, dataset, engine="reference", device="cpu")
    np.save(target, np.stack([batch.image for batch in batches]))


def smoke(context: Context, region: str, load: str) -> None:
    """Decode two batches in one way, and compare them with the reference engine."""
    decoding = DaliOptions(region_decode=region == "1", hw_decoder_load=float(load))
    reference = np.load(context.made("reference"), mmap_mode="r")
    began, differences, seconds = perf_counter(), [], []
    options: dict[str, Any] = {"device": context.device, "output": "torch" if context.on_gpu else "numpy"}
    dataset = context.made("imagenet")
    for batch, expected in zip(
        _first_batches(context, dataset, engine=decoding, **options), reference, strict=True
    ):
        found = batch.image.cpu().numpy() if context.on_gpu else batch.image
        seconds.append(round(perf_counter() - began, 3))
        differences.append(round(float(np.abs(found.astype(np.int16) - expected).mean()), 4))
        passed = len(differences) == _BATCHES and max(differences) <= _ALLOWED
        context.write({"passed": passed, "differences": differences, "seconds": seconds})


def _first_batches(context: Context, dataset: Path, **options: Any) -> Any:
    with stoker.ImageLoader(
        dataset,
        batch_size=context.scale.batch_size,
        transforms=[RandomResizedCrop(context.scale.side)],
        layout="NHWC",
        columns=("image",),
        **options,
    ) as loader:
        for _, batch in zip(range(_BATCHES), loader, strict=False):
            yield batch


def decode(context: Context, region: str, threads: str) -> None:
    """Measure the rate of decoding for every share of the JPEG engines that the smoke test allows."""
    loads = [load for load in context.scale.loads if has_passed(context.results(), region == "1", load)]
    if not loads:
        raise Refused("this way to decode has not passed the smoke test")
    rows: list[dict[str, Any]] = []
    for load in loads:
        rate = _decoded_per_second(context, region == "1", load, int(threads))
        row = {"region": region == "1", "load": load, "threads": int(threads)}
        rows.append({**row, "images_per_second": round(rate, 1)})
        context.write({"decode": rows})


def _decoded_per_second(context: Context, region: bool, load: float, threads: int) -> float:
    """Images per second of an engine that decodes, crops and resizes."""
    dataset = stoker.open(context.made("imagenet"))
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
