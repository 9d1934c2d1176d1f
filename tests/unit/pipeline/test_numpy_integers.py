"""Tests that integers of NumPy mean the same as those of Python, also in states, which are JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.loaders import image_arguments, text_arguments

import stoker
from stoker.augment import CenterCrop, RandomGrayscale
from stoker.bucketing import FixedBucketSampler, SortedBucketSampler, TokenBudgetSampler
from stoker.bucketing.streaming import StreamingBuckets, StreamingPacker
from stoker.errors import ConfigError


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    (folder / "t.txt").write_text("\n".join("ab" * (1 + i % 9) for i in range(60)))
    stoker.convert_text(folder / "t.txt", folder / "d", tokenizer="bytes")
    return folder / "d"


def of_numpy(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same options with integers of NumPy."""
    return {name: np.int64(value) if type(value) is int else value for name, value in options.items()}


def check_states(make: Callable[..., Any], options: Mapping[str, Any], **more: Any) -> None:
    """Check that the states of a loader are the same JSON with both types of integers."""
    states = []
    for typed in (options, of_numpy(options)):
        with make(**typed, **more) as loader:
            loader.set_epoch(typed["seed"])
            next(iter(loader))
            states.append(json.dumps(loader.state_dict()))
            loader.load_state_dict(json.loads(states[0]))
    assert states[0] == states[1]


NUMBERS = {"seed": 3, "rank": 1, "world_size": 2, "prefetch": 2}
OF_TEXT: dict[str, dict[str, Any]] = {
    "buckets": {"batch_size": 4, "buckets": 3, "pad_to_multiple_of": 2, "max_length": 18},
    "budget": {"max_tokens": 64, "samples_per_epoch": 50},
    "packed": {"batch_size": 2, "pack": 32, "max_sequences": 4},
    "boundaries": {"batch_size": 4, "buckets": (8, 18)},
}


@pytest.mark.parametrize("case", OF_TEXT)
def test_a_text_loader_has_the_same_state_with_numpy_integers(text: Path, case: str) -> None:
    def make(**typed: Any) -> stoker.TextLoader:
        return stoker.TextLoader(text, **text_arguments(shuffle=True, **typed))

    check_states(make, {**NUMBERS, **OF_TEXT[case]})


def mixed(folder: Path, number: Callable[[int], Any]) -> Any:
    return stoker.mix([(folder, number(1)), (folder, number(2))], samples=number(30))


OF_IMAGES: dict[str, Callable[[Path, Callable[[int], Any]], dict[str, Any]]] = {
    "none": lambda _, number: {"steps_per_epoch": number(3), "batch_size": number(2)},
    "weighted": lambda _, number: {"sampler": stoker.Weighted("width", samples=number(9))},
    "distinct": lambda _, n: {"sampler": stoker.Weighted("width", replacement=False, samples=n(9))},
    "balanced": lambda _, number: {"sampler": stoker.ClassBalanced(samples=number(9))},
    "repeated": lambda _, number: {"sampler": stoker.Repeated(number(2), samples=number(9))},
    "mixture": lambda folder, number: {
        "dataset": mixed(folder, number),
        "shuffle": stoker.BlockShuffle(block=number(4), window=number(2)),
    },
}


@pytest.mark.parametrize("case", OF_IMAGES)
def test_an_image_loader_has_the_same_state_with_numpy_integers(thumbnails: Path, case: str) -> None:
    options = {"batch_size": 2, "num_threads": 1, "read_ahead": 2, "max_pixels": 1 << 20, **NUMBERS}
    transforms = [CenterCrop(8), RandomGrayscale(np.float32(0.5))]  # type: ignore[arg-type]  # as computed

    def make(**typed: Any) -> stoker.ImageLoader:
        given = {"dataset": thumbnails, **typed, **OF_IMAGES[case](thumbnails, type(typed["seed"]))}
        return stoker.ImageLoader(**image_arguments(transforms=transforms, last_batch="pad", **given))

    check_states(make, options)


LENGTHS = np.arange(1, 41)
BATCH_SAMPLERS: dict[str, Callable[[Callable[[int], Any]], Any]] = {
    "fixed": lambda n: FixedBucketSampler(
        LENGTHS, [20, 40], n(4), pad_to_multiple_of=n(2), pad_to="batch", seed=n(3)
    ),
    "sorted": lambda n: SortedBucketSampler(LENGTHS, n(4), window=n(3), seed=n(3), world_size=n(2)),
    "budget": lambda n: TokenBudgetSampler(LENGTHS, n(99), max_batch_size=n(8), batch_multiple=n(2)),
}


@pytest.mark.parametrize("kind", BATCH_SAMPLERS)
def test_batch_samplers_have_the_same_state_with_numpy_integers(kind: str) -> None:
    plain, numpy = BATCH_SAMPLERS[kind](int), BATCH_SAMPLERS[kind](np.int64)
    states = [
        json.dumps(sampler.state(sampler.plan(number(5)), number(2)))
        for sampler, number in ((plain, int), (numpy, np.int64))
    ]
    assert states[0] == states[1]
    np.testing.assert_array_equal(plain.plan(5).rows, numpy.plan(np.int64(5)).rows)


def test_streams_have_the_same_state_with_numpy_integers() -> None:
    for number in (int, np.int64):
        packer = StreamingPacker(number(32), buffer_size=number(8), max_sequences=number(3))
        bucketer = StreamingBuckets([8, 16], number(2), buffer_size=number(8), world_size=number(2))
        for row in range(3):
            packer.push(number(row), number(5))
            bucketer.push(number(row), number(5))
        packed, bucketed = (json.loads(json.dumps(stream.state_dict())) for stream in (packer, bucketer))
        assert (packed["capacity"], packed["buffer"][2]) == (32, [2, 0, 5])
        assert (bucketed["batch_sizes"], bucketed["held"]) == ([2, 2], [[0, 1, 2], []])


@pytest.mark.parametrize("name", ["batch_size", "max_length", "pad_to_multiple_of", "seed", "prefetch"])
def test_an_error_names_the_option_that_is_no_integer(text: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} must be an integer, found 2.5"):
        stoker.TextLoader(text, **text_arguments(**{"batch_size": 2, name: 2.5}))


@pytest.mark.parametrize("name", ["seed", "prefetch", "read_ahead", "max_pixels"])
def test_an_error_names_the_option_that_is_none(thumbnails: Path, name: str) -> None:
    options = {"batch_size": 2, "transforms": [CenterCrop(8)], name: None}
    with pytest.raises(ConfigError, match=f"{name} must be an integer, found None"):
        stoker.ImageLoader(thumbnails, **image_arguments(**options))
