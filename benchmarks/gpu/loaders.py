"""Loaders of other libraries that feed a GPU, for :mod:`stoker.benchmarks.training.gpu`.

Each is an endless iterator over batches on the device: images, (N, 224, 224, 3) bfloat16, and labels, (N,)
int64. The work is random resized crop, flip and normalisation, as in the examples of NVIDIA and torchvision.
"""

from __future__ import annotations

import random
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from stoker.benchmarks.peers.base import MEAN, RATIO, SCALE, STD, PeerPayloads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stoker.benchmarks.peers.base import PeerSource

    Batches = Iterator[tuple[torch.Tensor, torch.Tensor]]

__all__ = ["LOADERS", "SIZE"]

SIZE = 224


def dali_by_hand(source: PeerSource, batch_size: int, device: torch.device, threads: int) -> Batches:
    """Yield batches of DALI, with its reader of TFRecord and its decoder on the GPU."""
    from nvidia.dali import pipeline_def

    on_gpu = device.type == "cuda"
    pipeline = pipeline_def(
        lambda: _define_graph(source, on_gpu),
        batch_size=batch_size,
        num_threads=threads,
        device_id=device.index or 0 if on_gpu else None,
        prefetch_queue_depth=2,
    )()
    pipeline.build()
    while True:
        outputs = pipeline.run()
        images = torch.from_dlpack(outputs[0].as_tensor())
        # Through NumPy, because DLPack takes page-locked memory, which DALI may return, for another device.
        labels = torch.from_numpy(outputs[1].as_array())
        yield images.to(torch.bfloat16), labels.flatten().to(device)


def _define_graph(source: PeerSource, on_gpu: bool) -> Any:
    """Return the nodes of the images, float32 NHWC, and of the labels."""
    from nvidia.dali import fn, types
    from nvidia.dali import tfrecord as tfrec

    records: Any = fn.readers.tfrecord(
        path=[str(path) for path in source.shards],
        index_path=[str(path.with_suffix(".idx")) for path in source.shards],
        features={
            "image/encoded": tfrec.FixedLenFeature([], tfrec.string, ""),
            "image/class/label": tfrec.FixedLenFeature([1], tfrec.int64, -1),
        },
        random_shuffle=True,
        initial_fill=1024,
    )
    images: Any = fn.decoders.image_random_crop(
        records["image/encoded"],
        device="mixed" if on_gpu else "cpu",
        random_area=SCALE,
        random_aspect_ratio=RATIO,
    )
    images = fn.resize(images, size=[SIZE, SIZE], interp_type=types.INTERP_LINEAR, antialias=True)
    images = fn.crop_mirror_normalize(
        images,
        dtype=types.FLOAT,
        output_layout="HWC",
        mean=[255 * value for value in MEAN],
        std=[255 * value for value in STD],
        mirror=fn.random.coin_flip(probability=0.5),
    )
    return images, records["image/class/label"]


def torchvision_workers(source: PeerSource, batch_size: int, device: torch.device, threads: int) -> Batches:
    """Yield batches of a DataLoader with worker processes, copied from page-locked memory."""
    from torch.utils.data import DataLoader

    from stoker.benchmarks.peers.torch_loader import TorchSamples, WithTorchvision

    loader = DataLoader(
        TorchSamples(PeerPayloads(source), WithTorchvision(SIZE, source.raw, ())),
        batch_size=batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=threads,
        persistent_workers=True,
        pin_memory=device.type == "cuda",
    )
    while True:
        for images, labels in loader:
            on_device = images.to(device, non_blocking=True).to(torch.bfloat16)
            yield on_device.permute(0, 2, 3, 1), labels.to(device, non_blocking=True)


def torchvision_decoder(source: PeerSource, batch_size: int, device: torch.device, threads: int) -> Batches:
    """Yield batches of torchvision's JPEG decoder for CUDA and its transforms, on one thread."""
    from torchvision.io import ImageReadMode, decode_jpeg
    from torchvision.transforms import v2

    payloads = PeerPayloads(source)
    crop = v2.RandomResizedCrop(SIZE, scale=SCALE, ratio=RATIO, antialias=True)
    finish = v2.Compose([v2.ToDtype(torch.bfloat16, scale=True), v2.Normalize(MEAN, STD)])
    flip = v2.RandomHorizontalFlip()
    shuffled = random.Random(0)  # noqa: S311 - an order, not a secret
    for _ in count():
        rows = shuffled.sample(range(len(payloads)), len(payloads))
        for start in range(0, len(rows) - batch_size + 1, batch_size):
            chosen = rows[start : start + batch_size]
            encoded = [torch.frombuffer(bytearray(payloads.read(row)), dtype=torch.uint8) for row in chosen]
            decoded = decode_jpeg(encoded, mode=ImageReadMode.RGB, device=device)
            images = finish(torch.stack([flip(crop(image)) for image in decoded]))
            yield images.permute(0, 2, 3, 1), torch.from_numpy(np.asarray(payloads.label[chosen])).to(device)


LOADERS: dict[str, Callable[[PeerSource, int, torch.device, int], Batches]] = {
    "DALI by hand": dali_by_hand,
    "torchvision, workers": torchvision_workers,
    "torchvision, CUDA decoder": torchvision_decoder,
}
