"""The rate of Stoker's JPEG decoder over that of libjpeg-turbo, for random resized crops or whole images.

    python -m stoker.benchmarks.decoding.jpeg_decoders PHOTOS [--whole | --size 224 --scale 0.08 1]

One thread decodes the regions that RandomResizedCrop(224) draws, in processes that take turns: every other
one with ``STOKER_JPEG=turbo``. ``--size 96 --scale 0.05 0.4`` are the small views of DINO; with ``--size 64``
most regions are decoded at half their size. ``stoker.benchmarks.comparison.photographs`` makes photographs
like ImageNet's. The result is printed as JSON: medians of microseconds of processor time an image.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker.augment import (
    Normalize,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
    Transform,
    compile_image,
)
from stoker.formats.codecs.codec import Codec
from stoker.pipeline.engines.base import pack

from ..measuring import make_parser, run_module

_LEAST = 256
_SIZE = 224
_BATCH = 64
_IN_FLIGHT = 3
_PASSES = 3
_NO_LIMIT = 1 << 40


@dataclass(frozen=True)
class Encoded:
    """An image as it is stored in a shard."""

    payload: bytes
    codec: Codec
    height: int
    width: int
    orientation: int = 1


def as_is(data: bytes) -> Encoded:
    """Return the file itself."""
    _, width, height, orientation, _ = _native.probe(data)
    if orientation >= 5:
        height, width = width, height
    return Encoded(data, Codec.JPEG, height, width, orientation)


def shorter_256(data: bytes) -> Encoded:
    """Return a JPEG of short side 256 and quality 90."""
    payload, height, width = _native.transcode(data, "shorter", 256, 256, "jpeg", 90, "420", _NO_LIMIT)
    return Encoded(payload, Codec.JPEG, height, width)


class PreparedBatches:
    """A shard in the page cache, and batches with their drawn parameters."""

    def __init__(
        self, images: Sequence[Encoded], least: int, folder: Path, crop: Transform | None = None
    ) -> None:
        path = folder / "images"
        path.write_bytes(b"".join(image.payload for image in images))
        self.shards = _native.Shards([str(path)], [path.stat().st_size])
        length = np.array([len(image.payload) for image in images], np.int64)
        columns: dict[str, npt.NDArray[Any]] = {
            "shard": np.zeros(len(images), np.int32),
            "offset": np.concatenate([[0], length.cumsum()[:-1]]).astype(np.int64),
            "length": length,
            "crc": np.array([_native.crc32c(image.payload) for image in images], np.uint32),
            "codec": np.array([image.codec for image in images], np.uint8),
            "height": np.array([image.height for image in images], np.int32),
            "width": np.array([image.width for image in images], np.int32),
            "orientation": np.array([image.orientation for image in images], np.uint8),
        }
        plan = compile_image([crop or RandomResizedCrop(_SIZE), RandomHorizontalFlip(), Normalize()])
        self._size = plan.size
        order = np.arange(-(-least // _BATCH) * _BATCH) % len(images)
        self.batches: list[tuple[dict[str, Any], dict[str, Any]]] = []
        for begin in range(0, len(order), _BATCH):
            samples = {name: column[order[begin : begin + _BATCH]] for name, column in columns.items()}
            rows = np.arange(begin, begin + _BATCH, dtype=np.int64)
            params = plan.draw(samples["height"], samples["width"], rows, seed=0, epoch=0)
            self.batches.append((samples, pack(_native.PARAMETER_COLUMNS, params)))
        self.images = len(order)

    def run(self, pool: _native.Pool, buffers: _native.BufferPool) -> None:
        """Run one pass over all batches, with three in flight."""
        in_flight: deque[tuple[_native.Job, npt.NDArray[np.uint8]]] = deque()
        for batch in self.batches:
            in_flight.append(self._submit(pool, buffers, batch))
            if len(in_flight) == _IN_FLIGHT:
                _finish(in_flight)
        while in_flight:
            _finish(in_flight)

    def _submit(
        self,
        pool: _native.Pool,
        buffers: _native.BufferPool,
        batch: tuple[dict[str, Any], dict[str, Any]],
    ) -> tuple[_native.Job, npt.NDArray[np.uint8]]:
        status = np.empty(_BATCH, np.uint8)
        job = pool.submit(
            self.shards,
            *batch,
            out=buffers.array((_BATCH, 3, *self._size), "float32"),
            layout=0,
            status=status,
            max_pixels=_NO_LIMIT,
            verify=True,
            decode_only=True,
        )
        return job, status


def _finish(in_flight: deque[tuple[_native.Job, npt.NDArray[np.uint8]]]) -> None:
    job, status = in_flight.popleft()
    job.wait()
    for i in np.flatnonzero(status).tolist():
        raise ValueError(f"image {i} of a batch: {job.reason(i)}")


def marked(data: bytes) -> Encoded:
    """Return the file with restart markers."""
    payload, reason, _ = _native.mark_restarts(data)
    if payload is None:
        raise ValueError(reason)
    return as_is(payload)


WORKLOADS: dict[str, Callable[[bytes], Encoded]] = {
    "as-is": as_is,
    "restart-marked": marked,
    "shorter-256": shorter_256,
    "shorter-256-restart-marked": lambda data: marked(shorter_256(data).payload),
}


def measure_decoder(files: list[Path], workload: str, crop: Transform) -> dict[str, Any]:
    """Return the name of this process's decoder, and its microseconds of processor time an image."""
    with tempfile.TemporaryDirectory() as folder:
        images = [WORKLOADS[workload](file.read_bytes()) for file in files]
        batches = PreparedBatches(images, _LEAST, Path(folder), crop)
        pool, buffers = _native.Pool(1), _native.BufferPool(4)
        batches.run(pool, buffers)
        began = time.process_time()
        for _ in range(_PASSES):
            batches.run(pool, buffers)
        seconds = (time.process_time() - began) / _PASSES
    return {"decoder": _native.jpeg_decoder(), "microseconds": 1e6 * seconds / batches.images}


def compare(photos: Path, workload: str, rounds: int, options: list[str]) -> dict[str, float]:
    """Return the medians of both decoders, and of the ratios of their rounds."""
    arguments = [photos, "--workloads", workload, "--work", *options]
    times: list[dict[str, float]] = []
    for _ in range(rounds):
        found = [
            run_module(__spec__.name, *arguments, STOKER_JPEG=decoder) for decoder in ("turbo", "stoker")
        ]
        times.append({one["decoder"]: one["microseconds"] for one in found})
    medians = {name: round(statistics.median(one[name] for one in times), 1) for name in times[0]}
    turbo, own = times[0]
    return {**medians, "ratio": round(statistics.median(one[turbo] / one[own] for one in times), 2)}


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__, rounds=5)
    parser.add_argument("photos", type=Path, help="a folder of JPEG files, at any depth")
    parser.add_argument("--workloads", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--whole", action="store_true", help="decode whole images")
    parser.add_argument("--size", type=int, default=224, help="pixels of a side of the output")
    parser.add_argument(
        "--scale", type=float, nargs=2, default=(0.08, 1.0), help="share of the area of a region"
    )
    parser.add_argument("--work", action="store_true", help="be one of the processes that take turns")
    args = parser.parse_args()
    if args.work:
        size = (args.size, args.size)
        crop = Resize(size) if args.whole else RandomResizedCrop(args.size, scale=tuple(args.scale))
        print(json.dumps(measure_decoder(sorted(args.photos.rglob("*.jpg")), args.workloads[0], crop)))
        return
    options = ["--size", str(args.size), "--scale", *map(str, args.scale), *["--whole"] * args.whole]
    results = {name: compare(args.photos, name, args.rounds, options) for name in args.workloads}
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
