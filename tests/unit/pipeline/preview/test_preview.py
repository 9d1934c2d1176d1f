"""The preview: pictures are those of the loader, marks are on the objects, pages are complete."""

from __future__ import annotations

import json
import re
import shutil

import numpy as np
import pytest
from helpers.command_line import run
from PIL import Image

import stoker
from stoker.augment import (
    BlockwiseMask,
    CutMix,
    DetectionMixUp,
    MixUp,
    Mosaic,
    Normalize,
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
from stoker.pipeline.images.objects import ObjectConfig
from stoker.pipeline.preview.make import preview
from stoker.pipeline.preview.pictures import draw_pictures, original_pictures
from stoker.pipeline.preview.scene import read_scene


def scene_of(path, positions):
    return read_scene(stoker.open(path), np.array(positions))


def test_pictures_are_those_that_a_loader_gives(thumbnails):
    transforms = [RandomResizedCrop(32), RandomHorizontalFlip(), Normalize(), RandomErasing(0.9, value=0.3)]
    scene = scene_of(thumbnails, range(5))
    with stoker.ImageLoader(
        thumbnails, batch_size=5, transforms=transforms, seed=4, engine="reference", layout="NHWC"
    ) as loader:
        loader.set_epoch(2)
        images, _ = next(iter(loader))
    pixels = images * np.array((0.229, 0.224, 0.225)) + np.array((0.485, 0.456, 0.406))
    for picture, expected in zip(draw_pictures(scene, transforms, 4, 2), pixels * 255, strict=True):
        assert picture.pixels.dtype == np.uint8
        np.testing.assert_allclose(picture.pixels, expected.clip(0, 255), atol=0.51)


def test_marks_are_those_that_a_loader_gives(coco):
    transforms = [RandomIoUCrop(), RandomHorizontalFlip(), Resize((64, 64))]
    pictures = draw_pictures(scene_of(coco, range(6)), transforms, 4, 0)
    columns = ("boxes", "box_labels", "keypoints", "masks")
    with stoker.ImageLoader(coco, batch_size=6, transforms=transforms, seed=4, columns=columns) as loader:
        batch = next(iter(loader))
    for i, picture in enumerate(pictures):
        np.testing.assert_allclose(picture.marks.boxes, batch.boxes[i], atol=1e-4)
        np.testing.assert_array_equal(picture.marks.labels, batch.box_labels[i])
        np.testing.assert_allclose(picture.marks.keypoints, batch.keypoints[i], atol=1e-4)
        np.testing.assert_array_equal(picture.marks.masks, batch.masks[i])


def test_mosaics_show_the_objects_of_their_images(coco):
    transforms = [Mosaic(96, fill=0), DetectionMixUp(p=0.4), RandomHorizontalFlip()]
    rules = ObjectConfig(min_visible=0.3, min_size=4)
    pictures = draw_pictures(scene_of(coco, range(6)), transforms, 4, 0, rules)
    columns = ("image", "boxes", "box_labels", "masks")
    options = {"seed": 4, "columns": columns, "min_visible": 0.3, "min_size": 4, "engine": "reference"}
    with stoker.ImageLoader(coco, batch_size=6, transforms=transforms, layout="NHWC", **options) as loader:
        batch = next(iter(loader))
    assert sum(map(len, batch.boxes)) > 6
    for i, picture in enumerate(pictures):
        np.testing.assert_array_equal(picture.pixels, batch.image[i])
        np.testing.assert_allclose(picture.marks.boxes, batch.boxes[i], atol=1e-4)
        np.testing.assert_array_equal(picture.marks.masks, batch.masks[i])


def test_originals_show_class_key_and_size(thumbnails):
    picture = original_pictures(scene_of(thumbnails, [3]))[0]
    assert picture.caption[:2] == ("class 3", "k3")
    height, width = picture.pixels.shape[:2]
    assert picture.caption[2] == f"{width} x {height}"


def test_marks_of_originals_and_draws_lie_on_the_objects(coco):
    scene = scene_of(coco, range(6))
    chain = [RandomHorizontalFlip(), RandomIoUCrop(sampler_options=(0.3,)), Resize((80, 100))]
    drawn = [picture for epoch in range(3) for picture in draw_pictures(scene, chain, 0, epoch)]
    checked = 0
    for picture in (*original_pictures(scene), *drawn):
        bright = picture.pixels[..., 0] > 145
        for box, mask, points in zip(
            picture.marks.boxes, picture.marks.masks, picture.marks.keypoints, strict=True
        ):
            rows, columns = np.nonzero(bright)
            object_box = columns.min(), rows.min(), columns.max() + 1, rows.max() + 1
            np.testing.assert_allclose(box, object_box, atol=1)
            assert (mask.astype(bool) != bright).mean() < 0.05
            for x, y, visibility in points:
                assert visibility == 0 or bright[int(y), int(x)]
            checked += 1
    assert checked > 15
    assert {picture.caption[-1] for picture in drawn} == {"1 of 1 objects"}


def test_masks_of_classes_follow_their_images(segmented):
    scene = scene_of(segmented, range(2))
    assert scene.segmentation is not None
    for picture in (*original_pictures(scene), *draw_pictures(scene, [RandomResizedCrop(50)], 0, 0)):
        assert (picture.marks.segmentation == picture.pixels[..., 0]).mean() > 0.8


BASE = [Resize((40, 40))]


def test_mixup_mixes_the_pixels_and_the_classes(thumbnails):
    scene = scene_of(thumbnails, [0, 1])
    plain = [picture.pixels.astype(float) for picture in draw_pictures(scene, BASE, 0, 0)]
    mixed = draw_pictures(scene, [*BASE, MixUp(20.0)], 0, 0)[0]
    (first, share), (second, other_share) = re.findall(r"(cat|dog) (0\.\d\d)", " ".join(mixed.caption))
    assert {first, second} == {"cat", "dog"}
    assert float(share) + float(other_share) == pytest.approx(1, abs=0.011)
    number = {"cat": 0, "dog": 1}
    expected = float(share) * plain[number[first]] + float(other_share) * plain[number[second]]
    np.testing.assert_allclose(mixed.pixels, expected, atol=2.5)


def test_mixup_of_objects_is_refused(coco):
    with pytest.raises(ConfigError, match="MixUp cannot mix boxes and keypoints and masks"):
        draw_pictures(scene_of(coco, range(6)), [*BASE, MixUp()], 0, 0)


def test_cutmix_cuts_masks_of_classes_with_the_pixels(segmented):
    cut = draw_pictures(scene_of(segmented, range(2)), [*BASE, CutMix()], 0, 0)[0]
    assert (cut.marks.segmentation == cut.pixels[..., 0]).mean() > 0.8


def test_names_on_a_page_are_text_in_any_letters(coco, tmp_path):
    manifest = shutil.copytree(coco, tmp_path / "named") / "dataset.json"
    text = manifest.read_text("utf-8").replace("cup & <saucer>", "собака").replace("plate", "<犬>")
    manifest.write_text(text, "utf-8")
    preview(tmp_path / "named", tmp_path / "page.html", samples=2)
    page = (tmp_path / "page.html").read_text("utf-8")
    shown = re.findall(r'<span class="name"[^>]*>([^<]*)</span>', page)
    assert sorted(shown) == ["&lt;犬&gt; (crowd)", "собака"]


def test_a_sheet_can_be_an_image(coco, tmp_path):
    save_recipe([RandomResizedCrop(64)], tmp_path / "recipe.json")
    sheet = preview(coco, tmp_path / "s.png", tmp_path / "recipe.json", samples=3, draws=2, cell=100)
    assert [len(row) for row in sheet.rows] == [3, 3, 3]
    assert sheet.headings == ("original", "epoch 0", "epoch 1")
    with Image.open(tmp_path / "s.png") as image:
        assert image.width == 640
        pixels = np.asarray(image.convert("RGB"))
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 200
    assert "RandomResizedCrop; 64 x 64 pixels, seed 0" in sheet.facts[1]


def test_the_same_sheet_has_the_same_bytes(coco, tmp_path):
    for name in ("a.png", "b.png", "a.html", "b.html"):
        preview(coco, tmp_path / name, "imagenet-train", samples=2, draws=1, cell=60)
    for kind in ("png", "html"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()


def test_samples_without_transforms_fill_a_grid(segmented, coco, tmp_path):
    sheet = preview(coco, tmp_path / "s.png", samples=100, cell=60)
    assert [len(row) for row in sheet.rows] == [5, 1]
    assert sheet.headings == ()
    page = tmp_path / "s.html"
    preview(segmented, page, cell=60)
    assert page.read_text().count('class="swatch"') == 4


def test_transforms_without_randomness_are_drawn_once(thumbnails, tmp_path):
    sheet = preview(thumbnails, tmp_path / "s.png", "imagenet-val", samples=1, cell=60)
    assert sheet.headings == ("original", "every epoch")


def test_a_page_is_self_contained_and_escaped(coco, tmp_path):
    page = tmp_path / "sheet.html"
    preview(coco, page, "imagenet-train", positions=[0, 5], draws=3, cell=80)
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
        ({"out": "sheet.jpg"}, r"out must end in .png or .html, found 'sheet.jpg'"),
        ({"out": "nowhere/sheet.png"}, "the folder of out does not exist"),
        ({"out": "sheet.png", "positions": [6]}, "there is no sample 6: positions go from 0 to 5"),
        ({"out": "sheet.png", "recipe": "imagenet-trian"}, "Did you mean 'imagenet-train'"),
    ],
)
def test_invalid_options_are_refused(coco, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=message):
        preview(coco, **arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_dataset_of_text_is_refused(tmp_path):
    (tmp_path / "lines.txt").write_text("one\ntwo\n")
    stoker.convert_text(tmp_path / "lines.txt", tmp_path / "shards")
    with pytest.raises(ConfigError, match="preview shows images, and this dataset holds text"):
        preview(tmp_path / "shards", tmp_path / "sheet.png")


def test_the_command_writes_a_sheet_of_chosen_rows(coco, tmp_path):
    out = tmp_path / "sheet.png"
    printed = run("preview", coco, "--transforms", "imagenet-train", "--rows", "0,2", "--out", out)
    assert "10 pictures" in printed
    assert out.stat().st_size > 10_000
    with pytest.raises(ConfigError, match="rows must be positions with commas between"):
        run("preview", coco, "--rows", "0;2", "--out", out)


def test_views_are_those_of_the_loader(coco, tmp_path):
    views = {
        "large": Views(2, [RandomResizedCrop(48), RandomHorizontalFlip()], mask=BlockwiseMask(8, p=1.0)),
        "whole": [Resize((30, 40)), Normalize()],
    }
    save_recipe(views, tmp_path / "views.json")
    sheet = preview(coco, tmp_path / "views.html", views=tmp_path / "views.json", positions=[1, 3], seed=5)
    assert sheet.headings == ("original", "large 0", "large 1", "whole")
    assert "BlockwiseMask" in (tmp_path / "views.html").read_text()
    options = {"batch_size": 6, "seed": 5, "layout": "NHWC", "dtype": "float32"}
    columns = ("large", "large_mask", "large_boxes")
    with stoker.ImageLoader(coco, transforms=views, columns=columns, **options) as loader:
        batch = next(iter(loader))
    for row, position in zip(sheet.rows, (1, 3), strict=True):
        for view in range(2):
            marks, pixels = row[1 + view].marks, row[1 + view].pixels.astype(int)
            hidden = batch.large_mask[view, position].repeat(8, axis=0).repeat(8, axis=1)
            assert np.abs(pixels - 255 * batch.large[view, position])[~hidden].max() <= 2
            assert (pixels[hidden] == 128).all()
            assert np.allclose(marks.boxes, batch.large_boxes[view][position], atol=0.01)
    with pytest.raises(ConfigError, match="a sheet shows transforms or views"):
        preview(coco, tmp_path / "views.html", "imagenet-val", views="dino-v1")
