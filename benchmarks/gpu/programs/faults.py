"""Steps that look for faults: memory over many batches, damaged images, changing graphs, and forks.

Each writes a ``verdict``, "as expected" or what is wrong.
"""

from __future__ import annotations

import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import stoker
from stoker.augment import CenterCrop, RandomGrayscale, RandomVerticalFlip, Resize
from stoker.benchmarks.comparison.photographs import photographs_in, replicate
from stoker.benchmarks.comparison.usage import unshared_memory
from stoker.benchmarks.gpu.loaders import own_loader
from stoker.formats.conversion.convert import convert

from ..context import Context, Refused, exact_loads

_OUTLIER = 12_000_000  # pixels
_BATCH = 8
_LONG_BATCH = 32
_GROWTH_MIB = 64
_EXPECTED = "as expected"


def long_run(context: Context) -> None:
    """Watch memory over many batches of a dataset with one image of 12 megapixels.

    It is one of about 2,000: the decoder's hint, which covers 99.9% of the images, does not cover it.
    """
    files = context.work / "data" / "outlier-files"
    shutil.rmtree(files, ignore_errors=True)
    replicate(context.photographs, files, context.scale.images)
    _enlarge(photographs_in(files)[-1])
    folder = context.work / "data" / "outlier"
    convert(files, folder, overwrite=True)
    batch_size = min(_LONG_BATCH, context.scale.images // 3)
    memory: list[dict[str, float]] = []
    done = 0
    with own_loader(context, folder, "dali", batch_size=batch_size) as loader:
        while done < context.scale.long_run:
            done += sum(1 for _ in loader)
            context.wait()
            held = round(unshared_memory(os.getpid()) / 2**20, 1)
            memory.append({"batches": done, "host_mib": held, **_device_memory(context)})
            found = {name: growth([row[name] for row in memory]) for name in memory[0] if name != "batches"}
            grown = [f"{name} grew by {mib:g}" for name, mib in found.items() if mib > _GROWTH_MIB]
            context.write({"memory": memory, "growth": found, "verdict": ", ".join(grown) or _EXPECTED})


def growth(values: list[float]) -> float:
    """The growth of memory after the first third of the passes, which meets all sizes: last less first."""
    settled = values[len(values) // 3 :]
    return round(settled[-1] - settled[0], 1)


def _enlarge(path: Path) -> None:
    """Replace a photograph by the same with more pixels."""
    from PIL import Image

    with Image.open(path) as image:
        factor = (_OUTLIER / (image.width * image.height)) ** 0.5
        large = image.convert("RGB").resize((round(image.width * factor), round(image.height * factor)))
    large.save(path, "JPEG", quality=90)


def corrupt(context: Context) -> None:
    """Damage the first, a middle and the last image of a batch: the others must stay as they are.

    CUDA alone, or the JPEG engines alone, decode: with both, the rounding of an image depends on its place.
    """
    region = bool(context.decoding()["region"])
    loads = exact_loads(context.results(), region)
    if not loads:
        raise Refused("no way to decode that rounds alike in every batch has passed the smoke test")
    photographs = [path.read_bytes() for path in photographs_in(context.photographs)[:_BATCH]]
    places = (0, _BATCH // 2, _BATCH - 1)
    whole = _dataset(context, "whole", photographs)
    damaged = {at: _dataset(context, f"corrupt-{at}", _damaged(photographs, at)) for at in places}
    rows: list[dict[str, Any]] = []
    for load in loads:
        dali = stoker.DaliOptions(region_decode=region, hw_decoder_load=load)
        expected = _first_images(context, whole, dali)
        for at, folder in damaged.items():
            images = _first_images(context, folder, dali)
            kept = [i for i in range(_BATCH) if i != at]
            row: dict[str, Any] = {"load": load, "at": at, "images": len(images)}
            if len(images) == len(kept):
                row["largest_difference"] = int((images - expected[kept]).abs().max())
            rows.append(row)
            wrong = [row for row in rows if row.get("largest_difference") != 0]
            context.write({"rows": rows, "verdict": f"neighbours differ: {wrong}" if wrong else _EXPECTED})


def _first_images(context: Context, folder: Path, dali: stoker.DaliOptions) -> Any:
    """The images of the first batch without its bad samples, int32 on the CPU."""
    options: dict[str, Any] = {"batch_size": _BATCH, "transforms": [Resize(72), CenterCrop(64)]}
    options |= {"dtype": "uint8", "shuffle": False, "last_batch": "partial"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with own_loader(context, folder, dali, errors=stoker.BadSamples("skip", 1.0), **options) as loader:
            return next(iter(loader)).image.cpu().int()


def _damaged(photographs: list[bytes], at: int) -> list[bytes]:
    """The photographs, the one ``at`` this position with a Huffman table that no decoder takes."""
    damaged = list(photographs)
    counts = damaged[at].find(b"\xff\xc4") + 5  # lengths of the codes of the first Huffman table
    damaged[at] = damaged[at][:counts] + b"\xff" * 16 + damaged[at][counts + 16 :]
    return damaged


def switch(context: Context) -> None:
    """Run batches that need different parts of a pipeline in one epoch, and count the pipelines."""
    from stoker.pipeline.engines.dali.engine import BuiltPipeline

    some = [Resize((64, 64)), RandomVerticalFlip(0.1), RandomGrayscale(0.1)]
    with own_loader(
        context, context.made("short256"), "dali", transforms=some, dtype="uint8", batch_size=_BATCH
    ) as loader:
        images = sum(len(batch.label) for batch in loader)
        pipelines = len(BuiltPipeline.alive)
    verdict = _EXPECTED if pipelines == 1 else f"{pipelines} pipelines were built"
    context.write({"images": images, "pipelines": pipelines, "verdict": verdict})


def fork(context: Context) -> None:
    """Use a GPU in a child of a process that has asked which GPUs there are, for a loader on the CPU."""
    options: dict[str, Any] = {"batch_size": _BATCH, "transforms": [CenterCrop(32)], "output": "torch"}
    folder = context.made("short256")
    with stoker.ImageLoader(folder, engine="native", **options) as loader:  # names no device
        next(iter(loader))
    child = os.fork()
    if not child:
        with stoker.ImageLoader(folder, engine="dali", device=context.device, **options) as loader:
            next(iter(loader)).image.float().sum().item()
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    verdict = f"the child ended with {status}" if status else _EXPECTED
    context.write({"child_status": status, "verdict": verdict})


def _dataset(context: Context, name: str, payloads: list[bytes]) -> Path:
    files = context.work / "data" / f"{name}-files" / "class"
    files.mkdir(parents=True, exist_ok=True)
    for number, payload in enumerate(payloads):
        (files / f"{number:04d}.jpg").write_bytes(payload)
    target = context.work / "data" / name
    convert(files.parent, target, overwrite=True)
    return target


def _device_memory(context: Context) -> dict[str, float]:
    """Memory of the GPU that is in use, in MiB; nothing on the CPU."""
    if not context.on_gpu:
        return {}
    import torch

    free, total = torch.cuda.mem_get_info(context.device)
    return {"device_mib": round((total - free) / 2**20, 1)}
