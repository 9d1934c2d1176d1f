"""A DALI pipeline, written by hand after NVIDIA's ImageNet examples."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali import tfrecord as tfrec

from .base import MEAN, RATIO, SCALE, STD, PeerSettings, PeerSource, Unsupported

_PREFETCH = 2
_SHUFFLE_BUFFER = 1024


class DaliPipeline:
    """A pipeline of reader, fused decode and crop, resize, and crop_mirror_normalize."""

    packages: tuple[str, ...] = ("nvidia-dali-cuda120", "nvidia-dali-cuda130")
    lead = _PREFETCH + 1

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        if source.container == "tfrecord" and not all(
            path.with_suffix(".idx").exists() for path in source.shards
        ):
            raise Unsupported("DALI's readers.tfrecord needs an .idx file beside each shard")
        self._batches = source.records // settings.batch_size
        self._source, self._settings = source, settings
        self._build(None)
        self._on_gpu = settings.device != "cpu"
        return (f"order from a shuffle buffer of {_SHUFFLE_BUFFER} records",)

    def _build(self, checkpoint: bytes | None) -> None:
        settings = self._settings
        self._pipeline = _define(
            self._source,
            settings.size,
            on_gpu=settings.device != "cpu",
            batch_size=settings.batch_size,
            num_threads=settings.num_threads,
            device_id=None if settings.device == "cpu" else int(settings.device.partition(":")[2] or 0),
            seed=settings.seed,
            prefetch_queue_depth=_PREFETCH,
            enable_checkpointing=settings.resumable,
            **({} if checkpoint is None else {"checkpoint": checkpoint}),
        )
        self._pipeline.build()

    def state(self, scratch: Path) -> Any:
        del scratch
        return self._pipeline.checkpoint().decode("latin-1")

    def resume(self, state: Any) -> Iterator[Any]:
        self._build(state.encode("latin-1"))
        return self.epoch()

    def epoch(self) -> Iterator[Any]:
        for _ in range(self._batches):
            images, _labels = self._pipeline.run()
            if self._on_gpu:
                import torch

                yield torch.from_dlpack(images.as_tensor())
            else:
                yield np.asarray(images.as_tensor())


@pipeline_def
def _define(source: PeerSource, size: int, *, on_gpu: bool) -> Any:
    if source.container == "tfrecord":
        records = _records(source)
        encoded, labels = records["image/encoded"], records["image/class/label"]
    elif source.raw or source.container != "lmdb":
        raise Unsupported("the pipeline reads TFRecord shards, and LMDB of encoded images")
    else:
        paths = [str(path) for path in source.shards]
        outputs: Any = fn.readers.caffe(path=paths, random_shuffle=True, initial_fill=_SHUFFLE_BUFFER)
        encoded, labels = outputs
    crop: dict[str, Any] = {"random_area": SCALE, "random_aspect_ratio": RATIO}
    if source.raw:
        sizes = [fn.cast(records[f"image/{side}"], dtype=types.INT32) for side in ("height", "width")]
        pixels = fn.reinterpret(encoded, shape=fn.cat(*sizes, np.array([3], np.int32)), layout="HWC")
        pixels = pixels.gpu() if on_gpu else pixels
        images = fn.random_resized_crop(pixels, size=(size, size), antialias=True, **crop)
    elif on_gpu:  # whole images: nvImageCodec 0.9 may end the process when it decodes a region on a GPU
        decoded = fn.decoders.image(encoded, device="mixed", output_type=types.RGB)
        images = fn.random_resized_crop(decoded, size=(size, size), antialias=True, **crop)
    else:
        decoded = fn.decoders.image_random_crop(encoded, device="cpu", output_type=types.RGB, **crop)
        images = fn.resize(
            decoded, resize_x=size, resize_y=size, interp_type=types.INTERP_LINEAR, antialias=True
        )
    normalised = fn.crop_mirror_normalize(
        images,
        dtype=types.FLOAT,
        output_layout="CHW",
        mean=[255 * value for value in MEAN],
        std=[255 * value for value in STD],
        mirror=fn.random.coin_flip(probability=0.5),
    )
    return normalised, labels


def _records(source: PeerSource) -> Any:
    return fn.readers.tfrecord(
        path=[str(path) for path in source.shards],
        index_path=[str(path.with_suffix(".idx")) for path in source.shards],
        features={
            "image/encoded": tfrec.FixedLenFeature([], tfrec.string, ""),
            "image/class/label": tfrec.FixedLenFeature([1], tfrec.int64, -1),
            "image/height": tfrec.FixedLenFeature([1], tfrec.int64, 0),
            "image/width": tfrec.FixedLenFeature([1], tfrec.int64, 0),
        },
        random_shuffle=True,
        initial_fill=_SHUFFLE_BUFFER,
    )
