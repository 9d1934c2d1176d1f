"""MaskTokens: the rule of BERT, whole words, and the arguments that it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.loaders.batch_contexts import batch_context

from stoker.bucketing import MaskTokens, Pad, Ragged
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


def test_a_sequence_is_masked_alike_in_any_batch_and_anew_in_each_epoch() -> None:
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"probability": 0}, "probability must be between 0 and 1"),
        ({"replaced": 0.8, "random": 0.3}, "must be shares"),
        ({"vocabulary": 0}, "vocabulary must be at least 1"),
    ],
)
def test_arguments_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        MaskTokens(**{"mask_id": MASK, "vocabulary": VOCABULARY, **options})
