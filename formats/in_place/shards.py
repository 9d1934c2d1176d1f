"""A shard for the records that lie in several pieces in the shard of another program.

No loader can read such a record in place. The indexer writes it in one piece to this shard, beside the index.
"""

from __future__ import annotations

import os
import tempfile
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stoker.arguments import check_progress
from stoker.errors import ConfigError, DatasetError, SourceError
from stoker.urls import is_url

from ..containers.base import Container, Record, Sidecar
from ..containers.external import (
    ExternalShard,
    ParsedRecord,
    errors_about,
    find_shards,
    parse_records,
    parsed_at_urls,
)
from ..containers.image_record import ExternalObjects, ExternalSample, FeatureNames, Value
from ..dataset.annotations import tasks_of
from ..dataset.columns import each
from ..dataset.index import (
    IMAGE_COLUMNS,
    KNOWN_COLUMNS,
    NO_CHECKSUM,
    REQUIRED_COLUMNS,
    Index,
    concat_indexes,
    write_index,
)
from ..dataset.manifest import INDEX_NAME, MANIFEST_NAME, IndexFile, Manifest, Shard
from ..dataset.versions import publish_index
from ..files import check_named, file_digest
from ..remote.store import Store
from ..sources.listing import Skip, no_images_error
from ..sources.objects import BadObjectError, ObjectTable, checked_box
from .class_names import ClassNames, Contradiction, LabelName, check_class, label_type_error, names_in

_NAME = "joined-records"


class JoinedRecord(NamedTuple):
    """The location of a record: the number of the shard, its number there, and the offset of its value."""

    shard: int
    record: int
    offset: int


class JoinedRecords:
    """The shard for joined records, whose number comes last; its file is made with the first record."""

    def __init__(self, folder: Path, container: Container, number: int) -> None:
        self._number = number
        self._path = folder / _NAME
        self._container = container
        self._records = self._bytes = 0

    def add(self, record: Record) -> JoinedRecord:
        """Write a record in one piece, and return its location."""
        if self._container.join is None:
            raise SourceError(f"the record lies in {record.pieces} pieces, which cannot be read in place")
        data, before = self._container.join(record.view)
        with self._path.open("ab") as file:
            file.write(data)
        location = JoinedRecord(self._number, self._records, self._bytes + before)
        self._records += 1
        self._bytes += len(data)
        return location

    def shards(self) -> list[Shard]:
        """Return the shard, or none if there was no such record."""
        if not self._records:
            return []
        return [Shard(_NAME, self._bytes, self._records, file_digest(self._path))]


RESERVED_NAMES = {*KNOWN_COLUMNS, "label", "row", "image", "mask"}
"""Names that a further column cannot have."""

_COLUMNS = [*REQUIRED_COLUMNS, *IMAGE_COLUMNS]
_INT64 = range(-(1 << 63), 1 << 63)


class SampleRows:
    """Rows in memory, and parts of an index with the rows before them."""

    def __init__(self, folder: Path, most: int, columns: Sequence[str], joined: JoinedRecords) -> None:
        self.folder = folder
        self.joined = joined
        self._most = most
        self._rows: list[tuple[Any, ...]] = []
        self._labels: list[int | float | tuple[int, ...]] = []
        self._count = 0
        self._objects = _ObjectRows()
        self._values: dict[str, list[str]] = {name: [] for name in columns}
        self._types: dict[str, set[type]] = {name: set() for name in columns}
        self._parts: list[Path] = []
        self.class_names: dict[str, int] = {}

    def add(self, values: tuple[Any, ...], sample: ExternalSample) -> Iterator[str]:
        """Add a row, and yield a reason for each of its objects that is left out."""
        header, label = sample.header, sample.label
        columns = {
            f"{name}_" if name in RESERVED_NAMES else name: part for name, part in sample.columns.items()
        }
        self._check_columns(columns)
        self._rows.append((*values, header.codec, header.height, header.width, header.orientation))
        if label is not None:
            if isinstance(label, str):
                label = self.class_names.setdefault(label, len(self.class_names))
            self._labels.append(label)
        for name, column in self._values.items():
            value = columns.get(name)
            fits = not isinstance(value, int) or value in _INT64
            self._types[name].add(type(value) if fits else str)
            column.append("" if value is None else str(value))
        if sample.objects is not None:
            yield from self._objects.add(self._count, sample.objects, header.height, header.width)
        self._count += 1
        if len(self._rows) >= self._most:
            self._flush()

    def _check_columns(self, columns: Mapping[str, Value | None]) -> None:
        """Take the columns of the first sample, and refuse others later."""
        for name in columns.keys() - self._values.keys():
            if self._count:
                raise SourceError(
                    f"the record has the column {name!r}, unlike those before it",
                    hint="name the columns that all records have: --column NAME=COLUMN",
                )
            self._values[name], self._types[name] = [], set()

    def finish(self, path: Path, sorted_names: Sequence[str]) -> bool:
        """Write the index of all rows; return whether there are any.

        ``sorted_names`` are the names of the classes by label, for labels that were names.
        """
        self._flush()
        if not self._parts:
            return False
        changes = self._changes(sorted_names)
        if changes or self._values:
            for part in self._parts:
                self._rewrite(part, changes)
        concat_indexes(self._parts, path, self._objects.columns(self._count))
        for part in self._parts:
            part.unlink()
        return True

    def _flush(self) -> None:
        if not self._rows:
            return
        part = self.folder / f"part-{len(self._parts)}"
        values = zip(*self._rows, strict=True)
        columns: dict[str, Any] = {
            name: column if name == "key" else np.array(column, np.int64)
            for name, column in zip(_COLUMNS, values, strict=True)
        }
        if self._labels:
            columns["label"] = _typed(self._labels)
        for name, texts in self._values.items():
            columns[name] = pa.array(texts, pa.large_string())
        write_index(part, columns)
        self._parts.append(part)
        self._rows.clear()
        self._labels.clear()
        for texts in self._values.values():
            texts.clear()

    def _changes(self, sorted_names: Sequence[str]) -> dict[str, Callable[[pa.Array], pa.Array]]:
        """Return the functions that give columns their final form, by name of the column."""
        changes: dict[str, Callable[[pa.Array], pa.Array]] = {}
        if self.class_names:
            number_of = {name: number for number, name in enumerate(sorted_names)}
            numbers = np.array([number_of[name] for name in self.class_names], np.int64)
            changes["label"] = lambda labels: pa.array(numbers[labels.to_numpy()])
        for name, types in self._types.items():
            if types <= {int}:
                changes[name] = _integers
            elif types <= {int, float, type(None)} and types != {type(None)}:
                changes[name] = _floats
        return changes

    def _rewrite(self, part: Path, changes: Mapping[str, Callable[[pa.Array], pa.Array]]) -> None:
        """Write a part anew with its columns in their final form, without those that have no value."""
        index = Index.open(part)
        empty = {name for name, types in self._types.items() if types == {type(None)}}
        columns = {name: index.arrow(name) for name in index.schema.names if name not in empty}
        columns |= {name: change(columns[name]) for name, change in changes.items()}
        rewritten = part.with_name(f"{part.name}-again")
        write_index(rewritten, columns)
        rewritten.rename(part)


def _typed(labels: list[Any]) -> Any:
    """Return lists as they are, and numbers as an array."""
    if isinstance(labels[0], tuple):
        return list(labels)
    return np.array(labels, np.float32 if isinstance(labels[0], float) else np.int64)


def _integers(texts: pa.Array) -> pa.Array:
    return pa.array(np.fromiter(map(int, each(texts)), np.int64, len(texts)))


def _floats(texts: pa.Array) -> pa.Array:
    return pa.array(np.fromiter((float(text or "nan") for text in each(texts)), np.float64, len(texts)))


class _ObjectRows:
    """The objects of all rows, in memory until the index is written."""

    def __init__(self) -> None:
        self._table = ObjectTable()
        self._is_used = False

    def add(self, row: int, objects: ExternalObjects, height: int, width: int) -> Iterator[str]:
        """Add the objects of a row, and yield a reason for each that is left out.

        Boxes are clipped to the image, of ``height`` x ``width`` pixels.
        """
        self._is_used = True
        table = self._table
        for name in objects.flags.keys() - table.extra.keys():
            table.extra[name] = array("B", bytes(len(table)))
        for i, (box, label) in enumerate(zip(objects.boxes, objects.labels, strict=True)):
            try:
                clipped = _clipped(box, height, width)
            except BadObjectError as error:
                yield str(error.args[0])
                continue
            table.add(
                row,
                clipped,
                label,
                i,
                area=None if objects.area is None else objects.area[i],
                crowd=objects.crowd is not None and bool(objects.crowd[i]),
                extra={name: objects.flags[name][i] if name in objects.flags else 0 for name in table.extra},
            )

    def columns(self, rows: int) -> dict[str, pa.Array]:
        """Return the columns of an index of ``rows`` rows; none if no record has objects."""
        return self._table.columns(np.array(self._table.image, np.int64), rows) if self._is_used else {}


def _clipped(
    box: tuple[float, float, float, float], height: int, width: int
) -> tuple[float, float, float, float]:
    """Return a box without the parts outside the image."""
    left, top, right, bottom = checked_box(*box)
    inside = max(left, 0.0), max(top, 0.0), min(right, float(width)), min(bottom, float(height))
    if not (inside[0] < inside[2] and inside[1] < inside[3]):
        raise BadObjectError("object outside its image")
    return inside


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

    def _add(self, record: Record, sample: ExternalSample, crc: int | None, shard: _Reading) -> None:
        number, record_number, offset = shard.number, record.number, record.offset
        if self._names.label_type == "shard":
            sample = replace(sample, label=number, text="")
        self._check_label(sample, record.number)
        if record.pieces > 1:
            number, record_number, offset = shard.rows.joined.add(record)
        key = sample.key or f"{shard.name}:{record.number}"
        payload = sample.payload
        stored = NO_CHECKSUM if crc is None else crc
        values = (number, record_number, offset + payload.offset, payload.length, stored, key)
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


def index(
    paths: Iterable[str | os.PathLike[str]],
    into: str | os.PathLike[str],
    *,
    container: str = "auto",
    names: FeatureNames | Mapping[str, Any] | None = None,
    classes: Sequence[str] | None = None,
    checksums: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Manifest:
    """Make a dataset of existing shards without rewriting them.

    Every record is read once and its checksums are verified. From a tar archive at a URL, only headers and
    small members are fetched, unless ``checksums`` is set. An image whose header cannot be read is left out
    and counted in ``Manifest.skipped``. The sidecars of the container, such as DALI's ``.idx`` files of
    TFRecord shards, are written beside the index.
    """
    check_progress(progress)
    check_named(into=into)
    chosen, shards = find_shards(paths, container)
    if not isinstance(names, FeatureNames):
        names = replace(chosen.feature_names or FeatureNames(), **(names or {}))
    indexer = Indexer(chosen, names, classes, progress, checksums=checksums)
    locations = [shard.location(into) for shard in shards]
    if is_url(into):
        return _index_to_url(indexer, shards, locations, Store(into))
    return publish_index(Path(into), partial(indexer.run, shards, locations))


def _index_to_url(
    indexer: Indexer, shards: list[ExternalShard], locations: list[str], store: Store
) -> Manifest:
    if store.size(MANIFEST_NAME) is not None:
        hint = "name another URL, or remove its dataset.json"
        raise DatasetError("there is a dataset already", path=store.url, hint=hint)
    with tempfile.TemporaryDirectory(prefix="stoker-index-") as temporary:
        manifest = indexer.run(shards, locations, Path(temporary))
        for file in sorted(Path(temporary).iterdir()):
            store.upload(file, file.name)
        store.write(MANIFEST_NAME, manifest.to_json().encode())
        return manifest
