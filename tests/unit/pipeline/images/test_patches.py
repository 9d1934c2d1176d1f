"""Packed rows of patches of images at their own aspect ratios."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers.command_line import run
from helpers.datasets import jpeg
from helpers.loaders import image_arguments

import stoker
from stoker import ImageLoader, Patches, Tokens
from stoker.augment import ColorJitter, RandomHorizontalFlip, Resize
from stoker.errors import CheckpointError, ConfigError
from stoker.pipeline.images.planners import patch_grids
from stoker.pipeline.preview.replay import make_loader

SIZE = 4
PATCHES = Patches(size=SIZE, most=20, row=64)
ALL = ("patches", "segment_ids", "patch_positions", "cu_seqlens", "label", "row")
OPTIONS: dict[str, Any] = {
    "transforms": (),
    "columns": ALL,
    "sizes": PATCHES,
    "batch_size": 2,
    "shuffle": True,
}


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("form", [{}, {"dtype": "float32", "color": "gray"}])
def test_patches_put_together_are_the_image_alone(
    load: Callable[..., ImageLoader], engine: str, form: dict[str, str]
) -> None:
    changes = [ColorJitter(0.5), RandomHorizontalFlip()]
    loader = load(engine=engine, **{**OPTIONS, "transforms": changes}, **form)
    sizes = np.stack([loader.dataset.column(name) for name in ("height", "width")], axis=1)
    batch, alone = next(iter(loader)), {}
    assert batch.patches.shape == (2, *loader.element_spec()[0].shape)
    assert not batch.patches[batch.segment_ids == 0].any()
    for row in range(2):
        for segment, position in enumerate(batch.row[row][batch.row[row] >= 0].tolist()):
            inside = batch.segment_ids[row] == segment + 1
            height, width = (patch_grids(sizes[[position]], 20)[0] * SIZE).tolist()
            transforms = [Resize((height, width)), *changes]
            if (height, width) not in alone:
                options = {"batch_size": 61, "columns": ("image",), "layout": "NHWC", **form}
                alone[height, width] = next(iter(load(engine=engine, transforms=transforms, **options))).image
            image = alone[height, width][position]
            whole = np.zeros_like(image)
            coordinates = batch.patch_positions[row][inside]
            for patch, (y, x) in zip(batch.patches[row][inside], coordinates, strict=True):
                tile = patch.reshape(SIZE, SIZE, -1)
                whole[y * SIZE : (y + 1) * SIZE, x * SIZE : (x + 1) * SIZE] = tile
            assert inside.sum() == height * width // SIZE**2
            assert np.array_equal(whole, image)


def test_segments_have_their_labels_and_bounds(load: Callable[..., ImageLoader]) -> None:
    loader = load(**OPTIONS)
    for batch in loader:
        starts = np.flatnonzero(np.diff(batch.segment_ids.reshape(-1), prepend=-1))
        assert np.array_equal(np.unique(batch.cu_seqlens), [*starts, batch.segment_ids.size])
        assert len(batch.cu_seqlens) == len(batch.row) * (batch.row.shape[1] + 1) + 1
        assert np.array_equal(batch.segment_ids.max(axis=1), (batch.row >= 0).sum(axis=1))
        real = batch.row >= 0
        assert np.array_equal(batch.label[real], loader.dataset.values("label", batch.row[real]))
        assert (batch.label[~real] == -1).all()


def test_a_bad_image_is_left_out_of_its_row(pack_images: Callable[..., Path]) -> None:
    good = [jpeg(20 + i, 24) for i in range(4)]
    folder = pack_images([good[0], good[1], good[2][: len(good[2]) // 3], good[3]])
    options = {**OPTIONS, "columns": ("segment_ids", "row", "mask"), "batch_size": 1, "last_batch": "pad"}
    with (
        pytest.warns(UserWarning, match="'k2'"),
        ImageLoader(folder, **image_arguments(on_error="skip", max_bad=2, **options)) as loader,
    ):
        rows = [row for batch in loader for row in samples(batch)]
    assert sorted(rows) == [0, 1, 3]


@pytest.mark.parametrize("most", [1, 2, 7, 64, 256])
def test_a_grid_has_the_largest_scale_that_fits(most: int) -> None:
    rng = np.random.default_rng(most)
    sizes = np.concatenate([rng.integers(1, 90, (60, 2)), [[1, 4000], [4000, 1], [64, 64]]])
    for (height, width), grid in zip(sizes.tolist(), patch_grids(sizes, most).tolist(), strict=True):
        scales = {Fraction(k, side) for side in (height, width) for k in range(1, most + 1)}
        grids = {s: (-(-height * s // 1), -(-width * s // 1)) for s in scales}
        fitting = [s for s, (a, b) in grids.items() if a * b <= most]
        assert tuple(grid) == (grids[max(fitting)] if fitting else (1, 1))


N = 47
CAPTIONED = Patches(size=4, most=12, row=64)
TOKENS = Tokens(12, form="packed", row=18)
CAPTION_COLUMNS = (
    *("patches", "segment_ids", "caption", "caption_segment_ids", "caption_position_ids"),
    *("caption_cu_seqlens", "caption_labels", "caption_mask", "row", "mask"),
)


@pytest.fixture(scope="module")
def captioned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of different shapes with one to three captions of 0 to 14 bytes."""
    root: Path = tmp_path_factory.mktemp("packed")
    rng = np.random.default_rng(3)
    with stoker.Writer(
        root / "d", captions=stoker.Captions(caption_column="texts", tokenizer="bytes")
    ) as writer:
        for n in range(N):
            pixels = rng.integers(0, 255, (*rng.integers(9, 60, 2), 3)).astype(np.uint8)
            texts = [chr(97 + n % 26) * int(rng.integers(1, 15)) + str(k) for k in range(1 + n % 3)]
            writer.write(pixels, texts=texts, text=texts[0], label=n % 2)
    return root / "d"


def make(captioned: Any, **options: Any) -> ImageLoader:
    usual = {
        "sizes": CAPTIONED,
        "caption": TOKENS,
        "batch_size": 2,
        "shuffle": True,
        "columns": CAPTION_COLUMNS,
    }
    return ImageLoader(
        captioned, **image_arguments(**{"last_batch": "pad", "transforms": (), "seed": 5, **usual, **options})
    )


def samples(batch: Any) -> list[int]:
    """The samples of a batch in packed rows that are no repeats."""
    return [sample for sample in batch.row[batch.mask].reshape(-1).tolist() if sample >= 0]


def packed(loader: ImageLoader) -> Iterator[tuple[SimpleNamespace, list[int]]]:
    """Each packed row of an epoch: its values of the columns, and its samples in order."""
    for batch in loader:
        columns = {name: getattr(batch, name) for name in batch._fields if not name.endswith("cu_seqlens")}
        for number, row in enumerate(batch.row):
            values = {name: column[number] for name, column in columns.items()}
            yield SimpleNamespace(**values), row[row >= 0].tolist()


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_the_images_of_a_row_are_those_of_rows_without_captions(captioned: Path, engine: str) -> None:
    def patches(**options: Any) -> dict[int, Any]:
        return {
            sample: row.patches[row.segment_ids == segment]
            for row, shown in packed(make(captioned, engine=engine, **options))
            for segment, sample in enumerate(shown, 1)
        }

    alone = patches(caption=None, columns=("patches", "segment_ids", "row"))
    beside_captions = patches()
    assert beside_captions.keys() == alone.keys() == set(range(N))
    assert all(np.array_equal(beside_captions[sample], alone[sample]) for sample in alone)


@pytest.mark.parametrize("choose", ["random", "first"])
def test_a_row_holds_the_captions_of_its_images_in_their_order(captioned: Path, choose: Any) -> None:
    loader = make(captioned, caption=Tokens(12, form="packed", row=18, choose=choose))
    ragged = Tokens(12, form="ragged", choose=choose)
    options = {"sizes": None, "transforms": [Resize((4, 4))], "columns": ("row", "caption")}
    unpacked = make(captioned, caption=ragged, **options)
    for _ in range(4):
        captions = {
            int(sample): ids.tolist()
            for batch in unpacked
            for sample, ids in zip(batch.row, batch.caption, strict=True)
        }
        for row, shown in packed(loader):
            texts = [captions[sample] for sample in shown]
            padding = 18 - sum(map(len, texts))
            segments = [[segment] * len(ids) for segment, ids in enumerate(texts, 1)]
            assert row.caption.tolist() == [*chain(*texts), *[256] * padding]
            assert row.caption_segment_ids.tolist() == [*chain(*segments), *[0] * padding]
            assert row.caption_mask.tolist() == [True] * (18 - padding) + [False] * padding
            positions = [*chain(*(range(len(ids)) for ids in texts))]
            assert row.caption_position_ids[: 18 - padding].tolist() == positions
            labels = [*chain(*([-100, *ids[1:]] for ids in texts))]
            assert row.caption_labels[: 18 - padding].tolist() == labels


def test_cu_seqlens_hold_the_bounds_of_all_captions_and_batches_have_one_shape(captioned: Path) -> None:
    loader = make(captioned)
    shapes = set()
    spec = {column.name: column.shape for column in loader.element_spec()}
    assert (spec["caption"], spec["caption_cu_seqlens"]) == ((18,), ())
    for batch in chain(*(loader for _ in range(4))):
        shapes.add((batch.row.shape[1], len(batch.caption_cu_seqlens)))
        bounds = np.flatnonzero(np.diff(batch.caption_segment_ids, axis=1, prepend=-1))
        assert np.array_equal(np.unique(batch.caption_cu_seqlens), [*bounds, batch.caption.size])
    assert len(shapes) == 1


def test_a_batch_of_any_epoch_is_made_again(captioned: Path) -> None:
    options = {"rank": 1, "world_size": 2, "batch_size": 1, "columns": ("caption", "row", "mask")}
    loader = make(captioned, **options)
    list(loader)
    steps = len(loader)  # of the epoch that follows
    epoch = [(batch.caption.tolist(), batch.row.tolist()) for batch in loader]
    assert len(epoch) == steps
    for other in (make(captioned, **options), make_loader(json.loads(json.dumps(loader.describe())), 1, 2)):
        again = [other.batch(1, step) for step in range(len(epoch))]
        assert [(batch.caption.tolist(), batch.row.tolist()) for batch in again] == epoch


def test_a_selection_has_the_captions_that_its_samples_have_in_the_whole(captioned: Path) -> None:
    def drawn(source: Any) -> dict[str, list[int]]:
        loader = make(source, shuffle=False)
        return {
            key: row.caption[row.caption_segment_ids == segment].tolist()
            for row, shown in packed(loader)
            for segment, key in enumerate(loader.dataset.keys(shown), 1)
        }

    whole = drawn(captioned)
    chosen = drawn(stoker.open(captioned).select(np.arange(N)[::-3]))
    assert len(chosen) == len(range(0, N, 3))
    assert chosen.items() <= whole.items()


def test_exclude_is_refused_beside_packed_captions(captioned: Path) -> None:
    with (
        make(captioned) as loader,
        pytest.raises(ConfigError, match="captions are packed beside their patches"),
    ):
        loader.exclude(3)


def test_a_state_refuses_other_rows_of_tokens(captioned: Path) -> None:
    state = make(captioned).state_dict()
    for other, named in (
        ({"caption": Tokens(12, form="packed", row=31)}, "caption.row was 18 and is 31"),
        ({"draw_seed": 6}, "draw_seed"),
    ):
        with pytest.raises(CheckpointError, match=named):
            make(captioned, **other).load_state_dict(state)


def test_the_command_buckets_prints_the_fill_of_both_budgets(captioned: Path, tmp_path: Path) -> None:
    sizes, caption = "Patches(4, most=12, row=64)", 'Tokens(12, form="packed", row=18)'
    words = ["buckets", captioned, "--sizes", sizes, "--seed", 5, "--json", tmp_path / "f.json"]
    shown = run(*words, "--caption", caption, env={"COLUMNS": "200"})
    found = json.loads((tmp_path / "f.json").read_text())
    batches = list(make(captioned, batch_size=1))
    filled = [100 * np.mean([batch[k] > 0 for batch in batches]) for k in (1, 3)]
    assert [one["filled"] for one in found["fields"]] == pytest.approx(filled)
    assert found["rows"] == len(batches) >= found["least"]
    assert all(f"{share:.2f}" in shown for share in filled)
    with pytest.raises(ConfigError, match="packed rows of patches, found sizes None"):
        run(*words[:2], "--caption", caption)


def test_a_preview_shows_the_caption_under_each_image_of_a_row(captioned: Path, tmp_path: Path) -> None:
    caption = ["--caption", 'Tokens(12, form="packed", row=18, choose="first")']
    words = ["preview", captioned, "--out", tmp_path / "sheet.html", *caption]
    run(*words, "--sizes", "Patches(4, most=12, row=64)", "--draws", 1)
    first = Tokens(12, form="packed", row=18, choose="first")
    rows = make(captioned, seed=0, batch_size=1, caption=first).batch(0, 0).row[0]
    page = (tmp_path / "sheet.html").read_text()
    for text in stoker.open(captioned).strings("text", rows[rows >= 0]):
        assert f"<div>{text[:12]}</div>" in page
    with pytest.raises(ConfigError, match="shows packed captions"):
        run(*words)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"caption": Tokens(12)}, "go together, found form='padded' with Patches"),
        ({"sizes": None, "transforms": [Resize((8, 8))]}, "found form='packed' without Patches"),
        ({"columns": ("patches", "row")}, "columns names none"),
        ({"columns": ("caption_lengths",)}, "there is no 'caption_lengths' with sizes=Patches"),
        ({"engine": "dali", "device": "cpu"}, "dali"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    captioned: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        make(captioned, **options)


@pytest.mark.parametrize("form", ["packed", "padded"])
def test_a_caption_that_is_too_long_is_an_error_if_too_long_says_so(captioned: Path, form: Any) -> None:
    """The longest caption has 15 bytes."""
    options: dict[str, Any] = {"columns": ("row", "caption", "mask")}
    if form == "padded":
        options |= {"sizes": None, "transforms": [Resize((8, 8))]}
    row = 30 if form == "packed" else None
    allowed, long = (Tokens(most, form=form, row=row, too_long="error") for most in (15, 14))
    assert sum(len(batch.row[batch.row >= 0]) for batch in make(captioned, caption=allowed, **options)) >= N
    with pytest.raises(
        ConfigError, match=r"the caption of '\d+' has 15 tokens, more than Tokens\(max_length=14"
    ):
        for _ in zip(range(20), make(captioned, caption=long, **options), strict=False):
            pass
