"""SPDL, with FFmpeg for decoding, cropping and resizing, and a thread for each sample in flight."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import spdl.io
from spdl.pipeline import PipelineBuilder

from stoker.benchmarks.peers.base import PeerPayloads, PeerSettings, PeerSource, Unsupported
from stoker.benchmarks.peers.pixels import normalised, random_resized_crop

_SINK_BATCHES = 3


class SPDL:
    """A pipeline of source, decode, aggregate and collate."""

    packages: tuple[str, ...] = ("spdl", "spdl-io")
    lead = 0

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        """List the samples; each epoch builds a pipeline."""
        if source.raw:
            raise Unsupported("raw pixels are not among the formats that SPDL reads")
        self._payloads = PeerPayloads(source)
        self._settings = settings
        self._rng = random.Random(settings.seed)  # noqa: S311 - crops, not secrets
        return ("decodes whole images with FFmpeg", "resizes by swscale's bilinear filter")

    def epoch(self) -> Iterator[npt.NDArray[np.float32]]:
        """Build a pipeline, yield its batches, and stop it."""
        order = self._rng.sample(range(len(self._payloads)), len(self._payloads))
        builder = (
            PipelineBuilder()
            .add_source(order)
            .pipe(self._load, concurrency=self._settings.num_threads, output_order="completion")
            .aggregate(self._settings.batch_size, drop_last=True)
            .pipe(_collate)
            .add_sink(_SINK_BATCHES)
        )
        pipeline = builder.build(num_threads=self._settings.num_threads)
        with pipeline.auto_stop():
            for images, _ in pipeline:
                yield images

    def _load(self, index: int) -> tuple[npt.NDArray[np.float32], int]:
        size = self._settings.size
        packets = spdl.io.demux_image(self._payloads.read(index))
        top, left, height, width = random_resized_crop(self._rng, packets.height, packets.width)
        flip = ",hflip" if self._rng.random() < 0.5 else ""
        graph = (
            f"crop={width}:{height}:{left}:{top}:exact=1,scale={size}:{size}:flags=bilinear{flip},"
            "format=pix_fmts=rgb24"
        )
        frames: Any = spdl.io.decode_packets(packets, filter_desc=graph)
        pixels = spdl.io.to_numpy(spdl.io.convert_frames(frames))
        return normalised(pixels), int(self._payloads.label[index])


class SPDLExample:
    """The pipeline of SPDL's example ``multi_thread_preprocessing``, up to the normalisation and the GPU.

    See https://facebookresearch.github.io/spdl: images in the order of the dataset, resized to a square, and
    batched as frames, which one conversion copies.
    """

    packages: tuple[str, ...] = ("spdl", "spdl-io")
    lead = 0
    uint8 = True

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        """List the samples; each epoch builds a pipeline."""
        self._payloads = PeerPayloads(source)
        self._settings = settings
        size = settings.size
        self._filter = f"scale={size}:{size}:flags=bilinear,format=pix_fmts=rgb24"
        return ("decodes with FFmpeg and resizes by swscale's bilinear filter",)

    def epoch(self) -> Iterator[npt.NDArray[Any]]:
        """Build a pipeline, yield its batches, and stop it."""
        threads = self._settings.num_threads
        builder = (
            PipelineBuilder()
            .add_source(range(len(self._payloads)))
            .pipe(self._decode, concurrency=threads)
            .aggregate(self._settings.batch_size, drop_last=True)
            .pipe(_as_array)
            .add_sink(threads)
        )
        pipeline = builder.build(num_threads=threads)
        with pipeline.auto_stop():
            yield from pipeline

    def _decode(self, index: int) -> Any:
        packets = spdl.io.demux_image(self._payloads.read(index))
        return spdl.io.decode_packets(packets, filter_desc=self._filter)


def _as_array(frames: list[Any]) -> Any:
    return spdl.io.to_numpy(spdl.io.convert_frames(frames))


def _collate(
    samples: list[tuple[npt.NDArray[np.float32], int]],
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    return np.stack([image for image, _ in samples]), np.array([label for _, label in samples])
