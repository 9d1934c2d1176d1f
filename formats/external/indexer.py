"""Reading of external shards into an index and a manifest."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker._native import crc32c
from stoker.errors import ConfigError, CorruptRecordError, DecodeError, SourceError

from ..containers.image_record import LeftOutError
from ..dataset.columns.annotation_columns import tasks_of
from ..dataset.index import Index
from ..dataset.manifest import INDEX_NAME, IndexFile, Manifest, Shard
from ..files.reading import file_digest
from ..sources.listing import Skip
from ..sources.no_images import no_images_error
from .class_names import ClassNames, Contradiction, LabelName, check_class, names_in, unlike_those_before
from .joined_records import JoinedRecords
from .sample_rows import TAKEN_NAMES, SampleRows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from ..containers.base import Container, Record, Sidecar
    from ..containers.image_record import ExternalSample, FeatureNames
    from .shards import ExternalShard

__all__ = ["Indexer"]

_ROWS_IN_MEMORY = 1 << 18
_RECORDS_PER_REPORT = 1000
_MOST_CLASSES = 1_000_000


class Indexer:
    """Reads shards one after the other, and keeps the rows of some of them in memory."""

    def __init__(
        self,
        container: Container,
        names: FeatureNames,
        classes: Sequence[str] | None,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        if taken := [name for name in names.columns if name in TAKEN_NAMES or not name]:
            raise ConfigError(f"a column cannot have the name {taken[0]!r}", hint="give it another name")
        self._container = container
        self._names = names
        self._classes = classes
        self._report = progress
        self._named = ClassNames(classes or ())
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
        for number, (name, source, location) in enumerate(zip(names, sources, locations, strict=True)):
            report = partial(self._progress, before, total)
            with source.local_file(temporary) as file:
                records = self._read_shard(number, name, file, rows, report)
                shards.append(Shard(name, source.size, records, file_digest(file), location))
            _refuse(self._named.add(number, self._seen), sources, names)
            self._seen.clear()
            before += source.size
            report(source.size)
        _refuse(self._named.names_of_several_labels(), sources, names)
        classes = self._classes if self._classes is not None else sorted(rows.class_names)
        if self._classes is None and self._names.label_type == "shard":
            classes = names
        if not rows.finish(temporary / INDEX_NAME, classes):
            left_out = (Skip("", reason) for reason in self._skipped.elements())
            raise no_images_error("there is no image in these shards", sources[0].source, left_out)
        return self._manifest([*shards, *joined.shards()], temporary / INDEX_NAME, tuple(classes))

    def _progress(self, before: int, total: int, done: int) -> None:
        if self._report is not None:
            self._report(before + done, total)

    def _read_shard(
        self, number: int, name: str, file: Path, rows: SampleRows, report: Callable[[int], None]
    ) -> int:
        entries: dict[Sidecar, list[bytes]] = {sidecar: [] for sidecar in self._container.sidecars}
        count = done = 0
        for record in self._container.scan(file):
            count += 1
            for sidecar, lines in entries.items():
                lines.append(sidecar.entry(record.offset, record.length))
            try:
                self._add(number, name, record, rows)
            except DecodeError:
                self._skipped["image whose header cannot be read"] += 1
            except LeftOutError as error:
                self._skipped[str(error)] += 1
            except (CorruptRecordError, SourceError) as error:
                raise type(error)(
                    error.message,
                    path=file,
                    shard=name,
                    record=record.position,
                    key=record.key.decode(errors="backslashreplace") or None,
                    hint=error.hint,
                ) from error
            done += record.length
            if count % _RECORDS_PER_REPORT == 0:
                report(done)
        for sidecar, lines in entries.items():
            (rows.folder / sidecar.name(name, external=True)).write_bytes(b"".join(lines))
        return count

    def _add(self, number: int, shard: str, record: Record, rows: SampleRows) -> None:
        sample = self._container.parse_image(record, self._names)
        if self._names.label_type == "shard":
            sample = replace(sample, label=number, text="")
        self._check_label(sample, record.position)
        payload = sample.payload
        crc = crc32c(record.view[payload.offset : payload.offset + payload.length])
        position, offset = record.position, record.offset
        if record.pieces > 1:
            number, position, offset = rows.joined.add(record)
        key = sample.key or f"{shard}:{record.position}"
        place = (number, position, offset + payload.offset, payload.length, crc, key)
        self._skipped.update(rows.add(place, sample))

    def _check_label(self, sample: ExternalSample, record: int) -> None:
        for named in names_in(sample):
            self._seen.setdefault(named, record)
        label_type = type(sample.label)
        if self._label_type is None:
            self._label_type = label_type
        if label_type is not self._label_type:
            raise unlike_those_before(sample.label, self._label_type)
        if self._classes is None:
            return
        labels: list[Any] = list(sample.label) if isinstance(sample.label, tuple) else [sample.label]
        if sample.objects is not None:
            labels = [label for label in labels if label is not None] + list(sample.objects.labels)
        for label in labels:
            check_class(label, self._classes)

    def _manifest(self, shards: list[Shard], path: Path, classes: tuple[str, ...]) -> Manifest:
        index = Index.open(path)
        return Manifest(
            container=self._container.name,
            sample_type="image",
            columns=index.types,
            shards=tuple(shards),
            index=IndexFile(len(index), path.stat().st_size, file_digest(path)),
            classes=classes or self._class_names(index),
            options={"made_by": "index", **self._named_parts()},
            skipped=dict(self._skipped),
        )

    def _named_parts(self) -> dict[str, str | bool | None]:
        """Return the options of the manifest that name the parts of a record."""
        return {} if self._container.feature_names is None else self._names.to_manifest()

    def _class_names(self, index: Index) -> tuple[str, ...]:
        labels = np.concatenate([np.empty(0, np.int64), *_labels_of(index)])
        # Labels that cannot be positions in a list of classes keep their meaning without names.
        if not len(labels) or labels.min() < 0 or labels.max() >= _MOST_CLASSES:
            return ()
        names = self._named.names
        return tuple(names.get(label, str(label)) for label in range(int(labels.max()) + 1))


def _labels_of(index: Index) -> list[npt.NDArray[np.int64]]:
    """Return the classes of samples, and those of objects."""
    tasks = tasks_of(index.types)
    found = [index.column("label")] if "label" in tasks else []
    found += [index.lists("label").values] if "labels" in tasks else []
    return [*found, *([index.lists("object_labels").values] if "boxes" in tasks else [])]


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
