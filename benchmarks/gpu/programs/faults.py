"""Steps that look for faults: memory over many batches, damaged images, changing graphs, and forks."""

from __future__ import annotations

import io
import os
import warnings
from pathlib import Path
from typing import Any

import stoker
from stoker.augment import CenterCrop, RandomGrayscale, RandomVerticalFlip, Resize
from stoker.benchmarks.comparison.photographs import PHOTOGRAPHS, photographs_in
from stoker.benchmarks.gpu.context import Context
from stoker.benchmarks.gpu.loaders import own_loader
from stoker.formats.conversion.convert import convert

__all__ = ["corrupt", "fork", "long_run", "switch"]

_OUTLIER = 12_000_000  # pixels
_BATCH = 8


def long_run(context: Context) -> None:
    """Watch memory over many batches of a dataset with a few images of 12 megapixels."""
    from PIL import Image

    paths = photographs_in(PHOTOGRAPHS)[: 4 * _BATCH]
    payloads = [path.read_bytes() for path in paths]
    for number in range(0, len(paths), 10):
        with Image.open(paths[number]) as image:
            factor = (_OUTLIER / (image.width * image.height)) ** 0.5
            large = image.convert("RGB").resize((round(image.width * factor), round(image.height * factor)))
        stream = io.BytesIO()
        large.save(stream, "JPEG", quality=90)
        payloads[number] = stream.getvalue()
    folder = _dataset(context, "outliers", payloads)
    memory: list[dict[str, float]] = []
    done = 0
    with own_loader(context, folder, "dali", batch_size=_BATCH) as loader:
        while done < context.scale.long_run:
            done += sum(1 for _ in loader)
            context.wait()
            memory.append({"batches": done, "rss_mib": _rss_mib(), **_device_memory(context)})
            context.write({"memory": memory[:: max(1, len(memory) // 50)]})


def corrupt(context: Context) -> None:
    """Damage the first, a middle and the last image of a batch: the others must stay as they are."""
    photographs = [path.read_bytes() for path in photographs_in(PHOTOGRAPHS)[:_BATCH]]
    options: dict[str, Any] = {"batch_size": _BATCH, "transforms": [Resize(72), CenterCrop(64)]}
    options |= {"dtype": "uint8", "shuffle": False}
    with own_loader(context, _dataset(context, "whole", photographs), "dali", **options) as loader:
        whole = next(iter(loader)).image.cpu().int()
    found: dict[str, Any] = {}
    for at in (0, _BATCH // 2, _BATCH - 1):
        damaged = list(photographs)
        counts = damaged[at].find(b"\xff\xc4") + 5  # lengths of the codes of the first Huffman table
        damaged[at] = damaged[at][:counts] + b"\xff" * 16 + damaged[at][counts + 16 :]
        folder = _dataset(context, f"corrupt-{at}", damaged)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with own_loader(context, folder, "dali", on_error="skip", max_bad=1.0, **options) as loader:
                images = next(iter(loader)).image.cpu().int()
        kept = [i for i in range(_BATCH) if i != at]
        difference = int((images - whole[kept]).abs().max())
        found[str(at)] = {"images": len(images), "largest_difference": difference}
        context.write(found)


def switch(context: Context) -> None:
    """Run batches that need different parts of a pipeline in one epoch, and count the pipelines."""
    from stoker.pipeline.engines.dali.built_pipeline import BuiltPipeline

    some = [Resize((64, 64)), RandomVerticalFlip(0.1), RandomGrayscale(0.1)]
    with own_loader(
        context, context.dataset("short256"), "dali", transforms=some, dtype="uint8", batch_size=_BATCH
    ) as loader:
        images = sum(len(batch.label) for batch in loader)
        context.write({"images": images, "pipelines": len(BuiltPipeline.alive)})


def fork(context: Context) -> None:
    """Use a GPU in a child of a process that has made a loader on the CPU."""
    options: dict[str, Any] = {"batch_size": _BATCH, "transforms": [CenterCrop(32)], "output": "torch"}
    folder = context.dataset("short256")
    with stoker.ImageLoader(folder, engine="native", device="cpu", **options) as loader:
        next(iter(loader))
    child = os.fork()
    if not child:
        with stoker.ImageLoader(folder, engine="dali", device=context.device, **options) as loader:
            next(iter(loader)).image.float().sum().item()
        os._exit(0)
    context.write({"child_status": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])})


def _dataset(context: Context, name: str, payloads: list[bytes]) -> Path:
    files = context.folder / "data" / f"{name}-files" / "class"
    files.mkdir(parents=True, exist_ok=True)
    for number, payload in enumerate(payloads):
        (files / f"{number:04d}.jpg").write_bytes(payload)
    target = context.folder / "data" / name
    convert(files.parent, target, overwrite=True)
    return target


def _device_memory(context: Context) -> dict[str, float]:
    """Memory of the GPU that is in use, in MiB; nothing on the CPU."""
    if not context.on_gpu:
        return {}
    import torch

    free, total = torch.cuda.mem_get_info(context.device)
    return {"device_mib": round((total - free) / 2**20, 1)}


def _rss_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)
