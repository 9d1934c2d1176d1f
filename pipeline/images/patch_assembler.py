"""The assembly of a batch of patches: images of the engine become packed rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.bucketing import Pack, Packed, Ragged

from .batch_assembler import BatchAssembler, CollectedBatch
from .patches import PatchPlanner

Array = npt.NDArray[Any]
Int64 = npt.NDArray[np.int64]


class PatchAssembler(BatchAssembler):
    """Assembles batches of packed rows of patches."""

    def _make(self, collected: CollectedBatch, kept: Int64 | None) -> Any:
        planned, config = collected.planned, self._config
        planner, sizes = config.size_plan.planner, collected.columns[0].image_size
        assert isinstance(planner, PatchPlanner), "called for patches alone"
        assert planned.groups is not None, "rows of patches are packed"
        assert sizes is not None, "images of patches are padded"
        chosen = np.arange(len(planned)) if kept is None else kept
        groups = np.searchsorted(chosen, planned.groups)  # first image of each row among those that are kept
        patches, row = planner.patches, planner.patches.row
        grids = sizes[chosen].astype(np.int64) // patches.size
        offsets = np.concatenate(([0], np.cumsum(grids.prod(axis=1))))
        packed = Packed(Ragged(np.zeros(offsets[-1], np.uint8), offsets), groups)
        pack = Pack(outputs=("segment_ids", "cu_seqlens"), max_sequences=planner.max_images)
        arrays = pack(packed, row)
        real = arrays["segment_ids"] > 0  # patches come row by row, as in a packed row
        coordinates = np.zeros((*real.shape, 2), np.int64)
        values, coordinates[real] = cut_patches(collected.images[0], chosen, grids, patches.size)
        filled = np.zeros((*real.shape, values.shape[1]), values.dtype)
        filled[real] = values
        shown = planned.positions[chosen]
        arrays |= {"patch_positions": coordinates, "mask": planned.mask[planned.groups[:-1]]}
        arrays["row"] = _by_segment(shown, groups, planner.max_images)
        if "label" in config.columns:
            arrays["label"] = _by_segment(config.dataset.values("label", shown), groups, planner.max_images)
        if captions := planner.captions:
            drawn = captions.draw(shown, planned.draw_keys[chosen], config.draw_seed, self._epoch)
            arrays |= captions.packed(config.columns, drawn, groups, planner.max_images)
        columns = {name: self._adapter.column(arrays[name]) for name in config.columns if name != "patches"}
        with self._totals.worker.stage("copying"):
            columns["patches"] = self._adapter.images(filled, config.image_format.dtype)
        return config.batch_type(*(columns[name] for name in config.columns))


def _by_segment(values: Int64, groups: Int64, most: int) -> Int64:
    """(rows, most) int64: the value of each image of each packed row; -1 after the last."""
    table = np.full((len(groups) - 1, most), -1, np.int64)
    table[np.arange(most) < np.diff(groups)[:, None]] = values
    return table


def cut_patches(images: Array, chosen: Int64, grids: Int64, size: int) -> tuple[Array, Int64]:
    """Cut images into patches, image after image, row of patches after row."""
    # images (N, H, W, C), chosen (K,) int64, grids (K, 2) int64 -> (T, size * size * C)
    n, height, width, channels = images.shape
    view = images.reshape(n, height // size, size, width // size, size, channels).transpose(0, 1, 3, 2, 4, 5)
    rows, columns = np.arange(view.shape[1])[:, None], np.arange(view.shape[2])
    inside = (rows < grids[:, 0, None, None]) & (columns < grids[:, 1, None, None])
    number, row, column = np.nonzero(inside)
    return view[chosen[number], row, column].reshape(len(number), -1), np.stack([row, column], axis=1)
