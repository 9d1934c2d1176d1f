"""The manifest, ``dataset.json``: the shards of a dataset, its index, and the digests of all files.

Keys that this version does not know are refused, so that a manifest never states more than is checked.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, is_dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from stoker.errors import DatasetError, with_details
from stoker.urls import is_url

from ..containers.container import CONTAINERS, find_container
from ..files import (
    check_unpacked,
    file_digests,
    is_of_machine,
    is_unicode,
    missing_path,
    read_regular,
    reason_of,
    storage_error,
)
from .annotations import AnnotationInfo
from .columns import ArrayColumn, check_arrays

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    _T = TypeVar("_T", bound=DataclassInstance)

MANIFEST_NAME = "dataset.json"
INDEX_NAME = "index.arrow"
SKIPPED_NAME = "skipped.jsonl"
TOKENIZER_NAME = "tokenizer.json"
BYTE_TOKENS = {"[PAD]": 256, "[BOS]": 257, "[EOS]": 258}  # of datasets of bytes
SHARDS_STATE = "shards_state"  # option: a hash of the validators of shards at URLs that have no digests
STATE_NAME = ".stoker-convert"  # folder of a conversion that has not ended
MOST_MANIFEST_BYTES = 1 << 28  # a million shards take about 150 MB
VERSION = 1

Option = str | int | float | bool | None

_MOST_BYTES = 1 << 48  # 256 TiB, because a cache keeps numbers for every block
_MOST_SHARD_BYTES = 1 << 44  # 16 TiB, the longest file of ext4
_SAMPLE_TYPES = ("image", "text")
_DIGEST = re.compile(r"crc32c:[0-9a-f]{8}")
_INDEX_VERSION = re.compile(r"index-v([1-9]\d{0,8})\.arrow")
# Marks of fields: a document may lack an optional one, and lacks it if it has its default value.
_OPTIONAL = {"optional": True}
_ELSEWHERE = {"elsewhere": True}  # no document has the field


def index_name(version: int) -> str:
    """Return the name of the index of a version from 2; the index of the first is :data:`INDEX_NAME`."""
    return f"index-v{version}.arrow"


def published_names(name: str, container: str) -> dict[str, str]:
    """Return the names of the files of a shard in a dataset: by "shard", or the suffix of a sidecar file."""
    sidecars = find_container(container).sidecars
    return {"shard": name} | {sidecar.suffix: sidecar.name(name) for sidecar in sidecars}


@dataclass(frozen=True)
class Shard:
    """One shard."""

    name: str  # Name of its file or folder in the dataset's folder
    bytes: int  # Size of its data file
    records: int  # Number of records in it
    # CRC32C of its data file, ``crc32c:%08x``; None for a file at a URL that was not read whole
    digest: str | None
    # Its path if it is not in the dataset's folder: absolute, relative to that folder, or a URL
    path: str | None = field(default=None, metadata=_OPTIONAL)
    # SHA-256 of its data file if ``sha256.json`` has it
    sha256: str | None = field(default=None, compare=False, metadata=_ELSEWHERE)

    def __post_init__(self) -> None:
        if self.name in ("", ".", "..") or {*self.name} & {*"/\\"} or not _names_file(self.name):
            raise DatasetError(f"the name of a shard must be a plain file name, found {self.name!r}")
        _check_count(f"bytes of shard {self.name!r}", self.bytes, _MOST_SHARD_BYTES)
        _check_count(f"records of shard {self.name!r}", self.records, self.bytes)
        if self.digest is not None:
            _check_digest(f"digest of shard {self.name!r}", self.digest)
        if self.path is not None and not (self.path and _names_file(self.path)):
            raise DatasetError(f"path of shard {self.name!r} must name a file, found {self.path!r}")

    def check_data_file(self, file: Path) -> None:
        again = "convert the source" if self.path is None else "index the shards"
        hint = f"Restore the file, or {again} again."
        wrong = partial(DatasetError, path=file, shard=self.name, hint=hint)
        try:
            status = file.stat()
        except OSError as error:
            if is_of_machine(reason := reason_of(error)):
                raise storage_error(reason, file, hint="Make the file readable, and try again.") from error
            raise wrong(f"shard {self.name} is missing: {reason}") from error
        if not stat.S_ISREG(status.st_mode):
            raise wrong(f"shard {self.name} is missing: no regular file")
        if (size := status.st_size) != self.bytes:
            what = "truncated" if size < self.bytes else "longer than it was"
            raise wrong(f"shard {self.name} is {what}: {size} bytes where the manifest says {self.bytes}")


@dataclass(frozen=True)
class IndexFile:
    """The index of a version of a dataset."""

    rows: int
    bytes: int
    digest: str
    # Name of its file if the dataset has changed since its conversion; None for :data:`INDEX_NAME`
    name: str | None = field(default=None, metadata=_OPTIONAL)
    sha256: str | None = field(default=None, compare=False, metadata=_ELSEWHERE)

    def __post_init__(self) -> None:
        if self.name is not None and not _INDEX_VERSION.fullmatch(self.name):
            raise DatasetError(f"name of the index must be such as index-v2.arrow, found {self.name!r}")
        _check_count("bytes of the index", self.bytes, _MOST_SHARD_BYTES)
        _check_count("rows of the index", self.rows, self.bytes)
        _check_digest("digest of the index", self.digest)

    @classmethod
    def of(cls, path: Path, rows: int, name: str | None = None) -> IndexFile:
        digests = file_digests(path)
        return cls(rows, path.stat().st_size, digests.crc, name, digests.sha256)

    @property
    def file(self) -> str:
        return self.name or INDEX_NAME


def _names_file(path: str) -> bool:
    return "\0" not in path and is_unicode(path)


def _check_count(what: str, value: int, most: int = (1 << 63) - 1) -> None:
    if not 0 <= value <= most:
        raise DatasetError(f"{what} must be a count, from 0 to {most}, found {value!r}")


def _check_digest(what: str, digest: str) -> None:
    if not _DIGEST.fullmatch(digest):
        raise DatasetError(f"{what} must be crc32c: and eight hexadecimal digits, found {digest!r}")


@dataclass(frozen=True)
class Manifest:
    """The content of ``dataset.json``."""

    container: str  # Name of the container, such as tfrecord
    # What a sample is: image or text; ``kind`` in the file
    sample_type: str = field(metadata={"key": "kind"})
    # Name and type of every column of the index, for instance ``{"label": "int64"}``
    columns: Mapping[str, str]
    shards: tuple[Shard, ...]  # The shards; the index column ``shard`` has their indexes in this list
    index: IndexFile
    classes: tuple[str, ...] = ()  # Names of the classes; the index is the label. Empty if there are none
    options: Mapping[str, Option] = field(default_factory=dict)  # The options that the dataset was made with
    # Numbers of files, records and objects of the source that were left out, by reason
    skipped: Mapping[str, int] = field(default_factory=dict)
    annotations: AnnotationInfo = field(default_factory=AnnotationInfo, metadata=_OPTIONAL)
    # Dtype and shape of every array column
    arrays: Mapping[str, ArrayColumn] = field(default_factory=dict, metadata=_OPTIONAL)
    # The source's id of each class, as COCO has them, -1 for a class without one
    category_ids: tuple[int | str, ...] = field(default=(), metadata=_OPTIONAL)
    version: int = VERSION  # Version of this format

    def __post_init__(self) -> None:
        _check_version(self.version)
        if self.container not in CONTAINERS:
            raise DatasetError(f"container must be one of {', '.join(CONTAINERS)}, found {self.container!r}")
        if self.sample_type not in _SAMPLE_TYPES:
            raise DatasetError(f"kind must be one of {', '.join(_SAMPLE_TYPES)}, found {self.sample_type!r}")
        names = [shard.name for shard in self.shards]
        if len(set(names)) != len(names):
            raise DatasetError("two shards have the same name")
        if self.index.file in names:
            raise DatasetError("a shard has the name of another file, the index")
        if self.index.rows > (records := sum(shard.records for shard in self.shards)):
            raise DatasetError(f"the index has {self.index.rows} rows, and the shards have {records} records")
        if (total := self.index.bytes + self.data_bytes) > _MOST_BYTES:
            raise DatasetError(f"index and shards have {total} bytes, more than any dataset")
        check_arrays(self.arrays, self.columns)
        if len(self.category_ids) not in (0, len(self.classes)):
            raise DatasetError(
                f"category_ids must have an id for each class, found {len(self.category_ids)} ids of "
                f"{len(self.classes)} classes"
            )
        for reason, count in self.skipped.items():
            _check_count(f"skipped[{reason!r}]", count)

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits that differ for other samples or another order."""
        # They cover digests, not paths, so a dataset that is moved or copied keeps its fingerprint.
        index = {"rows": self.index.rows, "bytes": self.index.bytes, "digest": self.index.digest}
        identity = [self.version, self.container, self.sample_type, index, list(self.classes)]
        identity += [asdict(self.annotations)] if self.annotations != AnnotationInfo() else []
        identity += [{name: asdict(self.arrays[name]) for name in sorted(self.arrays)}] if self.arrays else []
        identity += [[shard.name, shard.bytes, shard.records, shard.digest] for shard in self.shards]
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]

    @property
    def cache_name(self) -> str:
        """Return the name of the folder in a cache that keeps parts of these data files."""
        if (state := self.options.get(SHARDS_STATE)) is None:
            return self.fingerprint
        return hashlib.sha256(f"{self.fingerprint} {state}".encode()).hexdigest()[:32]

    @property
    def dataset_version(self) -> int:
        """Version of the dataset: 1, and one more after each change of its samples."""
        match = _INDEX_VERSION.fullmatch(self.index.file)
        return int(match[1]) if match else 1

    @property
    def data_bytes(self) -> int:
        return sum(shard.bytes for shard in self.shards)

    def data_files(self, folder: Path, *, check: bool = False) -> list[Path]:
        """Return the absolute path of every shard's data file; ``folder`` is the folder of the manifest."""
        # ``check`` says whether each must exist and have its size.
        for shard in self.shards:
            if is_url(shard.path):
                raise DatasetError(
                    f"its shards lie elsewhere: {shard.path}",
                    path=folder,
                    shard=shard.name,
                    hint="Open it with a cache, cache=FOLDER, or copy it to a disk: stoker stage.",
                )
        folder = folder.absolute()
        data_file = find_container(self.container).data_file
        files = [data_file(folder / (shard.path or shard.name)) for shard in self.shards]
        if check:
            for shard, file in zip(self.shards, files, strict=True):
                shard.check_data_file(file)
        return files

    def to_json(self) -> str:
        document = {"version": self.version, **_to_document(self)}
        return json.dumps(document, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DatasetError(f"the manifest is not JSON: {error}") from error
        if not isinstance(document, dict) or "version" not in document:
            raise DatasetError("the manifest must be a JSON object with a version")
        _check_version(document["version"])  # first: another version may have other keys
        return from_document(cls, document, "the manifest")

    @classmethod
    def from_bytes(cls, content: bytes) -> Manifest:
        """Return the manifest in the first ``MOST_MANIFEST_BYTES + 1`` bytes of a file."""
        if len(content) > MOST_MANIFEST_BYTES:
            raise DatasetError(
                f"the manifest has more than {MOST_MANIFEST_BYTES} bytes",
                hint="Stoker did not write this file: convert or index again.",
            )
        try:
            return cls.from_json(content.decode())
        except UnicodeDecodeError as error:
            raise DatasetError("the manifest is not UTF-8") from error

    @classmethod
    def load(cls, folder: str | os.PathLike[str], name: str = MANIFEST_NAME) -> Manifest:
        """Read the manifest of the dataset in ``folder``; ``name`` may be the file of an earlier version."""
        path = Path(folder) / name
        try:
            return cls.from_bytes(read_regular(path, MOST_MANIFEST_BYTES + 1))
        except DatasetError as error:
            raise with_details(error, path=path) from error
        except OSError as error:
            if (missing := missing_path(folder)) and not _is_unfinished(Path(folder)):
                raise DatasetError(missing[0], path=folder, hint=missing[1]) from None
            if isinstance(error, NotADirectoryError):
                check_unpacked(folder)
                reason = "a dataset is a folder, and this is a file"
            elif isinstance(error, FileNotFoundError):
                reason = f"{name} does not exist"
            elif is_of_machine(reason := reason_of(error)):
                raise storage_error(reason, path, hint="Make the file readable, and try again.") from error
            else:
                reason = f"{name} cannot be read: {error}"
            hint = _missing_hint(Path(folder))
            raise DatasetError(f"not a dataset: {reason}", path=folder, hint=hint) from error


def _check_version(version: object) -> None:
    if version != VERSION or type(version) is not int:
        raise DatasetError(
            f"the manifest has version {version!r}; this Stoker reads version {VERSION}",
            hint="Upgrade Stoker, or convert the source again with this one.",
        )


def is_dataset(folder: Path) -> bool:
    """Return whether a folder is a dataset, an unfinished one, or contains datasets."""
    return (folder / MANIFEST_NAME).exists() or _is_unfinished(folder) or bool(datasets_in(folder))


def read_tokenizer(folder: Path) -> bytes:
    """Return the content of ``tokenizer.json`` in the folder of a dataset of text."""
    file = folder / TOKENIZER_NAME
    try:
        return read_regular(file)
    except OSError as error:
        raise DatasetError(
            f"the tokenizer cannot be read: {error.strerror or error}",
            path=file,
            hint="Copy the file from where the dataset was made, or convert the text again.",
        ) from error


def token_ids(tokenizer: bytes) -> dict[str, int]:
    """Return the ids of the tokens of ``tokenizer.json``."""
    try:
        document = json.loads(tokenizer)
        vocabulary = document["model"]["vocab"]
        if isinstance(vocabulary, list):  # of Unigram: pieces with their scores
            vocabulary = {piece: number for number, (piece, _) in enumerate(vocabulary)}
        return {**vocabulary, **{token["content"]: token["id"] for token in document["added_tokens"]}}
    except (KeyError, TypeError, ValueError) as error:
        raise DatasetError(
            f"tokenizer.json cannot be read: {error}", hint="Convert the text again."
        ) from error


def tokenizer_settings(options: Mapping[str, Any]) -> tuple[dict[str, str | None], str | None]:
    """The special tokens of a dataset's tokenizer by the names of their roles, and the chat template."""
    try:
        settings = json.loads(options.get("tokenizer_settings") or "{}")
        special, template = dict(settings.get("special_tokens", {})), settings.get("chat_template")
        damaged = not all(text is None or isinstance(text, str) for text in (template, *special.values()))
    except (AttributeError, TypeError, ValueError):
        damaged = True
    if damaged:
        raise DatasetError(
            "the settings of the tokenizer in dataset.json cannot be read", hint="Convert the text again."
        )
    return special, template


def end_tokens(options: Mapping[str, Any]) -> dict[str, str]:
    """The tokens that a conversion put around each text, by the names of its options ``bos`` and ``eos``."""
    special, _ = tokenizer_settings(options)
    names = [name for name in ("bos", "eos") if options.get(name)]
    return {name: special.get(f"{name}_token") or f"[{name.upper()}]" for name in names}


def _is_unfinished(folder: Path) -> bool:
    # A conversion into the folder, or into splits of the folder above, has not ended.
    return any((parent / STATE_NAME).is_dir() for parent in (folder, folder.parent))


def datasets_in(folder: Path) -> list[str]:
    """The names of the folders in a folder that are datasets."""
    try:
        with os.scandir(folder) as entries:  # one at a time: it may be a folder of a million images
            return sorted(
                one.name for one in entries if one.is_dir() and Path(one.path, MANIFEST_NAME).exists()
            )
    except OSError:
        return []


def _missing_hint(folder: Path) -> str:
    if _is_unfinished(folder):
        return "Its conversion has not ended: run the same command again, and it resumes."
    if splits := datasets_in(folder):
        return f"It contains datasets: {', '.join(splits)}."
    return (
        "Make one with: stoker convert SOURCE DATASET, or for shards that exist: "
        "stoker index SHARDS --into DATASET"
    )


def _to_document(instance: DataclassInstance) -> dict[str, Any]:
    document = {}
    for key, (item, _) in _fields(type(instance)).items():
        value = getattr(instance, item.name)
        if not item.metadata.get("optional") or value != _default(item):
            document[key] = _to_json(value)
    return document


def _to_json(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return _to_document(value)
    if isinstance(value, (list, tuple)):
        return [_to_json(item) for item in value]
    return {key: _to_json(item) for key, item in value.items()} if isinstance(value, Mapping) else value


def _default(item: Field[Any]) -> Any:
    return item.default if item.default_factory is MISSING else item.default_factory()


def from_document(cls: type[_T], document: Any, where: str) -> _T:
    """Return a dataclass made from a document of ``json.loads``; errors name the document ``where``."""
    if not isinstance(document, dict):
        raise DatasetError(f"{where} must be an object, found {type(document).__name__}")
    fields_by_key = _fields(cls)
    if unknown := sorted(document.keys() - fields_by_key.keys()):
        raise DatasetError(f"{where} has keys that this version does not know: {', '.join(unknown)}")
    required = {key for key, (item, _) in fields_by_key.items() if not item.metadata.get("optional")}
    if missing := sorted(required - document.keys()):
        raise DatasetError(f"{where} lacks {', '.join(missing)}")
    values = {}
    for key, value in document.items():
        item, hint = fields_by_key[key]
        values[item.name] = _from_json(hint, value, f"{where}: {key}")
    try:
        return cls(**values)
    except DatasetError:
        raise
    except ValueError as error:
        raise DatasetError(f"{where}: {error}") from error


@cache  # a manifest may have 100,000 shards
def _fields(cls: type[DataclassInstance]) -> dict[str, tuple[Field[Any], Any]]:
    hints = get_type_hints(cls)
    known = [item for item in fields(cls) if not item.metadata.get("elsewhere")]
    return {item.metadata.get("key", item.name): (item, hints[item.name]) for item in known}


def _from_json(hint: Any, value: Any, where: str) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return from_document(hint, value, where)
    if origin is tuple and isinstance(value, list):
        if arguments[-1] is not Ellipsis and len(value) != len(arguments):
            raise DatasetError(f"{where} must be a list of {len(arguments)} values, found {len(value)}")
        return tuple(_from_json(arguments[0], item, where) for item in value)
    if origin is Mapping and isinstance(value, dict):
        return {key: _from_json(arguments[1], item, where) for key, item in value.items()}
    # type(), not isinstance(): true must not pass for a count.
    if origin is None and type(value) is hint:
        return value
    if type(value) in arguments and origin not in (tuple, Mapping):
        return value
    raise DatasetError(f"{where} has a value of the wrong type: {str(value)[:50]!r}")
