"""Captions beside images, stopped anywhere and resumed on any number of ranks with any batch size."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.loaders import image_arguments
from hypothesis import given, settings
from hypothesis import strategies as st

import stoker
from stoker import ImageLoader, Patches, Tokens
from stoker.augment import RandomHorizontalFlip, Resize

N = 41
FORMS: dict[str, dict[str, Any]] = {
    **{form: {"caption": Tokens(6, form=form)} for form in ("padded", "longest", "ragged")},
    "packed": {
        "caption": Tokens(6, form="packed", row=15),
        "sizes": Patches(4, most=4, row=10),
        "columns": ("patches", "segment_ids", "caption", "caption_segment_ids", "row", "mask"),
        "transforms": (),
    },
}


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of one colour each, with one to three captions of different lengths."""
    root: Path = tmp_path_factory.mktemp("captions")
    with stoker.Writer(
        root / "d", captions=stoker.Captions(caption_column="texts", tokenizer="bytes")
    ) as writer:
        for n in range(N):
            texts = [chr(48 + n) * (1 + (n + k) % 7) + "abc"[k] for k in range(1 + n % 3)]
            writer.write(np.full((8, 4 + 4 * (n % 2), 3), 3 * n, np.uint8), texts=texts)
    return root / "d"


def make(shards: Path, form: str, rank: int, world_size: int, batch_size: int, epoch: int) -> ImageLoader:
    options: dict[str, Any] = {
        "columns": ("image", "caption", "row", "mask"),
        "transforms": [Resize((8, 8)), RandomHorizontalFlip()],
        "num_threads": 1,
        "last_batch": "pad",
        **FORMS[form],
    }
    options |= {"rank": rank, "world_size": world_size, "batch_size": batch_size}
    loader = ImageLoader(shards, **image_arguments(shuffle=True, seed=5, **options))
    loader.set_epoch(epoch)
    return loader


def received(loaders: list[ImageLoader], steps: int | None) -> list[tuple[int, int, bytes]]:
    """Row, colour and caption of each sample in the first steps, without those that pad a batch."""
    samples = []
    for loader in loaders:
        for batch in itertools.islice(loader, steps):
            if "patches" in batch._fields:
                for i, k in zip(*np.nonzero((batch.row >= 0) & batch.mask[:, None]), strict=True):
                    pixels = batch.patches[i][batch.segment_ids[i] == k + 1]
                    caption = batch.caption[i][batch.caption_segment_ids[i] == k + 1]
                    samples.append((int(batch.row[i, k]), int(pixels.max()), bytes(caption.tolist())))
                continue
            for i in np.flatnonzero(batch.mask).tolist():
                caption = bytes(token for token in np.asarray(batch.caption[i]).tolist() if token < 256)
                samples.append((int(batch.row[i]), int(np.max(batch.image[i])), caption))
    return samples


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=settings.default.max_examples // 16)
@given(
    ranks=st.permutations([1, 2, 3]),
    sizes=st.permutations([2, 3, 4]),
    stop=st.integers(1, 99),
    epoch=st.integers(0, 3),
)
def test_every_caption_is_the_same_after_any_stop_on_any_number_of_ranks(
    shards: Path, form: str, ranks: list[int], sizes: list[int], stop: int, epoch: int
) -> None:
    if form == "packed":
        sizes = [2, 2, 2]  # a plan of rows keeps its batch size
    whole = Counter(received([make(shards, form, 0, 1, 2, epoch)], None))
    assert sorted(row for row, _, _ in whole) == list(range(N))
    first, second = (
        [make(shards, form, rank, world_size, size, epoch) for rank in range(world_size)]
        for world_size, size in zip(ranks[:2], sizes, strict=False)
    )
    before = received(first, stop % len(first[0]))
    for loader in second:
        loader.load_state_dict(first[0].state_dict())
    assert Counter(before + received(second, None)) == whole
    for loader in (*first, *second):
        loader.close()
