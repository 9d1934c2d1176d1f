"""The bytes that random crops of JPEGs with restart markers need, and those that are read for them.

    python -m stoker.benchmarks.storage.bands DATASET [--size 224] [--scale 0.08 1] [--copies 16]

DATASET lies on a local disk and has restart markers. The program drops its shards from the page cache, reads
one epoch with a loader, and counts the pages that are in memory afterwards. Then it simulates reads from a
remote store through a cache, for ``--copies`` times as many images: whole payloads, or only headers and
bands, in blocks of several sizes. All sizes are shares of the payloads.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

import stoker
from stoker.augment import RandomResizedCrop, Transform, compile_image
from stoker.augment.params import ImageParams
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.dataset.index import Samples
from stoker.pipeline.engines.native import ByteRanges, NativeEngine, needed_bytes
from stoker.pipeline.order.orders import BlockShuffle, FullShuffle

from ..comparison.cold import evict
from ..measuring import make_parser

Int64 = npt.NDArray[np.int64]

_BATCH = 64
_GROUP = 2 * _BATCH  # samples whose blocks are requested together
_BLOCKS = (256 << 10, 64 << 10, 16 << 10)
_CACHES = (1.0, 0.5, 0.1)
_EPOCHS = 2


def needed(dataset: Dataset, crop: Transform, epoch: int, copy: int = 0) -> Int64:
    """(N, 4) int64, the first byte and the length of the bands of a crop and of the headers of each sample.

    Bytes are counted through all shards. Each shard begins with a block of every size.
    """
    samples, n = dataset.samples(np.arange(len(dataset))), len(dataset)
    params = compile_image([crop]).draw(samples.height, samples.width, samples.row + copy * n, 0, epoch)
    ranges = needed_bytes(samples, [params])
    if len(ranges.shard) != 2 * n:
        raise SystemExit(
            "the dataset has images without restart markers: stoker convert --restarts adds them"
        )
    starts = _starts(dataset)
    first = starts[ranges.shard] + ranges.offset + copy * starts[-1]
    return np.stack((first[:n], ranges.length[:n], first[n:], ranges.length[n:]), axis=1)


def _starts(dataset: Dataset) -> Int64:
    """The first byte of each shard, and the byte after the last."""
    blocks = -(-np.array(dataset.data_sizes, np.int64) // max(_BLOCKS))
    return np.concatenate(([0], np.cumsum(blocks * max(_BLOCKS))))


def _whole(dataset: Dataset, copy: int) -> Int64:
    """The same as :func:`needed` for whole payloads."""
    samples, starts = dataset.samples(np.arange(len(dataset))), _starts(dataset)
    first = starts[samples.shard] + samples.offset + copy * starts[-1]
    return np.stack((first, samples.length, first, 0 * first), axis=1)


def measure_disk(dataset: Dataset, crop: Transform) -> dict[str, float]:
    """Return the bytes that a new epoch needs, and those in memory afterwards, as shares of the payloads."""
    asked: list[tuple[int, ByteRanges]] = []

    def note(engine: NativeEngine, samples: Samples, columns: Sequence[ImageParams] = ()) -> None:
        asked.append((len(samples), needed_bytes(samples, columns)))
        read_ahead(engine, samples, columns)

    total, pages = int(dataset.column("length").sum()), [_no_pages(size) for size in dataset.data_sizes]
    ahead = [page.copy() for page in pages]
    read_ahead = NativeEngine.read_ahead
    NativeEngine.read_ahead = note  # type: ignore[method-assign, assignment]  # to see the ranges
    evict(dataset.data_files)
    try:
        with stoker.ImageLoader(
            dataset, batch_size=_BATCH, shuffle=True, seed=0, transforms=[crop], engine="native"
        ) as loader:
            for _ in loader:
                pass
            resident = sum(int(_resident(path).sum()) for path in dataset.data_files)
    finally:
        NativeEngine.read_ahead = read_ahead  # type: ignore[method-assign]  # as above
    exact = done = 0
    for count, ranges in asked:
        for shard, offset, length in zip(*(column.tolist() for column in ranges), strict=True):
            for marked in (ahead,) if done >= len(dataset) else (ahead, pages):
                marked[shard][offset // mmap.PAGESIZE : -(-(offset + length) // mmap.PAGESIZE)] = True
        exact += int(ranges.length.sum()) if done < len(dataset) else 0
        done += count
    page = mmap.PAGESIZE / total
    return {
        "bytes of an epoch": exact / total,
        "their pages": page * sum(int(marked.sum()) for marked in pages),
        "with pages read ahead for the next epoch": page * sum(int(marked.sum()) for marked in ahead),
        "in memory": page * resident,
    }


def _no_pages(size: int) -> npt.NDArray[np.bool_]:
    return np.zeros(-(-size // mmap.PAGESIZE), bool)


def _resident(path: Path) -> npt.NDArray[np.bool_]:
    """Which pages of a file are in the page cache."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapping:
        pages = np.zeros(-(-len(mapping) // mmap.PAGESIZE), np.uint8)
        data = np.frombuffer(mapping, np.uint8)
        failed = ctypes.CDLL(None, use_errno=True).mincore(
            ctypes.c_void_p(data.ctypes.data), ctypes.c_size_t(len(data)), ctypes.c_void_p(pages.ctypes.data)
        )
        del data
    if failed:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), os.fspath(path))
    present: npt.NDArray[np.bool_] = pages & 1 == 1
    return present


def fetched(
    ranges: Sequence[Int64], orders: Sequence[Int64], block: int, limit: float
) -> list[tuple[float, float]]:
    """Return the bytes and the requests of each epoch through a cache that evicts the least recent blocks."""
    blocks = max(int(one.max(initial=0)) for one in ranges) // block + 64
    present, last_use = np.zeros(blocks, bool), np.zeros(blocks, np.int64)
    result, now = [], 0
    for needs, order in zip(ranges, orders, strict=True):
        size = requests = 0
        for begin in range(0, len(order), _GROUP):
            now += 1
            wanted = _covering(needs[order[begin : begin + _GROUP]], block)
            missing = wanted[~present[wanted]]
            size += len(missing) * block
            requests += len(missing) and 1 + np.count_nonzero(np.diff(missing) != 1)
            present[missing] = True
            last_use[wanted] = now
            held = np.flatnonzero(present)
            if (excess := len(held) - int(limit // block)) > 0:
                oldest = held[np.argsort(last_use[held], kind="stable")][: max(excess, len(held) // 16)]
                present[oldest[last_use[oldest] < now]] = False
        result.append((size / len(order), requests / len(order)))
    return result


def _covering(needs: Int64, block: int) -> Int64:
    """The blocks that ranges touch, ascending, each once."""
    begin, length = needs.reshape(-1, 2)[needs.reshape(-1, 2)[:, 1] > 0].T
    first = begin // block
    count = (begin + length - 1) // block - first + 1
    return np.unique(np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum()))


def simulate(dataset: Dataset, crop: Transform, copies: int) -> None:
    """Print the simulated reads from a remote store."""
    n, total = len(dataset) * copies, int(dataset.column("length").sum()) * copies
    whole = [np.concatenate([_whole(dataset, copy) for copy in range(copies)])] * _EPOCHS
    bands = [
        np.concatenate([needed(dataset, crop, epoch, copy) for copy in range(copies)])
        for epoch in range(_EPOCHS)
    ]
    for order in (FullShuffle(n), BlockShuffle(n, block=256)):
        orders = [order.positions(epoch, np.arange(n)) for epoch in range(_EPOCHS)]
        for cache, block in itertools.product(_CACHES, _BLOCKS):
            for name, ranges in (("whole", whole), ("bands", bands)):
                epochs = fetched(ranges, orders, block, 1.01 * cache * total)
                shares = ", ".join(
                    f"{size * n / total:.2f} in {requests:.2f} requests" for size, requests in epochs
                )
                print(f"{type(order).__name__}, cache of {cache:.1f}, {block >> 10} KiB, {name}: {shares}")


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__, "dataset")
    parser.add_argument("--size", type=int, default=224, help="pixels of a side of the output")
    parser.add_argument(
        "--scale", type=float, nargs=2, default=(0.08, 1.0), help="share of the area of a crop"
    )
    parser.add_argument("--copies", type=int, default=16)
    args = parser.parse_args()
    dataset, crop = stoker.open(args.dataset), RandomResizedCrop(args.size, scale=tuple(args.scale))
    for name, share in measure_disk(dataset, crop).items():
        print(f"{name}: {share:.3f}")
    simulate(dataset, crop, args.copies)


if __name__ == "__main__":
    main()
