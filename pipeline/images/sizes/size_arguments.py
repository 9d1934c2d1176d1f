"""The arguments of a loader for sizes of batches: their checks, and the plan that they make."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from stoker.arguments import optional_number
from stoker.errors import ConfigError
from stoker.formats.dataset.dataset import Dataset
from stoker.types import Size

from ...order.rank_draws import LastBatch
from ...order.sample_source import SampleSource
from ..bad_samples import OnError
from ..captions.captions import Captions
from .aspect_buckets import AspectBuckets, BucketPlanner, image_sizes
from .padding import Padding
from .patches.patch_planner import PatchPlanner
from .patches.patches import Patches
from .ratio_groups import RatioGroupPlanner, RatioGroups
from .schedules import Sizes, make_schedule
from .size_plan import SizePlan


def make_size_plan(
    sizes: Sizes | None,
    batch_size: int | None,
    pixels_per_batch: int | None,
    seed: int,
    *,
    pad_to_multiple_of: int | None = None,
    aspect_ratio_group_factor: int | None = None,
) -> SizePlan:
    """Check a loader's arguments for the sizes of batches; see :class:`stoker.ImageLoader`."""
    batch_size = optional_number("batch_size", batch_size, 1)
    pixels = optional_number("pixels_per_batch", pixels_per_batch, 1)
    if (batch_size is None) == (pixels is None):
        found = "neither" if batch_size is None else "both"
        raise ConfigError(
            f"a loader takes batch_size or pixels_per_batch, found {found}",
            hint="Give batch_size=64. With sizes that change, pixels_per_batch may replace it.",
        )
    padding = _make_padding(sizes, optional_number("pad_to_multiple_of", pad_to_multiple_of, 1))
    groups = _make_groups(padding, optional_number("aspect_ratio_group_factor", aspect_ratio_group_factor, 0))
    if isinstance(sizes, Patches) and batch_size is None:
        raise ConfigError(
            "Patches take batch_size, the packed rows of a batch, found pixels_per_batch",
            hint="Give batch_size; a row has as many pixels as its patches.",
        )
    if isinstance(sizes, (AspectBuckets, Patches)):
        padding = Padding(sizes.size) if isinstance(sizes, Patches) else None
        return SizePlan(None, (batch_size or 1,), seed, pixels, padding, planner_options=sizes)
    schedule = None if sizes is None or isinstance(sizes, str) else make_schedule(sizes)
    if schedule is None and pixels is not None:
        raise ConfigError(
            "pixels_per_batch goes with sizes, which are missing", hint="Give batch_size, or sizes as well."
        )
    plan = SizePlan(schedule, (batch_size or 1,), seed, pixels, padding, planner_options=groups)
    return replace(plan, batch_sizes=_batch_sizes(plan, plan.sizes)) if schedule else plan


def with_planner(
    plan: SizePlan,
    dataset: SampleSource,
    *,
    shuffle: object,
    sampler: object,
    last_batch: LastBatch,
    on_error: OnError,
) -> SizePlan:
    """The plan with a planner for the images of a dataset, if the user's argument needs one."""
    if (options := plan.planner_options) is None:
        return plan
    name = plan.planned_by
    if sampler is not None or not isinstance(shuffle, bool) or not isinstance(dataset, Dataset):
        raise ConfigError(
            f"{name} plan epochs of one dataset, found a sampler, a BlockShuffle or a mixture",
            hint="Give shuffle=True or False and one dataset; dataset.select(...) chooses samples.",
        )
    if not len(dataset):
        raise ConfigError(f"{name} need images, and the dataset has none", path=dataset.path)
    sizes = image_sizes(dataset)
    if isinstance(options, Patches):
        if on_error == "replace":
            raise ConfigError(
                "on_error='replace' would put an image of another size into a packed row",
                hint="Give on_error='skip', which leaves bad images out of their rows.",
            )
        patches = PatchPlanner(sizes, plan.seed, shuffle, last_batch, options, plan.batch_size)
        return replace(plan, planner=patches)
    if isinstance(options, RatioGroups):
        groups = RatioGroupPlanner(sizes, plan.seed, shuffle, last_batch, options, plan.batch_size)
        return replace(plan, planner=groups)
    shapes = options.shapes(sizes)
    batch_sizes = _batch_sizes(plan, [(height, width) for height, width in shapes.tolist()])
    buckets = BucketPlanner(sizes, plan.seed, shuffle, last_batch, options, shapes, batch_sizes)
    return replace(plan, batch_sizes=batch_sizes, planner=buckets)


def with_captions(plan: SizePlan, captions: Captions | None, draw_seed: int) -> SizePlan:
    """The plan whose packed rows of patches also hold the captions of their images, if there are any."""
    if captions is None:
        return plan
    form, planner = captions.tokens.form, plan.patch_planner
    if (form == "packed") != (planner is not None):
        raise ConfigError(
            f"Tokens(form='packed') and sizes=Patches(...) go together, found form={form!r}"
            + (" with Patches" if planner else " without Patches"),
            hint="Give caption=Tokens(max_length=77, form='packed', row=256) with sizes=Patches(...).",
        )
    return (
        replace(plan, planner=replace(planner, captions=captions, draw_seed=draw_seed)) if planner else plan
    )


def _batch_sizes(plan: SizePlan, sizes: Sequence[Size]) -> tuple[int, ...]:
    """Samples of a batch of each size: the same for all, or as many as the pixels hold."""
    if plan.pixels is None:
        return plan.batch_sizes * len(sizes)
    largest = max(sizes, key=math.prod)
    if plan.pixels < math.prod(largest):
        raise ConfigError(
            f"pixels_per_batch={plan.pixels} holds no image of {largest[0]} x {largest[1]} pixels",
            hint=f"Give at least {math.prod(largest)}.",
        )
    return tuple(plan.pixels // math.prod(size) for size in sizes)


def _make_padding(sizes: Sizes | None, pad_to_multiple_of: int | None) -> Padding | None:
    """The padding that two arguments describe; None for sizes that batches have in common."""
    if isinstance(sizes, str) and sizes not in ("padded", "ragged"):
        raise ConfigError(
            f"sizes must be 'padded', 'ragged', sizes by epoch, RandomSizes, AspectBuckets or Patches, "
            f"found {sizes!r}"
        )
    if pad_to_multiple_of is not None and sizes != "padded":
        raise ConfigError(
            f"pad_to_multiple_of={pad_to_multiple_of} goes with sizes='padded'",
            hint="Leave pad_to_multiple_of out, or give sizes='padded'.",
        )
    if not isinstance(sizes, str):
        return None
    return Padding(pad_to_multiple_of or 1, ragged=sizes == "ragged")


def _make_groups(padding: Padding | None, factor: int | None) -> RatioGroups | None:
    if factor is None:
        return None
    if padding is None:
        raise ConfigError(
            f"aspect_ratio_group_factor={factor} goes with sizes='padded' or 'ragged'",
            hint="Leave it out, or give one of these sizes. AspectBuckets group images of one shape.",
        )
    return RatioGroups(factor, padding)
