"""Plans of packed rows of patches, made from the index's heights and widths alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.bucketing import FixedBucketSampler, PackingPlan, pack
from stoker.errors import ConfigError
from stoker.types import Layout

from ....execution.epochs.epoch_cache import SharedEpochs
from ....execution.epochs.history import History
from ....execution.ranks.ranks import Ranks
from ....order.changes.substitutes import Fitting
from ...batch_transforms import Transforms
from ...captions.captions import Captions
from ..image_planner import ImagePlanner, PlannedSchedule
from .patches import Patches, patch_grids, resize_to_patches

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PatchPlanner(ImagePlanner):
    """Plans which images share a packed row, and which rows form a batch; every rank makes the same plan.

    The images of an epoch are packed by best fit decreasing, so all epochs have equally many rows. With
    captions a row has two capacities, patches and tokens, and the number of rows differs between epochs.
    """

    patches: Patches  # The user's argument
    batch_size: int  # Packed rows of a batch on one rank
    captions: Captions | None = None  # Captions that are packed beside the images; None for images alone
    draw_seed: int = 0  # Seed of the draw of one of several captions
    _packings: SharedEpochs[int, PackingPlan] = field(default_factory=SharedEpochs)

    @cached_property
    def max_images(self) -> int:
        """Largest number of images in a packed row, in any epoch."""
        return int(np.diff(self.packing(0).offsets).max())

    @property
    def fitting(self) -> Fitting:
        """See :class:`ImagePlanner`: images with no more patches, so that a row keeps its length."""
        return Fitting(self._image_patches, smaller=True)

    def packing(self, epoch: int) -> PackingPlan:
        """The packed rows of an epoch."""
        differs = self.shuffle or self.captions is not None
        return self._packings.get(epoch if differs else 0, self._pack)

    def prepared(self, transforms: Transforms) -> Transforms:
        """The user's transforms after the resize to patches."""
        return resize_to_patches(transforms, self.patches)

    def layout(self, layout: Layout) -> Layout:
        """The layout of the images that patches are cut from, with the channels last."""
        if layout == "NHWC4":
            raise ConfigError(
                "layout='NHWC4' adds a channel, and patches have none to add", hint="Leave layout out."
            )
        return "NHWC"

    def steps(self, ranks: Ranks, *, epoch: int, start: int, history: History) -> PatchSchedule:
        """The steps of a rank from the step ``start`` on, of an epoch or of its rest after ``history``."""
        common = (len(self.image_sizes), self.batch_size, ranks.rank, ranks.world_size, self.last_batch)
        plan = self.plan(ranks, epoch, history)
        return PatchSchedule(*common, plan=plan, packing=self.packing(epoch), done=start)

    def to_json(self) -> dict[str, Any]:
        """All that decides the batches but the number of ranks, as a dictionary that JSON can hold."""
        return {
            "patches": asdict(self.patches),
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
            "last_batch": self.last_batch,
        }

    def lengths(self, epoch: int) -> Int64:
        """(N,) int64, patches of each image; with captions (N, 2), also tokens of the drawn caption."""
        if self.captions is None:
            return self._image_patches
        return np.stack([self._image_patches, self.captions.lengths(self.draw_seed, epoch)], axis=1)

    @cached_property
    def _image_patches(self) -> Int64:
        counts: Int64 = patch_grids(self.image_sizes, self.patches.most).prod(axis=1)
        return counts

    def _pack(self, epoch: int) -> PackingPlan:
        lengths, row = self.lengths(epoch), self.patches.row
        seed = self.seed % (1 << 64) if self.shuffle else None
        if self.captions is None:
            return pack(lengths, row, seed=seed, epoch=epoch)
        assert self.captions.tokens.row is not None, "captions are packed"
        most = self.max_images if epoch else None  # so that all epochs have columns of one shape
        return pack(lengths, (row, self.captions.tokens.row), max_sequences=most, seed=seed, epoch=epoch)

    def sampler(self, world_size: int, epoch: int) -> FixedBucketSampler:
        """See :class:`ImagePlanner`; all rows have one length."""
        full = np.full(len(self.packing(epoch)), self.patches.row, np.int64)
        return FixedBucketSampler(full, full[:1], self.batch_size, **self.sampling(world_size))


@dataclass(frozen=True, eq=False, kw_only=True)
class PatchSchedule(PlannedSchedule):
    """The steps of a rank by a plan of packed rows."""

    packing: PackingPlan  # Images of each packed row

    def draws(self, step: int) -> tuple[Int64, npt.NDArray[np.bool_]]:
        """See :class:`Schedule`: the images of all rows of the batch, row after row."""
        pieces = [self.packing.rows[self.packing.pieces(row)] for row in self._rows(step).tolist()]
        mask = self.plan.mask(self.done + step, self.rank)
        return np.concatenate(pieces).astype(np.int64), np.repeat(mask, [len(one) for one in pieces])

    def groups(self, step: int) -> Int64:
        """See :class:`Schedule`."""
        rows, offsets = self._rows(step), self.packing.offsets
        return np.concatenate(([0], np.cumsum(offsets[rows + 1] - offsets[rows])))

    def _rows(self, step: int) -> Int64:
        return self.plan.batch(self.done + step, self.rank).rows
