"""The decoder of baseline JPEGs against libjpeg-turbo: the same pixels and errors on every kind of file.

Each decoder runs in a separate process, since ``STOKER_JPEG`` and ``STOKER_CPU_LEVEL`` are read once.
``tests/sanitize/jpeg_decoders.cpp`` compares both on many more files.
"""

import os
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from helpers.images import encode
from helpers.processes import TESTS
from PIL import Image

RUN = """
import hashlib, pathlib, pickle, sys
import numpy as np
from helpers.payloads import execute, samples_of, whole
from stoker import _native
for path, data, crops, side in pickle.load(sys.stdin.buffer):
    outcomes = []
    for mode, height, width in (("none", 1, 1), ("squash", 5, 4), ("squash", 11, 9)):
        try:
            pixels, *_ = _native.transcode(data, mode, height, width, "raw", 90, "420", 1 << 20)
            outcomes.append(hashlib.sha256(pixels).hexdigest())
        except ValueError as error:
            outcomes.append(str(error))
    print(outcomes)
    if not len(crops):
        continue
    path, n = pathlib.Path(path), len(crops)
    _, width, height, _, _ = _native.probe(data)
    params = whole((side, side), (height, width), n)
    params.crop[:] = np.concatenate([crops, np.full((n, 2), side)], 1)
    params.region[:] = np.concatenate([crops, crops + side], 1)
    result = execute(samples_of([data] * n, path, (height, width)), params, path)
    print(result.status.tolist(), result.reason, hashlib.sha256(result.images).hexdigest())
print(_native.jpeg_decoder())
"""

Case = tuple[str, bytes, Any, int]


def run(cases: list[Case], **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        input=pickle.dumps(cases),
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]), **environment},
        capture_output=True,
        check=True,
    )
    return done.stdout.decode().splitlines()


def transposed(data: bytes) -> bytes:
    """A JPEG whose 4:2:2 becomes 4:4:0: the factors of luma are exchanged, so the picture is another one."""
    at = data.index(b"\xff\xc0") + 11
    assert data[at] == 0x21
    return data[:at] + b"\x12" + data[at + 1 :]


def picture(rng: np.random.Generator, height: int, width: int, channels: int) -> Any:
    """Noise, or few colours with smooth changes."""
    if rng.random() < 0.3:
        pixels = rng.integers(0, 256, (height, width, channels), np.uint8)
    else:
        small = Image.fromarray(rng.integers(0, 256, (3, 4, 3), np.uint8))
        pixels = np.asarray(small.resize((width, height), Image.Resampling.BICUBIC))[..., :channels]
    return pixels[..., 0] if channels == 1 else pixels


def cases(path: str) -> list[Case]:
    """Every sampling, many sizes and qualities, restart intervals of every kind, and crops."""
    rng = np.random.default_rng(0)
    files: list[Case] = []
    for i in range(240):
        height, width = (int(side) for side in rng.integers(1, 71, 2))
        options: dict[str, Any] = {"quality": int(rng.integers(1, 101)), "optimize": bool(rng.integers(0, 2))}
        kind = i % 5
        if kind:
            options["subsampling"] = ("4:4:4", "4:2:2", "4:2:0", "4:2:2")[kind - 1]
        match i % 4:
            case 1:
                options["restart_marker_blocks"] = int(rng.integers(1, 10))
            case 2:
                options["restart_marker_rows"] = int(rng.integers(1, 4))
        data = encode(picture(rng, height, width, 3 if kind else 1), **options)
        if kind == 4 and min(height, width) > 16:
            # The same number of MCUs in both directions, so that the data is complete.
            data = transposed(encode(picture(rng, 48, 48, 3), subsampling="4:2:2", quality=80))
            height, width = 48, 48
        side = int(rng.integers(1, min(height, width) + 1))
        crops = np.stack([rng.integers(0, extent - side + 1, 6) for extent in (height, width)], 1)
        files.append((path, data, crops, side))
    return files


def damaged(path: str) -> list[Case]:
    rng = np.random.default_rng(1)
    files: list[Case] = []
    for _, data, _, _ in cases(path):
        if b"\xff\xdd" in data:
            continue  # the decoder skips restart intervals outside a crop
        for _ in range(3):
            changed = bytearray(data)
            at = int(rng.integers(2, len(data)))
            match rng.integers(0, 3):
                case 0:
                    changed[at] = int(rng.integers(0, 256))
                case 1:
                    del changed[at:]
                case _:
                    del changed[at : at + 3]
            if rng.random() < 0.5:
                changed += b"\xff\xd9"
            files.append((path, bytes(changed), (), 1))
    return files


@pytest.mark.parametrize("level", ["plain", "avx2", "avx512"])
def test_pixels_equal_those_of_libjpeg_turbo(level: str, tmp_path: Any) -> None:
    work = cases(str(tmp_path / "shard"))
    *expected, reference_name = run(work, STOKER_JPEG="turbo")
    *found, name = run(work, STOKER_JPEG="stoker", STOKER_CPU_LEVEL=level)
    assert (reference_name, name) == ("libjpeg-turbo", "stoker")
    assert [i for i, (a, b) in enumerate(zip(expected, found, strict=True)) if a != b] == []


def test_damaged_files_give_the_same_errors(tmp_path: Any) -> None:
    work = damaged(str(tmp_path / "shard"))
    expected, found = run(work, STOKER_JPEG="turbo"), run(work, STOKER_JPEG="stoker")
    assert any("JPEG" in line for line in expected)
    assert [i for i, (a, b) in enumerate(zip(expected[:-1], found[:-1], strict=True)) if a != b] == []
