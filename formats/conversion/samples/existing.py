"""The beginning of a writer: a new dataset, or one that it appends to, as its manifest shows it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker.errors import ConfigError, DatasetError
from stoker.urls import is_url

from ...dataset.columns import ORIGIN_COLUMNS, array_types, has_origins
from ...dataset.index import BAND_COLUMNS, IMAGE_COLUMNS, REQUIRED_COLUMNS
from ...dataset.manifest import MANIFEST_NAME, Manifest
from ...sources.classes import check_classes
from ...tokenization.captions import CAPTION_COLUMNS
from ..images.captions import WrittenCaptions
from .options import WriterOptions
from .sample_encoder import SampleEncoder
from .values.checked_sample import SampleChecker, SampleForm
from .values.columns import ColumnType

_NUMBERS = {"double": "float64", "float": "float32", "halffloat": "float16"}
_NUMBERS |= {f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_OF_ALL = {*REQUIRED_COLUMNS, *IMAGE_COLUMNS, *BAND_COLUMNS, *CAPTION_COLUMNS}
_BOXES = {f"object_{name}" for name in ("boxes", "labels", "crowd", "area", "id")}
_MASKS = {f"object_{name}" for name in ("polygons", "polygon_sizes", "polygon_owner", "runs", "run_counts")}
_SEGMENTATION = {f"mask_{name}" for name in ("offset", "length", "crc")}


@dataclass(frozen=True)
class WriterStart:
    """The settings of a writer by its arguments, or by the dataset that it appends to."""

    existing: Manifest | None  # Manifest of the dataset to append to; None for a new one
    folder: Path  # Folder of the dataset
    container: str  # Container of the shards
    restarts: bool | None  # Whether JPEGs get restart markers; None is the default of the encoding
    classes: tuple[str, ...] | None  # Names of the classes; None numbers them as they occur
    keypoints: tuple[str, ...]  # Names of the keypoints of an object
    ignore_index: int | None  # Value of class masks that belongs to no class
    form: SampleForm | None = None  # The form of every sample; None lets the first sample decide

    @classmethod
    def of(
        cls,
        target: str | os.PathLike[str],
        *,
        container: str,
        restarts: bool | None,
        classes: Sequence[str] | None,
        keypoints: Sequence[str] | None,
        ignore_index: int | None,
        append: bool,
        overwrite: bool,
    ) -> WriterStart:
        """Return the start of a writer with these arguments."""
        folder, names = Path(target), check_classes(classes)
        existing = _existing_manifest(target, overwrite=overwrite) if append else None
        if existing is None:
            return cls(None, folder, container, restarts, names, tuple(keypoints or ()), ignore_index)
        return cls(
            existing,
            folder,
            existing.container,
            set(BAND_COLUMNS) <= existing.columns.keys(),
            appended_classes(names, existing) or None,
            existing.annotations.keypoints,
            existing.annotations.ignore,
            _form_of(existing, folder),
        )

    def encoder(
        self, options: WriterOptions, box_format: str, captions: WrittenCaptions | None
    ) -> SampleEncoder:
        """Return the checker and encoder of the samples that follow."""
        checker = SampleChecker(
            list(self.classes or ()),
            self.classes is not None,
            box_format,
            len(self.keypoints) or None,
            self.form,
            captions and captions.options.caption_column,
        )
        resizes = options.mode != "none"
        keeps_origins = resizes if self.existing is None else has_origins(self.existing.columns)
        tokenizer = captions and captions.tokenizer
        return SampleEncoder(options, checker, self.keypoints, self.ignore_index, keeps_origins, tokenizer)

    @property
    def records(self) -> int:
        """Number of records so far. Samples that were left out later keep their keys, so they count."""
        return 0 if self.existing is None else sum(shard.records for shard in self.existing.shards)


def _existing_manifest(target: str | os.PathLike[str], *, overwrite: bool) -> Manifest | None:
    """Manifest of the dataset to append to; None if there is none."""
    if overwrite:
        raise ConfigError("append and overwrite contradict each other", hint="leave one of them out")
    if is_url(target):
        raise ConfigError(
            "append adds to a dataset in a folder, and the target is a URL",
            path=target,
            hint="copy the dataset to a folder with stoker stage, and append to that",
        )
    folder = Path(target)
    return Manifest.load(folder) if (folder / MANIFEST_NAME).exists() else None


def _form_of(manifest: Manifest, folder: Path) -> SampleForm:
    """Return the form of the samples of a dataset, so that more of them can be written."""
    if manifest.sample_type != "image" or any(shard.path is not None for shard in manifest.shards):
        raise DatasetError(
            "a writer appends only to a dataset of images whose shards lie in its folder, which this dataset "
            "is not",
            path=folder,
        )
    made_by_writers = _OF_ALL | set(ORIGIN_COLUMNS) if has_origins(manifest.columns) else _OF_ALL
    types = {name: arrow for name, arrow in manifest.columns.items() if name not in made_by_writers}
    label = types.pop("label", None)
    arrays = {
        name: ColumnType("array", array.dtype, len(array.shape)) for name, array in manifest.arrays.items()
    }
    for name in arrays:
        for column in array_types(name):
            del types[column]
    objects: set[str] = set()
    for arguments, columns in (
        ({"boxes", "box_labels"}, _BOXES),
        ({"keypoints"}, {"object_keypoints"}),
        ({"masks"}, _MASKS),
        ({"segmentation"}, _SEGMENTATION),
    ):
        if columns <= types.keys():
            objects |= arguments
            types = {name: arrow for name, arrow in types.items() if name not in columns}
    values = {
        name: ColumnType("number", _NUMBERS[arrow]) for name, arrow in types.items() if arrow in _NUMBERS
    }
    values |= {name: ColumnType("text", "str") for name, arrow in types.items() if arrow == "large_string"}
    if unknown := sorted(types.keys() - values.keys()):
        raise DatasetError(
            f"a writer cannot write the columns {', '.join(unknown)} of the dataset",
            path=folder,
            hint="write another dataset, and load both: stoker.mix",
        )
    kind = "no label" if label is None else "one label" if label == "int64" else "several labels"
    ordered = {name: values[name] for name in types}
    return SampleForm(kind, frozenset(objects - {"segmentation"}), "segmentation" in objects, ordered, arrays)


def appended_classes(classes: tuple[str, ...] | None, manifest: Manifest) -> tuple[str, ...]:
    """Return the names of the classes: ``classes``, or those of the dataset if they are None."""
    if classes is None:
        return manifest.classes
    if classes[: len(manifest.classes)] != manifest.classes:
        raise ConfigError(
            f"classes do not begin with the {len(manifest.classes)} of the dataset: labels would change",
            hint="take stoker.open(target).classes and add names at the end",
        )
    return classes
