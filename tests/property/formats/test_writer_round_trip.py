"""Columns of any types that a writer stores, read from the dataset and by a loader."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.loaders import image_arguments
from helpers.options import writer_options
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import stoker
from stoker.augment import Resize
from stoker.formats.dataset.columns import ARRAY_DTYPES

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")

PICTURE = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
NUMBERS = [dtype for dtype in ARRAY_DTYPES if dtype != "bool"]


@st.composite
def written_samples(draw: st.DrawFn) -> list[dict[str, Any]]:
    """One to seven samples with the same columns."""
    samples = draw(st.integers(1, 7))
    columns: dict[str, list[Any]] = {}
    for number in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["integer", "float", "numpy", "text", "fixed", "varying"]))
        dtype = draw(st.sampled_from(ARRAY_DTYPES if kind in ("fixed", "varying") else NUMBERS))
        shape = draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=3))
        shapes: Any = hnp.array_shapes(min_dims=len(shape), max_dims=len(shape), min_side=0, max_side=3)
        values: st.SearchStrategy[Any] = {
            "integer": st.integers(-(1 << 63), (1 << 63) - 1),
            "float": st.floats(),
            "numpy": hnp.from_dtype(np.dtype(dtype)),
            "text": st.text(st.characters(exclude_categories=["Cs"]), max_size=9),
            "fixed": hnp.arrays(dtype, shape),
            "varying": hnp.arrays(dtype, shapes),
        }[kind]
        columns[f"c{number}"] = draw(st.lists(values, min_size=samples, max_size=samples))
    return [{name: values[i] for name, values in columns.items()} for i in range(samples)]


@settings(max_examples=25)
@given(samples=written_samples(), container=st.sampled_from(["tfrecord", "lmdb"]), records=st.integers(1, 4))
def test_a_dataset_and_a_loader_return_the_columns_that_were_written(
    samples: list[dict[str, Any]], container: str, records: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        options = {"format": container, "shard_records": records, "num_threads": 1}
        with stoker.Writer(Path(folder) / "out", **writer_options(options)) as writer:
            for sample in samples:
                writer.write(PICTURE, **sample)
        dataset = stoker.open(Path(folder) / "out")
        for i, sample in enumerate(samples):
            for name, value in sample.items():
                found: Any
                if isinstance(value, str):
                    (found,) = dataset.strings(name, [i])
                    assert found == value
                elif isinstance(value, np.ndarray):
                    found = dataset.array(name, i)
                    assert found.dtype == value.dtype
                    np.testing.assert_array_equal(found, value)
                else:
                    np.testing.assert_array_equal(dataset.column(name)[i], value)
        names = ("key", *samples[0])
        options: dict[str, Any] = {"transforms": [Resize((4, 4))], "columns": names, "num_threads": 1}
        with stoker.ImageLoader(dataset, **image_arguments(batch_size=4, **options)) as loader:
            batches = list(loader)
        for name in names[1:]:
            loaded = [value for batch in batches for value in getattr(batch, name)]
            for value, sample in zip(loaded, samples, strict=True):
                np.testing.assert_array_equal(value, sample[name])
