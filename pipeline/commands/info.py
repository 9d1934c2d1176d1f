"""The command ``stoker info``, which describes a dataset."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from stoker.formats.containers.container import find_container
from stoker.formats.dataset.dataset import Dataset as StokerDataset
from stoker.formats.dataset.versions import read_versions
from stoker.formats.open import open as open_dataset
from stoker.formats.pixel_statistics import (
    PixelStatistics,
    check_mean_image,
    pixel_statistics,
    save_mean_image,
)

from .card import write_card
from .console import human_bytes, out, print_json, print_rows, progress
from .conversion_gain import measure_gain
from .options import Dataset, JsonOutput, Threads
from .summary import class_table, dataset_json, gain_table, summary_rows, version_table


def info(
    dataset: Dataset,
    pixels: Annotated[
        bool,
        typer.Option(
            "--pixels", help="Decode all images for the mean and standard deviation of each channel."
        ),
    ] = False,
    mean_image: Annotated[
        Path | None,
        typer.Option(
            help="Write the mean image, in the common size or 256x256, to a .png or .npy; implies --pixels."
        ),
    ] = None,
    versions: Annotated[
        bool, typer.Option("--versions", help="List the versions of the dataset, and the changes of each.")
    ] = False,
    card: Annotated[
        Path | None,
        typer.Option(
            help="Write a page about the dataset to this .html: classes, sizes, samples, channels, what was "
            "left out, versions."
        ),
    ] = None,
    as_json: JsonOutput = False,
    threads: Threads = None,
) -> None:
    """Describe a dataset: samples, classes, sizes, options.

    The command reads only the index. With --pixels it also reads all images, and prints the transform
    Normalize with their means and standard deviations. If the images are read in place, it also measures
    what a conversion would gain: it converts some of them into a temporary folder, and loads both forms.

    Examples:
      stoker info shards/train
      stoker info shards/train@2
      stoker info shards/train --versions
      stoker info photos/train
      stoker info shards/train --pixels --mean-image mean.png
      stoker info shards/train --card card.html
    """
    opened = open_dataset(dataset)
    if card is not None:
        with progress("decoding", "images") as show:
            write_card(opened, card, num_threads=threads, progress=show)
        if not as_json:
            out.print(f"{card}: {human_bytes(card.stat().st_size)}")
    known = read_versions(opened.path) if versions else []
    if versions and not as_json:
        out.print(version_table(known))
        return
    if not as_json:
        print_rows(summary_rows(opened))
        if opened.classes:
            out.print(class_table(opened))
    # For images that are read in place, what a conversion would gain.
    in_place = find_container(opened.manifest.container).payload_files is not None
    gains = measure_gain(opened) if in_place and len(opened) else []
    if gains and not as_json:
        out.print(gain_table(gains))
    statistics = _pixels(opened, mean_image, threads) if pixels or mean_image is not None else None
    if as_json:
        more: dict[str, Any] = {} if statistics is None else {"mean": statistics.mean, "std": statistics.std}
        more |= {"versions": [asdict(version) for version in known]} if versions else {}
        more |= {"conversion": [asdict(gain) for gain in gains]} if gains else {}
        print_json({**dataset_json(opened), **more})
    elif statistics is not None:
        _print_pixels(statistics, mean_image)


def _pixels(opened: StokerDataset, mean_image: Path | None, threads: int | None) -> PixelStatistics:
    """Return the statistics of all pixels, and write the mean image to its file."""
    if mean_image is not None:
        check_mean_image(mean_image)
    with progress("decoding", "images") as show:
        statistics = pixel_statistics(opened, num_threads=threads, progress=show)
    if mean_image is not None:
        save_mean_image(mean_image, statistics.mean_image)
    return statistics


def _print_pixels(statistics: PixelStatistics, mean_image: Path | None) -> None:
    mean, std = (tuple(round(one, 4) for one in some) for some in (statistics.mean, statistics.std))
    out.print(f"Normalize(mean={mean}, std={std})")
    if mean_image is not None:
        height, width = statistics.mean_image.shape[:2]
        out.print(f"mean image, {height}x{width}: {mean_image}")
