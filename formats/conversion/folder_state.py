"""The state of an unfinished conversion in its target folder, and how it becomes a dataset.

``.stoker-convert`` holds the fingerprint of the plan and, for every finished shard, its files, its part of
the index and its result. Every file is completed in this folder and then renamed to its final path, the
manifests last. So an interrupted publication can be repeated, with the same result.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from stoker.errors import DatasetError, SourceError

from ..containers.container import find_writing
from ..dataset.manifest import (
    INDEX_NAME,
    MANIFEST_NAME,
    SKIPPED_NAME,
    STATE_NAME,
    TOKENIZER_NAME,
    Manifest,
    published_names,
)
from ..dataset.versions import SHA256_NAME, is_of_version, sha256_content
from ..files import file_digest, move_durably, remove, sync_folder, write_durably
from ..sources.listing import skipped_lines
from .plan import DatasetPlan
from .publishing import SplitOutput
from .shard import ShardResult, finished_shard, shard_files

WRITER_FINGERPRINT = "writer-"
"""Start of the fingerprints of :class:`stoker.Writer`, whose unfinished datasets cannot be resumed."""

_TRASH = ".stoker-trash-"
_PLAN = "plan.json"


class FolderState:
    """The unfinished conversion of a plan into the folder ``target``, whose lock the caller holds."""

    def __init__(self, target: Path, plan: DatasetPlan) -> None:
        self.target = target
        self.plan = plan
        self.folder = target / STATE_NAME
        self._container = plan.options.container

    @classmethod
    def enter(cls, target: Path, plan: DatasetPlan, *, overwrite: bool, appends: bool = False) -> FolderState:
        """Start a conversion, or resume the one that was interrupted; files of a killed writer are removed.

        ``overwrite`` replaces a dataset or an unfinished conversion, and ``appends`` keeps the dataset.
        """
        state = cls(target, plan)
        unfinished = state._read_fingerprint()
        if unfinished == plan.fingerprint:
            for attempt in state.folder.glob("attempt-*"):
                remove(attempt)
            return state
        was_writer = unfinished is not None and unfinished.startswith(WRITER_FINGERPRINT)
        if unfinished is not None and not was_writer and not overwrite:
            raise DatasetError(
                "an unfinished conversion with other options, or of a source that has changed since, is in "
                "the folder",
                path=target,
                hint="run the command that was interrupted once more, or start anew with overwrite=True "
                "(--overwrite)",
            )
        if not appends:  # else the files of the dataset stay
            _make_room(state.datasets().values(), state._container, overwrite=overwrite, remains=was_writer)
        state.discard()
        state.folder.mkdir()
        write_durably(state.folder / _PLAN, json.dumps({"fingerprint": plan.fingerprint}).encode())
        sync_folder(target)
        return state

    def _read_fingerprint(self) -> str | None:
        try:
            return str(json.loads((self.folder / _PLAN).read_text())["fingerprint"])
        except FileNotFoundError:
            return None
        # A file that Stoker has not written, or a damaged one: this conversion cannot be resumed.
        except (ValueError, KeyError, TypeError):
            return ""

    def datasets(self) -> dict[str, Path]:
        """Folder of each dataset by split."""
        return {split: self.target / split if split else self.target for split in self.plan.splits}

    def finished(self, number: int) -> ShardResult | None:
        """Result of a shard if it has been made, else None."""
        return finished_shard(self.folder, number, self._container)

    def result(self, number: int) -> ShardResult:
        """Result of a shard that has been made."""
        result = self.finished(number)
        assert result is not None, "every shard is made before it is published"
        return result

    def publish(self, results: list[ShardResult]) -> dict[str, Path]:
        """Make datasets of the finished shards, and remove the state."""
        if not any(result.records for result in results):
            skipped = Counter(skip.reason for result in results for skip in result.skipped)
            reasons = ", ".join(f"{count:,} x {reason}" for reason, count in skipped.most_common())
            self.discard()
            raise SourceError(
                f"no {self.plan.encoder.sample_type} could be converted; left out: {reasons}",
                path=self.plan.listing.root,
            )
        datasets = self.datasets()
        for split, dataset in datasets.items():
            dataset.mkdir(exist_ok=True)
            self._retire(split, dataset)
            self._publish_files(split, dataset, results)
        for split, dataset in datasets.items():
            move_durably(self.folder / f"{split}.{MANIFEST_NAME}", dataset / MANIFEST_NAME)
            sync_folder(dataset)
        sync_folder(self.target)
        self.discard()
        return datasets

    def _retire(self, split: str, dataset: Path) -> None:
        """Remove the dataset that is replaced, its manifest first, so that no reader opens it any more."""
        current = dataset / MANIFEST_NAME
        retired = self.folder / f"{split}.retired.json"
        if current.exists() and not retired.exists() and not self._is_published(split, current):
            move_durably(current, retired)
            sync_folder(dataset)
        if not retired.exists():
            return
        with suppress(DatasetError):
            manifest = Manifest.from_json(retired.read_text(encoding="utf-8"))
            # stoker index leaves shards where they lie: they belong to the user.
            for shard in manifest.shards if manifest.options.get("made_by") != "index" else ():
                for name in published_names(shard.name, manifest.container).values():
                    remove(dataset / name)
        for name in (INDEX_NAME, SKIPPED_NAME, TOKENIZER_NAME, SHA256_NAME):
            remove(dataset / name)
        for file in dataset.iterdir():
            if is_of_version(file.name):
                remove(file)
        retired.unlink()

    def _is_published(self, split: str, current: Path) -> bool:
        """Whether a manifest is that of this conversion, which was interrupted after publishing it."""
        mark = self.folder / f"{split}.published"
        return mark.exists() and mark.read_text() == file_digest(current)

    def _publish_files(self, split: str, dataset: Path, results: list[ShardResult]) -> None:
        """Publish all files of a split but its manifest, which waits in the state."""
        output = SplitOutput(self.plan, self.folder, split, results)
        index = output.merge_index()
        for shard in output.shards:
            files = shard_files(self.folder, shard.plan_number, self._container)
            for file, name in published_names(shard.name, self._container).items():
                if files[file].exists():  # else an interrupted publication has moved it
                    move_durably(files[file], dataset / name)
        manifest = output.manifest(index)
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
        path = self.folder / f"{split}.{MANIFEST_NAME}"
        write_durably(path, manifest.to_json().encode())
        write_durably(self.folder / f"{split}.published", file_digest(path).encode())

    def discard(self) -> None:
        """Give up the unfinished conversion: rename its folder at once, then remove its files."""
        if not self.folder.exists():
            return
        trash = self.target / f"{_TRASH}{secrets.token_hex(8)}"
        self.folder.rename(trash)
        # If this fails, the next conversion tries again.
        with suppress(OSError):
            remove(trash)


def empty_trash(target: Path) -> None:
    """Remove the folders that earlier conversions gave up."""
    for trash in target.glob(_TRASH + "*"):
        remove(trash)


def _make_room(folders: Iterable[Path], container: str, *, overwrite: bool, remains: bool) -> None:
    """Remove files of a killed writer if ``remains`` is set; refuse others unless ``overwrite`` is."""
    for folder in folders:
        if (folder / MANIFEST_NAME).exists():
            if overwrite:
                continue  # it stays until the new one is whole
            raise DatasetError(
                "there is a dataset in the folder already",
                path=folder,
                hint="name another folder, or replace it with overwrite=True (--overwrite)",
            )
        for file in _published_files(folder, container):
            if remains:
                remove(file)
            elif not overwrite:  # other programs use these names, too
                raise DatasetError(
                    "a file in the folder would be replaced, and it belongs to no dataset",
                    path=file,
                    hint="name another folder, or replace such files with overwrite=True (--overwrite)",
                )


def _published_files(folder: Path, container: str) -> list[Path]:
    patterns = published_names(f"shard-*-of-*{find_writing(container).suffix}", container)
    names = (patterns["shard"], *sorted(patterns.values()), INDEX_NAME, SKIPPED_NAME)
    return [file for name in names for file in sorted(folder.glob(name))]
