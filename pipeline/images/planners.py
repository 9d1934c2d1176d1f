"""Planners, which decide the images of each batch from the heights and widths in the index.

Batches have one shape each, or images of one group of aspect ratios, or packed rows of patches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from stoker.arguments import optional_number, whole_number
from stoker.augment.state import TransformState
from stoker.augment.transforms.base import Transform, is_finite
from stoker.augment.transforms.crops import CoverCrop
from stoker.bucketing import BatchPlan, FixedBucketSampler, PackingPlan, pack
from stoker.bucketing.aspect_shapes import AspectSampler, best_shapes, candidate_shapes
from stoker.bucketing.samplers import BatchSampler
from stoker.errors import ConfigError
from stoker.formats.dataset.dataset import Dataset
from stoker.processes import cached_property
from stoker.types import Layout, Size

from ..engines.base import ImageFormat
from ..execution.pipeline import ColumnSpec
from ..execution.ranks import Process
from ..execution.state import History
from ..order.exclusions import Fitting
from ..order.schedule import EpochCache, LastBatch, PlannedSteps
from .batch_transforms import Transforms

if TYPE_CHECKING:
    from .captions import Captions

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ImagePlanner:
    """A planner of an epoch: it decides which images form each batch. Every rank makes the same plan."""

    image_sizes: Int64  # (N, 2) int64, heights and widths of the images
    seed: int  # Seed of the batches
    shuffle: bool  # Whether each epoch has other batches in another order
    last_batch: LastBatch  # The loader's argument
    decides: dict[str, Any]  # What else decides the batches, as JSON data
    _: KW_ONLY
    _plans: EpochCache[tuple[int, int, History], BatchPlan] = field(default_factory=EpochCache)

    @property
    def sizes(self) -> tuple[Size, ...]:
        """Heights and widths of all batches; empty if the images of a batch decide its size."""
        return ()

    @property
    def fitting(self) -> Fitting:
        """The rule that says which images may replace an image in a planned batch."""
        raise NotImplementedError

    def prepared(self, transforms: Transforms) -> Transforms:
        """The user's transforms, together with the transforms that the plan needs."""
        return transforms

    def layout(self, layout: Layout) -> Layout:
        return layout

    def sampler(self, world_size: int, epoch: int) -> BatchSampler:
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        return {**self.decides, "shuffle": self.shuffle, "last_batch": self.last_batch}

    def plan(self, ranks: Process, epoch: int, history: History) -> BatchPlan:
        """The batches of an epoch after the batches of ``history``."""
        key = (ranks.world_size, epoch, history)
        return self._plans.get(key, lambda _: self.sampler(ranks.world_size, epoch).plan(epoch, history))

    def packing(self, epoch: int) -> PackingPlan | None:
        """The images of each row of an epoch's plan; None if the rows of the plan are images."""
        return None

    def steps(self, ranks: Process, *, epoch: int, start: int, history: History) -> PlannedSteps:
        """The steps of a rank from the step ``start`` on, of an epoch or of its rest after ``history``."""
        plan, n = self.plan(ranks, epoch, history), len(self.image_sizes)
        return PlannedSteps(plan, ranks.rank, start, n, self.packing(epoch), sized=bool(self.sizes))

    def sampling(self, world_size: int) -> dict[str, Any]:
        """The arguments that all samplers take."""
        return {
            "seed": self.seed % (1 << 64),
            "world_size": world_size,
            "membership": "fresh" if self.shuffle else "ordered",
            "shuffle": self.shuffle,
            "last_batch": self.last_batch,
        }


@dataclass(frozen=True)
class AspectBuckets:
    """Shapes of about one area for image batches of similar aspect ratios (NovelAI, 2022; SDXL, 2023).

    Args:
        area: Approximate pixels of a shape.
        multiple: Heights and widths are multiples of this, pixels.
        max_ratio: Largest ratio of the longer side to the shorter one, from 1.
        buckets: Largest number of shapes, chosen so that the least area is cropped; None for all shapes that
            fit some image best.
    """

    area: int
    multiple: int = 64
    max_ratio: float = 2.0
    buckets: int | None = None

    def __post_init__(self) -> None:
        for name in ("area", "multiple"):
            object.__setattr__(self, name, whole_number(f"AspectBuckets: {name}", getattr(self, name), 1))
        buckets = optional_number("AspectBuckets: buckets", self.buckets, 1)
        object.__setattr__(self, "buckets", buckets)
        if not is_finite(self.max_ratio) or self.max_ratio < 1:
            raise ConfigError(f"AspectBuckets: max_ratio must be a number from 1, found {self.max_ratio!r}")
        object.__setattr__(self, "max_ratio", float(self.max_ratio))

    def shapes(self, sizes: Int64) -> Int64:
        """The shapes for images of these heights and widths, (N, 2): (K, 2), by ascending height over width.

        Raises:
            ConfigError: No shape has these multiples and ratios.
        """
        candidates = candidate_shapes(self.area, self.multiple, self.max_ratio)
        return best_shapes(sizes, candidates, self.buckets or len(candidates))


_ANY = (64, 64)  # replaced by the size of the batch


@dataclass(frozen=True, eq=False)
class AspectPlanner(ImagePlanner):
    """A planner whose batches have images of one group each, of similar aspect ratios."""

    groups: Int64  # (N,) int64, the group of each image
    batch_sizes: tuple[int, ...]  # Samples of a batch of each group on one rank
    shapes: Int64 | None = None  # (K, 2) int64, heights and widths of groups; None pads to the largest image

    @property
    def sizes(self) -> tuple[Size, ...]:
        return () if self.shapes is None else tuple((height, width) for height, width in self.shapes.tolist())

    @property
    def fitting(self) -> Fitting:
        return Fitting(self.groups)

    def prepared(self, transforms: Transforms) -> Transforms:
        """The transforms, after a CoverCrop if no transform gives images the size of their shape."""
        if self.shapes is None or isinstance(transforms, Mapping):
            return transforms
        if any(isinstance(one, Transform) and one.with_size(_ANY) for one in transforms):
            return transforms
        return [CoverCrop(_ANY, random=self.shuffle), *transforms]

    def sampler(self, world_size: int, epoch: int) -> AspectSampler:
        batch_sizes, sampling = np.array(self.batch_sizes), self.sampling(world_size)
        return AspectSampler(self.image_sizes, self.groups, batch_sizes, self.shapes, **sampling)


def image_sizes(dataset: Dataset) -> Int64:
    """Heights and widths of all images, (N, 2), read from the index alone."""
    return np.stack([dataset.column(name).astype(np.int64) for name in ("height", "width")], axis=1)


@dataclass(frozen=True)
class Patches:
    """Packed rows of patches of images at their own aspect ratios (NaFlex, SigLIP 2, Tschannen et al., 2025).

    Each image is resized, up or down, to the largest whole number of patches within ``most``. With a scale s,
    an image of H x W pixels has ceil(s * H / size) x ceil(s * W / size) patches; s is the largest at which
    these are at most ``most``. This is the rule of SigLIP 2's image processor in transformers 5.23, which
    searches s in steps of 1e-5. Here the numbers are exact.

    Args:
        size: Side of a patch, pixels.
        most: Largest number of patches of an image.
        row: Patches of a packed row, at least ``most``.
    """

    size: int = 16
    most: int = 256
    row: int = 1024

    def __post_init__(self) -> None:
        for name in ("size", "most", "row"):
            object.__setattr__(self, name, whole_number(f"Patches: {name}", getattr(self, name), 1))
        if self.row < self.most:
            raise ConfigError(
                f"Patches: a row of {self.row} patches holds no image of most={self.most}",
                hint=f"Give a row of at least {self.most}, such as {4 * self.most}.",
            )


@dataclass(frozen=True)
class ResizeToPatches(Transform):
    """Resize an image to at most ``most`` whole patches; see :class:`Patches`."""

    size: int
    most: int

    def params(self, state: TransformState, u: npt.NDArray[np.float64]) -> None:
        state.resize(patch_grids(state.size.T, self.most).T * self.size, "bilinear")

    def output_size(self, size: Size | None) -> Size | None:
        return None


def patch_grids(sizes: Int64, most: int) -> Int64:
    """Rows and columns of patches of images, (N, 2), by the rule of :class:`Patches`."""
    # ``a`` rows and at most ``most // a`` columns are possible if ``W * (a - 1) < H * (most // a)``: at the
    # scale of ``most // a`` columns the image has more than ``a - 1`` rows. The largest such ``a`` is found
    # by bisection, because both sides of the inequality are monotone.
    # sizes (N, 2) int64
    height, width = sizes[:, 0].astype(np.int64), sizes[:, 1].astype(np.int64)
    possible, above = np.ones_like(height), np.full_like(height, most + 1)
    while (above - possible > 1).any():
        middle = (possible + above) // 2
        fits = width * (middle - 1) < height * (most // middle)
        possible, above = np.where(fits, middle, possible), np.where(fits, above, middle)
    columns = np.minimum(-(-width * possible // height), most // possible)
    return np.stack([possible, columns], axis=1)


_PROBES = ((1021, 509), (509, 1021))  # sizes that no transform has by chance


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
    _packings: EpochCache[int, PackingPlan] = field(default_factory=EpochCache)

    @cached_property
    def max_images(self) -> int:
        """Largest number of images in a packed row, in any epoch."""
        return int(np.diff(self.packing(0).offsets).max())

    @property
    def fitting(self) -> Fitting:
        """Images with no more patches, so that a row keeps its length."""
        return Fitting(self._image_patches, smaller=True)

    def packing(self, epoch: int) -> PackingPlan:
        differs = self.shuffle or self.captions is not None
        return self._packings.get(epoch if differs else 0, self._pack)

    def prepared(self, transforms: Transforms) -> Transforms:
        """The transforms after the resize to patches."""
        if isinstance(transforms, Mapping):
            return transforms  # refused with other sizes
        for one in transforms if isinstance(transforms, Sequence) else ():
            if not isinstance(one, Transform):
                continue
            if one.warps or any(one.output_size(size) != size for size in _PROBES):
                does = "warps images" if one.warps else "changes the size of images"
                raise ConfigError(
                    f"sizes: {type(one).__name__} {does}, which Patches cannot have",
                    hint="Leave it out. Flips, colours, RandomErasing and Normalize go with patches.",
                )
        return [ResizeToPatches(self.patches.size, self.patches.most), *transforms]

    def layout(self, layout: Layout) -> Layout:
        """The layout of the images that patches are cut from, with the channels last."""
        if layout == "NHWC4":
            raise ConfigError(
                "layout='NHWC4' adds a channel, and patches have none to add", hint="Leave layout out."
            )
        return "NHWC"

    @cached_property
    def _image_patches(self) -> Int64:
        counts: Int64 = patch_grids(self.image_sizes, self.patches.most).prod(axis=1)
        return counts

    def _pack(self, epoch: int) -> PackingPlan:
        patches, row = self._image_patches, self.patches.row
        seed = self.seed % (1 << 64) if self.shuffle else None
        if self.captions is None:
            return pack(patches, row, seed=seed, epoch=epoch)
        assert self.captions.tokens.row is not None, "captions are packed"
        lengths = np.stack([patches, self.captions.lengths(self.draw_seed, epoch)], axis=1)
        most = self.max_images if epoch else None  # so that all epochs have columns of one shape
        return pack(lengths, (row, self.captions.tokens.row), max_sequences=most, seed=seed, epoch=epoch)

    def sampler(self, world_size: int, epoch: int) -> FixedBucketSampler:
        full = np.full(len(self.packing(epoch)), self.patches.row, np.int64)
        return FixedBucketSampler(full, full[:1], self.batch_size, **self.sampling(world_size))


PATCH_COLUMNS = ("patches", "segment_ids", "patch_positions", "cu_seqlens")


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
