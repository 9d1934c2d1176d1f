"""The loaders that are compared on a GPU.

Each is an endless iterator over batches on the device: images, (N, H, W, 3) bfloat16 or float16, and labels,
(N,) int64. The work is random resized crop, flip and normalisation, as in the examples of NVIDIA and
torchvision.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from itertools import chain, count, repeat
from pathlib import Path
from typing import Any

import numpy as np
import torch

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop
from stoker.benchmarks.peers.base import MEAN, RATIO, SCALE, STD, PeerPayloads, PeerSource
from stoker.pipeline.images.image_pipeline import largest_size

from ..comparison.sources import open_source
from ..measuring import allowed_cores
from .context import Context, Refused

Batches = Iterator[tuple[torch.Tensor, torch.Tensor]]


class EndlessShuffle:
    """A sampler of one shuffled pass after the other, so that workers need not wait for the end of a pass."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(0)
        while True:
            yield from torch.randperm(self._count, generator=generator).tolist()


def burst(name: str) -> int:
    """Batches that a loader finishes together: its workers make one batch each, and begin at the same time.

    A measurement is fair over a multiple of them.
    """
    return len(allowed_cores()) if name == "torchvision" else 1


def make_batches(name: str, context: Context, dataset: Path) -> Batches:
    """The batches of a loader by its name in :data:`stoker.benchmarks.gpu.steps.LOADERS`, without end."""
    if name == "stoker-native-uint8":
        return _normalised_on_device(own_loader(context, dataset, "native", normalise=False), context)
    if name.startswith("stoker-"):
        loader = own_loader(context, dataset, name.removeprefix("stoker-"))
        return ((batch.image, batch.label) for batch in chain.from_iterable(repeat(loader)))
    source = open_source(dataset, Path(tempfile.mkdtemp(dir=context.work)))
    try:
        return {"dali": _dali, "torchvision": _torchvision, "torchvision-cuda": _torchvision_cuda}[name](
            source, context
        )
    except ImportError as error:
        raise Refused(str(error)) from error


def own_loader(
    context: Context,
    dataset: Path,
    engine: str | stoker.DaliOptions,
    *,
    normalise: bool = True,
    **options: Any,
) -> stoker.ImageLoader:
    """A loader of Stoker; bfloat16, or uint8 that is not normalised.

    "dali" decodes in the best way so far; DALI has the threads of that measurement.
    """
    given: dict[str, Any] = {
        "batch_size": context.scale.batch_size,
        "shuffle": True,
        "last_batch": "drop",
        "engine": context.dali_options() if engine == "dali" else engine,
        "num_threads": None if engine == "native" else context.decoding().get("threads"),
        "device": context.device,
        "output": "torch",
        "dtype": "bfloat16" if normalise else "uint8",
        "layout": "NHWC",
        "transforms": [
            RandomResizedCrop(context.scale.side),
            RandomHorizontalFlip(),
            *([Normalize()] if normalise else []),
        ],
    }
    return stoker.ImageLoader(dataset, **{**given, **options})


def _normalised_on_device(loader: stoker.ImageLoader, context: Context) -> Batches:
    scale = torch.tensor([1 / (255 * value) for value in STD], device=context.device)
    shift = torch.tensor([-m / s for m, s in zip(MEAN, STD, strict=True)], device=context.device)
    for batch in chain.from_iterable(repeat(loader)):
        yield torch.addcmul(shift, batch.image.float(), scale).to(torch.bfloat16), batch.label


def _dali(source: PeerSource, context: Context) -> Batches:
    """Batches of DALI with its reader of TFRecord, tuned: the best way to decode, hints, float16, depth 3."""
    from nvidia.dali import pipeline_def

    pipeline = pipeline_def(
        lambda: _define_graph(source, context),
        batch_size=context.scale.batch_size,
        num_threads=context.decoding().get("threads") or len(allowed_cores()),
        device_id=context.gpu_number if context.on_gpu else None,
        prefetch_queue_depth=3,
    )()
    pipeline.build()

    def batches() -> Batches:
        while True:
            outputs = pipeline.run()
            images = torch.from_dlpack(outputs[0].as_tensor())
            # Through NumPy: DLPack takes page-locked memory, which DALI may return, for another device.
            labels = torch.from_numpy(outputs[1].as_array())
            yield images, labels.flatten().to(context.device)

    return batches()


def _define_graph(source: PeerSource, context: Context) -> Any:
    """The nodes of the images, float16 NHWC, and of the labels."""
    from nvidia.dali import types

    from ..peers.dali import decoded, normalised, tfrecords

    records, best = tfrecords(source), context.decoding()
    options: dict[str, Any] = {"device": "cpu"}
    if context.on_gpu:
        height, width = largest_size(stoker.open(source.dataset))
        options = {"device": "mixed", "hw_decoder_load": best["load"]}
        options |= {"preallocate_height_hint": height, "preallocate_width_hint": width}
    images = decoded(records["image/encoded"], context.scale.side, region=best["region"], **options)
    return normalised(images, types.FLOAT16, "HWC"), records["image/class/label"]


def _torchvision(source: PeerSource, context: Context) -> Batches:
    """Batches of a DataLoader with worker processes, copied from page-locked memory."""
    from torch.utils.data import DataLoader

    from ..peers.torch import TorchSamples
    from ..peers.torchvision import TorchvisionImages

    payloads = PeerPayloads(source)
    order: Any = EndlessShuffle(len(payloads))  # an iterable is enough of a sampler
    loader = DataLoader(
        TorchSamples(payloads, TorchvisionImages(context.scale.side)),
        batch_size=context.scale.batch_size,
        sampler=order,
        num_workers=len(allowed_cores()),
        pin_memory=context.on_gpu,
    )

    def batches() -> Batches:
        for images, labels in loader:
            on_device = images.to(context.device, non_blocking=True).to(torch.bfloat16)
            yield on_device.permute(0, 2, 3, 1), labels.to(context.device, non_blocking=True)

    return batches()


def _torchvision_cuda(source: PeerSource, context: Context) -> Batches:
    """Batches of torchvision's JPEG decoder on the device and its transforms, on one thread."""
    from torchvision.io import ImageReadMode, decode_jpeg
    from torchvision.transforms import v2

    payloads, size = PeerPayloads(source), context.scale.batch_size
    crop = v2.RandomResizedCrop(context.scale.side, scale=SCALE, ratio=RATIO, antialias=True)
    finish = v2.Compose([v2.ToDtype(torch.bfloat16, scale=True), v2.Normalize(MEAN, STD)])
    flip = v2.RandomHorizontalFlip()
    shuffled = random.Random(0)  # noqa: S311 - an order, not a secret

    def batches() -> Batches:
        for _ in count():
            rows = shuffled.sample(range(len(payloads)), len(payloads))
            for start in range(0, len(rows) - size + 1, size):
                chosen = rows[start : start + size]
                files = [bytearray(payloads.read(row)) for row in chosen]
                encoded = [torch.frombuffer(file, dtype=torch.uint8) for file in files]
                options = {"device": context.device} if context.on_gpu else {}
                decoded = decode_jpeg(encoded, mode=ImageReadMode.RGB, **options)
                images = finish(torch.stack([flip(crop(image)) for image in decoded]))
                labels = torch.from_numpy(np.asarray(payloads.label[chosen])).to(context.device)
                yield images.permute(0, 2, 3, 1), labels

    return batches()
