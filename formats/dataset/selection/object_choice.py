"""The objects of a selection, chosen by a rule in words such as ``not crowd and area >= 16``.

:meth:`stoker.Dataset.select` makes a choice, and reading annotations leaves the other objects out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..columns.list_column import expand_ranges
from ..index import Index
from .object_columns import all_objects
from .select import matching_rows

Bool = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ObjectChoice:
    """Some of the objects of a dataset."""

    rules: tuple[str, ...]  # The rules that they meet, in words
    kept: Bool  # (M,) bool, whether each object of the index is in the selection
    starts: Int64  # (N + 1,) int64, first object of each row of the index, and M

    def of_rows(self, rows: Int64) -> Bool:
        """Return (K,) bool, whether each of the K objects of these rows is in the selection."""
        return self.kept[expand_ranges(self.starts[rows], self.starts[rows + 1])]


def objects_matching(index: Index, keypoints: int, rule: str, before: ObjectChoice | None) -> ObjectChoice:
    """Return the objects of a dataset that meet a rule."""
    objects = all_objects(index, keypoints, ("keypoints", "extra"))
    facts: dict[str, Any] = {
        "label": objects.labels,
        "area": objects.area,
        "crowd": objects.crowd,
        "width": objects.boxes[:, 2] - objects.boxes[:, 0],
        "height": objects.boxes[:, 3] - objects.boxes[:, 1],
        **objects.extra,
    }
    if objects.keypoints is not None:
        facts["num_keypoints"] = (objects.keypoints[..., 2] > 0).sum(axis=1)
    table = pa.table({name: pa.array(values) for name, values in facts.items()})
    kept = matching_rows(table, rule)
    rules: tuple[str, ...] = (rule,)
    if before is not None:
        kept, rules = kept & before.kept, (*before.rules, rule)
    starts = np.searchsorted(objects.owner, np.arange(len(index) + 1))
    return ObjectChoice(rules, kept, starts.astype(np.int64))
