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
        records = tfrecords(source)
        encoded, labels = records["image/encoded"], records["image/class/label"]
    elif source.raw or source.container != "lmdb":
        raise Unsupported("the pipeline reads TFRecord shards, and LMDB of encoded images")
    else:
        paths = [str(path) for path in source.shards]
        outputs: Any = fn.readers.caffe(path=paths, random_shuffle=True, initial_fill=_SHUFFLE_BUFFER)
        encoded, labels = outputs
    if source.raw:
        sizes = [fn.cast(records[f"image/{side}"], dtype=types.INT32) for side in ("height", "width")]
        pixels = fn.reinterpret(encoded, shape=fn.cat(*sizes, np.array([3], np.int32)), layout="HWC")
        images = cropped(pixels.gpu() if on_gpu else pixels, size)
    else:  # on a GPU whole images: nvImageCodec 0.9 may end the process when it decodes a region there
        images = decoded(encoded, size, region=not on_gpu, device="mixed" if on_gpu else "cpu")
    return normalised(images, types.FLOAT, "CHW"), labels


_CROP: dict[str, Any] = {"random_area": SCALE, "random_aspect_ratio": RATIO}
_RESIZE: dict[str, Any] = {"interp_type": types.INTERP_LINEAR, "antialias": True}


def cropped(pixels: Any, size: int) -> Any:
    """Random crops of whole images, resized to a square."""
    return fn.random_resized_crop(pixels, size=[size, size], **_CROP, **_RESIZE)


def decoded(encoded: Any, size: int, *, region: bool, **options: Any) -> Any:
    """Random crops of JPEGs, resized to a square; a decoder of regions decodes what a crop shows."""
    options["output_type"] = types.RGB
    if region:
        return fn.resize(
            fn.decoders.image_random_crop(encoded, **options, **_CROP), size=[size, size], **_RESIZE
        )
    return cropped(fn.decoders.image(encoded, **options), size)


def normalised(images: Any, dtype: Any, layout: str) -> Any:
    """Images of which every other one is flipped, normalised."""
    return fn.crop_mirror_normalize(
        images,
        dtype=dtype,
        output_layout=layout,
        mean=[255 * value for value in MEAN],
        std=[255 * value for value in STD],
        mirror=fn.random.coin_flip(probability=0.5),
    )


def tfrecords(source: PeerSource) -> Any:
    """Records of shards, in random order."""
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
