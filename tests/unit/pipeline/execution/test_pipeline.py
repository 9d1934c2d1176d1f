"""Batches as named tuples."""

from __future__ import annotations

import copy
import pickle

import pytest

from stoker.errors import ConfigError
from stoker.pipeline.execution.pipeline import batch_type


def test_a_batch_unpacks_has_names_and_can_be_pickled_and_copied() -> None:
    batch = batch_type(("image", "label"))([1], "two")
    images, labels = batch
    assert (images, labels, batch.image, batch.label) == ([1], "two", [1], "two")
    for again in (pickle.loads(pickle.dumps(batch)), copy.deepcopy(batch)):
        assert again == batch
        assert type(again) is type(batch) is batch_type(("image", "label"))


@pytest.mark.parametrize("columns", [("image", "image"), ("image/label",), ("class",)])
def test_columns_must_have_distinct_names_that_are_identifiers(columns: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="columns="):
        batch_type(columns)
