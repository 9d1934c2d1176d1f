"""The description of a Stoker dataset from which the other loaders read it."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import stoker
from stoker.errors import ConfigError
from stoker.formats.codecs.codec import Codec
from stoker.formats.conversion.options import ConvertArguments
from stoker.formats.dataset.manifest import MANIFEST_NAME
from stoker.formats.options import gather_options

from ..peers.base import MEAN, STD, PeerSource
from .photographs import make_imagenet_like, replicate


def open_source(dataset_path: str | os.PathLike[str], scratch: Path, *, boxes: bool = False) -> PeerSource:
    """Return the description of a dataset for the peers."""
    dataset = stoker.open(dataset_path)
    if dataset.manifest.sample_type != "image" or ("boxes" if boxes else "label") not in dataset.tasks:
        needed = "boxes for a recipe" if boxes else "one label each, or boxes"
        raise ConfigError(f"a comparison needs images with {needed}", path=dataset.path)
    samples = dataset.samples(np.arange(len(dataset)))
    codecs = {Codec(int(value)) for value in np.unique(samples.codec)}
    if codecs not in ({Codec.JPEG}, {Codec.RAW}):
        raise ConfigError(
            f"a comparison needs samples that are all JPEG or all raw pixels, found "
            f"{', '.join(sorted(codec.name for codec in codecs)) or 'none'}",
            path=dataset.path,
            hint="Convert with --encoding jpeg or --encoding raw.",
        )
    table = scratch / "payloads.npz"
    np.savez(
        table,
        paths=np.array([str(path) for path in dataset.data_files]),
        shard=samples.shard,
        offset=samples.offset,
        length=samples.length,
        label=np.zeros(len(dataset), np.int64) if boxes else dataset.labels,
        height=samples.height,
        width=samples.width,
    )
    folder = dataset.path.resolve()
    return PeerSource(
        dataset=folder,
        container=dataset.manifest.container,
        shards=tuple(folder / (shard.path or shard.name) for shard in dataset.manifest.shards),
        table=table,
        records=len(dataset),
        raw=codecs == {Codec.RAW},
        scratch=scratch,
    )


_BASE, _LEAST, _STEP = 11, 28, 20
"""Number of values of a digit, the smallest value of a channel, and the distance between two."""
_NOISE, _QUALITY = 8.0, 96


def write_numbered_images(folder: Path, count: int, height: int = 375, width: int = 500) -> None:
    """Write ``count`` JPEG files of one class, at most 1,331, named by their numbers."""
    from PIL import Image

    (folder / "0").mkdir(parents=True)
    for number in range(count):
        colour = _LEAST + _STEP * np.array([number // _BASE**digit % _BASE for digit in range(3)])
        noise = np.random.default_rng(number).normal(0, _NOISE, (height, width, 1))
        pixels = (colour + noise).round().clip(0, 255).astype(np.uint8)
        path = folder / "0" / f"{number:05d}.jpg"
        Image.fromarray(pixels).save(path, quality=_QUALITY, subsampling="4:4:4")


def sample_numbers(batch: npt.NDArray[np.float32]) -> list[int]:
    """Return the number of each image of a batch, (N, 3, H, W) float32, normalised."""
    values = 255 * (np.asarray(batch).mean((2, 3)) * np.array(STD) + np.array(MEAN))
    digits = np.rint((values - _LEAST) / _STEP).astype(int).clip(0, _BASE - 1)
    numbers: list[int] = (digits @ _BASE ** np.arange(3)).tolist()
    return numbers


_WITH_COLUMNS = ("hf-datasets", "hf-streaming", "ray-data")
"""Peers whose columns have no raw pixels of several sizes."""
_ALL_PEERS = (
    *("stoker", "stoker-dali", "tfdata", "tfdata-plain", "dali", "torch", "ffcv", "spdl"),
    *("webdataset", "litdata", "mosaic-streaming", "grain", *_WITH_COLUMNS),
)
_SHORT = {"resize": "shorter=256", "quality": 90, "encoding": "jpeg"}


@dataclass(frozen=True)
class Workload:
    """A dataset, and the loaders that are compared on it."""

    name: str  # Short name, also of the folder
    title: str  # Title in tables and pictures
    peers: tuple[str, ...] = _ALL_PEERS  # Loaders that are compared
    copies: int = 2048  # Number of samples, which are copies of the photographs under different names
    imagenet_like: bool = False  # Whether the photographs first get the size and quality of ImageNet's
    options: Mapping[str, Any] = field(default_factory=dict)  # Options of ``stoker.convert``
    dataset: str = ""  # Name of another workload whose dataset this one uses
    size: int = 224  # Height and width of the output, pixels


def _published(name: str, title: str, engine: str, size: int) -> Workload:
    """Return the workload that another project has published; its loader has the name of the workload."""
    return Workload(name, title, (engine, name), dataset="imagenet", size=size)


_WORKLOADS = (
    Workload("imagenet", "Photographs of ImageNet's size and quality", imagenet_like=True),
    Workload(
        "imagenet-restarts", "The same with restart markers", imagenet_like=True, options={"restarts": True}
    ),
    Workload("imagenet256", "The same at short side 256, quality 90", imagenet_like=True, options=_SHORT),
    Workload("short256", "Short side 256, quality 90", options=_SHORT),
    Workload(
        "raw256",
        "Raw pixels, short side 256",
        tuple(name for name in _ALL_PEERS if name not in {"spdl", *_WITH_COLUMNS}),
        copies=4096,
        options={"resize": "shorter=256", "encoding": "raw"},
    ),
    _published("ffcv-rn18", "FFCV's ResNet-18: 10% JPEG, at most 400 pixels, uint8", "stoker-rn18", size=192),
    _published("ffcv-rn50", "FFCV's ResNet-50: 50% JPEG, at most 500 pixels, uint8", "stoker-rn50", size=192),
    _published("spdl-example", "SPDL's example: resized to a square, uint8", "stoker-resized", size=224),
)
WORKLOADS = {workload.name: workload for workload in _WORKLOADS}
"""All workloads by name, in the order of the tables."""


def make_dataset(workload: Workload, source: Path, work: Path) -> Path:
    """Return the folder of a workload's dataset below ``work``; make the dataset if it is missing.

    The path of the source and the number of copies name the folder.
    """
    workload = WORKLOADS[workload.dataset] if workload.dataset else workload
    origin = hashlib.blake2b(f"{source.resolve()} {workload.copies}".encode(), digest_size=4).hexdigest()
    folder = work / origin
    target = folder / workload.name
    if (target / MANIFEST_NAME).exists():
        return target
    photographs, files = source, folder / f"{workload.name}-files"
    if workload.imagenet_like:
        photographs = folder / f"{workload.name}-remade"
        make_imagenet_like(source, photographs)
    replicate(photographs, files, workload.copies)
    stoker.convert(
        files,
        target,
        seed=0,
        overwrite=True,
        **gather_options(ConvertArguments, {"shards": 8, **workload.options}),
    )
    shutil.rmtree(files)
    return target
