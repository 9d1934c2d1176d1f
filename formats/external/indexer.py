"""Reading of external shards into an index and a manifest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError, SourceError

from ..containers.base import Container, Record, Sidecar
from ..containers.messages.image_record import ExternalSample, FeatureNames
from ..dataset.columns.annotation_columns import tasks_of
from ..dataset.index import Index
from ..dataset.manifest import INDEX_NAME, IndexFile, Manifest, Shard
from ..files.reading import file_digest
from ..remote.store import is_url
from ..sources.listing import Skip
from ..sources.no_images import no_images_error
from .class_names import ClassNames, Contradiction, LabelName, check_class, label_type_error, names_in
from .joined_records import JoinedRecords
from .parsed_records import ParsedRecord, errors_about, parse_records, parsed_at_urls
from .sample_rows import RESERVED_NAMES, SampleRows
from .shards import ExternalShard

_ROWS_IN_MEMORY = 1 << 18
_RECORDS_PER_REPORT = 1000
_MOST_CLASSES = 1_000_000


class _Reading(NamedTuple):
    """A shard that is being read."""

    number: int
    name: str  # in the dataset
    path: str  # or URL of its data file, for errors
    rows: SampleRows
    report: Callable[[int], None]  # called with the bytes that are done


class Indexer:
    """Reads shards one after the other, and keeps the rows of some of them in memory."""

    def __init__(
        self,
        container: Container,
        names: FeatureNames,
        classes: Sequence[str] | None,
        progress: Callable[[int, int], None] | None,
        *,
        checksums: bool = False,
    ) -> None:
        if wrong := [name for name in names.columns if name in RESERVED_NAMES or not name]:
            raise ConfigError(f"a column cannot have the name {wrong[0]!r}", hint="give it another name")
        self._container = container
        self._names = names
        self._classes = classes
        self._report = progress
        self._checksums = checksums
        self._class_names_seen = ClassNames(classes or ())
        self._seen: dict[LabelName, int] = {}  # in one shard, with the first record
        self._label_type: type | None = None  # of all labels: int, str, float, tuple or NoneType
        self._skipped: Counter[str] = Counter()

    def run(self, sources: list[ExternalShard], locations: list[str], temporary: Path) -> Manifest:
        """Index the shards into the folder ``temporary``; the manifest gives ``locations`` as their paths."""
        total = sum(source.size for source in sources)
        joined = JoinedRecords(temporary, self._container, number=len(sources))
        rows = SampleRows(temporary, _ROWS_IN_MEMORY, list(self._names.columns), joined)
        shards: list[Shard] = []
        before = 0
        names = _unique_names([source.source for source in sources])
        at_urls = self._at_urls(sources, names)
        for number, (name, source, location) in enumerate(zip(names, sources, locations, strict=True)):
            shard = _Reading(number, name, source.file, rows, partial(self._progress, before, total))
            if at_urls is not None:
                records, digest = self._add_all(next(at_urls), shard), None
            else:
                with source.local_file(temporary) as file:
                    records, digest = self._read_whole(file, shard), file_digest(file)
            shards.append(Shard(name, source.size, records, digest, location))
            _refuse(self._class_names_seen.add(number, self._seen), sources, names)
            self._seen.clear()
            before += source.size
            shard.report(source.size)
        _refuse(self._class_names_seen.names_of_several_labels(), sources, names)
        classes = self._classes
        if classes is None:
            classes = names if self._names.label_type == "shard" else sorted(rows.class_names)
        if not rows.finish(temporary / INDEX_NAME, classes):
            left_out = (Skip("", reason) for reason in self._skipped.elements())
            raise no_images_error("there is no image in these shards", sources[0].source, left_out)
        return self._manifest([*shards, *joined.shards()], temporary / INDEX_NAME, tuple(classes))

    def _at_urls(self, sources: list[ExternalShard], names: list[str]) -> Iterator[list[ParsedRecord]] | None:
        """Return the records of shards that are read by ranges; None for shards that are read whole."""
        by_ranges = self._container.scan_at_url is not None and is_url(sources[0].file)
        if self._checksums or not by_ranges:
            return None
        return parsed_at_urls(self._container, self._names, sources, names)

    def _progress(self, before: int, total: int, done: int) -> None:
        if self._report is not None:
            self._report(before + done, total)

    def _read_whole(self, file: Path, shard: _Reading) -> int:
        """Add the records of a shard on a disk, write its sidecars, and return the number of records."""
        entries: dict[Sidecar, list[bytes]] = {sidecar: [] for sidecar in self._container.sidecars}

        def scan() -> Iterator[Record]:
            for record in self._container.scan(file):
                for sidecar, lines in entries.items():
                    lines.append(sidecar.entry(record.offset, record.length))
                yield record

        parsed = parse_records(scan(), self._container, self._names, file, shard.name)
        count = self._add_all(parsed, shard._replace(path=str(file)))
        for sidecar, lines in entries.items():
            (shard.rows.folder / sidecar.name(shard.name, external=True)).write_bytes(b"".join(lines))
        return count

    def _add_all(self, parsed: Iterable[ParsedRecord], shard: _Reading) -> int:
        """Add the records of a shard to its rows, and return their number."""
        count = done = 0
        for record, sample, crc, reason in parsed:
            count += 1
            if sample is None:
                self._skipped[reason] += 1
            else:
                with errors_about(record, shard.path, shard.name):
                    self._add(record, sample, crc, shard)
            done += record.length
            if count % _RECORDS_PER_REPORT == 0:
                shard.report(done)
        return count

    def _add(self, record: Record, sample: ExternalSample, crc: int, shard: _Reading) -> None:
        number, record_number, offset = shard.number, record.number, record.offset
        if self._names.label_type == "shard":
            sample = replace(sample, label=number, text="")
        self._check_label(sample, record.number)
        if record.pieces > 1:
            number, record_number, offset = shard.rows.joined.add(record)
        key = sample.key or f"{shard.name}:{record.number}"
        payload = sample.payload
        values = (number, record_number, offset + payload.offset, payload.length, crc, key)
        self._skipped.update(shard.rows.add(values, sample))

    def _check_label(self, sample: ExternalSample, record: int) -> None:
        for label_name in names_in(sample):
            self._seen.setdefault(label_name, record)
        label_type = type(sample.label)
        if self._label_type is None:
            self._label_type = label_type
        if label_type is not self._label_type:
            raise label_type_error(sample.label, self._label_type)
        if self._classes is None:
            return
        labels: list[Any] = list(sample.label) if isinstance(sample.label, tuple) else [sample.label]
        if sample.objects is not None:
            labels = [label for label in labels if label is not None] + list(sample.objects.labels)
        for label in labels:
            check_class(label, self._classes)

    def _manifest(self, shards: list[Shard], path: Path, classes: tuple[str, ...]) -> Manifest:
        index = Index.open(path)
        feature_names = {} if self._container.feature_names is None else self._names.to_manifest()
        return Manifest(
            container=self._container.name,
            sample_type="image",
            columns=index.types,
            shards=tuple(shards),
            index=IndexFile.of(path, len(index)),
            classes=classes or self._class_names(index),
            options={"made_by": "index", **feature_names},
            skipped=dict(self._skipped),
        )

    def _class_names(self, index: Index) -> tuple[str, ...]:
        labels = np.concatenate([np.empty(0, np.int64), *_labels_of(index)])
        # Labels that cannot be indices of a list of classes keep their meaning without names.
        if not len(labels) or labels.min() < 0 or labels.max() >= _MOST_CLASSES:
            return ()
        names = self._class_names_seen.names
        return tuple(names.get(label, str(label)) for label in range(int(labels.max()) + 1))


def _labels_of(index: Index) -> list[npt.NDArray[np.int64]]:
    """Return the classes of samples, and those of objects."""
    tasks = tasks_of(index.types)
    labels = [index.column("label")] if "label" in tasks else []
    labels += [index.lists("label").values] if "labels" in tasks else []
    return [*labels, *([index.lists("object_labels").values] if "boxes" in tasks else [])]


def _refuse(contradictions: Iterator[Contradiction], sources: list[ExternalShard], names: list[str]) -> None:
    """Raise SourceError for the first contradiction."""
    for shard, record, message in contradictions:
        raise SourceError(
            f"the shards contradict each other: {message}",
            path=sources[shard].file,
            shard=names[shard],
            record=record,
            hint="index shards of different datasets apart and join them by name with stoker.mix; if the "
            "labels are right and the names wrong, ignore the names: --text '' and --classes",
        )


def _unique_names(sources: list[str]) -> list[str]:
    """Return file names, with a number before each that occurs twice."""
    names = [source.rpartition("/")[2] for source in sources]
    count = Counter(names)
    return [name if count[name] == 1 else f"{number:05d}-{name}" for number, name in enumerate(names)]
