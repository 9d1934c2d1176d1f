"""What the native engine does with steps, warps and erased boxes that are wrong, and with bad samples."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from stoker import _native

N, SOURCE, SIZE = 3, (48, 64), (20, 24)
WHERE = np.ones(N, bool)
FILL = (7, 8, 9)
BLACK = (0.0, 0.0, 0.0)
BOX = np.tile(np.int32([1, 2, 3, 4]), (N, 1))
QUANTILES = np.zeros(2**16, np.float32)


class Batch:
    """A JPEG thrice, the second time damaged if asked."""

    def __init__(self, folder: Path, *, damaged: bool = False) -> None:
        pixels = np.random.default_rng(0).integers(0, 256, (*SOURCE, 3), np.uint8)
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, "JPEG", quality=90)
        payload = stream.getvalue()
        payloads = [payload, payload[:-40] if damaged else payload, payload]
        (folder / "shard").write_bytes(b"".join(payloads))
        length = np.array([len(one) for one in payloads], np.int64)
        self.shards = _native.Shards([str(folder / "shard")], [int(length.sum())])
        self.pool = _native.Pool(1)
        self.columns: dict[str, Any] = {
            "shard": np.zeros(N, np.int32),
            "offset": np.cumsum(length) - length,
            "length": length,
            "crc": np.zeros(N, np.uint32),
            "codec": np.ones(N, np.uint8),
            "height": np.full(N, SOURCE[0], np.int32),
            "width": np.full(N, SOURCE[1], np.int32),
            "orientation": np.ones(N, np.uint8),
            "decoded": {},
            "crop": np.tile([0, 0, *SOURCE], (N, 1)).astype(np.int32),
            "region": np.tile([0, 0, *SOURCE], (N, 1)).astype(np.float64),
            "dest": np.tile([0, 0, *SIZE], (N, 1)).astype(np.int32),
            "flip": np.zeros((N, 2), bool),
            "color": np.tile(np.eye(3, 4, dtype=np.float32), (N, 1, 1)),
            "fill": np.array(FILL, np.uint8),
        }

    def run(self, **extras: Any) -> tuple[Any, Any]:
        images, status = np.full((N, *SIZE, 3), 99, np.uint8), np.empty(N, np.uint8)
        job = self.pool.submit(
            self.shards,
            **{**self.columns, **extras},
            out=images,
            layout=1,
            status=status,
            max_pixels=10**6,
            verify=False,
        )
        job.wait()
        return images, status


def warp_of(
    matrix: Any, height: int = SIZE[0], width: int = SIZE[1], nearest: Any = None
) -> tuple[Any, int, int, Any]:
    return np.tile(np.asarray(matrix, np.float64), (N, 1, 1)), height, width, nearest


def border_of(
    size: tuple[int, int], tile: tuple[int, int] = SIZE, n: int = N, first: int = 0
) -> tuple[Any, ...]:
    places = (np.tile(np.arange(extent, dtype=np.int32) + first, (n, 1)) for extent in size)
    return np.tile(np.array(tile, np.int32), (n, 1)), *places


@pytest.mark.parametrize(
    ("extras", "message"),
    [
        ({"mean": np.zeros((2, 3, 3), np.float32)}, "mean must have a row a sample"),
        ({"interpolation": np.ones(N - 1, np.uint8)}, "interpolation must have a row a sample"),
        ({"interpolation": np.full(N, 4, np.uint8)}, "interpolation must be from 0 to 3"),
        ({"warp": (np.zeros((2, 3, 3)), *SIZE, None)}, "matrix of a warp must have a row a sample"),
        ({"warp": warp_of(np.eye(3), nearest=np.full(2, True))}, "nearest must have a row a sample"),
        ({"warp": warp_of(np.eye(3), 0)}, "canvas of a warp"),
        ({"warp": warp_of(np.eye(3), 20, 40000)}, "canvas of a warp"),
        (
            {"warp": warp_of(np.eye(3), 19)},
            "dest must lie within the output, the canvas of a warp or the tile",
        ),
        ({"border": border_of(SIZE, n=2)}, "a border must have a row a sample"),
        ({"border": border_of((19, 24))}, "as many rows and columns as the output"),
        ({"border": border_of(SIZE), "warp": warp_of(np.eye(3), 30)}, "the canvas of a warp"),
        ({"border": border_of(SIZE, tile=(19, 24))}, "must lie within its tile"),
        ({"border": border_of(SIZE, first=-1)}, "must lie within its tile"),
        ({"border": border_of(SIZE, tile=(2**15 + 1, 24))}, "1 to 32768 pixels a side"),
        ({"border": border_of(SIZE, tile=(20, 0))}, "must lie within its tile"),
        ({"erase": [(np.zeros((2, 4), np.int32), BLACK, None)]}, "must have a row a sample"),
        (
            {"erase": [(BOX, BLACK, (np.zeros(2, np.uint64), BLACK, QUANTILES))]},
            "keys of noise must have a row a sample",
        ),
        ({"erase": [(np.tile(np.int32([0, 1, 1, 24]), (N, 1)), BLACK, None)]}, "must lie within the output"),
        ({"erase": [(np.tile(np.int32([-1, 0, 1, 1]), (N, 1)), BLACK, None)]}, "must lie within the output"),
        (
            {"erase": [(np.tile(np.int32([0, 0, 2**31 - 1, 1]), (N, 1)), BLACK, None)]},
            "must lie within the output",
        ),
    ],
)
def test_wrong_extras_are_refused(extras: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        Batch(tmp_path).run(**extras)


def test_wrong_steps_are_refused(tmp_path: Path) -> None:
    steps = _native.Steps(N)
    with pytest.raises(ValueError, match="steps must be of as many samples"):
        Batch(tmp_path).run(steps=_native.Steps(N + 1))
    with pytest.raises(ValueError, match="a row a sample"):
        steps.sharpen(WHERE, np.ones(N - 1, np.float32))
    with pytest.raises(ValueError, match="a row a sample"):
        steps.equalize(WHERE[:2])
    for kernel_size in ((2, 3), (3, 0), (3, -1), (40001, 1)):
        with pytest.raises(ValueError, match="kernel_size must be two odd numbers"):
            steps.blur(WHERE, kernel_size, np.ones((N, 2), np.float32))
    with pytest.raises(TypeError):
        steps.table(WHERE, np.zeros((N, 3, 255), np.uint8))
    with pytest.raises(ValueError, match="weights must have a column"):
        steps.mix(WHERE, np.ones((N, 2), np.float32), [])
    with pytest.raises(ValueError, match="chains must be other steps"):
        steps.mix(WHERE, np.ones((N, 2), np.float32), [steps])
    with pytest.raises(ValueError, match="chains must be other steps"):
        steps.mix(WHERE, np.ones((N, 2), np.float32), [_native.Steps(2)])
    with pytest.raises(ValueError, match="chains must be other steps"):
        steps.mix(WHERE, np.ones((N, 2), np.float32), [None])  # type: ignore[list-item]  # which Python lets pass


def test_steps_are_taken_once(tmp_path: Path) -> None:
    """Nobody changes what another thread executes."""
    batch, steps, chain = Batch(tmp_path), _native.Steps(N), _native.Steps(N)
    chain.equalize(WHERE)
    steps.mix(WHERE, np.ones((N, 2), np.float32), [chain])
    with pytest.raises(ValueError, match="belong to a batch or a mix"):
        steps.mix(WHERE, np.ones((N, 2), np.float32), [chain])
    batch.run(steps=steps)
    with pytest.raises(ValueError, match="belong to a batch or a mix"):
        steps.equalize(WHERE)
    with pytest.raises(ValueError, match="belong to a batch or a mix"):
        batch.run(steps=steps)


def test_a_bad_sample_leaves_its_neighbours_alone(tmp_path: Path) -> None:
    """Zeros and a status, whatever was to be done to it."""
    steps = _native.Steps(N)
    steps.equalize(WHERE)
    extras: dict[str, Any] = {
        "mean": np.full((N, 3, 3), 0.1, np.float32),
        "erase": [(np.tile(np.int32([1, 2, 3, 4]), (N, 1)), (200.0, 100.0, 50.0), None)],
        "warp": warp_of([[1, 0.1, 2], [0, 1, 3], [0, 0, 1]]),
    }
    images, status = Batch(tmp_path, damaged=True).run(steps=steps, **extras)
    assert status.tolist() == [0, 4, 0]
    assert not images[1].any()
    assert (images[0] == images[2]).all()
    assert (images[0, 1:4, 2:6] == (200, 100, 50)).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300, -1e300])
@pytest.mark.parametrize("place", range(9))
@pytest.mark.parametrize("nearest", [None, np.full(N, True)])
def test_numbers_that_mean_nothing_in_a_warp(nearest: Any, value: float, place: int, tmp_path: Path) -> None:
    """Where the map leads nowhere there is fill; nothing is read outside of the image."""
    matrix = np.eye(3)
    matrix.flat[place] = value
    images, status = Batch(tmp_path).run(warp=warp_of(matrix, nearest=nearest))
    assert not status.any()
    if np.isnan(value) and place not in (1, 3):
        assert (images == FILL).any()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0, -1])
def test_numbers_that_mean_nothing_in_steps(value: float, tmp_path: Path) -> None:
    steps, number = _native.Steps(N), np.full(N, value, np.float32)
    steps.affine(WHERE, np.full((N, 3, 4), value, np.float32), np.full((N, 3, 3), value, np.float32))
    steps.sharpen(WHERE, number)
    steps.blur(WHERE, (3, 5), np.full((N, 2), value, np.float32))
    steps.posterize(WHERE, np.full(N, 255, np.uint8))
    steps.solarize(WHERE, np.full(N, -(2**15), np.int16))
    steps.shift(WHERE, np.full((N, 3, 3), value), (1, 2, 3))
    steps.shift(WHERE, np.full((N, 3, 3), value), (1, 2, 3), nearest=True)
    steps.mix(WHERE, np.full((N, 1), value, np.float32), [])
    _, status = Batch(tmp_path).run(steps=steps, mean=np.full((N, 3, 3), value, np.float32))
    assert not status.any()


@pytest.mark.parametrize("nearest", [None, np.full(N, True)])
def test_an_empty_image_behind_a_turned_one(nearest: Any, tmp_path: Path) -> None:
    """It shows nothing of the one before it."""
    batch = Batch(tmp_path)
    turned = np.array([True, False, True])
    batch.columns["orientation"][turned] = 6
    for name, first in (("height", 1), ("width", 0)):
        batch.columns[name][turned] = SOURCE[first]
    for name in ("crop", "region"):
        batch.columns[name][turned] = (0, 0, *SOURCE[::-1])
    batch.columns["dest"][1] = (3, 4, 0, 0)
    warp = None if nearest is None else warp_of([[1, 0, 1], [0, 1, 0], [0, 0, 1]], nearest=nearest)
    images, status = batch.run(warp=warp)
    assert not status.any()
    assert (images[1] == FILL).all()
    np.testing.assert_array_equal(images[0], images[2])
