"""An unfinished conversion at a URL, whose parts of the index and results are copied to this machine.

As in a folder, ``.stoker-convert`` collects the finished shards, their parts of the index and their results,
each result after its shard. At the end the shards get their names, and the manifest comes last. An object
store has no locks, so two conversions may write to one URL at once; with the same plan, both write the same
bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from stoker.errors import DatasetError

from ..dataset.manifest import MANIFEST_NAME, MOST_MANIFEST_BYTES, STATE_NAME, Manifest, published_names
from ..files import remove, temporary_folder
from ..remote.store import Store
from ..threads import thread_map
from .plan import ConversionPlan, DatasetPlan
from .publishing import FoundDataset, SplitOutput
from .shard import ShardContext, ShardResult, shard_files, write_shard
from .unfinished import REPLACE, Unfinished, files_of_dataset

_PLAN = f"{STATE_NAME}/plan.json"
_RETIRED = ".retired.json"
_CONCURRENT = 16  # small files that are fetched, or shards that are renamed


def _make_shard(
    url: str, plan: ConversionPlan, number: int, context: ShardContext | None = None
) -> ShardResult:
    """Make a shard of a plan in a temporary folder and upload it, its result last."""
    store = Store(url, context.stop if context else None)
    with temporary_folder("stoker-convert-") as folder:
        result = write_shard(Path(folder), plan, number, context)
        files = shard_files(Path(folder), number, plan.options.container)
        result_file = files.pop("result")
        _upload(store, Path(folder), [*files.values(), result_file])
    return result


def _upload(store: Store, folder: Path, files: Iterable[Path]) -> None:
    """Copy files in a folder, in order, to the unfinished conversion at a URL. A shard may be a folder."""
    for file in files:
        for part in sorted(file.iterdir()) if file.is_dir() else [file]:
            store.upload(part, f"{STATE_NAME}/{part.relative_to(folder)}")


class UnfinishedAtUrl(Unfinished):
    """The unfinished conversion of a plan into a URL; ``scratch`` is a folder of this machine."""

    def __init__(self, url: str, scratch: Path, plan: DatasetPlan) -> None:
        self._store = Store(url)
        super().__init__(scratch, plan, self._store.url)
        self._ended = False  # whether the state is gone: what lies there then is another conversion's

    def _read_plan(self) -> bytes | None:
        return self._store.read_if_there(_PLAN)

    def _resume(self) -> None:
        self.folder.mkdir()

    def _start(self, plan: bytes) -> None:
        self._ended = False
        self.folder.mkdir()
        self._store.write(_PLAN, plan)

    def _remove_plan(self) -> None:
        self._store.remove(_PLAN)

    def _remove_half_published(self) -> None:
        state, names = self._store.child(STATE_NAME), []
        with suppress(FileNotFoundError):  # there is no such bucket: the first write reports it
            names = [file.name for file in state.files()]
        for ending in (_RETIRED, f".{MANIFEST_NAME}"):
            for name in names:
                dataset = self._store.child(name.removesuffix(ending))
                if name.endswith(ending) and dataset.status(MANIFEST_NAME) is None:
                    _remove_dataset(dataset, state.read(name))

    def _make_room(self, *, overwrite: bool, writer_was_killed: bool) -> None:
        """Remove the dataset that is replaced. Its manifest goes first, and names its files in the state."""
        for split in self.plan.splits:
            dataset = self._store.child(split)
            content = dataset.read_if_there(MANIFEST_NAME, most=MOST_MANIFEST_BYTES + 1)
            if content is None:
                continue
            if not overwrite:
                raise DatasetError("there is a dataset already", path=dataset.url, hint=REPLACE)
            self._store.write(f"{STATE_NAME}/{split}{_RETIRED}", content)
            dataset.remove(MANIFEST_NAME)
            _remove_dataset(dataset, content)

    def maker(self) -> Callable[..., ShardResult]:
        return partial(_make_shard, self._store.url)

    def keep(self, number: int) -> None:
        files = shard_files(self.folder, number, self._container)
        data = [file for name, file in files.items() if name not in ("index", "result")]
        _upload(self._store, self.folder, data)
        for file in data:
            remove(file)

    def results(self) -> list[ShardResult | None]:
        """Download the results that this machine lacks, with their parts of the index."""
        stored = {file.name for file in self._store.child(STATE_NAME).files()}
        missing = []
        for number in range(len(self.plan.shards)):
            files = shard_files(self.folder, number, self._container)
            if files["result"].name in stored and not files["result"].exists():
                missing.append((files["index"], files["result"]))
        for _ in thread_map(self._fetch, missing, "fetch", _CONCURRENT, 4 * _CONCURRENT):
            pass
        return super().results()

    def _fetch(self, files: tuple[Path, Path]) -> None:
        index, result = files
        index.write_bytes(self._store.read(f"{STATE_NAME}/{index.name}"))
        content = self._store.read(f"{STATE_NAME}/{result.name}")
        # Some stores show a file before it is whole: a killed upload may have left half of one.
        with suppress(ValueError):
            json.loads(content)
            result.write_bytes(content)

    def found(self, split: str) -> FoundDataset:
        dataset = self._store.child(split)
        content = dataset.read_if_there(MANIFEST_NAME, most=MOST_MANIFEST_BYTES + 1)
        if content is None:
            raise FileNotFoundError(dataset.at(MANIFEST_NAME))
        files = {file.name: file for file in dataset.files()}

        def local(name: str) -> Path:
            if name not in files:
                raise FileNotFoundError(dataset.at(name))
            copy = self.target / f".found-{split}.{name}"
            dataset.download(name, copy)
            return copy

        return FoundDataset(
            location=dataset.url,
            manifest=Manifest.from_bytes(content),
            modified=files[MANIFEST_NAME].modified,
            size=lambda name: files[name].size if name in files else None,
            local=local,
        )

    def _publish(self, outputs: list[SplitOutput]) -> Mapping[str, Path | str]:
        """Make the datasets here, without their shards; rename the shards there, and upload the rest."""
        # This removes the state on this machine alone.
        folders = super()._publish(outputs)
        stores = {split: self._store.child(split) for split in folders}
        # First of all, for they name the files that another plan removes if this one is interrupted.
        for split, folder in folders.items():
            self._store.upload(Path(folder) / MANIFEST_NAME, f"{STATE_NAME}/{split}.{MANIFEST_NAME}")
        for output in outputs:
            self._rename_shards(output)
            for file in sorted(Path(folders[output.split]).iterdir()):
                if file.is_file() and file.name != MANIFEST_NAME and not file.name.startswith("."):
                    stores[output.split].upload(file, file.name)
        for split, store in stores.items():
            store.upload(Path(folders[split]) / MANIFEST_NAME, MANIFEST_NAME)
        self.discard()
        self._ended = True
        return {split: store.url for split, store in stores.items()}

    def _rename_shards(self, output: SplitOutput) -> None:
        stored = {file.name for file in self._store.child(STATE_NAME).files()}
        prefix = f"{output.split}/" if output.split else ""
        moves = []
        for number, shard in output.shards.items():
            files = shard_files(Path(), number, self._container)
            for file, target in published_names(shard, self._container).items():
                source = str(files[file])
                # A shard may be a folder of files. An interrupted run may have moved a file already.
                moves += [
                    (f"{STATE_NAME}/{name}", f"{prefix}{target}{name.removeprefix(source)}")
                    for name in stored
                    if name == source or name.startswith(f"{source}/")
                ]
        move = self._store.move
        for _ in thread_map(lambda names: move(*names), moves, "rename", _CONCURRENT, 4 * _CONCURRENT):
            pass

    def discard(self) -> None:
        super().discard()
        if not self._ended:
            self._remove_plan()  # first, as no call can resume a part of the state
            self._store.remove(STATE_NAME)


def _remove_dataset(dataset: Store, manifest: bytes) -> None:
    for name in files_of_dataset(manifest, [file.name for file in dataset.files()]):
        dataset.remove(name)
