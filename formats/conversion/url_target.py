"""The conversion of a plan into a URL.

As in a folder, ``.stoker-convert`` collects the finished shards, their parts of the index and their results,
each result after its shard. At the end the shards get their names, and the manifest comes last. An object
store has no locks, so two conversions may write to one URL at once; with the same plan, both write the same
bytes.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from stoker.errors import DatasetError, SampleError, SourceError

from ..dataset.manifest import MANIFEST_NAME, MOST_MANIFEST_BYTES, STATE_NAME, Manifest, published_names
from ..dataset.versions import is_of_version
from ..remote.store import Store
from ..threads import thread_map
from .already_converted import FoundDataset, find_converted
from .folder_state import WRITER_FINGERPRINT, FolderState
from .plan import ConversionPlan, DatasetPlan
from .publishing import PublishedDatasets, count_published
from .runners import ConversionRun
from .shard import ShardContext, ShardResult, shard_files, write_shard

_PLAN = "plan.json"
_CONCURRENT = 16  # small files that are fetched, or shards that are renamed


def _make_shard(
    url: str, plan: ConversionPlan, number: int, context: ShardContext | None = None
) -> ShardResult:
    """Make shard ``number`` of a plan in a temporary folder and upload it, its result last."""
    store = Store(url, context.stop if context else None)
    with tempfile.TemporaryDirectory(prefix="stoker-convert-") as folder:
        result = write_shard(Path(folder), plan, number, context)
        files = shard_files(Path(folder), number, plan.options.container)
        result_file = files.pop("result")
        upload_files(store, Path(folder), [*files.values(), result_file])
    return result


def upload_files(store: Store, folder: Path, files: Iterable[Path]) -> None:
    """Copy files in a folder, in order, to the unfinished conversion at a URL. A shard may be a folder."""
    for file in files:
        for part in sorted(file.iterdir()) if file.is_dir() else [file]:
            store.upload(part, f"{STATE_NAME}/{part.relative_to(folder)}")


def convert_to_url(run: ConversionRun, url: str, *, overwrite: bool) -> PublishedDatasets:
    """Make the shards of a plan that are missing at a URL, and publish its datasets there.

    Raises: As :func:`stoker.convert`.
    """
    target = UrlTarget(Store(url), run.plan)
    unfinished = target.read_fingerprint()
    if unfinished is None and not overwrite and (converted := target.already_converted(run.plan)) is not None:
        return converted
    target.enter(unfinished, overwrite=overwrite)
    with tempfile.TemporaryDirectory(prefix="stoker-convert-") as folder:
        state = FolderState.enter(Path(folder), run.plan, overwrite=False)
        numbers = range(len(run.plan.shards))
        target.fetch_results(state)
        missing = [number for number in numbers if state.finished(number) is None]
        with target.removed_with_source():
            run.make(partial(_make_shard, url), missing)
        target.fetch_results(state)
        results = [state.result(number) for number in numbers]
        run.check_loss(results)  # the shards stay: the same command, with the loss allowed, publishes them
        with target.removed_with_source():
            state.publish(results)
        return count_published(run.plan, results, target.publish(Path(folder), results))


class UrlTarget:
    """A URL into which a plan is converted, and the unfinished conversion there."""

    def __init__(self, store: Store, plan: DatasetPlan) -> None:
        self.store = store
        self._plan = plan
        self._container = plan.options.container

    @contextmanager
    def removed_with_source(self) -> Iterator[None]:
        """A block that removes the conversion on an error of the source, after which it cannot be resumed."""
        try:
            yield
        except (SampleError, SourceError):
            self.store.remove(STATE_NAME)
            raise

    def read_fingerprint(self) -> str | None:
        """Fingerprint of the unfinished conversion: empty if it is damaged, None if there is none."""
        content = self.store.read_if_there(f"{STATE_NAME}/{_PLAN}")
        if content is None:
            return None
        with suppress(ValueError, KeyError, TypeError):
            return str(json.loads(content)["fingerprint"])
        return ""

    def already_converted(self, plan: ConversionPlan) -> PublishedDatasets | None:
        """The datasets at the URL if an earlier conversion has made all of this plan."""
        with tempfile.TemporaryDirectory(prefix="stoker-convert-") as folder:
            return find_converted(plan, lambda split: self._found(split, Path(folder)))

    def _found(self, split: str, folder: Path) -> FoundDataset:
        dataset = self.store.child(split)
        content = dataset.read_if_there(MANIFEST_NAME, most=MOST_MANIFEST_BYTES + 1)
        if content is None:
            raise FileNotFoundError(dataset.at(MANIFEST_NAME))
        files = {file.name: file for file in dataset.files()}

        def local(name: str) -> Path:
            if name not in files:
                raise FileNotFoundError(dataset.at(name))
            copy = folder / f"{split}.{name}"
            dataset.download(name, copy)
            return copy

        return FoundDataset(
            location=self._url(split),
            manifest=Manifest.from_bytes(content),
            modified=files[MANIFEST_NAME].modified,
            size=lambda name: files[name].size if name in files else None,
            local=local,
        )

    def _url(self, split: str) -> str:
        return self.store.at(split) if split else self.store.url

    def enter(self, unfinished: str | None, *, overwrite: bool) -> None:
        """Start a conversion, or find the interrupted one, whose fingerprint is ``unfinished``."""
        if unfinished == self._plan.fingerprint:
            return
        was_writer = unfinished is not None and unfinished.startswith(WRITER_FINGERPRINT)
        if unfinished is not None and not was_writer and not overwrite:
            raise DatasetError(
                "there is an unfinished conversion with other options, or of a source that has changed since",
                path=self.store.url,
                hint="run the command that was interrupted once more, or start anew with overwrite=True "
                "(--overwrite)",
            )
        for split in self._plan.splits:
            self._retire(self.store.child(split), overwrite=overwrite)
        self.store.remove(STATE_NAME)
        fingerprint = json.dumps({"fingerprint": self._plan.fingerprint})
        self.store.write(f"{STATE_NAME}/{_PLAN}", fingerprint.encode())

    def _retire(self, dataset: Store, *, overwrite: bool) -> None:
        """Remove the dataset that is replaced: its manifest first, then its shards."""
        content = dataset.read_if_there(MANIFEST_NAME, most=MOST_MANIFEST_BYTES + 1)
        if content is None:
            return
        if not overwrite:
            raise DatasetError(
                "there is a dataset already",
                path=dataset.url,
                hint="name another URL, or replace it with overwrite=True (--overwrite)",
            )
        dataset.remove(MANIFEST_NAME)
        for file in dataset.files():
            if is_of_version(file.name):
                dataset.remove(file.name)
        with suppress(DatasetError):
            manifest = Manifest.from_bytes(content)
            for shard in manifest.shards if manifest.options.get("made_by") != "index" else ():
                for name in published_names(shard.name, manifest.container).values():
                    dataset.remove(name)

    def fetch_results(self, state: FolderState) -> None:
        """Download the results that the local state lacks, with their parts of the index."""
        stored = {file.name for file in self.store.child(STATE_NAME).files()}
        missing = []
        for number in range(len(self._plan.shards)):
            files = shard_files(state.folder, number, self._container)
            if files["result"].name in stored and not files["result"].exists():
                missing.append((files["index"], files["result"]))
        for _ in thread_map(self._fetch, missing, "fetch", _CONCURRENT, 4 * _CONCURRENT):
            pass

    def _fetch(self, files: tuple[Path, Path]) -> None:
        index, result = files
        index.write_bytes(self.store.read(f"{STATE_NAME}/{index.name}"))
        content = self.store.read(f"{STATE_NAME}/{result.name}")
        # Some stores show a file before it is whole: a killed upload may have left half of one.
        with suppress(ValueError):
            json.loads(content)
            result.write_bytes(content)

    def publish(self, folder: Path, results: list[ShardResult]) -> dict[str, Path | str]:
        """Rename the shards, upload index and manifest from ``folder``, and remove the state."""
        splits = self._plan.splits
        for split in splits:
            self._rename_shards(split, Manifest.load(folder / split), results)
            for file in sorted((folder / split).iterdir()):
                if file.is_file() and file.name != MANIFEST_NAME and not file.name.startswith("."):
                    self.store.upload(file, _join(split, file.name))
        for split in splits:
            self.store.upload(folder / split / MANIFEST_NAME, _join(split, MANIFEST_NAME))
        self.store.remove(STATE_NAME)
        return {split: self._url(split) for split in splits}

    def _rename_shards(self, split: str, manifest: Manifest, results: list[ShardResult]) -> None:
        stored = {file.name for file in self.store.child(STATE_NAME).files()}
        planned = enumerate(zip(self._plan.shards, results, strict=True))
        numbers = [number for number, (shard, result) in planned if shard.split == split and result.records]
        moves = []
        for number, shard in zip(numbers, manifest.shards, strict=True):
            files = shard_files(Path(), number, self._container)
            for file, target in published_names(shard.name, self._container).items():
                source = str(files[file])
                # A shard may be a folder of files. An interrupted run may have moved a file already.
                moves += [
                    (f"{STATE_NAME}/{name}", _join(split, target + name.removeprefix(source)))
                    for name in stored
                    if name == source or name.startswith(f"{source}/")
                ]
        move = self.store.move
        for _ in thread_map(lambda names: move(*names), moves, "rename", _CONCURRENT, 4 * _CONCURRENT):
            pass


def _join(split: str, name: str) -> str:
    return f"{split}/{name}" if split else name
