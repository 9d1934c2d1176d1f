"""SPDL, with FFmpeg for decoding, cropping and resizing, and a thread for each sample in flight."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import spdl.io
from spdl.pipeline import PipelineBuilder

from stoker.benchmarks.peers.base import PeerPayloads, PeerSettings, PeerSource, Unsupported
from stoker.benchmarks.peers.pixels import normalised, random_resized_crop

_RGB = "format=pix_fmts=rgb24"


class SPDL:
    """A pipeline of source, decode, aggregate and collate, which each epoch builds."""

    packages: tuple[str, ...] = ("spdl", "spdl-io")
    lead = 0
    sink = 3  # batches

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        if source.raw:
            raise Unsupported("raw pixels are not among the formats that SPDL reads")
        self._payloads = PeerPayloads(source)
        self._size, self._threads, self._batch_size = (
            settings.size,
            settings.num_threads,
            settings.batch_size,
        )
        self._rng = random.Random(settings.seed)  # noqa: S311 - crops, not secrets
        return ("decodes whole images with FFmpeg", "resizes by swscale's bilinear filter")

    def epoch(self) -> Iterator[npt.NDArray[Any]]:
        builder = (
            PipelineBuilder()
            .add_source(self.order())
            .pipe(self.load, concurrency=self._threads)
            .aggregate(self._batch_size, drop_last=True)
            .pipe(self.collate)
            .add_sink(self.sink or self._threads)
        )
        pipeline = builder.build(num_threads=self._threads)
        with pipeline.auto_stop():
            yield from pipeline

    def order(self) -> Sequence[int]:
        """Return the samples of an epoch."""
        return self._rng.sample(range(len(self._payloads)), len(self._payloads))

    def load(self, index: int) -> Any:
        """Return one sample."""
        packets = spdl.io.demux_image(self._payloads.read(index))
        top, left, height, width = random_resized_crop(self._rng, packets.height, packets.width)
        flip = ",hflip" if self._rng.random() < 0.5 else ""
        frames: Any = spdl.io.decode_packets(
            packets,
            filter_desc=f"crop={width}:{height}:{left}:{top}:exact=1,{_scaled(self._size)}{flip},{_RGB}",
        )
        return normalised(_as_array(frames))

    def collate(self, images: list[Any]) -> npt.NDArray[Any]:
        """Return a batch of samples."""
        return np.stack(images)


class SPDLExample(SPDL):
    """The pipeline of SPDL's example ``multi_thread_preprocessing``, up to the normalisation and the GPU.

    See https://facebookresearch.github.io/spdl: images in the order of the dataset, resized to a square, and
    batched as frames, which one conversion copies.
    """

    uint8 = True
    sink = 0  # as many as threads

    def order(self) -> Sequence[int]:
        return range(len(self._payloads))

    def load(self, index: int) -> Any:
        packets = spdl.io.demux_image(self._payloads.read(index))
        return spdl.io.decode_packets(packets, filter_desc=f"{_scaled(self._size)},{_RGB}")

    def collate(self, images: list[Any]) -> npt.NDArray[Any]:
        return _as_array(images)


def _scaled(size: int) -> str:
    return f"scale={size}:{size}:flags=bilinear"


def _as_array(frames: Any) -> npt.NDArray[Any]:
    return np.asarray(spdl.io.to_numpy(spdl.io.convert_frames(frames)))
