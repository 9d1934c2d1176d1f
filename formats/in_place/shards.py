"""The index of shards that other programs wrote, which stay as they are: ``stoker index``.

Records that lie in several pieces cannot be read in place. They are written in one piece to a shard
beside the index.
"""

from __future__ import annotations

import hashlib
import os
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stoker._native import crc32c
from stoker.arguments import check_progress, named_arguments
from stoker.errors import ConfigError, DatasetError, SourceError, StokerError, with_details
from stoker.log import EventLog
from stoker.urls import is_url

from ..codecs.codec import ImageHeader
from ..containers.container import Record, Sidecar
from ..containers.external import ExternalShard, ParsedRecord, error_about, find_shards, parse_records
from ..containers.image_record import ExternalObjects, ExternalSample, FeatureNames
from ..containers.protobuf import Span
from ..dataset.annotations import MASK_COLUMNS, runs_of_mask
from ..dataset.dataset import Dataset
from ..dataset.index import (
    IMAGE_COLUMNS,
    NO_CHECKSUM,
    REQUIRED_COLUMNS,
    Index,
    concat_indexes,
    free_name,
    is_reserved,
    open_index,
    write_index,
)
from ..dataset.manifest import INDEX_NAME, MANIFEST_NAME, SHARDS_STATE, IndexFile, Manifest, Shard
from ..dataset.versions import SHA256_NAME, publish_index, sha256_content
from ..files import check_named, file_digest, read_errors, temporary_folder
from ..remote.store import Store
from ..sources.archives import name_parts
from ..sources.columns import typed_column
from ..sources.datasets import list_samples
from ..sources.listing import (
    Listing,
    Skip,
    check_damage,
    missing_classes_error,
    no_images_error,
    warn_unlabelled,
)
from ..sources.objects import BadObjectError, ObjectTable, check_shares, checked_box
from ..sources.source import Source
from ..threads import thread_map
from .class_names import ClassNames, Contradiction, check_class, label_type_error
from .images import check_shadows_no_images

_ROWS_IN_MEMORY = 1 << 18
_RECORDS_PER_REPORT = 1000
_MOST_CLASSES = 1_000_000
_CONNECTIONS = 32  # shards that are read at once, each by one request after the other
_INT64 = range(-(1 << 63), 1 << 63)
_JOINED = "joined-records"
_FIRST_ERRORS = 20  # without one record that can be used
_LOG = EventLog("in_place")


@named_arguments
def index(
    paths: Iterable[str | os.PathLike[str]],
    into: str | os.PathLike[str],
    *,
    container: str = "auto",
    names: FeatureNames | Mapping[str, Any] | None = None,
    classes: Sequence[str] | None = None,
    checksums: bool = False,
    allow_loss: Fraction | None = None,
    damaged: list[StokerError] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Manifest:
    """Make a dataset of existing shards without rewriting them."""
    # Records that cannot be used, and the rest of a shard after a damage, are an error that names all; with
    # ``allow_loss``, up to this share of records are left out and counted; a list ``damaged`` gets the errors
    # instead. Every record is read once and its
    # checksums are verified. From a tar archive at a URL, only headers and small members are fetched, unless
    # ``checksums`` is set. An image whose header cannot be read is left out and counted in
    # ``Manifest.skipped``. The sidecars of the container, such as DALI's ``.idx`` files of TFRecord shards,
    # are written beside the index.
    check_progress(progress)
    check_named(into=into)
    chosen, shards = find_shards(paths, container)
    if not isinstance(names, FeatureNames):
        names = replace(chosen.feature_names or FeatureNames(), **(names or {}))
    if wrong := [name for name in names.columns if is_reserved(name) or not name]:
        raise ConfigError(f"a column cannot have the name {wrong[0]!r}", hint="Give it another name.")
    check_shadows_no_images(into, [shard.file for shard in shards])
    locations = [shard.location(into) for shard in shards]
    by_ranges = chosen.scan_headers is not None and is_url(shards[0].file) and not checksums

    def make(folder: Path) -> Manifest:
        indexer = _Indexer(folder, shards, names, classes, allow_loss, damaged, progress)
        return indexer.run(locations, by_ranges=by_ranges)

    return _make_at_url(make, Store(into)) if is_url(into) else publish_index(Path(into), make)


def list_shards(source: Source) -> Listing:
    """List the images of TFRecord or LMDB shards, which are indexed for that."""
    container, shards = find_shards([source.path], door="convert")
    names = name_parts(source.parts, container.feature_names or FeatureNames())
    names = replace(names, label_type=source.options.label_type or names.label_type)
    with temporary_folder("stoker-index-") as temporary:  # the index stays mapped
        folder = Path(temporary)
        damaged: list[StokerError] = []
        manifest = index([source.path], folder, container=container.name, names=names, damaged=damaged)
        dataset = Dataset(folder, manifest, open_index(folder, manifest), [])
        listing = list_samples(
            dataset, [shard.file for shard in shards], [shard.modified for shard in shards]
        )
    skipped = (Skip("", reason) for reason, number in manifest.skipped.items() for _ in range(number))
    return replace(
        listing, root=os.fspath(source.path), skipped=tuple(skipped), damaged=tuple(damaged), manifest=None
    )


def _make_at_url(make: Callable[[Path], Manifest], store: Store) -> Manifest:
    if store.size(MANIFEST_NAME) is not None:
        hint = "Name another URL, or remove its dataset.json."
        raise DatasetError("there is a dataset already", path=store.url, hint=hint)
    with temporary_folder("stoker-index-") as temporary:
        manifest = make(Path(temporary))
        for file in sorted(Path(temporary).iterdir()):
            store.upload(file, file.name)
        store.write(SHA256_NAME, sha256_content(manifest))
        store.write(MANIFEST_NAME, manifest.to_json().encode())
        return manifest


@dataclass
class _Indexer:
    """Reads shards one after the other into an index in ``folder``."""

    folder: Path
    shards: list[ExternalShard]
    names: FeatureNames
    classes: Sequence[str] | None
    allow_loss: Fraction | None
    damaged: list[StokerError] | None
    progress: Callable[[int, int], None] | None

    def __post_init__(self) -> None:
        self._container = self.shards[0].container
        self._shard_names = _unique_names([shard.name for shard in self.shards])
        self._rows = _Rows(self.folder, self.names.columns)
        self._joined = Shard(_JOINED, 0, 0, None)  # its records are rewritten in one piece
        self._class_names = ClassNames(self.classes or ())
        self._label_type: type | None = None  # of all labels: int, str, float, tuple or NoneType
        self._has_masks: bool | None = None  # Whether the first sample has a class mask
        self._mask_values: set[int] = set()
        self._skipped: Counter[str] = Counter()
        self._damaged: list[StokerError] = [] if self.damaged is None else self.damaged
        self._lost: dict[str, Counter[str]] = defaultdict(Counter)  # the reasons, by the name of a class
        self._total, self._done = sum(shard.size for shard in self.shards), 0

    def run(self, locations: list[str], *, by_ranges: bool) -> Manifest:
        listed: list[Shard] = []
        fetched = self._read_by_ranges() if by_ranges else None
        for number, shard in enumerate(self.shards):
            if fetched is not None:
                count, digest = self._add_all(number, next(fetched)), None
            else:
                count, digest = self._read_whole(number)
            listed.append(Shard(self._shard_names[number], shard.size, count, digest, locations[number]))
            self._refuse(self._class_names.contradictions(number))
            self._done += shard.size
            self._report(0)
        self._check_damage()
        self._refuse(self._class_names.names_of_several_labels())
        classes = self.classes
        if classes is None:
            by_shard = self.names.label_type == "shard"
            classes = self._shard_names if by_shard else self._found_names()
        if not self._rows.finish(self.folder / INDEX_NAME, classes):
            left_out = (Skip("", reason) for reason in self._skipped.elements())
            raise no_images_error("there is no image in these shards", self.shards[0].source, left_out)
        if self._joined.records:
            listed.append(replace(self._joined, digest=file_digest(self.folder / _JOINED)))
        options = {}
        if by_ranges:  # neither shards nor long images have checksums
            states = ",".join(str(shard.modified) for shard in self.shards)
            options[SHARDS_STATE] = hashlib.sha256(states.encode()).hexdigest()[:16]
        if len(self._mask_values) == 2 and max(self._mask_values) == 255:
            low = min(self._mask_values)
            _LOG.warning(
                f"masks of {self.shards[0].source}",
                f"the class masks have the values {low} and 255 alone, and 255 is ignored; a conversion with "
                f"mask_map='{low}:0,255:1' makes it a class",
            )
        annotated = self._has_masks or self._rows.objects is not None
        if self._label_type is type(None) and not annotated and self.names.label:
            warn_unlabelled(
                self.shards[0].source,
                "stoker index --label names the part that has them, and --label-type shard makes a class "
                "of each shard",
            )
        return self._manifest(listed, tuple(classes), options)

    def _found_names(self) -> list[str]:
        """The names of the classes of the records, which all must have an image."""
        lost = {name: reasons for name, reasons in self._lost.items() if name not in self._rows.class_names}
        if lost and self._rows.class_names:
            skips = [Skip(name, *(f"{n:,} x {why}" for why, n in lost[name].most_common(1))) for name in lost]
            raise missing_classes_error(
                sorted(skips), self.shards[0].source, "Repair them, or name the classes that stay."
            )
        return sorted(self._rows.class_names)

    def _read_whole(self, number: int) -> tuple[int, str]:
        shard, name = self.shards[number], self._shard_names[number]
        entries: dict[Sidecar, list[bytes]] = {sidecar: [] for sidecar in self._container.sidecars}

        def scan(file: Path) -> Iterator[Record]:
            with read_errors(file):
                for record in self._container.scan(file):
                    for sidecar, lines in entries.items():
                        lines.append(sidecar.entry(record.offset, record.length))
                    yield record

        with shard.local_file(self.folder) as file:
            records = parse_records(scan(file), self._container, self.names, name, file, headers=True)
            count, digest = self._add_all(number, records), file_digest(file)
        for sidecar, lines in entries.items():
            (self.folder / sidecar.name(name, external=True)).write_bytes(b"".join(lines))
        return count, digest

    def _read_by_ranges(self) -> Iterator[list[ParsedRecord]]:
        """Yield the records of each shard at a URL, without their images; several shards are read at once."""

        def read(number: int) -> list[ParsedRecord]:
            shard, name = self.shards[number], self._shard_names[number]
            records = shard.records()
            found = parse_records(records, self._container, self.names, name, shard.file, headers=True)
            return [
                one if one.record is None else one._replace(record=one.record._replace(parts=(), read=None))
                for one in found
            ]

        for _, found in thread_map(read, range(len(self.shards)), "fetch", _CONNECTIONS, _CONNECTIONS):
            yield found

    def _report(self, done: int) -> None:
        if self.progress is not None:
            self.progress(self._done + done, self._total)

    def _add_all(self, number: int, records: Iterable[ParsedRecord]) -> int:
        count = done = 0
        shard, name = self.shards[number], self._shard_names[number]
        for parsed in records:
            if parsed.error is not None:
                self._damaged.append(with_details(parsed.error, path=shard.file))
            if parsed.record is None:
                break
            count += 1
            if parsed.error is not None:
                self._stop_early()
            elif parsed.sample is None or parsed.reason:
                self._skipped[parsed.reason] += 1
                if parsed.sample is not None and isinstance(parsed.sample.label, str):
                    self._lost[parsed.sample.label][parsed.reason] += 1
            else:
                try:
                    self._add(number, parsed.record, parsed, parsed.sample)
                except SourceError as error:
                    self._damaged.append(error_about(error, parsed.record, name, shard.file))
                    self._stop_early()
            done += parsed.record.length
            if count % _RECORDS_PER_REPORT == 0:
                self._report(done)
        return count

    def _stop_early(self) -> None:
        """Raise the errors so far if no record can be used: an option is wrong, or all are."""
        if len(self._damaged) >= _FIRST_ERRORS and not self._rows.count:
            self._check_damage()

    def _check_damage(self) -> None:
        remedy = "Or leave them out: stoker index SHARDS --into DATASET --allow-loss {share:g}"
        total = self._rows.count + sum(self._skipped.values()) + len(self._damaged)
        if not self._rows.count:
            check_damage(self._damaged, 0, None, "")
        if self.damaged is not None:
            return
        for skip in check_damage(self._damaged, total, self.allow_loss, remedy):
            self._skipped[skip.reason] += 1
            _LOG.warning(f"{skip.key} {skip.detail}", f"{skip.key} is left out: {skip.detail}")

    def _add(self, shard: int, record: Record, parsed: ParsedRecord, sample: ExternalSample) -> None:
        number, offset = record.number, record.offset
        key = sample.key or f"{self._shard_names[shard]}:{number}"
        if self.names.label_type == "shard":
            sample = replace(sample, label=shard, text="")
        self._class_names.see(shard, number, sample)
        self._check_label(sample)
        if record.pieces > 1:
            shard, (number, offset) = len(self.shards), self._join(record)
        crc = NO_CHECKSUM if parsed.crc is None else parsed.crc
        payload, header = sample.payload, parsed.header
        assert header is not None, "headers are read"
        mask = None
        if self._has_masks is None:
            self._has_masks = sample.mask is not None
        if self._has_masks:
            try:
                mask = _class_mask(record, sample.mask, header, self._mask_values)
            except BadObjectError as error:
                self._skipped[str(error)] += 1
                return
        elif sample.mask is not None:
            self._skipped["class mask, which the records before it lack"] += 1
        values = (shard, number, offset + payload.offset, payload.length, crc, key, *header, *(mask or ()))
        self._skipped.update(self._rows.add(values, sample, header.height, header.width))
        self._skipped.update(f"{part}, which is not read" for part in sample.unread)

    def _join(self, record: Record) -> tuple[int, int]:
        """Write a record in one piece; return its number in the shard of joined records, and its offset."""
        if self._container.join is None:
            raise SourceError(f"the record lies in {record.pieces} pieces, which cannot be read in place")
        data, before = self._container.join(record.view)
        with (self.folder / _JOINED).open("ab") as file:
            file.write(data)
        joined = self._joined
        self._joined = replace(joined, bytes=joined.bytes + len(data), records=joined.records + 1)
        return joined.records, joined.bytes + before

    def _check_label(self, sample: ExternalSample) -> None:
        label_type = type(sample.label)
        if self._label_type is None:
            self._label_type = label_type
        if self._label_type is type(None) is not label_type and self._rows.places():
            forgotten, self._rows = self._rows.places(), _Rows(self.folder, self.names.columns)
            for number, key in forgotten:  # the first records lack the label that others have
                where: dict[str, Any] = {"path": self.shards[number].file, "shard": self._shard_names[number]}
                self._damaged.append(
                    SourceError("the record has no label, unlike those after it", key=key, **where)
                )
            self._label_type = label_type
        if label_type is not self._label_type:
            raise label_type_error(sample.label, self._label_type)
        if self.classes is None:
            return
        labels: list[Any] = list(sample.label) if isinstance(sample.label, tuple) else [sample.label]
        if sample.objects is not None:
            labels = [label for label in labels if label is not None] + list(sample.objects.labels)
        for label in labels:
            check_class(label, self.classes)

    def _refuse(self, contradictions: Iterator[Contradiction]) -> None:
        for shard, record, message in contradictions:
            raise SourceError(
                f"the shards contradict each other: {message}",
                path=self.shards[shard].file,
                shard=self._shard_names[shard],
                record=record,
                hint="Index shards of different datasets apart and join them by name with stoker.mix. If the "
                "labels are right and the names wrong, ignore the names (text '') and name the classes.",
            )

    def _manifest(self, shards: list[Shard], classes: tuple[str, ...], options: dict[str, str]) -> Manifest:
        path = self.folder / INDEX_NAME
        index = Index.open(path)
        feature_names = {} if self._container.feature_names is None else self.names.to_manifest()
        return Manifest(
            container=self._container.name,
            sample_type="image",
            columns=index.types,
            shards=tuple(shards),
            index=IndexFile.of(path, len(index)),
            classes=classes or self._names_by_label(index),
            options={"made_by": "index", **feature_names, **options},
            skipped=dict(self._skipped),
        )

    def _names_by_label(self, index: Index) -> tuple[str, ...]:
        """Return the names of the classes of samples and objects; a class without a name has its number."""
        labels = np.concatenate([_labels_of(index, name) for name in ("label", "object_labels")])
        # Labels that cannot be indices of a list of classes keep their meaning without names.
        if not len(labels) or labels.min() < 0 or labels.max() >= _MOST_CLASSES:
            return ()
        names = self._class_names.names
        return tuple(names.get(label, str(label)) for label in range(int(labels.max()) + 1))


def _labels_of(index: Index, name: str) -> npt.NDArray[np.int64]:
    """Return all numbers of classes in a column; none if the index lacks it, or has floats or names."""
    kind = index.types.get(name, "")
    if kind.startswith("large_list"):
        return index.lists(name).values
    return index.column(name) if kind == "int64" else np.empty(0, np.int64)


def _unique_names(names: list[str]) -> list[str]:
    """Return file names, with a number before each that occurs twice."""
    count = Counter(names)
    return [name if count[name] == 1 else f"{number:05d}-{name}" for number, name in enumerate(names)]


class _Rows:
    """Rows of the index: some in memory, those before them in parts of an index in ``folder``.

    Labels that are names, and further columns, get their final form only when all records are known: names
    are numbered in sorted order. A column becomes integers if all of its values are integers, floats if all
    are numbers or missing, and otherwise text.
    """

    def __init__(self, folder: Path, columns: Iterable[str]) -> None:
        self.folder = folder
        self._rows: list[tuple[Any, ...]] = []
        self._labels: list[int | float | tuple[int, ...]] = []
        self.count = 0
        self.objects: ObjectTable | None = None  # of all rows, in memory; None if no record has objects
        self._values: dict[str, list[str]] = {name: [] for name in columns}
        self._types: dict[str, set[type]] = {name: set() for name in columns}
        self._parts: list[Path] = []
        self.class_names: dict[str, int] = {}

    def add(self, values: tuple[Any, ...], sample: ExternalSample, height: int, width: int) -> Iterator[str]:
        """Add a row, and yield a reason for each of its objects that is left out."""
        columns = {free_name(name, sample.columns): value for name, value in sample.columns.items()}
        for name in columns.keys() - self._values.keys():
            if self.count:
                raise SourceError(
                    f"the record has the column {name!r}, unlike those before it",
                    hint="Name the columns that all records have.",
                )
            self._values[name], self._types[name] = [], set()
        self._rows.append(values)
        label = sample.label
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
            yield from self._add_objects(sample.objects, height, width)
        self.count += 1
        if len(self._rows) >= _ROWS_IN_MEMORY:
            self._flush()

    def places(self) -> list[tuple[int, str]]:
        """The shard and the key of each row; empty if some rows are not in memory."""
        return [] if self._parts else [(row[0], row[5]) for row in self._rows]

    def _add_objects(self, objects: ExternalObjects, height: int, width: int) -> Iterator[str]:
        """Add the objects of a row, and yield a reason for each that is left out. Boxes are clipped."""
        table = self.objects = self.objects or ObjectTable()
        for name in objects.flags.keys() - table.extra.keys():
            table.extra[name] = array("B", bytes(len(table)))
        for i, (box, label) in enumerate(zip(objects.boxes, objects.labels, strict=True)):
            runs = None
            try:
                left, top, right, bottom = _clipped(box, height, width)
            except BadObjectError as error:
                yield str(error.args[0])
                continue
            try:
                runs = runs_of_mask(_mask(objects.masks[i], height, width) != 0) if objects.masks else None
            except BadObjectError as error:
                yield f"{error} of an object"
            table.add(
                self.count,
                (left, top, right, bottom),
                label,
                i,
                area=objects.area[i] if objects.area else (right - left) * (bottom - top),
                crowd=bool(objects.crowd[i]),
                runs=runs,
                extra={name: objects.flags[name][i] if name in objects.flags else 0 for name in table.extra},
            )

    def finish(self, path: Path, sorted_names: Sequence[str]) -> bool:
        """Write the index of all rows; return whether there are any."""
        # ``sorted_names`` are the names of the classes by label, for labels that were names.
        self._flush()
        if not self._parts:
            return False
        changes: dict[str, Callable[[pa.Array], pa.Array] | None] = {}
        if self.class_names:
            number_of = {name: number for number, name in enumerate(sorted_names)}
            numbers = np.array([number_of[name] for name in self.class_names], np.int64)
            changes["label"] = lambda labels: pa.array(numbers[labels.to_numpy()])
        for name, types in self._types.items():
            changes[name] = None if types == {type(None)} else partial(typed_column, types=types, name=name)
        objects: dict[str, pa.Array] = {}
        if self.objects is not None:
            objects = self.objects.columns(np.array(self.objects.image, np.int64), self.count)
        concat_indexes(self._parts, path, objects, changes)
        for part in self._parts:
            part.unlink()
        return True

    def _flush(self) -> None:
        if not self._rows:
            return
        part = self.folder / f"part-{len(self._parts)}"
        columns: dict[str, Any] = dict(
            zip(
                (*REQUIRED_COLUMNS, *IMAGE_COLUMNS, *MASK_COLUMNS),
                zip(*self._rows, strict=True),
                strict=False,
            )
        )
        if self._labels:
            kinds = {float: pa.float32(), tuple: pa.large_list(pa.int64())}
            columns["label"] = pa.array(self._labels, kinds.get(type(self._labels[0]), pa.int64()))
        for name, texts in self._values.items():
            columns[name] = pa.array(texts, pa.large_string())
        write_index(part, columns)
        self._parts.append(part)
        self._rows.clear()
        self._labels.clear()
        for texts in self._values.values():
            texts.clear()


def _class_mask(
    record: Record, span: Span | None, header: ImageHeader, found: set[int]
) -> tuple[int, int, int]:
    """Return the first byte of a class mask in its shard, its bytes, and their CRC32C."""
    # Values of some of its pixels are added to ``found``.
    if span is None:
        raise BadObjectError("image without a class mask")
    data = span.of(record.view)
    found.update(np.unique(_mask(data, header.height, header.width)[::4, ::4]).tolist())
    return record.offset + span.offset, span.length, crc32c(data)


def _mask(data: memoryview, height: int, width: int) -> npt.NDArray[Any]:
    """Return the values of a mask, (H, W)."""
    from ..codecs.header import open_mask

    try:
        with open_mask(data) as image:
            has_size = (image.height, image.width) == (height, width)
            values = np.asarray(image) if has_size else np.zeros((0, 0))
    except MemoryError:
        raise
    # Pillow's decoders raise nearly anything on a damaged image.
    except Exception as error:
        raise BadObjectError("broken mask") from error
    if not has_size:
        raise BadObjectError("mask of another size than the image")
    if values.ndim != 2:
        raise BadObjectError("mask of more than one channel")
    return values


def _clipped(
    box: tuple[float, float, float, float], height: int, width: int
) -> tuple[float, float, float, float]:
    """Return a box in shares of the image's size as one in pixels, without the parts outside the image."""
    check_shares([side for side in box if side > 1], most=1.1)  # as the API itself, in box_list_ops
    left, top, right, bottom = checked_box(box[0] * width, box[1] * height, box[2] * width, box[3] * height)
    inside = max(left, 0.0), max(top, 0.0), min(right, float(width)), min(bottom, float(height))
    if not (inside[0] < inside[2] and inside[1] < inside[3]):
        raise BadObjectError("object outside its image")
    return inside
