"""Reading of whole blocks: the requests before each batch of a BlockShuffle."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest
from helpers.loaders import image_arguments

import stoker
from stoker.augment import Resize
from stoker.formats.dataset.index import Samples
from stoker.pipeline.engines.reference import ReferenceEngine


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Rows of each request for bytes; the reads themselves can be seen only at the disk."""
    requests: list[list[int]] = []

    def record(engine: ReferenceEngine, samples: Samples, columns: object = ()) -> None:
        requests.append(samples.row.tolist())

    monkeypatch.setattr(ReferenceEngine, "read_ahead", record)
    return requests


@pytest.mark.parametrize("position", [0, 20])
@pytest.mark.parametrize("ranks", [1, 2])
def test_the_blocks_of_a_window_are_asked_for_in_the_order_of_the_files_before_its_batches(
    load: Callable[..., stoker.ImageLoader], asked: list[list[int]], ranks: int, position: int
) -> None:
    options = {"batch_size": 4 // ranks, "rank": ranks - 1, "world_size": ranks, "last_batch": "pad"}
    loader = load(shuffle=stoker.BlockShuffle(block=4, window=4), engine="reference", **options)
    loader.load_state_dict({**loader.state_dict(), "position": position})
    batches = [batch.row.tolist() for batch in loader]
    loader.close()
    whole = len(asked[0])
    assert whole == (16 - position % 16) // ranks
    assert sorted(chain(*batches[: whole * ranks // 4])) == asked[0], "the first window"
    missing, seen = list(batches), set()
    for rows in asked:  # those of the next epoch come last
        if missing and rows == missing[0]:
            assert seen.issuperset(missing.pop(0)), "its window was asked for before"
        elif missing:
            assert rows == sorted(rows), "a part of a window"
            seen.update(rows)
    assert not missing


def test_other_orders_ask_for_the_bytes_of_batches_alone(
    load: Callable[..., stoker.ImageLoader], asked: list[list[int]]
) -> None:
    loader = load(shuffle=True, batch_size=16, engine="reference")
    batches = [batch.row.tolist() for batch in loader]
    loader.close()
    assert asked[: len(batches)] == batches


def test_a_mixture_reads_the_blocks_of_its_datasets(thumbnails: Path, asked: list[list[int]]) -> None:
    mixture = stoker.mix([(thumbnails, 0.5), (thumbnails, 0.5)])
    shuffle = stoker.BlockShuffle(block=4, window=4)
    transforms = [Resize((8, 8))]
    options = {"batch_size": 8, "shuffle": shuffle, "transforms": transforms, "engine": "reference"}
    with stoker.ImageLoader(mixture, **image_arguments(**options)) as loader:
        next(iter(loader))
    assert len(asked[0]) == 32
    assert asked[0] == sorted(asked[0])
