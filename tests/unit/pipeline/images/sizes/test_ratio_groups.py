"""Groups of aspect ratios: padded batches of images that are alike in shape."""

from __future__ import annotations

import bisect
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.command_line import run

from stoker import ImageLoader
from stoker.bucketing.aspect_shapes import ratio_groups
from stoker.errors import CheckpointError, ConfigError

OPTIONS: dict[str, Any] = {
    "transforms": (),
    "sizes": "padded",
    "columns": ("image", "row", "image_size"),
    "batch_size": 4,
    "shuffle": True,
}


@pytest.mark.parametrize("factor", [0, 1, 3])
def test_groups_are_those_of_torchvisions_references(factor: int) -> None:
    sizes = np.random.default_rng(0).integers(10, 40, (200, 2))
    bins = (2 ** np.linspace(-1, 1, 2 * factor + 1)).tolist() if factor > 0 else [1.0]
    expected = [bisect.bisect_right(bins, width / height) for height, width in sizes.tolist()]
    assert ratio_groups(sizes, factor).tolist() == expected


def test_batches_have_one_group_and_less_padding(load: Callable[..., ImageLoader]) -> None:
    def padding(batches: Iterable[Any]) -> float:
        shown = sum(int(batch.image_size.prod(axis=1).sum()) for batch in batches)
        return 1 - shown / sum(batch.image[:, 0].size for batch in batches)

    grouped, ungrouped = list(load(**OPTIONS, aspect_ratio_group_factor=1)), list(load(**OPTIONS))
    assert padding(grouped) < padding(ungrouped)
    mixed = [len(np.unique(ratio_groups(batch.image_size, 1))) > 1 for batch in grouped]
    assert sum(mixed) <= 3  # batches into which images that were left over have moved from the next group


def test_a_state_refuses_other_groups_and_another_padding(load: Callable[..., ImageLoader]) -> None:
    state = load(**OPTIONS, aspect_ratio_group_factor=1).state_dict()
    for other in (
        {},
        {"aspect_ratio_group_factor": 0},
        {"aspect_ratio_group_factor": 1, "pad_to_multiple_of": 8},
    ):
        with pytest.raises(CheckpointError):
            load(**OPTIONS, **other).load_state_dict(state)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sizes": None}, "aspect_ratio_group_factor=1 goes with sizes='padded' or 'ragged'"),
        ({"steps_per_epoch": 2}, "Groups of aspect ratios plan epochs of all samples"),
        ({"aspect_ratio_group_factor": -1}, "aspect_ratio_group_factor must be"),
    ],
)
def test_arguments_that_do_not_go_with_groups_are_refused(
    load: Callable[..., ImageLoader], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load(**{**OPTIONS, "aspect_ratio_group_factor": 1, "columns": ("image",), **options})


def test_the_command_shows_what_groups_save_and_cost(thumbnails: Path, tmp_path: Path) -> None:
    arguments = ["buckets", thumbnails, "--padded", "--batch-size", 4, "--json", tmp_path / "r.json"]
    assert "aspect_ratio_group_factor" in run(*arguments)
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["None"]["groups"] == 1 < report["3"]["groups"]
    assert report["3"]["padding"] < report["None"]["padding"]
    assert report["3"]["effective_partners"] < report["None"]["effective_partners"]
    with pytest.raises(ConfigError, match="--png draws shapes of buckets"):
        run(*arguments, "--png", tmp_path / "r.png")
