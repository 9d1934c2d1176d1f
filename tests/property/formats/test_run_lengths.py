"""Run lengths against slow implementations that follow maskApi.c number by number."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from stoker.formats.dataset.annotations import checked_runs, decompress_runs, mask_of_runs, runs_of_mask


def slow_compress(runs: list[int]) -> str:
    """rleToString of maskApi.c."""
    text = ""
    for i, run in enumerate(runs):
        x = run - runs[i - 2] if i > 2 else run
        more = True
        while more:
            digit = x & 31
            x >>= 5
            more = x != -1 if digit & 16 else x != 0
            text += chr(digit + 32 * more + 48)
    return text


def slow_decompress(text: str) -> list[int]:
    """rleFrString of maskApi.c."""
    runs: list[int] = []
    value = shift = 0
    for character in text:
        digit = ord(character) - 48
        value |= (digit & 31) << shift
        shift += 5
        if not digit & 32:
            if digit & 16:
                value -= 1 << shift
            runs.append(value + (runs[-2] if len(runs) > 2 else 0))
            value = shift = 0
    return runs


RUNS = st.lists(st.integers(0, (1 << 32) - 1), max_size=40)


@given(RUNS)
def test_decompression_undoes_the_compression_of_maskapi(runs: list[int]) -> None:
    text = slow_compress(runs)
    assert slow_decompress(text) == runs
    assert decompress_runs(text).tolist() == runs


@given(st.text(st.characters(min_codepoint=40, max_codepoint=115), max_size=30))
def test_any_text_is_decompressed_as_by_maskapi_or_refused(text: str) -> None:
    try:
        runs = decompress_runs(text).tolist()
    except ValueError:
        return
    assert runs == slow_decompress(text)


@given(arrays(bool, array_shapes(min_dims=2, max_dims=2, max_side=9)))
def test_a_mask_of_runs_is_the_mask_that_was_encoded(mask: np.ndarray) -> None:  # type: ignore[type-arg]  # of any shape
    runs = runs_of_mask(mask)
    assert mask_of_runs(runs, *mask.shape).tolist() == mask.tolist()
    # One pixel after the other, column by column.
    slow, current = [0], False
    for pixel in mask.T.reshape(-1).tolist():
        if pixel != current:
            slow.append(0)
            current = pixel
        slow[-1] += 1
    assert runs.tolist() == slow


def test_a_known_string_has_its_runs() -> None:
    """A mask of 4 x 3 pixels whose middle column is set."""
    assert decompress_runs("444").tolist() == [4, 4, 4]
    assert mask_of_runs(decompress_runs("444"), 4, 3).tolist() == [[False, True, False]] * 4


@pytest.mark.parametrize("text", ["T", "Ā", "/", "o" * 9 + "0", "O", "p", "P" * 13 + "1"])
def test_text_that_encodes_no_runs_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="run lengths that are"):
        decompress_runs(text)


@pytest.mark.parametrize("values", [[-1], [1.5], [1 << 32], [[1]], ["1"]])
def test_numbers_that_are_no_runs_are_refused(values: list[object]) -> None:
    with pytest.raises(ValueError, match="run lengths that are"):
        checked_runs(values)  # type: ignore[arg-type]  # as a file may have it


def test_runs_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="of 7 pixels where the image has 6"):
        mask_of_runs(np.array([3, 4]), 2, 3)
