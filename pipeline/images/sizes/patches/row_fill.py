"""The fill of packed rows of patches and captions, for ``stoker buckets`` and benchmarks."""

from __future__ import annotations

from stoker.bucketing.reports import RowReport, report_rows
from stoker.formats.dataset.dataset import Dataset

from ...captions.captions import find_captions
from ...captions.tokens import Tokens
from ..size_arguments import make_size_plan, with_captions, with_planner
from .patches import Patches


def fill_of_rows(dataset: Dataset, patches: Patches, caption: Tokens | None, seed: int) -> RowReport:
    """The report of the first epoch of a shuffled loader: of patches, and of the tokens of captions."""
    plan = make_size_plan(patches, 1, None, seed)
    plan = with_planner(plan, dataset, shuffle=True, sampler=None, last_batch="partial", on_error="raise")
    planner = with_captions(plan, find_captions(dataset, caption, mixes=False), seed).patch_planner
    assert planner is not None, "patches have a planner"
    return report_rows(planner.packing(0), planner.packing(1))
