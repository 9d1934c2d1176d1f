"""SpanCorruption, compared with the algorithm that T5 was trained with."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from helpers.loaders.batch_contexts import batch_context

from stoker.bucketing import Ragged, SpanCorruption
from stoker.errors import ConfigError

SENTINELS = range(32099, 31999, -1)
END = 1


def sequences(lengths: list[int]) -> Ragged:
    ids = np.concatenate([np.arange(100, 100 + length) for length in lengths]).astype(np.int32)
    return Ragged(ids, np.concatenate(([0], np.cumsum(lengths))))


def published_counts(length: int, density: float = 0.15, mean: float = 3.0) -> tuple[int, int]:
    """Hidden tokens and spans of T5's ``random_spans_noise_mask``."""
    hidden = min(max(int(np.round(length * density)), 1), length - 1)
    return hidden, max(int(np.round(hidden / mean)), 1)


def hidden_mask(tokens: list[int], inputs: list[int]) -> list[bool]:
    kept = set(inputs)
    return [token not in kept for token in tokens]


def published_arrays(tokens: list[int], hidden: list[bool]) -> tuple[list[int], list[int]]:
    """Inputs and targets of T5's functions ``(non)noise_span_to_unique_sentinel``."""

    def with_sentinels(mask: list[bool]) -> list[int]:
        made, spans = [], 0
        for index, token in enumerate(tokens):
            if not mask[index]:
                made.append(token)
            elif index == 0 or not mask[index - 1]:
                made.append(SENTINELS[spans])
                spans += 1
        return [*made, END]

    return with_sentinels(hidden), with_sentinels([not each for each in hidden])


def test_inputs_and_targets_are_those_of_the_published_algorithm() -> None:
    lengths = [*range(2, 60), 114, 512, 568]
    given = sequences(lengths)
    corruption = SpanCorruption(sentinels=SENTINELS, end_id=END)
    inputs, targets = corruption(given, batch_context(range(len(lengths))))
    for i, length in enumerate(lengths):
        tokens = given[i].tolist()
        hidden = hidden_mask(tokens, inputs[i].tolist())
        assert (inputs[i].tolist(), targets[i].tolist()) == published_arrays(tokens, hidden)
        spans = sum(now and not before for before, now in zip([False, *hidden], hidden, strict=False))
        assert (sum(hidden), spans) == published_counts(length)


def test_all_divisions_into_spans_are_equally_likely() -> None:
    """20 tokens have 6 hidden ones in 2 spans: 5 divisions of the hidden tokens, and 13 of the others."""
    count = 13_000
    inputs, _ = SpanCorruption(0.3, sentinels=SENTINELS)(sequences([20] * count), batch_context(range(count)))
    found = Counter(
        tuple(np.flatnonzero(hidden_mask(list(range(100, 120)), row)))
        for row in inputs.values.reshape(count, -1).tolist()
    )
    assert len(found) == 5 * 13
    expected = count / 65
    chi_squared = sum((number - expected) ** 2 / expected for number in found.values())
    assert chi_squared < 104, "the 99.9th percentile of 64 degrees of freedom"


def test_lengths_are_planned_without_reading_tokens() -> None:
    lengths = [1, 2, 3, 7, 40, 512]
    for corruption in (
        SpanCorruption(sentinels=SENTINELS, end_id=END),
        SpanCorruption(0.5, mean_length=1.0, sentinels=range(1000, 3000), special_tokens=(0, 1)),
    ):
        planned = corruption.planned_lengths(np.array(lengths)[:, None])
        made = corruption(sequences(lengths), batch_context(range(len(lengths))))
        assert [one.lengths.tolist() for one in made] == planned.T.tolist()


def test_special_tokens_around_a_sequence_stay() -> None:
    given = sequences([30])
    corruption = SpanCorruption(0.5, sentinels=SENTINELS, special_tokens=(1, 1))
    inputs, targets = corruption(given, batch_context([0]))
    assert (inputs.values[0], inputs.values[-1], targets.values[-1]) == (100, 129, 129)
    assert targets.values[0] == SENTINELS[0]


def test_each_epoch_draws_anew_and_a_batch_does_not_matter() -> None:
    given = sequences([40, 50, 60])
    corruption = SpanCorruption(sentinels=SENTINELS)
    whole, again = (corruption(given, batch_context(range(3), epoch)) for epoch in (0, 1))
    assert (whole[0].values != again[0].values).any()
    alone = corruption(Ragged(given[1], np.array([0, 50])), batch_context([1], step=5))
    assert (alone[0].values == whole[0][1]).all()
    assert (alone[1].values == whole[1][1]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [({"density": 1.0}, "density"), ({"mean_length": 0.5}, "mean_length"), ({"sentinels": ()}, "sentinels")],
)
def test_arguments_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SpanCorruption(**{"sentinels": SENTINELS, **options})


def test_too_few_sentinels_are_refused_before_training() -> None:
    with pytest.raises(ConfigError, match="sample 1 has 512 tokens and 26 hidden spans, more than the 3"):
        SpanCorruption(sentinels=(7, 8, 9)).planned_lengths(np.array([[20], [512]]))
