"""The rate of Stoker's loader over those of Pillow and torchvision on as many threads, by kind of pixels.

    python -m stoker.benchmarks.decoding.pillow_on_threads PHOTOS [--codec png] [--whole] [--rounds 5]

The program writes the photographs again: as PNGs of several kinds of pixels and compression levels, as lossy
and lossless WebP, with alpha, as JPEGs to load in grey, as ``.npy``, and as HEIC if pillow-heif is installed,
which decodes HEIC for all libraries. The libraries take turns to make random resized crops of 224 pixels,
without conversion to floats. With ``--whole`` they only decode whole images. A round is a pass over all
images on two threads. The loader makes ten passes, because it works ahead: a single pass would pay for
batches of the next. The result is printed as JSON: medians of images a second of processor time, and of the
ratios of rounds. torchvision is left out where it is not installed.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import stoker
from stoker import _native
from stoker.augment import RandomResizedCrop, compile_image
from stoker.formats.codecs.codec import Codec
from stoker.types import Color

from ..measuring import allowed_cores, costs_in_turns, describe, loading, make_parser, write_json

Box = tuple[int, int, int, int]
Crop = Callable[[bytes, Box], Any]

_SIZE = 224
_LEAST_IMAGES = 256
_PASSES = 10  # of the loader, so that batches which it makes ahead and throws away hardly count
_MAX_PIXELS = 1 << 28


@dataclass(frozen=True)
class _Kind:
    """How photographs are stored and loaded."""

    suffix: str  # Suffix of the files
    color: Color  # Colours of the loaded images
    mode: str  # Pillow's mode of the stored images
    options: dict[str, Any]  # Options of Pillow's encoder

    def stored(self, image: Image.Image) -> Image.Image:
        if self.mode == "I;16":
            return Image.fromarray(np.asarray(image.convert("L")).astype(np.uint16) * 257)
        image = image.convert("RGB")
        if self.mode == "RGBA":
            image.putalpha(image.convert("L"))
            return image
        return image.quantize(256) if self.mode == "P" else image.convert(self.mode)

    def write(self, image: Image.Image, target: Path) -> None:
        if self.suffix == "npy":
            np.save(target, np.asarray(self.stored(image)))
        else:
            self.stored(image).save(target, **self.options)

    def opened(self, data: bytes) -> Image.Image:
        file = io.BytesIO(data)
        return Image.fromarray(np.load(file)) if self.suffix == "npy" else Image.open(file)


_KINDS = {
    "png": _Kind("png", "rgb", "RGB", {}),
    "png-level-1": _Kind("png", "rgb", "RGB", {"compress_level": 1}),
    "png-level-9": _Kind("png", "rgb", "RGB", {"compress_level": 9}),
    "palette": _Kind("png", "rgb", "P", {}),
    "gray-png": _Kind("png", "gray", "L", {}),
    "rgba": _Kind("png", "rgba", "RGBA", {}),
    "uint16": _Kind("png", "as_stored", "I;16", {}),
    "webp": _Kind("webp", "rgb", "RGB", {"quality": 90}),
    "lossless-webp": _Kind("webp", "rgb", "RGB", {"lossless": True}),
    "rgba-webp": _Kind("webp", "rgba", "RGBA", {"quality": 90}),
    "gray": _Kind("jpg", "gray", "RGB", {"quality": 90}),
    "npy": _Kind("npy", "as_stored", "RGB", {}),
}
if find_spec("pillow_heif"):
    _KINDS["heic"] = _Kind("heic", "rgb", "RGB", {"quality": 80})


def encode(photos: Path, kind: _Kind, folder: Path) -> None:
    """Write photographs in another kind, with links to them until there are enough files."""
    files = sorted(photos.rglob("*.jpg"))
    folder.mkdir()
    for number in range(max(_LEAST_IMAGES, len(files))):
        target = folder / f"{number:05}.{kind.suffix}"
        if number < len(files):
            with Image.open(files[number]) as image:
                kind.write(image, target)
        else:
            target.hardlink_to(folder / f"{number % len(files):05}.{kind.suffix}")


def crop_with_pillow(kind: _Kind) -> Crop:
    """A function that decodes an image with Pillow, and crops and resizes it."""

    def crop(data: bytes, box: Box) -> np.ndarray:
        top, left, bottom, right = box
        pixels = _decoded_by_pillow(data, kind)
        crop = (left, top, right, bottom)
        return np.asarray(pixels.resize((_SIZE, _SIZE), Image.Resampling.BILINEAR, crop))

    return crop


def _decoded_by_pillow(data: bytes, kind: _Kind) -> Image.Image:
    mode = {"rgb": "RGB", "gray": "L", "rgba": "RGBA", "as_stored": kind.mode}[kind.color]
    with kind.opened(data) as image:
        if mode == "L":
            image.draft("L", image.size)
        image.load()
        decoded: Image.Image = image if image.mode == mode else image.convert(mode)
    return decoded


def decode_with_stoker(kind: _Kind, codec: Codec) -> Callable[[bytes], Any]:
    """A function that decodes a whole image with Stoker."""
    whole = np.array((0, 0, 1 << 24, 1 << 24), np.int32)

    def decode(data: bytes) -> Any:
        if kind.color != "rgb":
            return _native.decode_stored(codec, data, kind.color == "rgba", _MAX_PIXELS, whole)
        return _native.transcode(data, "none", 0, 0, "raw", 90, "420", _MAX_PIXELS)

    return decode


def crop_with_torchvision(kind: _Kind) -> Crop:
    """A function that decodes an image with torchvision, and crops and resizes it."""
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg, decode_png, decode_webp
    from torchvision.transforms.v2 import functional

    torch.set_num_threads(1)
    decoders = {"png": decode_png, "webp": decode_webp, "jpg": decode_jpeg}
    modes = {
        "gray": ImageReadMode.GRAY,
        "rgba": ImageReadMode.RGB_ALPHA,
        "as_stored": ImageReadMode.UNCHANGED,
    }
    mode = modes.get(kind.color, ImageReadMode.RGB)

    def crop(data: bytes, box: Box) -> Any:
        top, left, bottom, right = box
        if kind.suffix in decoders:
            encoded = torch.frombuffer(bytearray(data), dtype=torch.uint8)
            pixels = decoders[kind.suffix](encoded, mode=mode)
        else:
            pixels = torch.from_numpy(np.array(kind.opened(data))).permute(2, 0, 1)
        pixels = pixels.float() if kind.mode == "I;16" else pixels
        return functional.resized_crop(pixels, top, left, bottom - top, right - left, [_SIZE, _SIZE])

    return crop


def prepare(
    dataset: Path, images: Path, kind: _Kind, threads: int, *, whole: bool
) -> dict[str, Callable[[], int]]:
    """Return a function for each library that makes all images, and returns their number."""
    opened = stoker.open(dataset)
    payloads = [(images / key.rpartition("/")[2]).read_bytes() for key in opened.keys(range(len(opened)))]
    plan = compile_image([RandomResizedCrop(_SIZE)])
    samples = opened.samples(np.arange(len(opened)))

    def on_threads(*arguments: Any) -> int:
        with ThreadPoolExecutor(threads) as pool:
            return sum(1 for _ in pool.map(*arguments))

    def crops(crop: Crop) -> Callable[[], int]:
        regions = plan.draw(samples.height, samples.width, samples.row, 0, 0).region.tolist()
        return partial(on_threads, crop, payloads, [tuple(map(int, row)) for row in regions])

    if whole:
        decode = decode_with_stoker(kind, Codec(samples.codec[0]))
        pillow = partial(on_threads, lambda data: np.asarray(_decoded_by_pillow(data, kind)), payloads)
        return {"pillow": pillow, "stoker": partial(on_threads, decode, payloads)}
    options: dict[str, Any] = {"color": kind.color, "engine": "native", "num_threads": threads}
    crop = [RandomResizedCrop(_SIZE)]
    runs: dict[str, Callable[[], int]] = {
        "pillow": crops(crop_with_pillow(kind)),
        "stoker": loading(opened, crop, 64, passes=_PASSES, prefetch=1, **options),
    }
    if find_spec("torchvision"):
        runs["torchvision"] = crops(crop_with_torchvision(kind))
    return runs


def main() -> None:
    """Run from the command line."""
    if "heic" in _KINDS:
        import pillow_heif

        pillow_heif.register_heif_opener()
    parser = make_parser(__doc__, "json", rounds=5)
    parser.add_argument("photos", type=Path, help="a folder of JPEG files, at any depth")
    parser.add_argument("--codec", nargs="+", choices=list(_KINDS), default=list(_KINDS))
    parser.add_argument("--whole", action="store_true", help="decode whole images, without a crop")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    result: dict[str, Any] = {"machine": describe(allowed_cores())}
    for name in args.codec:
        if args.whole and name in ("gray", "npy", "heic"):  # only a loader converts these
            continue
        with tempfile.TemporaryDirectory() as folder:
            images, dataset = Path(folder) / "images", Path(folder) / "shards"
            encode(args.photos, _KINDS[name], images)
            stoker.convert(images, dataset, source_options=stoker.SourceOptions(unlabelled=True))
            runs = prepare(dataset, images, _KINDS[name], args.threads, whole=args.whole)
            rates = {key: 1 / cost.cpu_seconds for key, cost in costs_in_turns(runs, args.rounds).items()}
            ratios = {f"over {key}": rates["stoker"] / rate for key, rate in rates.items() if key != "stoker"}
            result[name] = {
                **{key: round(rate) for key, rate in rates.items()},
                **{key: round(ratio, 2) for key, ratio in ratios.items()},
            }
    print(json.dumps(result, indent=2))
    write_json(args.json, result)


if __name__ == "__main__":
    main()
