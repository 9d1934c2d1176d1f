"""The preview of sizes and colours: a row of the page is a batch of the loader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.command_line import run
from helpers.loaders import image_arguments

import stoker
from stoker.augment import Normalize, RandomCrop, save_recipe
from stoker.errors import ConfigError
from stoker.pipeline.commands.loader_arguments import parse_sizes
from stoker.pipeline.preview.preview import LoaderOptions, batch_rows, sample_rows


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("padded", "padded"),
        ("{0: 160, 10: (192, 224)}", {0: 160, 10: (192, 224)}),
        ("RandomSizes(320, 608, step=32)", stoker.RandomSizes(320, 608, step=32)),
        ("stoker.AspectBuckets(area=576)", stoker.AspectBuckets(area=576)),
        ("Patches(size=4, most=9, row=20)", stoker.Patches(size=4, most=9, row=20)),
    ],
)
def test_sizes_are_parsed_as_a_program_writes_them(text: str, sizes: Any) -> None:
    assert parse_sizes(text) == sizes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *(
            (text, "sizes are not understood")
            for text in ("large", "[160]", "Patches(width=3)", "open('x')", "{")
        ),
        ("AspectBuckets(area=0)", "AspectBuckets: area must be"),
    ],
)
def test_sizes_that_are_not_understood_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_sizes(text)


@pytest.mark.parametrize(
    "shown",
    [
        LoaderOptions(stoker.Padded(8, aspect_ratio_group_factor=0)),
        LoaderOptions("ragged"),
        LoaderOptions(stoker.AspectBuckets(area=576, multiple=8)),
        LoaderOptions("ragged", color="gray"),
    ],
)
def test_a_row_is_a_batch_of_the_loader(thumbnails: Path, shown: LoaderOptions) -> None:
    dataset = stoker.open(thumbnails)
    rows = batch_rows(dataset, (), shown, samples=4, draws=2, seed=3)
    loader = stoker.ImageLoader(
        dataset, **image_arguments(batch_size=4, shuffle=True, seed=3, layout="NHWC", **vars(shown))
    )
    for step, row in enumerate(rows):
        images = loader.batch(0, step).image
        assert [cell.pixels.shape[:2] for cell in row] == [image.shape[:2] for image in images]
        for cell, image in zip(row, images, strict=True):
            assert np.array_equal(cell.pixels, np.broadcast_to(image, cell.pixels.shape))
    assert rows[1][0].caption[-1] == "epoch 0, step 1"


def test_rows_show_patches_and_the_sizes_of_a_schedule(thumbnails: Path) -> None:
    dataset = stoker.open(thumbnails)
    rows = batch_rows(dataset, (), LoaderOptions(stoker.Patches(4, 9, 20)), samples=4, draws=2, seed=0)
    assert len(rows) == 2 <= len(rows[0])
    assert all(side % 4 == 0 for row in rows for cell in row for side in cell.pixels.shape[:2])
    sizes = LoaderOptions({0: 8, 3: 12})
    rows = batch_rows(dataset, [RandomCrop(9), Normalize()], sizes, samples=2, draws=4, seed=0)
    assert [row[0].pixels.shape for row in rows] == [(8, 8, 3), (12, 12, 3)]


def test_cells_have_the_colours_of_the_loader(thumbnails: Path) -> None:
    transforms, shown = [RandomCrop(9), Normalize()], LoaderOptions(color="gray")
    _, rows = sample_rows(stoker.open(thumbnails), transforms, [3, 40], shown, draws=2, seed=0)
    assert [len(row) for row in rows] == [3, 3]
    for row in rows:
        assert all((cell.pixels == cell.pixels[..., :1]).all() for cell in row)
        assert row[1].pixels.shape == (9, 9, 3)


def test_the_command_takes_sizes_and_colours(thumbnails: Path, tmp_path: Path) -> None:
    save_recipe([RandomCrop(9), Normalize()], tmp_path / "recipe.json")
    for name, options in {
        "sizes.png": ["--sizes", "padded", "--pad-to-multiple-of", 8],
        "color.png": ["--color", "gray", "--transforms", tmp_path / "recipe.json"],
        "both.html": ["--color", "gray", "--sizes", "ragged"],
    }.items():
        run("preview", thumbnails, "--out", tmp_path / name, "--samples", 2, "--cell", 48, *options)
        assert (tmp_path / name).stat().st_size
