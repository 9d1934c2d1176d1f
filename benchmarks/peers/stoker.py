"""Stoker with its C++ engine."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop, Resize, load_recipe

from .base import (
    MEAN,
    RATIO,
    RAW_REASON,
    SCALE,
    STD,
    PeerPayloads,
    PeerSettings,
    PeerSource,
    Unsupported,
    WithLoaderState,
)

_PREFETCH = 4  # the default


class StokerNative(WithLoaderState):
    """``stoker.ImageLoader`` with the native engine."""

    packages: tuple[str, ...] = ("stoker", "numpy")
    lead = _PREFETCH + 1
    engine = "native"
    read_ahead = 8
    shuffle: bool | stoker.BlockShuffle = True
    workers: stoker.RayWorkers | None = None

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        self._loader = stoker.ImageLoader(
            self.folder(source),
            batch_size=settings.batch_size,
            **self.work(settings),
            shuffle=self.shuffle,
            seed=settings.seed,
            last_batch="drop",
            engine=self.engine,
            device=settings.device,
            output="numpy" if settings.device == "cpu" else "torch",
            num_threads=settings.num_threads,
            prefetch=_PREFETCH,
            reading=stoker.Reading(
                self.read_ahead,
                cache=stoker.Cache(source.scratch / "cache") if source.remote else None,
                workers=self.workers,
            ),
        )
        # The loader works across the end of a pass, so a turn may begin in the middle of one.
        self._batches = chain.from_iterable(repeat(self._loader))
        return ()

    def folder(self, source: PeerSource) -> Any:
        return source.remote or source.dataset

    def epoch(self) -> Iterator[Any]:
        for images, *_ in islice(self._batches, len(self._loader)):
            yield images

    def work(self, settings: PeerSettings) -> dict[str, Any]:
        if settings.recipe:
            return {
                "transforms": load_recipe(settings.recipe),
                "columns": ("image", "boxes", "box_labels"),
                "objects": stoker.Objects(min_visible=settings.min_visible, min_size=settings.min_size),
            }
        crop = RandomResizedCrop(settings.size, scale=SCALE, ratio=RATIO)
        return {"transforms": [crop, RandomHorizontalFlip(), Normalize(mean=MEAN, std=STD)]}


class StokerWithoutReadAhead(StokerNative):
    """The same loader without reading ahead."""

    read_ahead = 0


class StokerBlocks(StokerNative):
    """The same loader, which shuffles blocks of neighbours and the samples of eight blocks."""

    shuffle = stoker.BlockShuffle(block=64, window=8)


_QUALITY = 90


class StokerResized(StokerNative):
    """Images in the order of the dataset, resized to a square, as in the example of SPDL."""

    uint8 = True
    shuffle = False

    def work(self, settings: PeerSettings) -> dict[str, Any]:
        return {"transforms": [Resize((settings.size, settings.size))], "layout": "NHWC"}


class StokerResNet18(StokerResized):
    """The samples and the steps of FFCV's training of ResNet-18: see the peer ``ffcv-rn18``."""

    shuffle = True
    jpeg_share, long_side = 0.1, 400

    def write(self, source: PeerSource, settings: PeerSettings) -> None:
        del settings
        payloads = PeerPayloads(source)
        encoded = np.random.default_rng(0).random(len(payloads)) < self.jpeg_share
        parts = {"raw": np.flatnonzero(~encoded), "jpeg": np.flatnonzero(encoded)}
        for encoding, rows in parts.items():
            target = source.scratch / encoding
            with stoker.Writer(target, classes=_names(payloads), encoding=encoding) as writer:
                for row in rows.tolist():
                    image = self._image(payloads.read(row))
                    writer.write(
                        _jpeg(image) if encoding == "jpeg" else image, label=int(payloads.label[row])
                    )
        stoker.merge([source.scratch / encoding for encoding in parts], source.scratch / "merged")

    def _image(self, payload: bytes) -> Image.Image:
        image = Image.open(io.BytesIO(payload)).convert("RGB")
        image.thumbnail((self.long_side, self.long_side), Image.Resampling.BOX, reducing_gap=None)
        return image

    def folder(self, source: PeerSource) -> Any:
        return source.scratch / "merged"

    def work(self, settings: PeerSettings) -> dict[str, Any]:
        crop = RandomResizedCrop(settings.size, scale=SCALE, ratio=RATIO)
        return {"transforms": [crop, RandomHorizontalFlip()], "layout": "NHWC"}


class StokerResNet50(StokerResNet18):
    """The same for ResNet-50: larger images, and more of them JPEGs."""

    jpeg_share, long_side = 0.5, 500


def _names(payloads: PeerPayloads) -> list[str]:
    return [str(number) for number in range(int(payloads.label.max()) + 1)]


def _jpeg(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=_QUALITY)
    return file.getvalue()


class StokerDali(StokerNative):
    """The same loader with ``engine="dali"``."""

    packages = ("stoker", "nvidia-dali-cuda120", "nvidia-dali-cuda130")
    engine = "dali"


class StokerRay(StokerNative):
    """The same loader, whose batches come through Ray's object store."""

    packages = ("stoker", "numpy", "ray")
    workers = stoker.RayWorkers(local=False)

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        import ray

        ray.init(
            "local",
            num_cpus=settings.num_threads,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
        return super().prepare(source, settings)


_FOLDER = "files"


class FilePayloads:
    """The part of :class:`PeerPayloads` that a DataLoader needs, with a file for each sample."""

    def __init__(self, source: PeerSource) -> None:
        self.label = PeerPayloads(source).label
        self._folder = f"{source.remote or source.scratch}/{_FOLDER}"
        self._client: Any = None

    def __len__(self) -> int:
        return len(self.label)

    def payload(self, i: int) -> bytes:
        path = f"{self._folder}/{_name(i, int(self.label[i]))}"
        if not path.startswith("s3://"):
            return Path(path).read_bytes()
        if self._client is None:  # made after the fork: processes share no connections
            import boto3

            self._client = boto3.client("s3")
        bucket, _, key = path.removeprefix("s3://").partition("/")
        body: bytes = self._client.get_object(Bucket=bucket, Key=key)["Body"].read()
        return body


def _name(i: int, label: int) -> str:
    return f"{label}/{i:06d}.jpg"


def write_files(source: PeerSource) -> Path:
    """Write a JPEG file for each sample into ``source.scratch``; return the folder of the classes."""
    if source.raw:
        raise Unsupported(RAW_REASON)
    payloads, folder = PeerPayloads(source), source.scratch / _FOLDER
    for i in range(len(payloads)):
        path = folder / _name(i, int(payloads.label[i]))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(payloads.read(i))
    return folder


class StokerFiles(StokerNative):
    """Stoker, which reads files in place."""

    def write(self, source: PeerSource, settings: PeerSettings) -> None:
        del settings
        stoker.open(write_files(source))

    def folder(self, source: PeerSource) -> Any:
        if source.remote:
            raise Unsupported("it reads shards from an object store, not loose files")
        return source.scratch / _FOLDER


class StokerConversion(StokerNative):
    """Stoker on shards that it converts from a folder of loose files, which is ``source.dataset``."""

    def write(self, source: PeerSource, settings: PeerSettings) -> None:
        stoker.convert(source.dataset, self.folder(source), seed=0, num_threads=settings.num_threads)

    def folder(self, source: PeerSource) -> Any:
        return source.scratch / "shards"
