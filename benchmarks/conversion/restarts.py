"""The cost and the use of restart markers: rate of conversion, sizes of files, bytes that crops need.

    python -m stoker.benchmarks.conversion.restarts [--source DIR | --as-they-are] [--rounds 5]

The photographs have the size and quality of ImageNet's, made from those of ``--source``, unless
``--as-they-are`` is given. Conversions with and without markers take turns; rates are medians.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import numpy as np

import stoker
from stoker import _native
from stoker.augment import RandomResizedCrop, compile_image
from stoker.benchmarks.comparison.photographs import make_imagenet_like, replicate
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.dataset.manifest import INDEX_NAME

from ..measuring import costs_in_turns, make_parser, show_costs

_COPIES = 512
_SCALES = ((0.08, 1.0), (0.25, 1.0), (0.05, 0.4))
"""Shares of the area: of torchvision's default crops, and of the large and the small crops of DINO."""


def measure_conversion(files: Path, scratch: Path, rounds: int) -> Dataset:
    """Print rates and sizes; return the dataset with restart markers."""

    def convert(name: str) -> int:
        storage = stoker.ImageStorage(restarts=name == "restarts")
        return stoker.convert(files, scratch / name, overwrite=True, storage=storage).written

    names = ("plain", "restarts")
    show_costs(costs_in_turns({name: partial(convert, name) for name in names}, rounds), "conversion")
    for name in names:
        dataset = stoker.open(scratch / name)
        payload, index = dataset.column("length").mean(), (dataset.path / INDEX_NAME).stat().st_size
        print(f"{name}: {payload:,.0f} bytes of an image, {index / len(dataset):.0f} of its row in the index")
    return dataset


def measure_crops(dataset: Dataset) -> None:
    """Print the bytes of the dataset that random crops look at, and those of JPEGs that show them."""
    samples = dataset.samples(np.arange(len(dataset)))
    assert samples.bands is not None
    payloads = [dataset.read(position) for position in range(len(dataset))]
    total = sum(map(len, payloads))
    for scale in _SCALES:
        plan = compile_image([RandomResizedCrop(224, scale=scale)])
        crops = plan.draw(samples.height, samples.width, samples.row, 0, 0).crop.tolist()
        looked_at = handed_over = 0
        for payload, bands, crop in zip(payloads, samples.bands, crops, strict=True):
            spliced = _native.splice(payload, bands, tuple(crop))
            looked_at += len(payload) if spliced is None else spliced[3]
            handed_over += len(payload) if spliced is None else len(spliced[0])
        print(
            f"RandomResizedCrop(scale={scale}): looks at {looked_at / total:.3f} of the bytes, "
            f"a JPEG that shows the crop has {handed_over / total:.3f}"
        )


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__, "source", rounds=5)
    parser.add_argument("--as-they-are", action="store_true", help="convert the photographs of --source")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
        scratch = Path(folder)
        photographs = args.source
        if not args.as_they_are:
            photographs = scratch / "photographs"
            make_imagenet_like(args.source, photographs)
        replicate(photographs, scratch / "files", _COPIES)
        measure_crops(measure_conversion(scratch / "files", scratch, args.rounds))


if __name__ == "__main__":
    main()
