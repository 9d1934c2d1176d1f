"""Packed rows of patches with the captions of their images, under two budgets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.command_line import run

import stoker
from stoker import ImageLoader, Patches, Tokens
from stoker.augment import Resize
from stoker.errors import CheckpointError, ConfigError
from stoker.pipeline.replay.making import make_loader

N = 47
PATCHES = Patches(size=4, most=12, row=64)
TOKENS = Tokens(12, form="packed", row=18)
ALL = (
    *("patches", "segment_ids", "caption", "caption_segment_ids", "caption_position_ids"),
    *("caption_cu_seqlens", "caption_labels", "caption_mask", "row", "mask"),
)


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of different shapes with one to three captions of 0 to 14 bytes."""
    root: Path = tmp_path_factory.mktemp("packed")
    rng = np.random.default_rng(3)
    with stoker.Writer(root / "d", caption_column="texts", tokenizer="bytes") as writer:
        for n in range(N):
            pixels = rng.integers(0, 255, (*rng.integers(9, 60, 2), 3)).astype(np.uint8)
            texts = [chr(97 + n % 26) * int(rng.integers(1, 15)) + str(k) for k in range(1 + n % 3)]
            writer.write(pixels, texts=texts, text=texts[0], label=n % 2)
    return root / "d"


def make(shards: Any, **options: Any) -> ImageLoader:
    usual = {"sizes": PATCHES, "caption": TOKENS, "batch_size": 2, "shuffle": True, "columns": ALL}
    return ImageLoader(shards, **{"last_batch": "pad", "transforms": (), "seed": 5, **usual, **options})


def real(batch: Any) -> list[int]:
    """The samples of a batch in rows that are no repeats."""
    return [row for row in batch.row[batch.mask].reshape(-1).tolist() if row >= 0]


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("choose", ["random", "first"])
def test_a_row_holds_its_images_and_their_captions_in_one_order(
    shards: Path, engine: str, choose: Any
) -> None:
    loader = make(shards, engine=engine, caption=Tokens(12, form="packed", row=18, choose=choose))
    alone = {
        row: batch.patches[place][batch.segment_ids[place] == segment + 1]
        for batch in make(shards, engine=engine, caption=None, columns=("patches", "segment_ids", "row"))
        for place, rows in enumerate(batch.row)
        for segment, row in enumerate(rows[rows >= 0].tolist())
    }
    ragged = Tokens(12, form="ragged", choose=choose)
    options = {
        "sizes": None,
        "transforms": [Resize((4, 4))],
        "columns": ("row", "caption"),
        "caption": ragged,
    }
    captions = make(shards, engine=engine, **options)
    shapes = set()
    for _ in range(4):
        drawn = {
            int(row): ids for batch in captions for row, ids in zip(batch.row, batch.caption, strict=True)
        }
        for batch in loader:
            shapes.add((batch.row.shape[1], len(batch.caption_cu_seqlens) / len(batch.row)))
            bounds = set(batch.caption_cu_seqlens.tolist())
            for place, rows in enumerate(batch.row):
                begin = 0
                for segment, row in enumerate(rows[rows >= 0].tolist()):
                    assert np.array_equal(
                        batch.patches[place][batch.segment_ids[place] == segment + 1], alone[row]
                    )
                    own = slice(begin, begin := begin + len(drawn[row]))
                    assert batch.caption[place][own].tolist() == drawn[row].tolist()
                    assert (batch.caption_segment_ids[place][own] == segment + 1).all()
                    assert batch.caption_position_ids[place][own].tolist() == list(range(len(drawn[row])))
                    assert batch.caption_labels[place][own].tolist() == [-100, *drawn[row][1:].tolist()]
                    assert {place * 18 + own.start, place * 18 + own.stop} <= bounds
                assert not batch.caption_segment_ids[place][begin:].any()
                assert (batch.caption[place][begin:] == 256).all()
                assert batch.caption_mask[place].tolist() == [True] * begin + [False] * (18 - begin)
    assert len({m for m, _ in shapes}) == 1


@pytest.mark.parametrize(
    ("last_batch", "stop", "ranks"), [("partial", 3, 3), ("drop", 2, 1), ("pad", 0, 2), ("pad", 4, 3)]
)
def test_any_ranks_and_any_stop_hand_out_every_sample_once(
    shards: Path, last_batch: str, stop: int, ranks: int
) -> None:
    options = {"last_batch": last_batch, "batch_size": 1, "columns": ("caption", "row", "mask")}
    loaders = [make(shards, rank=rank, world_size=2, **options) for rank in range(2)]
    for loader in loaders:
        loader.set_epoch(3)
    seen, state = [], loaders[0].state_dict()
    for step, (one, other) in enumerate(zip(*loaders, strict=True)):
        if step < stop:
            seen += real(one) + real(other)
            state = loaders[0].state_dict()
    rests = [make(shards, rank=rank, world_size=ranks, **options) for rank in range(ranks)]
    for rest in rests:
        rest.load_state_dict(json.loads(json.dumps(state)))
    steps = [list(rest) for rest in rests]
    assert len({len(one) for one in steps}) == 1
    seen += [row for one in steps for batch in one for row in real(batch)]
    assert len(set(seen)) == len(seen)
    assert len(seen) == N or (last_batch == "drop" and len(seen) > N // 2)


def test_a_batch_of_any_epoch_is_made_again(shards: Path) -> None:
    options: dict[str, Any] = {
        "rank": 1,
        "world_size": 2,
        "batch_size": 1,
        "columns": ("caption", "row", "mask"),
    }
    loader = make(shards, **options)
    list(loader)
    steps = len(loader)  # of the epoch that follows
    epoch = [(batch.caption.tolist(), batch.row.tolist()) for batch in loader]
    assert len(epoch) == steps
    for other in (make(shards, **options), make_loader(json.loads(json.dumps(loader.describe())), 1, 2)):
        again = [other.batch(1, step) for step in range(len(epoch))]
        assert [(batch.caption.tolist(), batch.row.tolist()) for batch in again] == epoch


def test_a_selection_has_the_captions_that_its_samples_have_in_the_whole(shards: Path) -> None:
    def drawn(source: Any) -> dict[str, list[int]]:
        loader = make(source, shuffle=False)
        return {
            key: batch.caption[place][batch.caption_segment_ids[place] == segment + 1].tolist()
            for batch in loader
            for place, rows in enumerate(batch.row)
            for segment, key in enumerate(loader.dataset.keys(rows[rows >= 0]))
        }

    whole = drawn(shards)
    chosen = drawn(stoker.open(shards).select(np.arange(N)[::-3]))
    assert len(chosen) == len(range(0, N, 3))
    assert chosen.items() <= whole.items()


def test_samples_cannot_be_left_out_in_mid_run(shards: Path) -> None:
    with make(shards) as loader, pytest.raises(ConfigError, match="captions are packed beside their patches"):
        loader.exclude(3)


def test_a_state_refuses_other_rows_of_tokens(shards: Path) -> None:
    state = make(shards).state_dict()
    for other, named in (
        ({"caption": Tokens(12, form="packed", row=31)}, "caption.row was 18 and is 31"),
        ({"draw_seed": 6}, "draw_seed"),
    ):
        with pytest.raises(CheckpointError, match=named):
            make(shards, **other).load_state_dict(state)


def test_the_command_buckets_prints_the_fill_of_both_budgets(shards: Path, tmp_path: Path) -> None:
    sizes, caption = "Patches(4, most=12, row=64)", 'Tokens(12, form="packed", row=18)'
    words = ["buckets", shards, "--sizes", sizes, "--seed", 5, "--json", tmp_path / "f.json"]
    shown = run(*words, "--caption", caption, env={"COLUMNS": "200"})
    found = json.loads((tmp_path / "f.json").read_text())
    batches = list(make(shards, batch_size=1))
    filled = [100 * np.mean([batch[k] > 0 for batch in batches]) for k in (1, 3)]
    assert [one["filled"] for one in found["fields"]] == pytest.approx(filled)
    assert found["rows"] == len(batches) >= found["least"]
    assert all(f"{share:.2f}" in shown for share in filled)
    with pytest.raises(ConfigError, match="packed rows of patches, found sizes None"):
        run(*words[:2], "--caption", caption)


def test_a_preview_shows_the_caption_under_each_image_of_a_row(shards: Path, tmp_path: Path) -> None:
    caption = ["--caption", 'Tokens(12, form="packed", row=18, choose="first")']
    words = ["preview", shards, "--out", tmp_path / "sheet.html", *caption]
    run(*words, "--sizes", "Patches(4, most=12, row=64)", "--draws", 1)
    first = Tokens(12, form="packed", row=18, choose="first")
    rows = make(shards, seed=0, batch_size=1, caption=first).batch(0, 0).row[0]
    page = (tmp_path / "sheet.html").read_text()
    for text in stoker.open(shards).strings("text", rows[rows >= 0]):
        assert f"<div>{text[:12]}</div>" in page
    with pytest.raises(ConfigError, match="captions of packed patches"):
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
def test_arguments_that_do_not_fit_are_refused(shards: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(shards, **options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"form": "packed"}, "form='packed' and row go together"),
        ({"row": 99}, "form='packed' and row go together"),
        ({"form": "packed", "row": 11}, "a row of 11 tokens holds no caption of max_length=12"),
        ({"form": "packed", "row": 24, "tokenizer": "bytes"}, "planned by numbers of tokens"),
        ({"too_long": "split"}, "too_long must be one of"),
    ],
)
def test_a_row_of_tokens_that_cannot_be_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Tokens(12, **arguments)


@pytest.mark.parametrize("form", ["packed", "padded"])
def test_a_caption_that_shall_not_be_cut_is_an_error(shards: Path, form: Any) -> None:
    """The longest caption has 15 bytes."""
    options: dict[str, Any] = {"columns": ("row", "caption", "mask")}
    if form == "padded":
        options |= {"sizes": None, "transforms": [Resize((8, 8))]}
    row = 30 if form == "packed" else None
    allowed, long = (Tokens(most, form=form, row=row, too_long="error") for most in (15, 14))
    assert sum(len(batch.row[batch.row >= 0]) for batch in make(shards, caption=allowed, **options)) >= N
    with pytest.raises(
        ConfigError, match=r"the caption of '\d+' has 15 tokens, more than Tokens\(max_length=14"
    ):
        for _ in zip(range(20), make(shards, caption=long, **options), strict=False):
            pass
