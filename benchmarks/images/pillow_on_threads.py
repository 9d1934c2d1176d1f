"""The rate of Stoker's loader over that of Pillow on as many threads, for images in other codecs than JPEG.

    python -m stoker.benchmarks.images.pillow_on_threads PHOTOS [--codec png] [--rounds 5] [--json FILE]

The photographs are written anew in the codec. Both make random resized crops of 224 pixels, as uint8, and
take turns. A round is a pass over all images, on two threads each. The result is printed as JSON: medians of
images a second of processor time, and of the ratios of rounds.
"""

from __future__ import annotations

import io
import json
import statistics
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

import stoker
from stoker.augment import RandomResizedCrop, compile_image
from stoker.benchmarks.arguments import make_parser

if TYPE_CHECKING:
    from collections.abc import Callable

    from stoker.augment.params.image_params import ImageParams

__all__: list[str] = []

_SIZE = 224
_OPTIONS = {"png": {}, "webp": {"quality": 90}}
_LEAST_IMAGES = 256


def encode(photos: Path, codec: str, folder: Path) -> None:
    """Write photographs in another codec, again and again until there are enough."""
    files = sorted(photos.rglob("*.jpg"))
    folder.mkdir()
    for number in range(max(_LEAST_IMAGES, len(files))):
        target = folder / f"{number:05}.{codec}"
        if number < len(files):
            with Image.open(files[number]) as image:
                image.convert("RGB").save(target, **_OPTIONS[codec])
        else:
            target.hardlink_to(folder / f"{number % len(files):05}.{codec}")


def crop_with_pillow(data: bytes, params: ImageParams, i: int) -> np.ndarray:
    """Decode an image, and crop and resize it as the parameters of sample ``i`` say."""
    top, left, bottom, right = params.region[i].tolist()
    with Image.open(io.BytesIO(data)) as image:
        rgb = image.convert("RGB")
    made = rgb.resize((_SIZE, _SIZE), Image.Resampling.BILINEAR, (left, top, right, bottom))
    return np.asarray(made)


def measure(dataset: Path, images: Path, threads: int, rounds: int) -> dict[str, float]:
    """Return the medians of both rates, and of their ratio in each round."""
    opened = stoker.open(dataset)
    payloads = [(images / key.rpartition("/")[2]).read_bytes() for key in opened.keys(range(len(opened)))]
    plan = compile_image([RandomResizedCrop(_SIZE)])
    samples = opened.samples(np.arange(len(opened)))

    def pillow(epoch: int) -> None:
        params = plan.draw(samples.height, samples.width, samples.row, 0, epoch)
        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(lambda i: crop_with_pillow(payloads[i], params, i), range(len(payloads))):
                pass

    def own(epoch: int) -> None:
        with stoker.ImageLoader(
            opened,
            batch_size=64,
            seed=epoch,
            transforms=plan.transforms,
            engine="native",
            num_threads=threads,
        ) as loader:
            for step, _ in enumerate(loader, 1):
                if step == len(loader):
                    return

    rates = [[_rate(run, epoch, len(payloads)) for run in (pillow, own)] for epoch in range(rounds + 1)][1:]
    medians = [round(statistics.median(column)) for column in zip(*rates, strict=True)]
    ratio = round(statistics.median(stoker_rate / rate for rate, stoker_rate in rates), 2)
    return {"pillow": medians[0], "stoker": medians[1], "ratio": ratio}


def _rate(run: Callable[[int], None], epoch: int, images: int) -> float:
    began = process_time()
    run(epoch)
    return images / (process_time() - began)


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("photos", type=Path, help="a folder of JPEG files, at any depth")
    parser.add_argument("--codec", nargs="+", choices=list(_OPTIONS), default=list(_OPTIONS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the result into this file")
    given = parser.parse_args()
    result = {}
    for codec in given.codec:
        with tempfile.TemporaryDirectory() as folder:
            images, dataset = Path(folder) / "images", Path(folder) / "shards"
            encode(given.photos, codec, images)
            stoker.convert(images, dataset, unlabelled=True)
            result[codec] = measure(dataset, images, given.threads, given.rounds)
    text = json.dumps(result, indent=2)
    print(text)
    if given.json:
        given.json.write_text(f"{text}\n", "utf-8")


if __name__ == "__main__":
    main()
