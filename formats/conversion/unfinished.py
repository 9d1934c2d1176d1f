"""An unfinished conversion at its target, and how it becomes a dataset; the execution and writers use it.

``.stoker-convert`` in the target holds the state:

- ``plan.json``, which holds only the fingerprint of the plan: each call plans anew and compares;
- ``attempt-*``, a folder for each shard that is being written;
- for each finished shard its files, ``NNNNN.arrow`` (its part of the index) and, written last, ``NNNNN.json``
  (its result): a shard with a result is finished, and each shard without one is made again;
- while datasets are published, files that wait for their renaming, ``SPLIT.retired.json`` (the manifest of a
  dataset that is being replaced) and ``SPLIT.published`` (the digest of the manifest to come).

Files are renamed to their final paths, the manifests of all splits last, and the state goes. So an
interrupted publication can be repeated, with the same result.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from stoker.errors import DatasetError, SampleError, SourceError

from ..containers.container import find_writing
from ..dataset.manifest import (
    INDEX_NAME,
    MANIFEST_NAME,
    SKIPPED_NAME,
    STATE_NAME,
    TOKENIZER_NAME,
    Manifest,
    is_dataset,
    published_names,
)
from ..dataset.versions import SHA256_NAME, is_of_version, sha256_content
from ..files import file_digest, is_hidden, move_durably, remove, sync_folder, write_durably
from ..sources.listing import name_reasons, skipped_lines
from .plan import DatasetPlan
from .publishing import FoundDataset, SplitOutput
from .shard import ShardResult, finished_shard, shard_files, write_shard

WRITER_FINGERPRINT = "writer-"
"""Start of the fingerprints of :class:`stoker.Writer`, whose unfinished datasets cannot be resumed."""

REPLACE = "Name another target, or replace it with overwrite=True."

_TRASH = ".stoker-trash-"
_PLAN = "plan.json"


class Unfinished:
    """The unfinished conversion of a plan into a folder, whose lock the caller holds."""

    def __init__(self, target: Path, plan: DatasetPlan, url: str | None = None) -> None:
        self.target = target
        self.plan = plan
        self.folder = target / STATE_NAME  # of the finished shards with their parts of the index
        self.name: Path | str = url or target  # of the target, in errors
        self._container = plan.options.container

    def empty_trash(self) -> None:
        """Remove the folders that earlier conversions gave up."""
        for trash in self.target.glob(_TRASH + "*"):
            remove(trash)

    def enter(self, *, overwrite: bool, appends: bool = False) -> None:
        """Start the conversion, or resume it if it was interrupted; remove what a killed writer left."""
        # ``overwrite`` replaces a dataset or another unfinished conversion, and ``appends`` keeps the
        # dataset.
        unfinished = self.fingerprint()
        if unfinished == self.plan.fingerprint:
            self._resume()
            return
        was_writer = unfinished is not None and unfinished.startswith(WRITER_FINGERPRINT)
        if unfinished is not None and not was_writer and not overwrite:
            raise DatasetError(
                "there is an unfinished conversion with other options, or of a source that has changed since",
                path=self.name,
                hint="Run the interrupted command once more, or start afresh with overwrite=True.",
            )
        if overwrite and unfinished is not None:
            self._remove_plan()  # no later call may resume it once a part of it is gone
        self._remove_half_published()
        if not appends:  # else the files of the dataset stay
            self._make_room(overwrite=overwrite, writer_was_killed=was_writer)
        self.discard()
        self._start(json.dumps({"fingerprint": self.plan.fingerprint}).encode())

    def fingerprint(self) -> str | None:
        """The plan of the conversion that is there: empty if it is damaged, None if there is none."""
        content = self._read_plan()
        if content is None:
            return None
        # A file that Stoker has not written, or a damaged one: this conversion cannot be resumed.
        with suppress(ValueError, KeyError, TypeError):
            return str(json.loads(content)["fingerprint"])
        return ""

    def _read_plan(self) -> bytes | None:
        path = self.folder / _PLAN
        return path.read_bytes() if path.exists() else None

    def _remove_plan(self) -> None:
        remove(self.folder / _PLAN)

    def _resume(self) -> None:
        for attempt in self.folder.glob("attempt-*"):
            remove(attempt)

    def _start(self, plan: bytes) -> None:
        self.folder.mkdir()
        write_durably(self.folder / _PLAN, plan)
        sync_folder(self.target)

    def _make_room(self, *, overwrite: bool, writer_was_killed: bool) -> None:
        """Remove what a killed writer left; refuse other files unless ``overwrite`` is set."""
        for folder in self._folders().values():
            if (folder / MANIFEST_NAME).exists():
                if overwrite:
                    continue  # it stays until all new shards are finished; at a URL it goes first
                raise DatasetError("there is a dataset already", path=folder, hint=REPLACE)
            for file in _published_files(folder, self._container):
                if writer_was_killed:
                    remove(file)
                elif not overwrite:  # other programs use these names, too
                    raise DatasetError(
                        "a file would be replaced, and it belongs to no dataset", path=file, hint=REPLACE
                    )
            _check_empty(folder, overwrite=overwrite)

    def maker(self) -> Callable[..., ShardResult]:
        """A function that makes a shard of a plan, on any machine, and keeps it here."""
        return partial(write_shard, self.folder.absolute())

    def keep(self, number: int) -> None:
        """Keep the files of a finished shard of a writer: here they lie in their place already."""

    def results(self) -> list[ShardResult | None]:
        """The result of each shard; None for one that is not finished."""
        numbers = range(len(self.plan.shards))
        return [finished_shard(self.folder, number, self._container) for number in numbers]

    @contextmanager
    def discarded_on_bad_source(self) -> Iterator[None]:
        """A block that removes all finished shards on an error of the source: the next call starts afresh."""
        try:
            yield
        except (SampleError, SourceError):
            self.discard()
            raise

    def found(self, split: str) -> FoundDataset:
        """The dataset of a split at the target; OSError or ValueError if there is none."""
        folder = self._folders()[split]
        return FoundDataset(
            location=folder,
            manifest=Manifest.load(folder),
            modified=(folder / MANIFEST_NAME).stat().st_mtime_ns,
            size=lambda name: (folder / name).stat().st_size,
            local=folder.joinpath,
        )

    def publish(self, results: list[ShardResult]) -> Mapping[str, Path | str]:
        """Make datasets of the finished shards, and remove the state; return their places by split."""
        if not any(result.records for result in results):
            skipped = [skip for result in results for skip in result.skipped]
            reasons = name_reasons(skipped or self.plan.listing.skipped)  # of a writer, which has no result
            self.discard()
            raise SourceError(
                f"no {self.plan.encoder.sample_type} could be converted; left out: {reasons}",
                path=self.plan.listing.place,
            )
        outputs = [SplitOutput(self.plan, self.folder, split, results) for split in self.plan.splits]
        return self._publish(outputs)

    def _publish(self, outputs: list[SplitOutput]) -> Mapping[str, Path | str]:
        datasets = self._folders()
        for output in outputs:
            dataset = datasets[output.split]
            dataset.mkdir(exist_ok=True)
            self._retire(output.split, dataset)
            self._publish_files(output, dataset)
        for split, dataset in datasets.items():
            move_durably(self.folder / f"{split}.{MANIFEST_NAME}", dataset / MANIFEST_NAME)
            sync_folder(dataset)
        sync_folder(self.target)
        self._remove_folder()
        return datasets

    def _folders(self) -> dict[str, Path]:
        """The folder of each dataset on this machine, by split."""
        return {split: self.target / split for split in self.plan.splits}

    def _retire(self, split: str, dataset: Path) -> None:
        """Remove the dataset that is replaced, its manifest first, so that no reader opens it any more."""
        current = dataset / MANIFEST_NAME
        retired = self.folder / f"{split}.retired.json"
        mark = self.folder / f"{split}.published"
        coming = mark.read_text() if mark.exists() else ""  # digest of the manifest that replaces it
        if current.exists() and not retired.exists() and coming != file_digest(current):
            move_durably(current, retired)
            sync_folder(dataset)
        if not retired.exists():
            return
        _remove_dataset(dataset, retired)
        retired.unlink()

    def _remove_half_published(self) -> None:
        """Remove the files of another plan that was interrupted while it published or replaced a dataset."""
        for ending in ("retired.json", MANIFEST_NAME):
            for manifest in self.folder.glob(f"*.{ending}"):
                dataset = self.target / manifest.name.removesuffix(f".{ending}")
                if not (dataset / MANIFEST_NAME).exists():
                    _remove_dataset(dataset, manifest)

    def _publish_files(self, output: SplitOutput, dataset: Path) -> None:
        """Publish all files of a split but its manifest, which waits in the state."""
        split, index = output.split, output.merge_index()
        manifest = output.manifest(index)
        # First of all, for it names the files that another plan removes if this one is interrupted.
        path = self.folder / f"{split}.{MANIFEST_NAME}"
        write_durably(path, manifest.to_json().encode())
        write_durably(self.folder / f"{split}.published", file_digest(path).encode())
        for number, shard in output.shards.items():
            files = shard_files(self.folder, number, self._container)
            for file, name in published_names(shard, self._container).items():
                if files[file].exists():  # else it was moved by an interrupted call, or lies at a URL
                    move_durably(files[file], dataset / name)
        contents = {
            SKIPPED_NAME: skipped_lines(output.skipped),
            SHA256_NAME: sha256_content(manifest),
            **self.plan.encoder.files,
        }
        for name, content in contents.items():
            staged = self.folder / f"{split}.{name}"
            write_durably(staged, content)
            move_durably(staged, dataset / name)
        move_durably(index, dataset / INDEX_NAME)
        sync_folder(dataset)

    def discard(self) -> None:
        """Give up the unfinished conversion."""
        self._remove_folder()

    def _remove_folder(self) -> None:
        """Rename the folder of the state at once, then remove its files."""
        if not self.folder.exists():
            return
        trash = self.target / f"{_TRASH}{secrets.token_hex(8)}"
        self.folder.rename(trash)
        # If this fails, the next conversion tries again.
        with suppress(OSError):
            remove(trash)


def files_of_dataset(manifest: bytes, present: Iterable[str]) -> list[str]:
    """Names of the files of a dataset but its manifest; ``present`` are those in its folder."""
    names = [INDEX_NAME, SKIPPED_NAME, TOKENIZER_NAME, SHA256_NAME, *filter(is_of_version, present)]
    with suppress(DatasetError):
        stated = Manifest.from_bytes(manifest)
        # stoker index leaves shards where they lie: they belong to the user.
        for shard in () if stated.options.get("made_by") == "index" else stated.shards:
            names += published_names(shard.name, stated.container).values()
    return names


def _remove_dataset(folder: Path, manifest: Path) -> None:
    for name in files_of_dataset(manifest.read_bytes(), [file.name for file in folder.glob("*")]):
        remove(folder / name)


def _check_empty(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder of other files: loaders would read the dataset in it, and not what it held."""
    if overwrite or not folder.is_dir():
        return
    for file in folder.iterdir():
        if not is_hidden(file.name) and not is_dataset(file):
            message = f"the target holds other files, such as {file.name}"
            raise DatasetError(message, path=folder, hint=REPLACE)


def _published_files(folder: Path, container: str) -> list[Path]:
    patterns = published_names(f"shard-*-of-*{find_writing(container).suffix}", container)
    names = (patterns["shard"], *sorted(patterns.values()), INDEX_NAME, SKIPPED_NAME)
    return [file for name in names for file in sorted(folder.glob(name))]
