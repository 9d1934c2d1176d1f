"""``stoker replay``: its output, its files and its errors."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import annotations as annotated_scenes
from helpers import shards as text_shards
from helpers.command_line import run
from helpers.datasets import WORDS
from helpers.loaders import image_arguments
from PIL import Image

import stoker
from stoker import ImageLoader, Objects, Patches
from stoker.augment import Mosaic, Normalize, RandomHorizontalFlip, RandomResizedCrop, Views
from stoker.errors import CheckpointError, ConfigError, StokerError
from stoker.pipeline.preview.replay import draw_batch, read_json, replay, replayed_cells

CROP = [RandomResizedCrop(16), RandomHorizontalFlip()]
COLUMNS = ("image", "key")


def write_description(loader: Any, path: Path) -> Path:
    with loader:
        path.write_text(json.dumps(loader.describe()))
    return path


@pytest.fixture
def described(thumbnails: Path, tmp_path: Path) -> Path:
    """The description of a loader, in a file."""
    options: dict[str, Any] = {"transforms": [*CROP, Normalize()], "columns": COLUMNS, "shuffle": True}
    loader = ImageLoader(thumbnails, **image_arguments(batch_size=6, rank=1, world_size=2, **options))
    return write_description(loader, tmp_path / "state.json")


def test_the_command_shows_keys_and_parameters(described: Path, tmp_path: Path) -> None:
    output = run("replay", "--state", described, "--step", 7, "--rank", 1, "--out", tmp_path / "spike.html")
    batch = replay(described, 1, epoch=1, rank=1).batch  # six steps an epoch
    page = (tmp_path / "spike.html").read_text()
    assert all(key in output and key in page for key in batch.key)
    assert '"RandomResizedCrop"' not in page
    assert "&quot;region&quot;" in page
    run("replay", "--state", described, "--step", 7, "--out", tmp_path / "spike.png")
    with Image.open(tmp_path / "spike.png") as sheet:
        assert sheet.size[0] > 640
    shown = json.loads(run("replay", "--state", described, "--step", 7, "--rank", 1, "--json"))
    assert [sample["key"] for sample in shown["samples"]] == list(batch.key)
    assert (shown["epoch"], shown["rank"], shown["world_size"]) == (1, 1, 2)
    assert len(shown["samples"][0]["parameters"]["image"]["crop"]) == 4


def test_images_are_the_pixels_before_normalisation(thumbnails: Path) -> None:
    found = []
    for extra in ([], [Normalize()]):
        with ImageLoader(thumbnails, batch_size=4, transforms=[*CROP, *extra], columns=COLUMNS) as loader:
            # Pages hold JPEGs, in which levels of pixels differ by more than one.
            schedule, batch = loader.steps(0, 0), loader.batch(0, 0)
            samples = draw_batch(loader.pipeline.config, schedule, 0, None)
            found.append([row[0].pixels for row in replayed_cells(loader.pipeline.config, batch, samples)])
            images = np.moveaxis(batch.image, 1, -1)
    assert all(np.abs(a.astype(int) - b).max() <= 1 for a, b in zip(*found, strict=True))
    assert images.shape == (4, 16, 16, 3)


def shown_loader(case: str, thumbnails: Path, pack_images: Callable[..., Path]) -> ImageLoader:
    if case == "views":
        views = {"large": Views(2, CROP), "small": CROP}
        return ImageLoader(thumbnails, batch_size=3, transforms=views, columns=("large", "small"))
    if case == "patches":
        return ImageLoader(thumbnails, batch_size=2, sizes=Patches(size=8, most=16, row=64))
    if case == "grey":
        return ImageLoader(thumbnails, batch_size=2, transforms=CROP, columns=COLUMNS, color="gray")
    return ImageLoader(
        annotated_scenes.write_annotated(pack_images),
        batch_size=2,
        transforms=[RandomResizedCrop(32)],
        columns=("image", "label", "boxes", "box_labels", "segmentation"),
        objects=Objects(box_format="CXCYWH"),
    )


@pytest.mark.parametrize(("case", "images"), [("views", 9), ("patches", None), ("grey", 2), ("objects", 2)])
def test_a_page_has_a_cell_of_each_image(
    thumbnails: Path, pack_images: Callable[..., Path], tmp_path: Path, case: str, images: int | None
) -> None:
    state = write_description(shown_loader(case, thumbnails, pack_images), tmp_path / "state.json")
    run("replay", "--state", state, "--step", 1, "--out", tmp_path / "page.html")
    figures = (tmp_path / "page.html").read_text().count("<figure")
    assert figures == (images or len(replay(state, 1).samples))


def test_a_replay_of_text_shows_decoded_sequences(tmp_path: Path) -> None:
    shards = text_shards.write_shards(tmp_path)
    state = write_description(text_shards.make(shards, pack=32, batch_size=4), tmp_path / "state.json")
    output = run("replay", "--state", state, "--step", 2, "--out", tmp_path / "spike.html")
    sequence: Any = replay(state, 2).samples[0]
    assert sequence.fields["q"] in (tmp_path / "t.q").read_text().splitlines()
    assert sequence.key in output
    assert sequence.key in (tmp_path / "spike.html").read_text()
    with pytest.raises(ConfigError, match="text is shown as a page"):
        replay(state, 2, out=tmp_path / "spike.png")
    (tmp_path / "t.txt").write_text("one two\nthree two\n")
    stoker.convert_text(tmp_path / "t.txt", tmp_path / "words", tokenizer=WORDS)
    state = write_description(stoker.TextLoader(tmp_path / "words", batch_size=2), tmp_path / "state.json")
    sequences: Any = replay(state, 0).samples
    assert {sequence.fields["tokens"] for sequence in sequences} == {"one two", "three two"}


@pytest.fixture
def program(thumbnails: Path, tmp_path: Path) -> Path:
    """A training script with a function ``make`` that returns its loader."""
    file = tmp_path / "train.py"
    file.write_text(
        "from stoker import ImageLoader\nfrom stoker.augment import Resize\n"
        "def make(): return ImageLoader("
        f"'{thumbnails}', batch_size=8, transforms=[Resize((9, 9))], columns=['image'])\n"
        "if __name__ == '__main__': raise SystemExit('training')\n"
    )
    return file


@pytest.fixture
def stopped(program: Path, tmp_path: Path) -> tuple[Path, list[Any]]:
    """The state of the script's loader after three batches, in a file, and the images of the rest."""
    with runpy.run_path(str(program))["make"]() as loader:
        running = iter(loader)
        for _ in range(3):
            next(running)
        (tmp_path / "state.json").write_text(json.dumps(loader.state_dict()))
        return tmp_path / "state.json", [batch.image for batch in running]


def test_a_state_is_replayed_with_the_function_that_makes_its_loader_alone(
    program: Path, stopped: tuple[Path, list[Any]]
) -> None:
    file, expected = stopped
    for after, image in enumerate(expected):
        assert np.array_equal(replay(file, after=after, loader=f"{program}:make").batch.image, image)
    with pytest.raises(ConfigError, match="does not name the files and arguments"):
        replay(file, 3)
    with pytest.raises(ConfigError, match="must return an ImageLoader or a TextLoader, and does not exist"):
        replay(file, 3, loader=f"{program}:other")
    state = json.loads(file.read_text())
    state["identity"]["seed"] = 4
    with pytest.raises(CheckpointError, match="seed was 4 and is 0"):
        replay(state, 3, loader=f"{program}:make")


def test_wrong_arguments_and_functions_are_refused(described: Path, thumbnails: Path, tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"step": 0, "rank": 2}, "there is no rank 2: the training had 2 ranks"),
        ({"step": 6, "epoch": 3}, "epoch 3 has no step 6: its steps are 0 to 5"),
        ({"step": 1, "after": 2}, "takes step, with or without epoch, or after"),
        ({"step": 0, "out": "spike.jpg"}, "out must end in .png or .html"),
    ]
    for arguments, message in cases:
        with pytest.raises(ConfigError, match=message):
            replay(described, **arguments)
    loader = ImageLoader(thumbnails, batch_size=2, transforms=[*CROP, lambda images: images], columns=COLUMNS)
    lacking = write_description(loader, tmp_path / "lacking.json")
    with pytest.raises(CheckpointError, match="lacks what JSON cannot hold: transforms: function"):
        replay(lacking, 0)


def test_a_selection_is_replayed_as_the_same_selection(thumbnails: Path) -> None:
    rows = np.array([5, 60, 5, 3])
    selection = stoker.open(thumbnails).select(rows)
    with ImageLoader(selection, batch_size=4, transforms=CROP, columns=COLUMNS) as loader:
        described, keys = json.loads(json.dumps(loader.describe())), loader.batch(0, 0).key
    assert list(replay(described, 0).batch.key) == list(keys)


def test_each_part_of_a_mosaic_has_its_parameters(thumbnails: Path, tmp_path: Path) -> None:
    loader = ImageLoader(thumbnails, batch_size=3, transforms=[Mosaic(32, p=1.0), *CROP], columns=COLUMNS)
    state = write_description(loader, tmp_path / "state.json")
    samples = replay(state, 0).samples
    assert [len(sample.parameters["image"]) for sample in samples] == [4, 4, 4]
    assert [sample.words[0].count(" | ") for sample in samples] == [3, 3, 3]
    # A part outside the crop shows nothing; each of the others has a region of its own image.
    regions = [tuple(part["region"]) for sample in samples for part in sample.parameters["image"]]
    assert len(set(regions)) > 3


@pytest.mark.parametrize("name", ["version", "missing", "arguments", "dataset", "world_size", "state"])
@pytest.mark.parametrize("value", [None, 10**30, [], "x", {"a": [1]}], ids=str)
def test_a_damaged_description_is_refused(described: Path, name: str, value: Any) -> None:
    whole = json.loads(described.read_text())
    if (name, value) in (("missing", None), ("missing", [])):
        pytest.skip("it says that nothing is missing")
    with pytest.raises(StokerError):
        replay(whole | {name: value}, 1)
    with pytest.raises(StokerError):
        replay({key: one for key, one in whole.items() if key != name}, 1)


def test_json_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(ConfigError, match="not JSON"):
        read_json(tmp_path / "deep.json")
