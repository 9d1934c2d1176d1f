"""Replays: any batch of a training, made again, with the parameters that were drawn for each sample."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.arguments import whole_number
from stoker.augment.params import ImageParams
from stoker.errors import CheckpointError, ConfigError, StokerError
from stoker.formats.files import read_regular

from ..description import ELSEWHERE, VERSION, described_dataset, from_portable
from ..images.columns import ImageColumn
from ..images.config import ImageLoaderConfig
from ..images.loader import ImageLoader
from ..images.objects import deciding_objects
from ..images.planned_batches import PlannedBatch, planned_batches
from ..images.planners import Patches
from ..options import Ranks
from ..order.schedule import Schedule
from ..text.loader import TextLoader
from .images import patch_cells, sample_cells
from .page import Cell, checked_target, in_grid, page_of, write_page
from .text import ShownSequence, read_texts, text_page

Int64 = npt.NDArray[np.int64]

_MOST = 64  # numbers of a parameter that are shown; of a longer one the shape is shown
_FLIPS = ("mirrored", "upside down")


@dataclass(frozen=True)
class DrawnSample:
    """A sample of a batch."""

    row: int  # Position of the sample in the loader's dataset
    key: str  # Name of the sample in its source
    words: tuple[str, ...]  # For each image of the sample, its changes or those of its parts in a few words
    # The parameters of each image by the name of its column, and of transforms of batches
    parameters: dict[str, Any]


def draw_batch(
    config: ImageLoaderConfig, schedule: Schedule, epoch: int, rows: Int64 | None
) -> list[DrawnSample]:
    """Draw the first batch of a schedule again."""
    # rows (K,) int64
    planned = next(planned_batches(config, schedule, epoch))
    chosen = _chosen(planned.positions, planned.positions if rows is None else rows)
    keys = config.dataset.keys(planned.positions)
    words: list[list[str]] = [[] for _ in chosen]
    parameters: list[dict[str, Any]] = [{} for _ in chosen]
    draw_epoch = config.draw_epoch(epoch)
    for column in config.images:
        shown = column.samples_of_images(len(planned.sources))
        objects = None
        if column.annotations.needs_boxes:
            objects = deciding_objects(config.dataset.annotations(planned.sources[shown]))
        drawn = planned.draw(config, column, draw_epoch, objects)
        for number, i in enumerate(chosen.tolist()):
            images = _images_of(planned, column, i).tolist()
            changes = [_in_words(drawn, image) for image in images]
            words[number] += changes if planned.parts is None else [" | ".join(changes)]
            of_images = [_of_image(drawn, image, len(drawn)) for image in images]
            alone = planned.parts is None and column.views is None
            parameters[number][column.name] = of_images[0] if alone else of_images
    plan, draw_keys = config.batch_transform_plan, planned.draw_keys[chosen]
    size = config.images[0].at(planned.size).size
    for number in range(len(plan.transforms) if len(chosen) else 0):
        name, mixed = plan.draw(number, draw_keys, size, config.draw_seed, draw_epoch)
        for i, of_sample in enumerate(parameters):
            of_sample[name] = _of_image(mixed, i, len(chosen))
    samples = zip(chosen.tolist(), words, parameters, strict=True)
    return [DrawnSample(int(planned.positions[i]), keys[i], tuple(w), p) for i, w, p in samples]


def _images_of(planned: PlannedBatch, column: ImageColumn, i: int) -> Int64:
    """The rows of the parameters for sample ``i`` of a batch: its image, its views, or its parts."""
    if planned.parts is not None:
        return np.flatnonzero(planned.parts.image == i)
    return column.images_of(np.array([i]), len(planned))


def _chosen(positions: Int64, rows: Int64) -> Int64:
    """The index in ``positions``, (N,), of each of ``rows``, (K,), the rows without bad samples."""
    if len(rows) == len(positions):
        first = {position: i for i, position in reversed(list(enumerate(positions.tolist())))}
        same = rows == positions
        return np.array([i if same[i] else first[row] for i, row in enumerate(rows.tolist())], np.int64)
    indices, i = [], 0
    for row in rows.tolist():
        while positions[i] != row:
            i += 1
        indices.append(i)
        i += 1
    return np.array(indices, np.int64)


def _in_words(params: ImageParams, i: int) -> str:
    top, left, bottom, right = params.region[i].tolist()
    changes = [f"{right - left:.0f} x {bottom - top:.0f} at {left:.0f}, {top:.0f}"]
    changes += [name for name, applies in zip(_FLIPS, params.flip[i].tolist(), strict=True) if applies]
    if params.warp is not None and params.warp.applies(i, params.size):
        changes.append("warped")
    return ", ".join(changes)


def _of_image(params: Any, i: int, n: int) -> dict[str, Any]:
    """The parameters of image ``i`` of ``n`` as JSON data, with those that all images share."""
    values = {field.name: getattr(params, field.name) for field in fields(params)}
    return {name: _plain(value, i, n) for name, value in values.items() if value is not None}


def _plain(value: Any, i: int, n: int) -> Any:
    if isinstance(value, np.ndarray):
        values = value[i] if value.ndim and len(value) == n else value
        return values.tolist() if values.size <= _MOST else f"{values.dtype} of shape {values.shape}"
    if isinstance(value, np.generic):
        return value.item()
    if is_dataclass(value):
        return {"name": type(value).__name__, **_of_image(value, i, n)}
    if isinstance(value, (tuple, list)):
        return [_plain(item, i, n) for item in value]
    return value if isinstance(value, (bool, int, float, str)) else str(value)


AnyLoader = ImageLoader | TextLoader

_LOADERS: dict[str, type[AnyLoader]] = {"ImageLoader": ImageLoader, "TextLoader": TextLoader}
_ADVICE = "--loader train.py:make_loader names a function of your program that makes the loader."
_WRITE = "Write json.dumps(loader.describe()) to it, or json.dumps(loader.state_dict())."


def read_json(path: str | Path) -> dict[str, Any]:
    """Return the object in a file of JSON."""
    try:
        content = json.loads(read_regular(path))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"not JSON: {error}", path=Path(path), hint=_WRITE) from error
    if not isinstance(content, dict):
        raise ConfigError("the file holds no state of a loader", path=Path(path), hint=_WRITE)
    return content


@contextmanager
def _damage_refused() -> Iterator[None]:
    """Raise ConfigError where a value of a description has a type or a size that no loader writes."""
    try:
        yield
    except StokerError:
        raise
    except (LookupError, TypeError, AttributeError, ArithmeticError, ValueError) as error:
        raise ConfigError(
            f"the description of the loader is damaged: {type(error).__name__}: {error}", hint=_WRITE
        ) from error


def make_loader(description: str | Mapping[str, Any], rank: int, world_size: int | None) -> AnyLoader:
    """Make the loader of a training for one of its ranks, with batches in NumPy and the column "row"."""
    if isinstance(description, str):
        users_loader = _call(description)
        kind = next(cls for cls in _LOADERS.values() if isinstance(users_loader, cls))
        dataset, options = users_loader.dataset_argument, dict(users_loader.arguments)
        world_size = world_size or users_loader.process.world_size
        users_loader.close()
    else:
        with _damage_refused():
            kind, dataset, options = _described(description)
            world_size = world_size or whole_number("world_size", description["world_size"], 1, 1 << 31)
    if not 0 <= rank < world_size:
        raise ConfigError(
            f"there is no rank {rank}: the training had {world_size} rank{'s' * (world_size > 1)}",
            hint="--ranks gives their number.",
        )
    balance = options["ranks"].balance if options.get("ranks") else None
    for name in ELSEWHERE:
        options.pop(name, None)
    options["ranks"] = Ranks(rank, world_size, balance=balance)
    with nullcontext() if isinstance(description, str) else _damage_refused():
        loader = kind(dataset, **options)
    if "row" in loader.columns:
        return loader
    options["columns"] = (*loader.columns, "row")
    loader.close()
    return kind(dataset, **options)


def _call(argument: str) -> AnyLoader:
    """The loader that a user's function returns."""
    path, _, name = argument.rpartition(":")
    if not path or not Path(path).is_file():
        raise ConfigError(f"--loader must be file.py:function or a file of JSON, found {argument!r}")
    function = runpy.run_path(path, run_name="stoker_replay").get(name)
    loader = function() if callable(function) else None
    if not isinstance(loader, (ImageLoader, TextLoader)):
        problem = f"returned {loader!r}" if callable(function) else "does not exist"
        raise ConfigError(
            f"{name} must return an ImageLoader or a TextLoader, and {problem}",
            path=Path(path),
            hint="Leave the training itself under if __name__ == '__main__'.",
        )
    return loader


def _described(description: Mapping[str, Any]) -> tuple[type[AnyLoader], Any, dict[str, Any]]:
    if description.get("version") != VERSION or description.get("loader") not in _LOADERS:
        raise ConfigError("this describes no loader", hint=f"loader.describe() makes descriptions. {_ADVICE}")
    if missing := description["missing"]:
        raise CheckpointError(
            f"the description lacks what JSON cannot hold: {'; '.join(missing)}", hint=_ADVICE
        )
    arguments = {name: from_portable(value) for name, value in description["arguments"].items()}
    return _LOADERS[description["loader"]], described_dataset(description["dataset"], arguments), arguments


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
    side: int = 240,
) -> Replayed:
    """Make a batch of a training again, and write a page that shows it."""
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
    with make_loader(description, rank, ranks) as made:
        made.load_state_dict(described.get("state", {}) if described else content)
        at_epoch, steps = _find_step(made, step, epoch, after)
        batch, shown = made.first_batch(steps, at_epoch), (step if after is None else after) or 0
        samples: Any
        if isinstance(made, ImageLoader):
            config = made.pipeline.config
            samples = draw_batch(
                config, steps, at_epoch, None if config.size_plan.patch_planner else batch.row
            )
        else:
            samples = read_texts(made.pipeline, steps)
        replayed = Replayed(at_epoch, shown, rank, made.process.world_size, batch, samples)
        if target is not None:
            _write(made, replayed, target, side)
    return replayed


def _find_step(loader: AnyLoader, step: int | None, epoch: int | None, after: int | None) -> tuple[int, Any]:
    """The epoch of the batch, and the steps of the epoch from the batch on."""
    if after is None:
        loader.set_epoch(epoch or 0)  # forgets the parts of its epoch with other numbers of ranks
    at, left = loader.position, step if after is None else after
    assert left is not None, "one of both is given"
    if left < 0:
        raise ConfigError(f"steps count from 0, found {left}")
    batch_epoch, whole = at.epoch, loader.steps(at.epoch, at.position)
    while left >= len(whole):
        if epoch is not None:
            raise ConfigError(f"epoch {batch_epoch} has no step {left}: its steps are 0 to {len(whole) - 1}")
        left, batch_epoch = left - len(whole), batch_epoch + 1
        if loader.has_equal_epochs:
            batch_epoch, left = batch_epoch + left // len(loader), left % len(loader)
        whole = loader.steps(batch_epoch, 0)
    return batch_epoch, loader.steps(batch_epoch, whole.consumed(left))


def _write(loader: AnyLoader, shown: Replayed, target: Path, side: int) -> None:
    samples: Any = shown.samples
    what = "images" if isinstance(loader, ImageLoader) else "sequences"
    where = f"epoch {shown.epoch}, step {shown.step}, rank {shown.rank} of {shown.world_size}"
    lines = (f"{where}: {len(samples)} {what}",)
    if isinstance(loader, ImageLoader):
        rows = replayed_cells(loader.pipeline.config, shown.batch, samples)
        if all(len(row) == 1 for row in rows):
            rows = in_grid([cell for (cell,) in rows])
        page = page_of(loader.dataset, lines, (), rows, side)
        write_page(page, target, [asdict(sample) for sample in samples], "Parameters")
    elif target.suffix == ".png":
        raise ConfigError("text is shown as a page", hint="Give a file that ends in .html.")
    else:
        target.write_text(text_page(loader.dataset.path.resolve().name, lines, samples), "utf-8")


def replayed_cells(
    config: ImageLoaderConfig, batch: Any, samples: Sequence[DrawnSample]
) -> list[tuple[Cell, ...]]:
    """Return the cells of each sample of a batch, with its parameters in words."""
    if isinstance(patches := config.size_plan.planned_by, Patches):
        notes = [(*sample.words, "")[0] for sample in samples]
        return [(cell,) for cell in patch_cells(config, batch, patches, [one.key for one in samples], notes)]
    return [sample_cells(config, batch, i, one.key, one.words) for i, one in enumerate(samples)]
