"""The preview: images are those of the loader, marks are on the objects, pages are complete."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.command_line import run
from helpers.datasets import WORDS
from helpers.loaders import image_arguments
from PIL import Image

import stoker
from stoker.augment import (
    BlockwiseMask,
    CutMix,
    DetectionMixUp,
    MixUp,
    Mosaic,
    Normalize,
    RandomCrop,
    RandomErasing,
    RandomHorizontalFlip,
    RandomIoUCrop,
    RandomResizedCrop,
    Resize,
    Views,
    load_recipe,
    save_recipe,
)
from stoker.errors import ConfigError
from stoker.pipeline.commands.loader_arguments import parse_sizes
from stoker.pipeline.preview.preview import LoaderOptions, batch_rows, preview, sample_rows


def drawn(path, transforms, *, positions=range(6), draws=1, seed=4, **rules):
    """The cells of each sample: the original, then one for each epoch."""
    shown = LoaderOptions(objects=stoker.Objects(**rules))
    _, rows = sample_rows(stoker.open(path), transforms, list(positions), shown, draws=draws, seed=seed)
    return rows


def test_images_are_those_that_a_loader_gives(thumbnails):
    transforms = [RandomResizedCrop(32), RandomHorizontalFlip(), Normalize(), RandomErasing(0.9, value=0.3)]
    rows = drawn(thumbnails, transforms, positions=range(5), draws=3)
    options = {"batch_size": 5, "transforms": transforms, "seed": 4, "engine": "reference", "layout": "NHWC"}
    with stoker.ImageLoader(thumbnails, **image_arguments(**options)) as loader:
        images, _ = loader.batch(2, 0)
    pixels = images * np.array((0.229, 0.224, 0.225)) + np.array((0.485, 0.456, 0.406))
    for row, expected in zip(rows, pixels * 255, strict=True):
        assert row[3].pixels.dtype == np.uint8
        np.testing.assert_allclose(row[3].pixels, expected.clip(0, 255), atol=1.51)


def test_marks_are_those_that_a_loader_gives(coco):
    transforms = [RandomIoUCrop(), RandomHorizontalFlip(), Resize((64, 64))]
    columns = ("boxes", "box_labels", "keypoints", "masks")
    with stoker.ImageLoader(coco, batch_size=6, transforms=transforms, seed=4, columns=columns) as loader:
        batch = next(iter(loader))
    for i, (_, cell) in enumerate(drawn(coco, transforms)):
        np.testing.assert_allclose(cell.marks.boxes, batch.boxes[i], atol=1e-4)
        np.testing.assert_array_equal(cell.marks.labels, batch.box_labels[i])
        np.testing.assert_allclose(cell.marks.keypoints, batch.keypoints[i], atol=1e-4)
        np.testing.assert_array_equal(cell.marks.masks, batch.masks[i])


def test_objects_are_dropped_as_a_loader_drops_them(coco):
    transforms = [Mosaic(96, fill=0), DetectionMixUp(p=0.4), RandomHorizontalFlip()]
    rows = drawn(coco, transforms, min_visible=0.3, min_size=4)
    kept = drawn(coco, transforms)
    counts = [len(row[1].marks.labels) for row in rows]
    assert sum(counts) > 6
    assert sum(counts) < sum(len(row[1].marks.labels) for row in kept)
    assert [row[1].caption[-1] for row in rows] == [f"{count} objects" for count in counts]


def test_originals_show_class_key_and_size(thumbnails):
    ((cell, _),) = drawn(thumbnails, [Resize((8, 8))], positions=[3])
    height, width = cell.pixels.shape[:2]
    assert cell.caption == ("class 3", "k3", f"{width} x {height}")


BASE = [Resize((40, 40))]


@pytest.mark.parametrize("transforms", [[RandomResizedCrop(50)], [*BASE, CutMix()]])
def test_masks_of_classes_follow_their_images(segmented, transforms):
    for cell in (cell for row in drawn(segmented, transforms, positions=range(2)) for cell in row):
        assert (cell.marks.segmentation == cell.pixels[..., 0]).mean() > 0.8


def test_mixup_mixes_the_pixels_and_the_classes(thumbnails):
    plain = [row[1].pixels.astype(float) for row in drawn(thumbnails, BASE, positions=[0, 1], seed=0)]
    mixed = drawn(thumbnails, [*BASE, MixUp(20.0)], positions=[0, 1], seed=0)[0][1]
    (first, share), (second, other_share) = re.findall(r"(cat|dog) (0\.\d\d)", " ".join(mixed.caption))
    assert {first, second} == {"cat", "dog"}
    assert float(share) + float(other_share) == pytest.approx(1, abs=0.011)
    number = {"cat": 0, "dog": 1}
    expected = float(share) * plain[number[first]] + float(other_share) * plain[number[second]]
    np.testing.assert_allclose(mixed.pixels, expected, atol=2.5)


def test_names_on_a_page_are_text_in_any_letters(coco, tmp_path):
    manifest = shutil.copytree(coco, tmp_path / "named") / "dataset.json"
    text = manifest.read_text("utf-8").replace("cup & <saucer>", "собака").replace("plate", "<犬>")
    manifest.write_text(text, "utf-8")
    preview(tmp_path / "named", tmp_path / "page.html", samples=2)
    page = (tmp_path / "page.html").read_text("utf-8")
    shown = re.findall(r'<span class="name"[^>]*>([^<]*)</span>', page)
    assert sorted(shown) == ["&lt;犬&gt; (crowd)", "собака"]


def test_a_page_can_be_an_image(coco, tmp_path):
    save_recipe([RandomResizedCrop(64)], tmp_path / "recipe.json")
    page = preview(coco, tmp_path / "s.png", tmp_path / "recipe.json", samples=3, draws=2, side=100)
    assert [len(row) for row in page.rows] == [3, 3, 3]
    assert page.headings == ("original", "epoch 0", "epoch 1")
    with Image.open(tmp_path / "s.png") as image:
        assert image.width == 640
        pixels = np.asarray(image.convert("RGB"))
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 200
    assert "RandomResizedCrop; 64 x 64 pixels, seed 0" in page.lines[1]


def test_the_same_page_has_the_same_bytes(coco, tmp_path):
    for name in ("a.png", "b.png", "a.html", "b.html"):
        preview(coco, tmp_path / name, "imagenet-train", samples=2, draws=1, side=60)
    for kind in ("png", "html"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()


def test_samples_without_draws_fill_a_grid(segmented, coco, tmp_path):
    page = preview(coco, tmp_path / "s.png", samples=100, side=60)
    assert [len(row) for row in page.rows] == [5, 1]
    assert page.headings == ()
    preview(segmented, tmp_path / "s.html", side=60)
    assert (tmp_path / "s.html").read_text().count('class="swatch"') == 4
    page = preview(segmented, tmp_path / "s.png", "imagenet-val", samples=1, side=60)
    assert page.headings == ("original", "every epoch"), "nothing is random"


def test_a_page_is_self_contained_and_escaped(coco, tmp_path):
    page = tmp_path / "page.html"
    preview(coco, page, "imagenet-train", positions=[0, 5], draws=3, side=80)
    text = page.read_text()
    sources = re.findall(r'src="([^"]*)"', text)
    assert len(sources) == 2 * 2 * 4 - text.count("<div>0 of 1 objects")
    assert all(source.startswith(("data:image/jpeg;base64,", "data:image/png;base64,")) for source in sources)
    assert not re.search(r"https?:|url\(|@import|<script|<link", text)
    assert "cup & <saucer>" not in text
    assert "Hide annotations" in text
    assert "RandomHorizontalFlip" in text
    assert load_recipe("imagenet-train")[0].to_dict() == json.loads(
        re.search(r"<pre>(.*?)\n", text)[1].replace("&quot;", '"')
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"out": "page.jpg"}, r"out must end in .png or .html, found 'page.jpg'"),
        ({"out": "nowhere/page.png"}, "the folder does not exist"),
        ({"out": "page.png", "positions": [6]}, "there is no sample 6: positions go from 0 to 5"),
        ({"out": "page.png", "recipe": "imagenet-trian"}, "Did you mean 'imagenet-train'"),
    ],
)
def test_invalid_options_are_refused(coco, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=message):
        preview(coco, **arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_dataset_of_text_is_refused(tmp_path):
    (tmp_path / "lines.txt").write_text("one\ntwo\n")
    stoker.convert_text(tmp_path / "lines.txt", tmp_path / "shards", tokenizer=WORDS)
    with pytest.raises(ConfigError, match="preview shows images, and this dataset holds text"):
        preview(tmp_path / "shards", tmp_path / "page.png")


def test_the_command_writes_a_page_of_chosen_rows(coco, tmp_path):
    out = tmp_path / "page.png"
    printed = run("preview", coco, "--transforms", "imagenet-train", "--rows", "0,2", "--out", out)
    assert "10 images" in printed
    assert out.stat().st_size > 10_000
    with pytest.raises(ConfigError, match="rows must be positions with commas between"):
        run("preview", coco, "--rows", "0;2", "--out", out)


def test_views_are_those_of_the_loader(coco, tmp_path):
    views = {
        "large": Views(2, [RandomResizedCrop(48), RandomHorizontalFlip()], mask=BlockwiseMask(8, p=1.0)),
        "whole": [Resize((30, 40)), Normalize()],
    }
    save_recipe(views, tmp_path / "views.json")
    page = preview(coco, tmp_path / "views.html", views=tmp_path / "views.json", positions=[1, 3], seed=5)
    assert page.headings == ("original", "large 0", "large 1", "whole")
    assert "BlockwiseMask" in (tmp_path / "views.html").read_text()
    options = {"batch_size": 6, "seed": 5, "layout": "NHWC", "dtype": "float32"}
    columns = ("large", "large_mask", "large_boxes")
    with stoker.ImageLoader(coco, **image_arguments(transforms=views, columns=columns, **options)) as loader:
        batch = next(iter(loader))
    for row, position in zip(page.rows, (1, 3), strict=True):
        for view in range(2):
            marks, pixels = row[1 + view].marks, row[1 + view].pixels.astype(int)
            hidden = batch.large_mask[view, position].repeat(8, axis=0).repeat(8, axis=1)
            assert np.abs(pixels - 255 * batch.large[view, position])[~hidden].max() <= 2
            assert (pixels[hidden] == 128).all()
            assert np.allclose(marks.boxes, batch.large_boxes[view][position], atol=0.01)
    with pytest.raises(ConfigError, match="a page shows transforms, views or resize modes"):
        preview(coco, tmp_path / "views.html", "imagenet-val", views="dino-v1")


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
