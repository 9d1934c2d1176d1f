"""The samples of each batch of images, and the keys of their random numbers, in the order of an epoch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.augment.params import Parts
from stoker.augment.transforms.combining import Partners
from stoker.formats.dataset.index import Samples
from stoker.types import Size

from ..caching.next_use import PlannedDraws, draws_of_order
from ..caching.read_ahead import BatchReads
from ..execution.ranks.ranks import Ranks
from ..order.changes.substitutes import drawn_at
from ..order.rank_draws import Schedule
from .config import ImageLoaderConfig

Int64 = npt.NDArray[np.int64]

# Draws that are ordered at once, because calls of NumPy cost as much for one draw as for thousands.
_ORDER_CHUNK = 4096
_FEW = 8  # batches, which a worker makes together


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
    """Yield the batches of an epoch, in order."""
    first, steps = 0, batches_at_first(schedule)
    while first < len(schedule):
        chunk = range(first, min(first + steps, len(schedule)))
        parts = [(*schedule.draws(step), schedule.size(step), schedule.groups(step)) for step in chunk]
        first, steps = first + steps, max(1, min(2 * steps, _ORDER_CHUNK // schedule.batch_size))
        draws, mask = (np.concatenate([part[k] for part in parts]) for k in range(2))
        counts = [len(draws) for draws, *_ in parts]
        shown_at = schedule.shown_at(np.repeat(chunk, counts), draws, mask)
        drawn = drawn_at(config.order, epoch, draws, shown_at)
        plain = _batches(config, parts, draws, drawn, epoch)
        if config.images[0].plan.combining:
            yield from _with_partners(config, list(plain), draws, shown_at, epoch)
        else:
            yield from plain


def _batches(
    config: ImageLoaderConfig, parts: list[Any], draws: Int64, drawn: tuple[Int64, Int64], epoch: int
) -> Iterator[PlannedBatch]:
    """Batches whose images show only their own samples.

    ``drawn`` are the positions without and with substitutes. A substitute has the random numbers of the
    sample that it replaces, so that its partners, and the choice of a transform for its batch, stay.
    """
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
    """The same batches with their partners, which are samples of other draws of the epoch.

    All partners are drawn at once, because an order costs as much for one draw as for thousands.
    """
    # draws (N,) int64, shown_at (N,) int64
    order, dataset = config.order, config.dataset
    partners = Partners(order.n, config.draw_seed, config.draw_epoch(epoch), epoch, config.shuffled)
    keys = np.concatenate([one.draw_keys for one in batches])
    parts = config.images[0].plan.parts(keys, draws, partners)
    _, sources = drawn_at(order, epoch, parts.draw, shown_at[parts.image])
    first = 0
    for batch in batches:
        at = np.arange(*np.searchsorted(parts.image, (first, first + len(batch))))
        shown, of_batch = sources[at], parts.take(at)
        of_batch = replace(of_batch, image=of_batch.image - first)
        yield replace(batch, sources=shown, samples=dataset.samples(shown), parts=of_batch)
        first += len(batch)


def planned_draws(config: ImageLoaderConfig, ranks: Ranks) -> PlannedDraws:
    """The draws of all epochs; those of planners are counted by steps."""
    order, plan, dataset = config.order, config.size_plan, config.dataset
    if plan.planner is None:
        return draws_of_order(order, dataset)

    def drawn(epoch: int) -> tuple[Int64, Int64]:
        steps, positions = [], []
        for rank in range(ranks.world_size):
            schedule = plan.steps(order.n, replace(ranks, rank=rank), "partial", epoch=epoch, start=0)
            draws = [schedule.draws(step)[0] for step in range(len(schedule))]
            steps.append(np.repeat(np.arange(len(schedule)), [len(one) for one in draws]))
            positions += draws
        return np.concatenate(steps), dataset.rows[np.concatenate(positions)]

    return PlannedDraws(order.n, order.n, drawn)


def batch_reads(config: ImageLoaderConfig, schedule: Schedule, epoch: int) -> Iterator[BatchReads]:
    """Yield what each batch of an epoch reads; see :func:`planned_batches`."""
    for step, planned in enumerate(planned_batches(config, schedule, epoch)):
        last = epoch * schedule.n + schedule.consumed(step + 1) - 1
        yield BatchReads(planned.samples.row, None, last)
