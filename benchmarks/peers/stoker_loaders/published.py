"""Stoker on the workloads that other projects have published: uint8 batches, with the channels last."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from PIL import Image

import stoker
from stoker.augment import RandomHorizontalFlip, RandomResizedCrop, Resize
from stoker.benchmarks.peers.base import RATIO, SCALE, PeerPayloads, PeerSettings, PeerSource
from stoker.benchmarks.peers.stoker_loaders.native import StokerNative

_QUALITY = 90


class StokerResized(StokerNative):
    """Images in the order of the dataset, resized to a square, as in the example of SPDL."""

    uint8 = True
    shuffle = False

    def work(self, settings: PeerSettings) -> dict[str, Any]:
        """Return the resize, and the layout."""
        return {"transforms": [Resize((settings.size, settings.size))], "layout": "NHWC"}


class StokerResNet18(StokerResized):
    """The samples and the steps of FFCV's training of ResNet-18: see the peer ``ffcv-rn18``."""

    shuffle = True
    jpeg_share, long_side = 0.1, 400

    def write(self, source: PeerSource, settings: PeerSettings) -> None:
        """Write the raw images and the JPEGs, and merge both."""
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
        """The pixels of a JPEG, at most ``long_side`` high and wide."""
        image = Image.open(io.BytesIO(payload)).convert("RGB")
        image.thumbnail((self.long_side, self.long_side), Image.Resampling.BOX, reducing_gap=None)
        return image

    def folder(self, source: PeerSource) -> Any:
        """Return the folder of both."""
        return source.scratch / "merged"

    def work(self, settings: PeerSettings) -> dict[str, Any]:
        """Return the crop and the flip, and the layout."""
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
