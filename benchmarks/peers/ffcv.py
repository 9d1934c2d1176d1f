"""FFCV, with the transforms that its documentation uses for ImageNet, on the CPU."""

from __future__ import annotations

import io
from collections.abc import Callable, Generator, Iterator
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
from ffcv.fields import IntField, RGBImageField
from ffcv.fields.decoders import IntDecoder, RandomResizedCropRGBImageDecoder
from ffcv.fields.rgb_image import IMAGE_MODES
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, ToTensor, ToTorchImage
from ffcv.writer import DatasetWriter
from PIL import Image

from .base import MEAN, RATIO, SCALE, STD, PeerPayloads, PeerSettings, PeerSource

_FILE = "photographs.beton"
_BATCHES_AHEAD = 2
_PASSES = 200
_QUALITY = 90
_MOST_BYTES = 1 << 32
"""Limit of buffers: FFCV keeps ``batches_ahead + 2`` batches of whole decoded images."""


class StoredImageField(RGBImageField):
    """A field that keeps the bytes of a JPEG; the field of FFCV would encode the pixels again."""

    def encode(self, destination: Any, image: Any, malloc: Callable[[int], tuple[int, Any]]) -> None:
        if isinstance(image, np.ndarray):
            super().encode(destination, image, malloc)
            return
        with Image.open(io.BytesIO(image)) as header:
            width, height = header.size
        destination["mode"] = IMAGE_MODES["jpg"]
        destination["height"], destination["width"] = height, width
        destination["data_ptr"], storage = malloc(len(image))
        storage[:] = np.frombuffer(image, np.uint8)


class FFCVSamples:
    """Samples by index, which the writer of FFCV reads."""

    def __init__(self, source: PeerSource, *, decoded: bool = False) -> None:
        self._payloads = PeerPayloads(source)
        self._decoded = decoded

    def __len__(self) -> int:
        return len(self._payloads)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        payload: Any = self._payloads.payload(index)
        if self._decoded:
            payload = Image.open(io.BytesIO(payload)).convert("RGB")
        return payload, int(self._payloads.label[index])


class FFCV:
    """The loader of FFCV."""

    packages: tuple[str, ...] = ("ffcv", "numba", "torch")
    lead = _BATCHES_AHEAD + 1

    def write(self, source: PeerSource, settings: PeerSettings) -> None:
        _write(StoredImageField(write_mode="raw"), FFCVSamples(source), source, settings)

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        self._open(source, settings, {"image": StoredImageField})
        decoding = () if source.raw else ("decodes whole images, with libjpeg's fast, less exact DCT",)
        return (*decoding, "filters by area (OpenCV INTER_AREA), not bilinear")

    def epoch(self) -> Iterator[npt.NDArray[Any]]:
        """Yield as many batches as an epoch has; the loader itself is endless.

        The copy to NCHW is part of the work, because the images of FFCV are NHWC.
        """
        for images in islice(self._endless, self._batches):
            yield images.contiguous().numpy()

    def _steps(self) -> list[Any]:
        normalised = NormalizeImage(255 * np.array(MEAN), 255 * np.array(STD), np.float32)
        return [RandomHorizontalFlip(), normalised, ToTensor(), ToTorchImage(channels_last=True)]

    def _open(self, source: PeerSource, settings: PeerSettings, fields: dict[str, Any]) -> None:
        """Make the loader.

        FFCV allocates its buffers at each pass, which would slow short epochs down. So one pass of FFCV has
        each sample many times, except where the samples of an epoch are counted.
        """
        size = (settings.size, settings.size)
        batch_bytes = 3 * settings.batch_size * PeerPayloads(source).most_pixels
        crop = RandomResizedCropRGBImageDecoder(size, scale=SCALE, ratio=RATIO)
        passes = 1 if settings.resumable else _PASSES
        self._batches = source.records // settings.batch_size
        loader = Loader(
            str(source.scratch / _FILE),
            batch_size=settings.batch_size,
            num_workers=settings.num_threads,
            order=OrderOption.RANDOM,
            os_cache=True,
            indices=np.tile(np.arange(source.records, dtype=np.uint64), passes),
            seed=settings.seed,
            drop_last=True,
            batches_ahead=_BATCHES_AHEAD if (_BATCHES_AHEAD + 2) * batch_bytes <= _MOST_BYTES else 1,
            pipelines={"image": [crop, *self._steps()], "label": [IntDecoder(), ToTensor()]},
            custom_fields=fields,
        )
        self._endless = _endless(loader)


class FFCVResNet18(FFCV):
    """The files and the steps of FFCV's own training of ResNet-18 on ImageNet, up to the copy to the GPU.

    See https://github.com/libffcv/ffcv-imagenet: images of at most ``long_side`` pixels are raw, and each is
    a JPEG of quality 90 with a probability of ``jpeg_share``. The GPU normalises them, so batches are uint8.
    """

    uint8 = True
    jpeg_share, long_side = 0.1, 400

    def write(self, source: PeerSource, settings: PeerSettings) -> None:
        field = RGBImageField(
            write_mode="proportion",
            max_resolution=self.long_side,
            compress_probability=self.jpeg_share,
            jpeg_quality=_QUALITY,
        )
        _write(field, FFCVSamples(source, decoded=True), source, settings)

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        self._open(source, settings, {})
        return ("filters by area (OpenCV INTER_AREA), not bilinear",)

    def epoch(self) -> Iterator[npt.NDArray[Any]]:
        for images in islice(self._endless, self._batches):
            yield images.permute(0, 2, 3, 1).numpy()

    def _steps(self) -> list[Any]:
        return [RandomHorizontalFlip(), ToTensor(), ToTorchImage(channels_last=True)]


class FFCVResNet50(FFCVResNet18):
    """The same for ResNet-50: larger images, and more of them JPEGs."""

    jpeg_share, long_side = 0.5, 500


def _write(field: Any, samples: FFCVSamples, source: PeerSource, settings: PeerSettings) -> None:
    fields = {"image": field, "label": IntField()}
    writer = DatasetWriter(str(source.scratch / _FILE), fields, num_workers=settings.num_threads)
    writer.from_indexed_dataset(samples)


def _endless(loader: Any) -> Generator[Any, None, None]:
    while True:
        for images, _ in loader:
            yield images
