"""The samples and random parameters of each batch of images, and what is read ahead for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.augment.geometry.boxes import Objects
from stoker.augment.params import ImageParams, Parts
from stoker.augment.transforms.combining import Partners
from stoker.errors import ConfigError
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.dataset.index import Samples
from stoker.types import Size

from ..order.orders import BlockShuffle, Order, Repeat
from ..order.schedule import PlannedSteps, Schedule
from .columns import ImageColumn
from .config import ImageLoaderConfig

Int64 = npt.NDArray[np.int64]

# Draws that are ordered at once, because calls of NumPy cost as much for one draw as for thousands.
_ORDER_CHUNK = 4096
_FEW = 8  # batches, as many as a worker of a cluster makes together


@dataclass(frozen=True)
class PlannedBatch:
    """The samples of a batch, and further samples that its images show."""

    positions: Int64  # (N,) int64, positions of the samples in the dataset
    mask: npt.NDArray[np.bool_]  # (N,) bool, False for samples that fill up the batch
    # (P,) int64, positions of the samples that are read: those of the batch, or those of the parts if images
    # have several
    sources: Int64
    samples: Samples  # P rows of the index, which say where the payloads of the sources lie
    draw_keys: Int64  # (N,) int64, the keys of their random numbers
    # Height and width of the images, pixels; None for those that the transforms leave
    size: Size | None = None
    # (rows + 1,) int64, first sample of each packed row, and N; None without packing
    groups: Int64 | None = None
    # The parts of images that the sources are; None if each image shows its own sample alone
    parts: Parts | None = None

    def __len__(self) -> int:
        return len(self.positions)

    def draw(
        self, config: ImageLoaderConfig, column: ImageColumn, epoch: int, objects: Objects | None = None
    ) -> ImageParams:
        """Draw the parameters of the images of a column; see :meth:`ImagePlan.draw`."""
        shown, parts = column.samples_of_images(len(self.sources)), self.parts
        height, width, seed = self.samples.height[shown], self.samples.width[shown], config.draw_seed
        keys, plan = parts.image_keys if parts else column.keys(self.draw_keys), column.at(self.size)
        try:
            return plan.draw(height, width, keys, seed, epoch, objects=objects, parts=parts)
        except ConfigError:
            for i in range(len(keys)):  # finds the refused image, which is also refused alone
                at = np.array([i])
                own, own_parts = objects and objects.take(at), parts and parts.take(at)
                try:
                    plan.draw(height[at], width[at], keys[at], seed, epoch, objects=own, parts=own_parts)
                except ConfigError as error:
                    named = config.dataset.error(int(self.sources[shown[i]]), error.message)
                    error.path, error.key = named.path, named.key
                    error.shard, error.record = named.shard, named.record
                    raise
            raise

    def of_images(self, where: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """(N,) bool, images that have a source for which ``where``, (P,) bool, is true."""
        if self.parts is None:
            return where
        of_images = np.zeros(len(self), np.bool_)
        of_images[self.parts.image[where]] = True
        return of_images

    def blamed(self, bad_sources: npt.NDArray[np.bool_]) -> Int64:
        """(N,) int64, positions of the first bad source of each image, or of the image's own sample."""
        positions: Int64 = self.positions.copy()
        if self.parts is not None:
            bad = np.flatnonzero(bad_sources)[::-1]  # the first one last, so that it counts
            positions[self.parts.image[bad]] = self.sources[bad]
        return positions

    def sources_of(self, image: int) -> Int64:
        """Indices among :attr:`sources` of those that an image shows."""
        images = np.arange(len(self)) if self.parts is None else self.parts.image
        return np.flatnonzero(images == image).astype(np.int64)


def batches_at_first(schedule: Schedule) -> int:
    """How many batches are planned first: all if they are few, otherwise one, which comes soon."""
    return len(schedule) if len(schedule) <= _FEW else 1


def planned_batches(config: ImageLoaderConfig, schedule: Schedule, epoch: int) -> Iterator[PlannedBatch]:
    """Yield the batches of this rank's steps, in order."""
    first, count = 0, batches_at_first(schedule)
    while first < len(schedule):
        chunk = range(first, min(first + count, len(schedule)))
        parts = [(*schedule.draws(step), schedule.size(step), schedule.groups(step)) for step in chunk]
        first, count = first + count, max(1, min(2 * count, _ORDER_CHUNK // schedule.batch_size))
        draws, mask = (np.concatenate([part[k] for part in parts]) for k in range(2))
        counts = [len(draws) for draws, *_ in parts]
        shown_at = schedule.shown_at(np.repeat(chunk, counts), draws, mask)
        drawn = config.shown(epoch, draws, shown_at)
        plain = _batches(config, parts, draws, drawn, epoch)
        if config.images[0].plan.combining:
            yield from _with_partners(config, list(plain), draws, shown_at, epoch)
        else:
            yield from plain


def _batches(
    config: ImageLoaderConfig, parts: list[Any], draws: Int64, drawn: tuple[Int64, Int64], epoch: int
) -> Iterator[PlannedBatch]:
    """Batches whose images show only their own samples."""
    # ``drawn`` are the positions without and with replacements. A replacement has the random numbers of the
    # sample that it replaces, so that its partners, and the choice of a transform for its batch, stay.
    originals, positions = drawn
    samples = config.dataset.samples(positions)
    rows = samples.row if np.array_equal(originals, positions) else config.dataset.samples(originals).row
    keys = config.draw_keys(epoch, draws, rows)
    end = 0
    for own_draws, mask, size, groups in parts:
        at = slice(end, end := end + len(own_draws))
        yield PlannedBatch(positions[at], mask, positions[at], samples.take(at), keys[at], size, groups)


def _with_partners(
    config: ImageLoaderConfig, batches: list[PlannedBatch], draws: Int64, shown_at: Int64, epoch: int
) -> Iterator[PlannedBatch]:
    """The same batches with their partners, which are samples of other draws of the epoch."""
    # All partners are drawn at once, because an order costs as much for one draw as for thousands.
    # draws (N,) int64, shown_at (N,) int64
    order, dataset = config.order, config.dataset
    partners = Partners(order.n, config.draw_seed, config.draw_epoch(epoch), epoch, config.shuffled)
    keys = np.concatenate([one.draw_keys for one in batches])
    parts = config.images[0].plan.parts(keys, draws, partners)
    _, sources = config.shown(epoch, parts.draw, shown_at[parts.image])
    first = 0
    for batch in batches:
        at = np.arange(*np.searchsorted(parts.image, (first, first + len(batch))))
        shown, of_batch = sources[at], parts.take(at)
        of_batch = replace(of_batch, image=of_batch.image - first)
        yield replace(batch, sources=shown, samples=dataset.samples(shown), parts=of_batch)
        first += len(batch)


def batch_of(config: ImageLoaderConfig, positions: Int64) -> PlannedBatch:
    """A batch of the samples at these positions, in no order of an epoch."""
    samples = config.dataset.samples(positions)
    return PlannedBatch(positions, np.ones(len(positions), np.bool_), positions, samples, samples.row)


def check_crops(config: ImageLoaderConfig) -> None:
    """Refuse crops larger than the lowest or the narrowest image, before an epoch meets that image."""
    dataset = config.dataset
    for column in config.images:
        # Of all transforms RandomCrop has this argument. A mixture may draw nothing from a dataset.
        refusing = any(not getattr(one, "pad_if_needed", True) for one in column.plan.transforms)
        if refusing and isinstance(dataset, Dataset):
            smallest = [int(dataset.column(name).argmin()) for name in ("height", "width")]
            batch_of(config, np.array(smallest, np.int64)).draw(config, column, epoch=0)


DrawnBatch = tuple[PlannedBatch, Sequence[ImageParams]]
"""A batch, and the parameters of its image columns; none if they are not drawn yet."""

_AT_ONCE = 512  # samples, because NumPy's calls for 64 samples cost about as much


def drawn_batches(
    config: ImageLoaderConfig, batches: Iterator[PlannedBatch], schedule: Schedule, epoch: int
) -> Iterator[DrawnBatch]:
    """Yield the batches of a schedule with their random parameters, unless these depend on objects."""
    # The parameters of several batches are drawn together, where that is possible.
    divisible = all(column.plan.is_divisible for column in config.images)
    most, count = _AT_ONCE // schedule.batch_size if divisible else 1, batches_at_first(schedule)
    while together := list(islice(batches, count)):
        yield from zip(together, _together(config, together, epoch, divisible=divisible), strict=True)
        count = max(1, min(2 * count, most))


def _together(
    config: ImageLoaderConfig, batches: Sequence[PlannedBatch], epoch: int, *, divisible: bool
) -> Sequence[Sequence[ImageParams]]:
    columns = config.images
    if any(column.annotations.needs_boxes for column in columns):
        return [()] * len(batches)
    try:
        if len(batches) == 1 or not divisible:
            return [[batch.draw(config, column, epoch) for column in columns] for batch in batches]
        return list(zip(*(_divided(config, batches, column, epoch) for column in columns), strict=True))
    except ConfigError:  # drawing for the batch itself raises it again
        return [()] * len(batches)


def _divided(
    config: ImageLoaderConfig, batches: Sequence[PlannedBatch], column: ImageColumn, epoch: int
) -> Iterator[ImageParams]:
    """Draw the parameters of successive batches of one size at once, and yield those of each batch."""
    for size, group in groupby(batches, key=lambda one: one.size):
        together = list(group)
        height = np.concatenate([one.samples.height for one in together])
        width = np.concatenate([one.samples.width for one in together])
        keys = column.keys(np.concatenate([one.draw_keys for one in together]))
        n = len(height)
        shown = column.samples_of_images(n)
        params = column.at(size).draw(height[shown], width[shown], keys, config.draw_seed, epoch)
        for first, end in pairwise(np.cumsum([0, *map(len, together)]).tolist()):
            yield params.take(column.images_of(np.arange(first, end), n))


_READ_AT_ONCE = 1024  # samples in one request; a larger one could block a thread for seconds on a slow disk


def block_reads(config: ImageLoaderConfig, schedule: Schedule, epoch: int) -> Iterator[Samples]:
    """Yield the samples to read ahead before each batch; yield nothing for orders without blocks."""
    # Batches draw at random from a window of several blocks. So the engine reads the bytes of a window ahead
    # in the order of the files, before the first batch that needs them. It requests the first window at once,
    # and each other window in parts, with the batches of the window before it.
    span = _span(config.order)
    if not span or isinstance(schedule, PlannedSteps):
        return
    steps = max(1, span // schedule.global_batch)
    first = max(1, steps - schedule.start % span // schedule.global_batch)
    ends = [0, *range(first, len(schedule), steps), len(schedule)]
    parts = None
    for begin, end in pairwise(ends):
        window = _in_file_order(config, schedule, epoch, range(begin, end))
        if parts is None:  # the first window, whose last parts come with the first batches
            parts = -(-len(window) // _READ_AT_ONCE)
            following = end - begin - parts + 1
        else:
            parts, following = following, end - begin
        yield from (window.take(part) for part in np.array_split(np.arange(len(window)), max(1, parts)))


def _span(order: Any) -> int:
    """Number of successive draws, of all ranks, from the same blocks; 0 if the order has no blocks."""
    if isinstance(order, BlockShuffle):
        return order.block * order.window
    if rounds := getattr(order, "rounds", None):  # a mixture
        spans = [(_span(one), quota) for one, quota in zip(rounds, order.quotas, strict=True)]
        return max((span * order.n // quota for span, quota in spans if quota), default=0)
    within: Order | None = getattr(order, "order", None)
    return _span(within) * (order.times if isinstance(order, Repeat) else 1) if within else 0


def _in_file_order(config: ImageLoaderConfig, schedule: Schedule, epoch: int, steps: range) -> Samples:
    """The samples of this rank's batches at ``steps``, in the order of the files."""
    draws = np.concatenate([schedule.draws(step)[0] for step in steps])
    _, positions = config.shown(epoch, draws, draws)
    samples = config.dataset.samples(positions)
    return samples.take(np.lexsort((samples.offset, samples.shard)))
