"""MaskTokens: the rule of BERT, whole words, and the arguments that it refuses."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from helpers.loaders import batch_context

from stoker.bucketing import MaskTokens, Pad, Ragged, SpanCorruption
from stoker.errors import ConfigError

CLS, SEP, MASK, VOCABULARY = 101, 102, 103, 30522


def sequences(count: int = 400, length: int = 128) -> Ragged:
    """Sequences of tokens from 1000 between [CLS] and [SEP]."""
    ids = np.random.default_rng(0).integers(1000, VOCABULARY, (count, length)).astype(np.int32)
    ids[:, 0], ids[:, -1] = CLS, SEP
    return Ragged(ids.reshape(-1), np.arange(count + 1) * length)


def masked(given: Ragged, epoch: int = 0, **options: Any) -> Ragged:
    mask = MaskTokens(0.15, mask_id=MASK, vocabulary=VOCABULARY, special_ids=(CLS, SEP), **options)
    return mask(given, batch_context(range(len(given)), epoch))


def test_the_shares_are_those_of_bert() -> None:
    given = sequences()
    made = masked(given)
    assert made.trained is not None
    inner = given.values >= 1000
    assert not made.trained[~inner].any()
    assert made.trained[inner].mean() == pytest.approx(0.15, abs=0.005)
    before, after = given.values[made.trained], made.values[made.trained]
    assert (after == MASK).mean() == pytest.approx(0.8, abs=0.02)
    others = after[after != MASK]
    kept = others == before[after != MASK]
    assert kept.mean() == pytest.approx(0.5, abs=0.05)
    spread = np.histogram(others[~kept], 4, (0, VOCABULARY))[0] / (~kept).sum()
    assert spread == pytest.approx([0.25] * 4, abs=0.06)
    assert (made.values == given.values)[~made.trained].all()


def test_labels_are_the_hidden_tokens_and_nothing_else() -> None:
    given = sequences(6, 40)
    made = masked(given)
    assert made.trained is not None
    arrays = Pad(outputs=("input_ids", "labels", "loss_weights"))(made, 48)
    chosen = np.pad(made.trained.reshape(6, 40), ((0, 0), (0, 8)))
    assert (arrays["labels"][chosen] == given.values[made.trained]).all()
    assert (arrays["labels"][~chosen] == -100).all()
    assert (arrays["loss_weights"] == chosen).all()
    first = MaskTokens(0.999, mask_id=MASK, vocabulary=VOCABULARY)(given, batch_context(range(6)))
    assert (Pad(outputs=("labels",))(first)["labels"][:, 0] == CLS).all(), "a first token has a label, too"


def test_the_mask_of_a_sequence_depends_on_the_epoch_and_not_on_the_batch() -> None:
    given = sequences(5, 64)
    whole = masked(given)
    mask = MaskTokens(0.15, mask_id=MASK, vocabulary=VOCABULARY, special_ids=(CLS, SEP))
    alone = mask(Ragged(given[3], np.array([0, 64])), batch_context([3], step=9))
    assert (alone.values == whole[3]).all()
    assert (masked(given, epoch=1).values != whole.values).any()


def test_whole_words_are_chosen_together() -> None:
    given = sequences()
    continuations = np.zeros(VOCABULARY, np.bool_)
    continuations[15_000:] = True
    made = masked(given, whole_words=True, continuations=continuations)
    assert made.trained is not None
    starts = ~continuations[given.values] | np.isin(given.values, (CLS, SEP))
    starts[1:] |= np.isin(given.values[:-1], (CLS, SEP))
    word = np.cumsum(starts)
    share = np.bincount(word, made.trained) / np.maximum(np.bincount(word), 1)
    assert set(share.tolist()) == {0.0, 1.0}
    assert made.trained.mean() == pytest.approx(0.15, abs=0.01)
    assert (made.values[made.trained] == MASK).mean() == pytest.approx(0.8, abs=0.02)


def test_only_trained_tokens_are_chosen() -> None:
    given = sequences(4, 64)
    trained = np.arange(256) % 2 == 0
    made = masked(Ragged(given.values, given.offsets, trained))
    assert made.trained is not None
    assert made.trained.any()
    assert not made.trained[~trained].any()


SENTINELS = range(32099, 31999, -1)
END = 1


def ragged(lengths: list[int]) -> Ragged:
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
    given = ragged(lengths)
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
    inputs, _ = SpanCorruption(0.3, sentinels=SENTINELS)(ragged([20] * count), batch_context(range(count)))
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
        made = corruption(ragged(lengths), batch_context(range(len(lengths))))
        assert [one.lengths.tolist() for one in made] == planned.T.tolist()


def test_special_tokens_around_a_sequence_stay() -> None:
    given = ragged([30])
    corruption = SpanCorruption(0.5, sentinels=SENTINELS, special_tokens=(1, 1))
    inputs, targets = corruption(given, batch_context([0]))
    assert (inputs.values[0], inputs.values[-1], targets.values[-1]) == (100, 129, 129)
    assert targets.values[0] == SENTINELS[0]


def test_spans_depend_on_the_epoch_and_not_on_the_batch() -> None:
    given = ragged([40, 50, 60])
    corruption = SpanCorruption(sentinels=SENTINELS)
    whole, again = (corruption(given, batch_context(range(3), epoch)) for epoch in (0, 1))
    assert (whole[0].values != again[0].values).any()
    alone = corruption(Ragged(given[1], np.array([0, 50])), batch_context([1], step=5))
    assert (alone[0].values == whole[0][1]).all()
    assert (alone[1].values == whole[1][1]).all()


def masking(**options: Any) -> Any:
    return MaskTokens(**{"mask_id": MASK, "vocabulary": VOCABULARY, **options})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: masking(probability=0), "probability must be between 0 and 1"),
        (lambda: masking(replaced=0.8, random=0.3), "must be shares"),
        (lambda: masking(vocabulary=0), "vocabulary must be at least 1"),
        (lambda: SpanCorruption(1.0, sentinels=SENTINELS), "density"),
        (lambda: SpanCorruption(mean_length=0.5, sentinels=SENTINELS), "mean_length"),
        (lambda: SpanCorruption(sentinels=()), "sentinels"),
        (
            lambda: SpanCorruption(sentinels=(7, 8, 9)).planned_lengths(np.array([[20], [512]])),
            "sample 1 has 512 tokens and 26 hidden spans, more than the 3",
        ),
    ],
)
def test_wrong_arguments_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()
