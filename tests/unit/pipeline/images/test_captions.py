"""Captions beside the images of a batch: the draw of one of several, their form, and states."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.datasets import write_words
from helpers.loaders import image_arguments

import stoker
from stoker import ImageLoader, Tokens
from stoker.augment import MixUp, Resize
from stoker.errors import CheckpointError, ConfigError
from stoker.pipeline.execution.pipeline import ColumnSpec

N = 24
TEXTS = [[f"{'x' * (n % 5)}{n} {k}" for k in range(1 + n % 3)] for n in range(N)]


@pytest.fixture(scope="module")
def captioned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images with one to three captions as bytes, and the first of them as a column of texts."""
    root: Path = tmp_path_factory.mktemp("captions")
    with stoker.Writer(
        root / "d", captions=stoker.Captions(caption_column="texts", tokenizer="bytes")
    ) as writer:
        for n in range(N):
            writer.write(np.full((8, 8, 3), n, np.uint8), texts=TEXTS[n], text=TEXTS[n][0], label=n % 2)
    return root / "d"


def _loader(source: Any, **options: Any) -> ImageLoader:
    options = {"caption": Tokens(12, form="ragged"), "columns": ("row", "caption"), **options}
    return ImageLoader(
        source,
        **image_arguments(**{"batch_size": 4, "transforms": [Resize((8, 8))], "shuffle": True, **options}),
    )


def _drawn(batches: Iterable[Any]) -> dict[int, str]:
    """The caption of each sample of some batches, such as those of a loader's next epoch."""
    return {
        int(row): bytes(ids.tolist()).decode()
        for batch in batches
        for row, ids in zip(batch.row, batch.caption, strict=True)
    }


def test_each_epoch_draws_one_of_the_captions_of_a_sample_by_seed_epoch_and_sample(captioned: Path) -> None:
    loader = _loader(captioned, seed=3)
    epochs = [_drawn(loader) for _ in range(30)]
    for n in range(N):
        assert {epoch[n] for epoch in epochs} == set(TEXTS[n])
    assert epochs[0] == _drawn(_loader(captioned, seed=3, batch_size=7, num_threads=1))
    assert epochs[0] != _drawn(_loader(captioned, seed=4))
    first = Tokens(12, form="ragged", choose="first")
    assert _drawn(_loader(captioned, caption=first)) == {n: TEXTS[n][0] for n in range(N)}


@pytest.mark.parametrize("engine", ["native", "reference", "dali"])
def test_every_engine_hands_out_a_caption_of_the_image_beside_it(captioned: Path, engine: Any) -> None:
    if engine == "dali":
        pytest.importorskip("nvidia.dali")
    columns = ("row", "image", "caption")
    with _loader(captioned, seed=3, engine=engine, columns=columns, num_threads=2) as loader:
        batches = list(loader)
    assert _drawn(batches) == _drawn(_loader(captioned, seed=3))
    assert all((np.asarray(batch.image) == batch.row[:, None, None, None]).all() for batch in batches)


def test_a_state_refuses_other_captions(captioned: Path) -> None:
    state = _loader(captioned).state_dict()
    with pytest.raises(CheckpointError, match="caption"):
        _loader(captioned, caption=Tokens(11, form="ragged")).load_state_dict(state)


@pytest.mark.parametrize("form", ["padded", "longest"])
def test_padded_captions_have_a_mask_and_one_length(form: Any, captioned: Path) -> None:
    columns = ("caption", "caption_mask", "image")
    loader = _loader(captioned, caption=Tokens(5, form=form, choose="first"), columns=columns, shuffle=False)
    assert loader.element_spec()[0] == ColumnSpec("caption", "int64", (5 if form == "padded" else None,))
    for step, (ids, mask, _images) in enumerate(loader):
        texts = [captions[0].encode()[:5] for captions in TEXTS[4 * step : 4 * step + 4]]
        width = 5 if form == "padded" else max(map(len, texts))
        assert ids.dtype == np.int64
        assert [bytes(row[real].tolist()) for row, real in zip(ids, mask, strict=True)] == texts
        assert ids.shape == mask.shape == (4, width)
        assert (ids[~mask] == 256).all()


def test_a_column_of_texts_is_tokenized_by_the_tokenizer_that_is_given(captioned: Path) -> None:
    stored = {n: TEXTS[n][0] for n in range(N)}
    for tokenizer in ("bytes", lambda texts: [list(text.encode()) for text in texts]):
        tokens = Tokens(12, form="ragged", tokenizer=tokenizer, column="text")
        assert _drawn(_loader(captioned, caption=tokens)) == stored


def test_a_tokenizer_is_named_by_its_file_or_its_folder(captioned: Path, tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    file = write_words(tmp_path / "tokenizer.json", {word for texts in TEXTS for word in texts[0].split()})
    loaders = [
        _loader(captioned, caption=Tokens(12, tokenizer=name, column="text"), columns=("caption",))
        for name in (file, file.parent)
    ]
    assert loaders[0].state_dict() == loaders[1].state_dict()
    first, second = (next(iter(loader)).caption for loader in loaders)
    assert (first == second).all()


def test_a_mixture_draws_the_captions_of_each_dataset(captioned: Path, tmp_path: Path) -> None:
    with stoker.Writer(
        tmp_path / "b", captions=stoker.Captions(caption_column="c", tokenizer="bytes")
    ) as writer:
        writer.write(np.zeros((8, 8, 3), np.uint8), c=["other", "another"], label=0)
    drawn = _drawn(_loader(stoker.mix([(captioned, N), (tmp_path / "b", 1)])))
    assert drawn.pop(N) in ("other", "another")
    assert all(text in TEXTS[n] for n, text in drawn.items())


def test_a_cut_caption_keeps_the_special_token_at_its_end(tmp_path: Path) -> None:
    with stoker.Writer(
        tmp_path / "d", captions=stoker.Captions(caption_column="c", tokenizer="bytes", eos=True)
    ) as writer:
        writer.write(np.zeros((8, 8, 3), np.uint8), c="abcdef")
    (batch,) = _loader(tmp_path / "d", caption=Tokens(4), columns=("caption",))
    assert batch.caption.tolist() == [[*b"abc", 258]]
    with pytest.raises(ConfigError, match="no room beside the special tokens"):
        _loader(tmp_path / "d", caption=Tokens(1))


def test_captions_and_labels_are_the_columns_by_default(captioned: Path) -> None:
    loader = _loader(captioned, caption=Tokens(12), columns=None)
    assert next(iter(loader))._fields == ("image", "caption", "label")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"caption": None}, "form is not given"),
        ({"columns": ("image",)}, "columns names none"),
        ({"caption": Tokens(12, tokenizer="bytes", column="words")}, "no column of texts 'words'"),
        ({"transforms": [Resize((8, 8)), MixUp()]}, "mixed image has no caption"),
        ({"columns": ("caption_mask",)}, "no 'caption_mask'"),
    ],
)
def test_captions_that_cannot_be_handed_out_are_refused(
    options: dict[str, Any], message: str, captioned: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        _loader(captioned, **options)
