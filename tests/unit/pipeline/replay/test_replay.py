"""``stoker replay``: its output, its files and its errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.command_line import run
from helpers.data.annotations import annotated_scenes
from helpers.data.shards import text_shards
from PIL import Image

import stoker
from stoker import ImageLoader, Patches
from stoker.augment import DetectionMosaic, Normalize, RandomHorizontalFlip, RandomResizedCrop, Views
from stoker.errors import CheckpointError, ConfigError
from stoker.pipeline.replay.drawn import draw_batch
from stoker.pipeline.replay.run import draw_samples, replay

CROP = [RandomResizedCrop(16), RandomHorizontalFlip()]
COLUMNS = ("image", "key")


def write(loader: Any, path: Path, *, state: bool = False) -> Path:
    with loader:
        path.write_text(json.dumps(loader.state_dict() if state else loader.describe()))
    return path


def call(*arguments: object) -> str:
    return run("replay", *arguments)


@pytest.fixture
def described(thumbnails: Path, tmp_path: Path) -> Path:
    given: dict[str, Any] = {"transforms": [*CROP, Normalize()], "columns": COLUMNS, "shuffle": True}
    loader = ImageLoader(thumbnails, batch_size=6, rank=1, world_size=2, **given)
    return write(loader, tmp_path / "state.json")


def test_sheets_show_keys_and_parameters(described: Path, tmp_path: Path) -> None:
    said = call("--state", described, "--step", 7, "--rank", 1, "--out", tmp_path / "spike.html")
    batch = replay(described, 1, epoch=1, rank=1).batch  # six steps an epoch
    page = (tmp_path / "spike.html").read_text()
    assert all(key in said and key in page for key in batch.key)
    assert '"RandomResizedCrop"' not in page
    assert "&quot;region&quot;" in page
    call("--state", described, "--step", 7, "--out", tmp_path / "spike.png")
    with Image.open(tmp_path / "spike.png") as sheet:
        assert sheet.size[0] > 640
    shown = json.loads(call("--state", described, "--step", 7, "--rank", 1, "--json"))
    assert [one["key"] for one in shown["samples"]] == list(batch.key)
    assert (shown["epoch"], shown["rank"], shown["world_size"]) == (1, 1, 2)
    assert len(shown["samples"][0]["parameters"]["image"]["crop"]) == 4


def test_pictures_are_the_pixels_before_normalisation(thumbnails: Path) -> None:
    found = []
    for extra in ([], [Normalize()]):
        with ImageLoader(thumbnails, batch_size=4, transforms=[*CROP, *extra], columns=COLUMNS) as loader:
            schedule, batch = loader._schedule(0, 0), loader.batch(0, 0)
            samples = draw_batch(loader._config, schedule, 0, None)
            found.append([row[0].pixels for row in draw_samples(loader._config, batch, samples)])
            images = np.moveaxis(batch.image, 1, -1)
    assert all(np.abs(a.astype(int) - b).max() <= 1 for a, b in zip(*found, strict=True))
    assert images.shape == (4, 16, 16, 3)


def test_views_patches_and_objects_are_shown(
    thumbnails: Path, pack_images: Callable[..., Path], tmp_path: Path
) -> None:
    views = {"large": Views(2, CROP), "small": CROP}
    for number, loader in enumerate(
        [
            ImageLoader(thumbnails, batch_size=3, transforms=views, columns=("large", "small")),
            ImageLoader(thumbnails, batch_size=2, sizes=Patches(size=8, most=16, row=64)),
            ImageLoader(thumbnails, batch_size=2, transforms=CROP, columns=COLUMNS, color="gray"),
            ImageLoader(
                annotated_scenes.write_annotated(pack_images),
                batch_size=2,
                transforms=[RandomResizedCrop(32)],
                columns=("image", "label", "boxes", "box_labels", "segmentation"),
                box_format="CXCYWH",
            ),
        ]
    ):
        state = write(loader, tmp_path / f"{number}.json")
        page = tmp_path / f"{number}.html"
        call("--state", state, "--step", 1, "--out", page)
        assert page.read_text().count("<figure") == {0: 9, 1: len(replay(state, 1).samples)}.get(number, 2)


def test_text_is_decoded(tmp_path: Path) -> None:
    shards = text_shards.write_shards(tmp_path)
    state = write(text_shards.make(shards, pack=32, batch_size=4), tmp_path / "state.json")
    said = call("--state", state, "--step", 2, "--out", tmp_path / "spike.html")
    found: Any = replay(state, 2).samples[0]
    lines = (tmp_path / "t.q").read_text().splitlines()
    assert found.fields["q"] == lines[int(found.key)] if found.key.isdigit() else found.fields["q"] in lines
    assert found.key in said
    assert found.key in (tmp_path / "spike.html").read_text()
    with pytest.raises(ConfigError, match="text is shown as a page"):
        replay(state, 2, out=tmp_path / "spike.png")


def test_a_state_alone_needs_the_program_that_made_it(thumbnails: Path, tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(
        "from stoker import ImageLoader\nfrom stoker.augment import Resize\n"
        "def make(): return ImageLoader("
        f"'{thumbnails}', batch_size=8, transforms=[Resize((9, 9))], columns=['image'])\n"
        "if __name__ == '__main__': raise SystemExit('training')\n"
    )
    made: dict[str, Any] = {}
    exec(program.read_text().replace("__main__", "elsewhere"), made)
    with made["make"]() as loader:
        running = iter(loader)
        for _ in range(3):
            next(running)
        (tmp_path / "state.json").write_text(json.dumps(loader.state_dict()))
        expected = [batch.image for batch in running]
    given: dict[str, Any] = {"state": tmp_path / "state.json", "loader": f"{program}:make"}
    for after, image in enumerate(expected):
        assert np.array_equal(replay(after=after, **given).batch.image, image)
    with pytest.raises(ConfigError, match="does not name the files and arguments"):
        replay(tmp_path / "state.json", 3)
    with pytest.raises(ConfigError, match="must return an ImageLoader or a TextLoader, and does not exist"):
        replay(tmp_path / "state.json", 3, loader=f"{program}:other")
    state = json.loads((tmp_path / "state.json").read_text())
    state["identity"]["seed"] = 4
    with pytest.raises(CheckpointError, match="seed was 4 and is 0"):
        replay(state, 3, loader=f"{program}:make")


def test_mistakes_are_named(described: Path, thumbnails: Path, tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"step": 0, "rank": 2}, "there is no rank 2: the training had 2 ranks"),
        ({"step": 6, "epoch": 3}, "epoch 3 has no step 6: its steps are 0 to 5"),
        ({"step": 1, "after": 2}, "takes step, with or without epoch, or after"),
        ({"step": 0, "out": "spike.jpg"}, "out must end in .png or .html"),
    ]
    for given, what in cases:
        with pytest.raises(ConfigError, match=what):
            replay(described, **given)
    loader = ImageLoader(thumbnails, batch_size=2, transforms=[*CROP, lambda images: images], columns=COLUMNS)
    lacking = write(loader, tmp_path / "lacking.json")
    with pytest.raises(CheckpointError, match="lacks what JSON cannot hold: transforms: function"):
        replay(lacking, 0)


def test_a_selection_stays_one(thumbnails: Path) -> None:
    rows = np.array([5, 60, 5, 3])
    selection = stoker.open(thumbnails).select(rows)
    with ImageLoader(selection, batch_size=4, transforms=CROP, columns=COLUMNS) as loader:
        described, keys = json.loads(json.dumps(loader.describe())), loader.batch(0, 0).key
    assert list(replay(described, 0).batch.key) == list(keys)


def test_each_part_of_a_mosaic_has_its_parameters(thumbnails: Path, tmp_path: Path) -> None:
    loader = ImageLoader(
        thumbnails, batch_size=3, transforms=[DetectionMosaic(32, p=1.0), *CROP], columns=COLUMNS
    )
    state = write(loader, tmp_path / "state.json")
    samples = replay(state, 0).samples
    assert [len(one.parameters["image"]) for one in samples] == [4, 4, 4]
    assert [one.words[0].count(" | ") for one in samples] == [3, 3, 3]
    # A part outside the crop shows nothing; each of the others has a region of its own image.
    regions = [tuple(part["region"]) for one in samples for part in one.parameters["image"]]
    assert len(set(regions)) > 3
