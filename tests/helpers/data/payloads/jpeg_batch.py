"""A batch of three copies of a JPEG, as arguments of the C++ module."""

from pathlib import Path
from typing import Any

import numpy as np
from helpers.data.pictures import encode, noise

from stoker import _native

N, SOURCE, SIZE = 3, (48, 64), (20, 24)
FILL = (7, 8, 9)


class Batch:
    """Three copies of a JPEG; ``damaged`` damages the second one."""

    def __init__(self, folder: Path, *, damaged: bool = False) -> None:
        payload = encode(noise(0, *SOURCE), quality=90)
        payloads = [payload, payload[:-40] if damaged else payload, payload]
        (folder / "shard").write_bytes(b"".join(payloads))
        length = np.array([len(copy) for copy in payloads], np.int64)
        self.shards = _native.Shards([str(folder / "shard")], [int(length.sum())])
        self.pool = _native.Pool(1)
        self.samples: dict[str, Any] = {
            "shard": np.zeros(N, np.int32),
            "offset": np.cumsum(length) - length,
            "length": length,
            "crc": np.zeros(N, np.uint32),
            "codec": np.ones(N, np.uint8),
            "height": np.full(N, SOURCE[0], np.int32),
            "width": np.full(N, SOURCE[1], np.int32),
            "orientation": np.ones(N, np.uint8),
        }
        self.params: dict[str, Any] = {
            "crop": np.tile([0, 0, *SOURCE], (N, 1)).astype(np.int32),
            "region": np.tile([0, 0, *SOURCE], (N, 1)).astype(np.float64),
            "dest": np.tile([0, 0, *SIZE], (N, 1)).astype(np.int32),
            "flip": np.zeros((N, 2), bool),
            "color": np.tile(np.eye(3, 4, dtype=np.float32), (N, 1, 1)),
            "fill": np.array(FILL, np.uint8),
        }

    def run(self, params: dict[str, Any] | None = None, **others: Any) -> tuple[Any, Any]:
        """Returns the images and the status of each; ``params`` replaces or adds parameters."""
        images, status = np.full((N, *SIZE, 3), 99, np.uint8), np.empty(N, np.uint8)
        job = self.pool.submit(
            self.shards,
            self.samples,
            {**self.params, **(params or {})},
            out=images,
            layout=1,
            status=status,
            max_pixels=10**6,
            verify=False,
            **others,
        )
        job.wait()
        return images, status


def warp_of(matrix: Any, canvas: tuple[int, int] = SIZE, nearest: Any = None) -> dict[str, Any]:
    columns = {
        "warp.matrix": np.tile(np.asarray(matrix, np.float64), (N, 1, 1)),
        "warp.canvas": np.int32(canvas),
    }
    return columns if nearest is None else columns | {"warp.nearest": nearest}
