"""Datasets and a DataLoader in place of torch's and torchvision's: two changed lines of a training script.

    from stoker.torch import DataLoader, ImageFolder

    train = ImageFolder("photos/train", transform=transforms.Compose([...]))    # torchvision's, or Stoker's
    loader = DataLoader(train, batch_size=64, shuffle=True, num_workers=4)

A dataset decodes a list of indices at once. :class:`DataLoader` draws the sampler of an epoch first, and
gives its batches to the engine, which makes them ahead. Everywhere else, as in a DataLoader of torch, in its
workers, and in the one that Accelerate makes of this, the datasets are plain ones.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.utils.data

import stoker
from stoker.augment.torchvision import stoker_transforms
from stoker.errors import CheckpointError, ConfigError, SampleError
from stoker.pipeline.execution.passes import Prefetcher
from stoker.pipeline.execution.pipeline import FinishedBatch
from stoker.pipeline.execution.stats import StatsTotals
from stoker.pipeline.images.loader import ImageLoader
from stoker.pipeline.loader import Loader
from stoker.pipeline.options import Ranks
from stoker.pipeline.order.schedule import ListedSteps
from stoker.porting import check_arguments
from stoker.processes import PerProcess

_OF_LOADERS = (
    "batch_size",
    "shuffle",
    "sampler",
    "steps_per_epoch",
    "last_batch",
    "ranks",
    "output",
    "sizes",
    "batch_as",
    "device",
    "num_threads",
    "prefetch",
)


class Samples(list[Any]):
    """Samples of one batch as a list of tuples, as torch's datasets return them, and the batch itself."""

    def __init__(self, batch: Any) -> None:
        columns = (
            column.tolist() if name == "label" and column.ndim == 1 else column
            for name, column in batch.items()
        )
        super().__init__(zip(*columns, strict=True))
        self.batch = batch


def collate(samples: Any) -> Any:
    """The batch of a list of samples, in :class:`DataLoader` and in what trainers make of it."""
    return samples.batch if isinstance(samples, Samples) else torch.utils.data.default_collate(samples)


class Dataset(torch.utils.data.Dataset[Any]):  # type: ignore[misc]  # torch is optional
    """Samples of a dataset of images, as (image, label): a map-style dataset for any DataLoader.

    Random parameters of an image follow from the seed, the epoch and its index, whatever sampler, rank or
    worker draws it. The epoch of a sample is that of :meth:`set_epoch`, and one more for each time that this
    dataset has drawn the sample since. Without :meth:`set_epoch` each rank of torch.distributed has other
    epochs, so that no two draws of a sample are the same.

    Args:
        path: Dataset, shards, folder or list of images, as :func:`stoker.open` takes them, or its result.
        transform: Transforms of :mod:`stoker.augment`, or torchvision's ``Compose``, which is translated step
            by step. None leaves images as they are, (3, H, W) uint8.
        target_transform: Function of the label.
        seed: Integer that decides random parameters.
        options: ``columns``, ``dtype``, ``color``, ``layout``, ``objects``, ``errors``, ``reading`` of
            :class:`stoker.ImageLoader`.

    Attributes:
        data: The :class:`stoker.Dataset` behind it, with ``classes``, ``class_to_idx`` and ``targets``, which
            this dataset also has.

    Raises:
        ConfigError: A transform has no equivalent, or an option belongs to the loader.
    """

    def __init__(
        self,
        path: Any,
        transform: Any = None,
        target_transform: Callable[[Any], Any] | None = None,
        *,
        seed: int = 0,
        **options: Any,
    ) -> None:
        if given := [name for name in _OF_LOADERS if name in options]:
            raise ConfigError(
                f"{', '.join(given)} must be given to the DataLoader, found in the dataset",
                hint="DataLoader of stoker.torch has num_workers, prefetch_factor and pin_memory, and "
                "collate_fn for batches of another form.",
            )
        known = set(ImageLoader.__init__.__kwdefaults__ or ()) - {"transforms"}
        if unknown := sorted(options.keys() - known):
            check_arguments(ImageLoader, unknown, "loader")
            raise ConfigError(
                f"{type(self).__name__} has no argument {', '.join(unknown)}",
                hint="It has transform, target_transform, and the options of stoker.ImageLoader for samples. "
                "It finds and decodes images by itself.",
            )
        self.data = stoker.open(path) if isinstance(path, (str, os.PathLike)) else path
        self.options: dict[str, Any] = {"seed": seed, **options}
        self.target_transform = target_transform
        self._sender: tuple[int, int] | None = None  # rank and ranks of the process that sent it to a worker
        self.transform = transform
        self._prepare()

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "transform":  # trainers such as timm's set it after they have split the dataset
            self.options = {**self.options, "transforms": stoker_transforms(value)}
            self._maker = PerProcess(lambda: BatchMaker(self, None if _worker() is None else 1))
        super().__setattr__(name, value)

    def _prepare(self, counts: Any = None) -> None:
        # The epoch told, -1 for none, and how often each sample was drawn. Memory that workers share, forked
        # or spawned, so that a sample drawn by one of them counts in all.
        counts = torch.tensor([-1] + [0] * len(self.data), dtype=torch.int32) if counts is None else counts
        with suppress(RuntimeError):  # without /dev/shm, where torch has no workers either
            counts.share_memory_()
        self._counts = counts
        self._epoch, self._drawn = counts[:1].numpy(), counts[1:].numpy()
        self._lock = PerProcess(threading.Lock)

    def __getstate__(self) -> dict[str, Any]:
        public = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        return public | {"counts": self._counts, "process": _process()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        counts, self._sender = state.pop("counts"), state.pop("process")
        for name, value in state.items():
            setattr(self, name, value)
        self._prepare(counts)

    def __getattr__(self, name: str) -> Any:
        """``classes``, ``class_to_idx``, ``targets`` and whatever else the dataset behind it has."""
        if name.startswith("_") or name == "data":
            raise AttributeError(name)
        return getattr(self.data, name)

    @property
    def samples(self) -> list[tuple[str, int]]:
        """(key, class) of all samples; the key of an image in a folder is its path there."""
        return list(zip(self.data.keys(range(len(self))), self.data.targets, strict=True))

    imgs = samples

    def set_epoch(self, epoch: int) -> None:
        """Draw the random parameters of this epoch from now on; before workers start."""
        self._epoch[:], self._drawn[:] = epoch, 0

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        samples: list[tuple[Any, ...]] = self.__getitems__([index])
        if not samples:  # no IndexError, which would end a loop over the dataset
            raise ConfigError(
                f"sample {self.data.keys([index])[0]!r} is bad, and one sample cannot be skipped",
                hint='errors=stoker.BadSamples("replace") takes another sample in its place.',
            )
        return samples[0]

    def __getitems__(self, indices: Sequence[int]) -> Samples:
        """The samples at these indices, decoded at once."""
        rows = _checked(indices, len(self))
        if not rows.size:
            return Samples({})
        with self._lock.get():
            epochs = self._epochs(rows)
            np.add.at(self._drawn, rows, 1)
            maker = self._maker.get()
            made = Samples(maker.batch(rows, int(epochs[0]))) if (epochs == epochs[:1]).all() else None
            if made is None:  # some have been drawn oftener
                alone = [maker.batch(rows[i : i + 1], int(epochs[i])) for i in range(len(rows))]
                return self.with_targets(Samples(_joined(alone)))
        return self.with_targets(made)

    def _epochs(self, rows: npt.NDArray[np.int64]) -> Any:
        """The epoch of each draw, (n,) int32; ranks that are told none have epochs of their own."""
        # A rank does not know what the others have drawn, and would begin again for each sample.
        rank, ranks = _process() if _worker() is None else self._sender or _process()
        return self._drawn[rows] * ranks + rank if self._epoch[0] < 0 else self._epoch[0] + self._drawn[rows]

    def with_targets(self, samples: Samples) -> Samples:
        """The samples with ``target_transform`` of their labels."""
        if self.target_transform and "label" in samples.batch:
            at = samples.batch.keys().index("label")
            labels = [self.target_transform(sample[at]) for sample in samples]
            for i, label in enumerate(labels):
                samples[i] = (*samples[i][:at], label, *samples[i][at + 1 :])
            samples.batch = samples.batch._replace(label=torch.utils.data.default_collate(labels))
        return samples


class ImageFolder(Dataset):
    """A folder with a folder for each class, read in place: torchvision's ``ImageFolder``.

    Classes are the folders of the first level, in the order of their names, and samples lie in torchvision's
    order, so that an index means the same image.

    Args:
        root: The folder.
        transform: See :class:`Dataset`.
        target_transform: Function of the label.
        options: See :class:`Dataset`.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Any = None,
        target_transform: Callable[[Any], Any] | None = None,
        **options: Any,
    ) -> None:
        self.root = str(Path(root).expanduser())
        try:
            data = stoker.open(self.root, class_depth=1)
        except ConfigError as error:
            Path(self.root).stat()  # FileNotFoundError, as torchvision's
            raise ConfigError(
                f"root must be a folder with a folder of images for each class, found {self.root!r}",
                hint="stoker.torch.Dataset takes datasets, shards and lists of images.",
            ) from error
        keys = [PurePosixPath(key) for key in data.keys(range(len(data)))]
        order = sorted(range(len(keys)), key=lambda i: (keys[i].parts[0], str(keys[i].parent), keys[i].name))
        super().__init__(data.select(np.array(order)), transform, target_transform, **options)

    @property
    def samples(self) -> list[tuple[str, int]]:
        """(path, class) of all images."""
        return [(str(Path(self.root, key)), label) for key, label in super().samples]

    imgs = samples


class BatchMaker:
    """An engine that makes batches of any indices of a dataset."""

    def __init__(
        self, dataset: Dataset, threads: int | None, prefetch: int = 2, *, pinned: bool = False
    ) -> None:
        options: dict[str, Any] = {"device": "pinned"} if pinned else {}
        options |= {"output": "torch", "ranks": Ranks(0, 1), "num_threads": threads, "prefetch": prefetch}
        options |= dataset.options
        try:
            self._loader = ImageLoader(dataset.data, batch_size=1, **options)
        except ConfigError:  # images of several sizes
            self._loader = ImageLoader(dataset.data, batch_size=1, sizes="ragged", **options)
        self._prefetch = prefetch
        self.options = dataset.options

    def batch(self, rows: npt.NDArray[np.int64], epoch: int) -> Any:
        """The batch of these samples, with the parameters of an epoch."""
        producer = self._loader.pipeline.producer(ListedSteps([rows]), epoch)
        producer.start()
        return _stacked(producer.finish().batch)

    def batches(self, listed: Sequence[npt.NDArray[np.int64]], epoch: int) -> Iterator[Any]:
        """The batches of lists of samples, made ahead."""
        producer = self._loader.pipeline.producer(ListedSteps(listed), epoch)
        made = Prefetcher(iter([producer]), self._prefetch, StatsTotals())
        made.worker.start()
        return map(_received, made)


def _received(finished: FinishedBatch) -> Any:
    if finished.ready:
        finished.ready()
    return _stacked(finished.batch)


class _Pass:
    """The batches of one pass of a DataLoader."""

    # If it is dropped before its end, the thread ends, and the engine goes with it. It begins with the first
    # batch, as torch's does: a trainer may tell the epoch after it has asked for the iterator.

    def __init__(self, loader: DataLoader, dataset: Dataset, positions: npt.NDArray[np.int64] | None) -> None:
        self._loader = loader
        self._dataset = dataset
        self._positions = positions
        self._batches: Iterator[Any] | None = None
        self._form = None if loader.collate_fn is collate else loader.collate_fn

    def _start(self) -> Iterator[Any]:
        position = self._loader.position
        rows = position.begin()
        self._rows = rows if self._positions is None else [self._positions[one] for one in rows]
        self._epoch, self._received = position.epoch, position.step
        self._token = position.running = object()
        self._maker = self._loader.take_maker(self._dataset)
        return self._rest()

    def _rest(self) -> Iterator[Any]:
        return self._maker.batches(self._rows[self._received :], self._epoch)

    def __iter__(self) -> _Pass:
        return self

    def __next__(self) -> Any:
        if self._batches is None:
            self._batches = self._start()
        try:
            batch = next(self._batches)
        except StopIteration:
            self._loader.finish(self._maker, is_latest=self._is_latest())
            raise
        except Exception as error:
            if isinstance(error, SampleError):  # the next batch follows, as in torch's loader
                self._count()
            self._batches = self._rest()  # after an error of the storage, the same batch
            raise
        self._count()
        if self._form:
            return self._form(self._dataset.with_targets(Samples(batch)))
        return self._dataset.with_targets(Samples(batch)).batch if self._dataset.target_transform else batch

    def _count(self) -> None:
        self._received += 1
        if self._is_latest():
            self._loader.position.step = self._received

    def _is_latest(self) -> bool:
        return self._loader.position.running is self._token


class _Told:
    """A sampler that passes the epoch on which a trainer tells it; its order does not depend on it."""

    data_source: Any
    epoch: int | None = None

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch
        if found := _resolved(self.data_source):  # for a DataLoader that a trainer makes of it
            found[0].set_epoch(epoch)


class RandomSampler(_Told, torch.utils.data.RandomSampler):  # type: ignore[misc]  # torch is optional
    """torch's, which a trainer may tell the epoch."""


class SequentialSampler(_Told, torch.utils.data.SequentialSampler):  # type: ignore[misc]
    """torch's, which a trainer may tell the epoch."""


class DataLoader(torch.utils.data.DataLoader[Any]):  # type: ignore[misc]  # torch is optional
    """torch's DataLoader with the same arguments, whose batches the native engine makes ahead.

    The dataset is a :class:`Dataset` or :class:`ImageFolder`, or a ``Subset`` of one; of any other dataset
    this is torch's loader. A batch is a named tuple of tensors, also read as a mapping. Samplers are drawn as
    torch draws them, from the same generators, but a whole epoch at its begin.

    ``num_workers`` is the number of the engine's threads, and 0 takes this process' share of the cores; there
    are no worker processes. ``prefetch_factor`` counts batches. The epoch of random parameters is that of the
    sampler, where it has one, and else the number of the pass.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        *arguments: Any,
        **options: Any,
    ) -> None:
        if isinstance(dataset, Loader):
            raise ConfigError(
                "a loader makes whole batches, and replaces a DataLoader",
                hint="Iterate over the loader itself.",
            )
        samplers = [options.get("sampler"), options.get("batch_sampler")]
        if not arguments and all(one is None for one in samplers) and _resolved(dataset):
            random = RandomSampler(dataset, generator=options.get("generator")) if shuffle else None
            options["sampler"], shuffle = random or SequentialSampler(dataset), None
        batched = batch_size is not None or options.get("batch_sampler") is not None
        if batched and len(arguments) < 4 and _resolved(dataset):
            options["collate_fn"] = options.get("collate_fn") or collate
        super().__init__(dataset, batch_size, shuffle, *arguments, **options)
        self.position = _Position(self)
        self._idle: BatchMaker | None = None

    def check_worker_number_rationality(self) -> None:
        """Warn of more workers than cores, as torch does, where there are workers."""
        if self._found() is None:
            super().check_worker_number_rationality()

    def _found(self) -> tuple[Dataset, npt.NDArray[np.int64] | None] | None:
        return _resolved(self.dataset) if self.batch_sampler is not None else None

    def __iter__(self) -> Iterator[Any]:
        found = self._found()
        return iter(super().__iter__()) if found is None else _Pass(self, *found)

    def take_maker(self, dataset: Dataset) -> BatchMaker:
        """The engine of the last pass, or another one."""
        maker, self._idle = self._idle, None
        if maker is None or maker.options is not dataset.options:
            ahead = self.prefetch_factor * self.num_workers if self.prefetch_factor else 4
            pinned = bool(self.pin_memory) and torch.cuda.is_available()
            maker = BatchMaker(dataset, self.num_workers or None, ahead, pinned=pinned)
        return maker

    def finish(self, maker: BatchMaker, *, is_latest: bool) -> None:
        """End a pass, whose engine makes the next one."""
        self._idle = maker
        if is_latest:
            self.position.end()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_idle": None}

    def set_epoch(self, epoch: int) -> None:
        """Draw the random parameters of ``epoch`` in the next pass, and tell the sampler.

        Nothing changes where a state inside this epoch is loaded.
        """
        self.position.go_to(epoch)

    @property
    def state_dict(self) -> Callable[[], dict[str, Any]]:
        """The position in the epoch, and the states of the generators that its sampler was drawn with."""
        self._check_state()
        return self.position.save

    @property
    def load_state_dict(self) -> Callable[[dict[str, Any]], None]:
        """Go on with the batch after the last one of the saved loader.

        The first pass raises CheckpointError if its sampler draws other batches than that of the state.
        """
        self._check_state()
        return self.position.load

    def _check_state(self) -> None:
        # A missing attribute, as trainers ask whether there is one.
        if self._found() is None:
            raise AttributeError(
                "only a DataLoader of batches of a dataset of stoker.torch, or a Subset of one, has a state"
            )


class _Position:
    """Where a DataLoader is: its epoch, the batches received, and what draws the same sampler again."""

    def __init__(self, loader: DataLoader) -> None:
        self.epoch = self.step = 0
        self.running: object = None  # the token of the pass that began last
        self._loader = loader
        self._begun: dict[str, Any] | None = None  # what the running epoch was drawn with
        self._batches = 0  # of the running epoch
        self._loaded: dict[str, Any] | None = None
        self._told: int | None = None  # by the sampler
        self._has_drawn = False

    def begin(self) -> list[Any]:
        """The batches of rows of an epoch, of which ``step`` are done."""
        if self._begun and self._loaded is None:  # the last pass was left early
            self.end()
        loaded, self._loaded = self._loaded, None
        if (told := self._epoch_told()) is not None and told != self._told:
            if loaded and told != loaded["epoch"]:
                self._restore(loaded["drawn_with"])
                loaded = None
            self._skip_to(told)
            self._told = told
        self.step = loaded["step"] if loaded else 0
        self._begun = loaded["drawn_with"] if loaded else self._generators()
        restored = loaded and not torch.equal(torch.get_rng_state(), self._begun["default"])
        with torch.random.fork_rng(devices=[]) if restored else nullcontext():
            if loaded:
                torch.set_rng_state(self._begun["default"])
                self._restore(self._begun)
            rows = [_checked(indices, len(self._loader.dataset)) for indices in self._draw()]
        self._batches = len(rows)
        digest = _digest(rows, by_rank=any(hasattr(one, "num_replicas") for one in self._samplers()))
        if self.step and digest != self._begun["digest"]:
            raise CheckpointError(
                "the sampler draws other batches than the one of the saved state, so samples would be lost",
                hint="Keep the dataset, batch_size, the sampler, its seed and the number of ranks. A sampler "
                "that draws with random or NumPy needs state_dict and load_state_dict.",
            )
        self._begun["digest"] = digest
        return rows

    def _draw(self) -> list[Any]:
        loader = self._loader
        try:
            len(loader.batch_sampler)
        except (TypeError, NotImplementedError) as error:
            raise ConfigError(
                "the sampler must have a length, found none",
                hint="Give it __len__, or take torch.utils.data.DataLoader.",
            ) from error
        # As torch's iterator does before it asks the sampler; persistent workers keep their first seed.
        if not (loader.persistent_workers and self._has_drawn):
            torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
        self._has_drawn = True
        return list(loader.batch_sampler)

    def _skip_to(self, epoch: int) -> None:
        """Go to an epoch; own generators draw those before it, so that its order is that of all trainings."""
        if epoch > self.epoch and self._own_generators():
            with torch.random.fork_rng(devices=[]):
                for _ in range(epoch - self.epoch):
                    self._draw()
        self.epoch = epoch

    def _samplers(self) -> list[Any]:
        loader = self._loader
        nested = getattr(loader.batch_sampler, "sampler", None)
        return list({id(one): one for one in (loader.batch_sampler, nested, loader.sampler)}.values())

    def _epoch_told(self) -> int | None:
        epochs = [getattr(one, "epoch", None) for one in self._samplers()]
        return next((epoch for epoch in epochs if type(epoch) is int), None)

    def _own_generators(self) -> list[torch.Generator]:
        found = [getattr(one, "generator", None) for one in (self._loader, *self._samplers())]
        return list({id(one): one for one in found if isinstance(one, torch.Generator)}.values())

    def _stateful(self) -> list[Any]:
        return [one for one in self._samplers() if callable(getattr(one, "state_dict", None))]

    def _generators(self) -> dict[str, Any]:
        return {
            "default": torch.get_rng_state(),
            "own": [one.get_state() for one in self._own_generators()],
            "samplers": [one.state_dict() for one in self._stateful()],
            "has_drawn": self._has_drawn,
            "told": self._epoch_told(),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        self._has_drawn = state["has_drawn"]
        for generator, saved in zip(self._own_generators(), state["own"], strict=False):
            generator.set_state(saved)
        for sampler, saved in zip(self._stateful(), state["samplers"], strict=False):
            sampler.load_state_dict(saved)

    def _tell(self, epoch: int) -> None:
        for sampler in self._samplers():
            if callable(tell := getattr(sampler, "set_epoch", None)):
                tell(epoch)

    def end(self) -> None:
        """Begin no part of this epoch again."""
        self.epoch, self.step, self.running, self._begun = self.epoch + 1, 0, None, None

    def go_to(self, epoch: int) -> None:
        self._tell(epoch)
        if self._loaded:
            if self._loaded["epoch"] == epoch:
                return
            self._restore(self._loaded["drawn_with"])
        if self._begun:
            self.end()
        self._skip_to(epoch)
        self.running = self._loaded = None

    def save(self) -> dict[str, Any]:
        if self._loaded:
            return self._loaded
        if self._begun and self.step < self._batches:
            return {"epoch": self.epoch, "step": self.step, "drawn_with": dict(self._begun)}
        told = self._epoch_told()
        epoch = told if told not in (None, self._told) else self.epoch + bool(self._begun)
        return {"epoch": epoch, "step": 0, "drawn_with": self._generators()}

    def load(self, state: dict[str, Any]) -> None:
        if not isinstance(state, dict) or state.keys() != {"epoch", "step", "drawn_with"}:
            raise CheckpointError(
                "this is not a state of a stoker.torch.DataLoader", hint="Pass what state_dict() returned."
            )
        self.epoch, self.step, self._loaded = state["epoch"], state["step"], state
        self.running = self._begun = None
        self._told = state["drawn_with"]["told"]
        if self._told is not None:
            self._tell(self._told)


def _resolved(dataset: Any) -> tuple[Dataset, npt.NDArray[np.int64] | None] | None:
    """The dataset under subsets, and the positions in it that the subsets have; None for another dataset."""
    positions = None
    while type(dataset) is torch.utils.data.Subset:
        indices = np.asarray(dataset.indices, np.int64)
        positions = indices if positions is None else indices[positions]
        dataset = dataset.dataset
    return (dataset, positions) if isinstance(dataset, Dataset) else None


def _checked(indices: Sequence[int], n: int) -> npt.NDArray[np.int64]:
    rows = np.asarray(indices)
    if rows.size and (rows.dtype.kind not in "iu" or rows.ndim != 1):
        raise TypeError(f"an index must be an integer, found {indices[0]!r}")
    if rows.size and (rows.min() < -n or rows.max() >= n):
        raise IndexError(f"index must be in 0..{n - 1}, found {int(rows[(rows < -n) | (rows >= n)][0])}")
    return np.where(rows < 0, rows + n, rows).astype(np.int64)


def _digest(listed: list[npt.NDArray[np.int64]], *, by_rank: bool) -> str:
    """SHA-256 of the batches; of their sizes alone where the rows of ranks differ, which share a state."""
    sizes = np.array([len(rows) for rows in listed], np.int64)
    digest = hashlib.sha256(sizes.tobytes())
    for rows in [] if by_rank else listed:
        digest.update(rows.tobytes())
    return digest.hexdigest()


def _worker() -> Any:
    return torch.utils.data.get_worker_info()


def _process() -> tuple[int, int]:
    """Rank of this process and the number of ranks."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return 0, 1
    return distributed.get_rank(), distributed.get_world_size()


def _stacked(batch: Any) -> Any:
    """The batch with its images as one tensor, if all have one size."""
    changed = {}
    for name, column in batch.items():
        is_ragged = isinstance(column, list) and column and isinstance(column[0], torch.Tensor)
        if is_ragged and len({one.shape for one in column}) == 1 and column[0].ndim > 2:
            changed[name] = torch.stack(column)
    return batch._replace(**changed) if changed else batch


def _joined(batches: Sequence[Any]) -> Any:
    """One batch of several."""
    columns = {}
    for name, first in batches[0].items():
        values = [value for batch in batches for value in batch[name]]
        columns[name] = torch.stack(values) if isinstance(first, torch.Tensor) else values
    return type(batches[0])(columns)
