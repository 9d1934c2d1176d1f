"""The rate of the native engine over that of decoding alone, and of two threads over one.

    python -m stoker.benchmarks.decoding.native_ceiling PHOTOS [--rounds 5]

The work is that of training: random resized crop to 224 x 224, horizontal flip, normalisation, float32 NCHW,
batch 64, with checksums and a warm page cache. The measurements of a round follow each other directly, so
that other programs disturb all of them; ratios are medians over the rounds. CPU time shows the cost of a
sample on a busy machine. The result is printed as JSON.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop, Transform, compile_image
from stoker.formats.codecs.codec import Codec
from stoker.pipeline.engines.shards import pack

from ..measuring import Cost, allowed_cores, describe, in_turns, make_parser

_SIZE = 224
_BATCH = 64
_IN_FLIGHT = 3
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


def raw_256(data: bytes) -> Encoded:
    """Return the pixels at short side 256."""
    payload, height, width = _native.transcode(data, "shorter", 256, 256, "raw", 90, "420", _NO_LIMIT)
    return Encoded(payload, Codec.RAW, height, width)


WORKLOADS: dict[str, Callable[[bytes], Encoded]] = {
    "as-is": as_is,
    "shorter-256": shorter_256,
    "raw-256": raw_256,
}


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

    def run(self, pool: _native.Pool, buffers: _native.BufferPool, *, decode_only: bool) -> Cost:
        """Run one pass over all batches, with three in flight, and return the seconds of the whole pass."""
        began, cpu_began = time.perf_counter(), time.process_time()
        in_flight: deque[tuple[_native.Job, npt.NDArray[np.uint8]]] = deque()
        for batch in self.batches:
            in_flight.append(self._submit(pool, buffers, batch, decode_only=decode_only))
            if len(in_flight) == _IN_FLIGHT:
                _finish(in_flight)
        while in_flight:
            _finish(in_flight)
        return Cost(time.perf_counter() - began, time.process_time() - cpu_began)

    def _submit(
        self,
        pool: _native.Pool,
        buffers: _native.BufferPool,
        batch: tuple[dict[str, Any], dict[str, Any]],
        *,
        decode_only: bool,
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
            decode_only=decode_only,
        )
        return job, status


def _finish(in_flight: deque[tuple[_native.Job, npt.NDArray[np.uint8]]]) -> None:
    job, status = in_flight.popleft()
    job.wait()
    for i in np.flatnonzero(status).tolist():
        raise ValueError(f"image {i} of a batch: {job.reason(i)}")


def measure(batches: PreparedBatches, threads: Sequence[int], rounds: int) -> dict[str, Any]:
    """Return the figures of interleaved passes; the first round warms up and does not count.

    For raw pixels, decoding alone is reading and comparing the checksum.
    """
    buffers = _native.BufferPool(_IN_FLIGHT + 1)
    runs: dict[str, Callable[[], Cost]] = {}
    for count in threads:
        run = partial(batches.run, _native.Pool(count), buffers)
        runs |= {
            f"{count} decode": partial(run, decode_only=True),
            f"{count}": partial(run, decode_only=False),
        }
    timed = in_turns(runs, rounds)
    result: dict[str, Any] = {
        f"{count} threads": _summary(timed[f"{count} decode"], timed[f"{count}"], batches.images)
        for count in threads
    }
    if len(threads) > 1:
        pairs = zip(timed[f"{threads[0]}"], timed[f"{threads[-1]}"], strict=True)
        result["speedup"] = _median(one.seconds / two.seconds for one, two in pairs)
    return result


def _summary(decode: Sequence[Cost], whole: Sequence[Cost], images: int) -> dict[str, float]:
    return {
        "decode_images_per_second": _median(images / run.seconds for run in decode),
        "images_per_second": _median(images / run.seconds for run in whole),
        "images_per_cpu_second": _median(images / run.cpu_seconds for run in whole),
        "share_of_decode": _median(a.seconds / b.seconds for a, b in zip(decode, whole, strict=True)),
        "share_of_decode_cpu": _median(
            a.cpu_seconds / b.cpu_seconds for a, b in zip(decode, whole, strict=True)
        ),
    }


def _median(values: Iterable[float]) -> float:
    return round(statistics.median(values), 3)


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__, rounds=5)
    parser.add_argument("photos", type=Path, help="a JPEG file, or a folder of them at any depth")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--images", type=int, default=512, help="least number of images in a pass")
    parser.add_argument("--workloads", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS))
    arguments = parser.parse_args()
    photos: Path = arguments.photos
    files = sorted(photos.rglob("*.jpg")) if photos.is_dir() else [photos]
    result: dict[str, Any] = {"machine": describe(allowed_cores()), "cpu_level": _native.cpu_level()}
    for name in arguments.workloads:
        images = [WORKLOADS[name](file.read_bytes()) for file in files]
        with tempfile.TemporaryDirectory() as folder:
            batches = PreparedBatches(images, arguments.images, Path(folder))
            result[name] = {
                "images": len(images),
                "mean_bytes": round(statistics.mean(len(image.payload) for image in images)),
                **measure(batches, arguments.threads, arguments.rounds),
            }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
