"""The replay of one batch of a training: found by its step, made again, and written as a sheet or a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stoker.errors import ConfigError

from ..images.config import ImageLoaderConfig
from ..images.loader import ImageLoader
from ..images.patches import Patches
from ..preview.batch_pictures import images_of_patches, picture_of
from ..preview.page import checked_target, write_sheet
from ..preview.pictures import Picture
from ..preview.sheet import in_grid, sheet_of
from .drawn import DrawnSample, draw_batch
from .making import AnyLoader, make_loader, read_json
from .texts import ShownSequence, read_texts, text_page


@dataclass(frozen=True)
class Replayed:
    """A batch of a training, made again."""

    epoch: int  # Number of the epoch
    # Number of the step in the training, in the epoch or after the state, as the arguments count it
    step: int
    rank: int  # Rank that received it
    world_size: int  # Number of ranks
    batch: Any  # The batch, arrays of NumPy
    # The drawn parameters of each image, or the sequences of text
    samples: list[DrawnSample] | list[ShownSequence]

    def to_json(self) -> dict[str, Any]:
        """Samples and parameters as JSON data, without pixels."""
        named = {name: value for name, value in vars(self).items() if name not in ("batch", "samples")}
        return {**named, "samples": [asdict(sample) for sample in self.samples]}


def replay(
    state: str | Path | Mapping[str, Any],
    step: int | None = None,
    *,
    epoch: int | None = None,
    after: int | None = None,
    rank: int = 0,
    ranks: int | None = None,
    loader: str | None = None,
    out: str | Path | None = None,
    cell: int = 240,
) -> Replayed:
    """Make a batch of a training again, and write a sheet that shows it."""
    target = None if out is None else checked_target(out)
    if (step is None) == (after is None) or (epoch is not None and step is None):
        raise ConfigError("a replay takes step, with or without epoch, or after")
    content = dict(state) if isinstance(state, Mapping) else read_json(state)
    described = content if "loader" in content else None
    if loader is not None:
        description: Any = read_json(loader) if Path(loader).suffix == ".json" else loader
    elif described is None:
        raise ConfigError(
            "this is a state alone, which does not name the files and arguments of its loader",
            hint="Write json.dumps(loader.describe()) beside it, or name --loader train.py:make_loader.",
        )
    else:
        description = described
    with make_loader(description, rank, ranks) as made_loader:
        made_loader.load_state_dict(described["state"] if described else content)
        batch_epoch, schedule = _schedule(made_loader, step, epoch, after)
        shown = _make(made_loader, batch_epoch, schedule, rank, step if after is None else after)
        if target is not None:
            _write(made_loader, shown, target, cell)
    return shown


def _schedule(loader: AnyLoader, step: int | None, epoch: int | None, after: int | None) -> tuple[int, Any]:
    """The epoch of the batch, and the steps of the epoch from the batch on."""
    if after is None:
        loader.set_epoch(epoch or 0)  # forgets the parts of its epoch with other numbers of ranks
    batch_epoch, position, left = loader._next.epoch, loader._next.position, step if after is None else after
    assert left is not None, "one of both is given"
    if left < 0:
        raise ConfigError(f"steps count from 0, found {left}")
    whole = loader._schedule(batch_epoch, position)
    while left >= len(whole):
        if epoch is not None:
            raise ConfigError(f"epoch {batch_epoch} has no step {left}: its steps are 0 to {len(whole) - 1}")
        left, batch_epoch = left - len(whole), batch_epoch + 1
        if loader.has_equal_epochs:
            batch_epoch, left = batch_epoch + left // len(loader), left % len(loader)
        whole = loader._schedule(batch_epoch, 0)
    return batch_epoch, loader._schedule(batch_epoch, whole.consumed(left))


def _make(loader: AnyLoader, epoch: int, schedule: Any, rank: int, step: int | None) -> Replayed:
    with loader._make_single_producer(schedule, epoch) as producer:
        producer.start()
        batch = producer.finish().batch
    samples: Any
    if isinstance(loader, ImageLoader):
        rows = None if loader._config.size_plan.patch_planner else batch.row
        samples = draw_batch(loader._config, schedule, epoch, rows)
    else:
        samples = read_texts(loader._config, schedule, epoch)
    return Replayed(epoch, step or 0, rank, loader._ranks.world_size, batch, samples)


def _write(loader: AnyLoader, shown: Replayed, target: Path, cell: int) -> None:
    dataset = loader.dataset
    facts = (
        f"epoch {shown.epoch}, step {shown.step}, rank {shown.rank} of {shown.world_size}: "
        f"{len(shown.samples)} {'images' if isinstance(loader, ImageLoader) else 'sequences'}",
    )
    if not isinstance(loader, ImageLoader):
        if target.suffix == ".png":
            raise ConfigError("text is shown as a page", hint="Give a file that ends in .html.")
        texts: Any = shown.samples
        target.write_text(text_page(dataset.path.resolve().name, facts, texts), "utf-8")
        return
    samples: Any = shown.samples
    pictures = draw_samples(loader._config, shown.batch, samples)
    if all(len(row) == 1 for row in pictures):
        pictures = in_grid([row[0] for row in pictures])
    sheet = sheet_of(dataset, facts, (), pictures, cell)
    write_sheet(sheet, target, [asdict(sample) for sample in samples], "Parameters")


def draw_samples(
    config: ImageLoaderConfig, batch: Any, samples: Sequence[DrawnSample]
) -> list[tuple[Picture, ...]]:
    """Return the pictures of each sample of a batch: one, or all of its views in all columns of images."""
    if isinstance(config.size_plan.planner_options, Patches):
        images = images_of_patches(batch, config.size_plan.planner_options.size)
        return [
            (picture_of(config, batch, i, images[i], key=sample.key, note=(*sample.words, "")[0]),)
            for i, sample in enumerate(samples)
        ]
    rows = []
    for i, sample in enumerate(samples):
        pictures: list[Picture] = []
        for column in config.images:
            if column.name not in config.columns:
                continue
            values = getattr(batch, column.name)
            for view in [None] if column.views is None else range(column.views):
                image = values[i] if view is None else values[view][i]
                note = sample.words[len(pictures)] if len(pictures) < len(sample.words) else ""
                key = sample.key if not pictures else None
                pictures.append(
                    picture_of(config, batch, i, image, column=column, view=view, key=key, note=note)
                )
        rows.append(tuple(pictures))
    return rows
