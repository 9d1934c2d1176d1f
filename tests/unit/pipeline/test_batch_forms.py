"""Batches as tuples and mappings, and the forms that ``batch_as`` makes of them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from stoker.errors import ConfigError
from stoker.pipeline.execution.pipeline import batch_type

Make = Callable[..., Any]


class TestABatch:
    def test_it_is_a_tuple_and_a_mapping(self) -> None:
        batch = batch_type(("image", "label"))([1], "two")
        images, labels = batch
        assert (images, labels, batch.image, batch["label"], batch[0]) == ([1], "two", [1], "two", [1])
        assert dict(batch) == {**batch} == dict(batch.items()) == {"image": [1], "label": "two"}
        assert (batch.keys(), batch.values()) == (("image", "label"), ([1], "two"))
        assert ("label" in batch, "mask" in batch, batch.get("mask", 5)) == (True, False, 5)
        with pytest.raises(KeyError, match="mask"):
            batch["mask"]

    def test_trainers_make_it_again(self) -> None:
        make: Any = batch_type(("image", "label"))
        batch = make([1], "two")
        ways = (
            make(value for value in batch),
            make({"label": "two", "image": [1]}),
            make(*batch),
            make(**batch),
        )
        for again in (*ways, pickle.loads(pickle.dumps(batch)), copy.deepcopy(batch)):
            assert again == batch
            assert type(again) is type(batch) is batch_type(("image", "label"))
        one: Any = batch_type(("image",))
        assert one([5]).image == [5] == one(value for value in one([5])).image

    def test_a_column_named_as_a_method_is_an_attribute(self) -> None:
        batch = batch_type(("keys", "values"))("ab", (1, 2))
        assert (batch.keys, batch.values, batch["keys"]) == ("ab", (1, 2), "ab")

    @pytest.mark.parametrize("columns", [("image", "image"), ("image/label",), ("class",)])
    def test_columns_have_distinct_names_that_are_identifiers(self, columns: tuple[str, ...]) -> None:
        with pytest.raises(ConfigError, match="columns="):
            batch_type(columns)


class TestForms:
    def test_names_of_the_model(self, load: Make) -> None:
        plain = next(iter(load(columns=None)))
        for form, names in (
            ("dict", ["image", "label"]),
            ("transformers", ["pixel_values", "labels"]),
            ({"x": "image", "y": "label"}, ["x", "y"]),
            ({"y": "label"}, ["y"]),
        ):
            loader = load(batch_as=form, columns=None)
            batch = next(iter(loader))
            assert type(batch) is dict
            assert list(batch) == names
            assert np.array_equal(batch[names[-1]], plain.label)
            assert np.array_equal(loader.batch(0, 0)[names[-1]], plain.label)

    def test_a_function_is_called_at_the_very_end(self, load: Make) -> None:
        channels = lambda batch: [len(image) for image in batch.image]  # noqa: E731
        loader = load(batch_as=channels, transforms=[], sizes="ragged", columns=("image",))
        assert next(iter(loader)) == [3] * 16

    def test_the_mask_of_a_padded_batch_stays(self, load: Make) -> None:
        *_, last = load(batch_as={"x": "image"}, last_batch="pad", columns=None)
        assert list(last) == ["x", "mask"]
        assert last["mask"].sum() == 61 % 16

    def test_documents(self, tmp_path: Path) -> None:
        stoker.convert_text(iter(["one", "three"]), tmp_path / "text", tokenizer="bytes")
        loader = stoker.TextLoader(
            tmp_path / "text", batch_size=2, buckets=None, batch_as={"ids": "input_ids"}
        )
        assert [batch["ids"].shape for batch in loader] == [(2, 5)]

    @pytest.mark.parametrize(
        ("form", "message"),
        [
            ("list", "batch_as must be 'dict', .*found 'list'"),
            ({"x": "boxes"}, "boxes"),
            ("detr", "needs output='torch'"),
        ],
    )
    def test_refusals(self, load: Make, form: Any, message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            load(batch_as=form)
