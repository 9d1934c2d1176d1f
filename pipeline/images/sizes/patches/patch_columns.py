"""The columns of batches of patches: their names, dtypes and shapes."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.arguments import list_of_names
from stoker.errors import ConfigError

from ....engines.base import ImageFormat
from ....execution.batch import ColumnSpec
from ....order.rank_draws import LastBatch
from ....order.sample_source import SampleSource
from ...captions.captions import Captions
from .patch_planner import PatchPlanner

_ALWAYS = ("patches", "segment_ids", "patch_positions", "cu_seqlens")


def patch_column_names(
    columns: Sequence[str] | None, dataset: SampleSource, last_batch: LastBatch, captions: Captions | None
) -> tuple[str, ...]:
    """Names of the columns of a batch of patches, in their order."""
    label = ("label",) if "label" in dataset.types and "labels" not in dataset.tasks else ()
    of_captions = captions.columns if captions else ()
    usual = (*_ALWAYS, *of_captions[: len(_ALWAYS)], *label)
    names = list_of_names("columns", usual if columns is None else columns)
    if last_batch == "pad" and "mask" not in names:
        names = (*names, "mask")
    known = {*_ALWAYS, *of_captions, *label, "row", "mask"}
    for name in names:
        if name not in known:
            raise ConfigError(
                f"columns: there is no {name!r} with sizes=Patches(...)",
                path=dataset.path,
                hint=f"There are {', '.join(sorted(known))}; other columns can be looked up by row.",
            )
    if not names:
        raise ConfigError("columns must name at least one column")
    return names


def patch_column_spec(name: str, planner: PatchPlanner, image_format: ImageFormat) -> ColumnSpec:
    """Dtype and shape of a column, without the axis of packed rows."""
    if found := planner.captions and planner.captions.spec(name):
        return found
    patches, channels = planner.patches, image_format.shape(0, (1, 1))[-1]
    forms: dict[str, tuple[str, tuple[int, ...]]] = {
        "patches": (image_format.dtype, (patches.row, channels * patches.size**2)),
        "segment_ids": ("int32", (patches.row,)),
        "patch_positions": ("int64", (patches.row, 2)),
        "cu_seqlens": ("int32", ()),
        "mask": ("bool", ()),
    }
    return ColumnSpec(name, *forms.get(name, ("int64", (planner.max_images,))))
