"""Every error that Stoker raises, as one tree.

    StokerError
    ├── ConfigError           (ValueError)       an argument that cannot be meant as given
    ├── MissingDependencyError (ImportError)     an optional package is not installed
    ├── DatasetError          (ValueError)       a folder is no dataset, or not one this version reads
    │   └── StaleIndexError                      index, manifest and shards do not belong together
    ├── SourceError           (ValueError)       a source of a conversion cannot be used
    ├── LockedError           (BlockingIOError)  another process is writing into the same folder
    ├── WriteError            (OSError)          the disk is full or refuses a write
    ├── StorageError          (OSError)          a remote store refuses, or does not answer as it should
    ├── SampleError           (ValueError)       one sample is bad; names shard, record and key
    │   ├── CorruptRecordError                   checksum, length or framing is wrong
    │   └── DecodeError                          the bytes are intact and are no decodable image
    │       └── ImageTooLargeError               more pixels than ``max_pixels``
    ├── EngineError           (RuntimeError)     an engine failed for a reason other than a sample
    ├── CheckpointError       (ValueError)       a state that does not fit this loader
    └── LoaderClosedError     (RuntimeError)     a loader was used after ``close()``

Each one is also the built-in exception that code without Stoker in mind would catch.
"""

from __future__ import annotations

from typing import Any

from stoker.urls import without_credentials

__all__ = [
    "CheckpointError",
    "ConfigError",
    "CorruptRecordError",
    "DatasetError",
    "DecodeError",
    "EngineError",
    "ImageTooLargeError",
    "LoaderClosedError",
    "LockedError",
    "MissingDependencyError",
    "SampleError",
    "SourceError",
    "StaleIndexError",
    "StokerError",
    "StorageError",
    "WriteError",
]


class StokerError(Exception):
    """Base of all errors raised by Stoker. Its texts are freed of credentials in URLs.

    Args:
        message: What is wrong, in one sentence.
        path: File or folder concerned.
        shard: Name of the shard file.
        record: Position of the record in its shard, from 0.
        key: The sample's name in its source.
        hint: What to do about it.
    """

    def __init__(
        self,
        message: str,
        *,
        path: object = None,
        shard: str | None = None,
        record: int | None = None,
        key: str | None = None,
        hint: str | None = None,
    ) -> None:
        message = without_credentials(message)
        # First: ImportError's own sets a path, to None.
        super().__init__(message)
        self.message = message
        self.path = None if path is None else without_credentials(str(path))
        self.shard = shard
        self.record = record
        self.key = key
        self.hint = None if hint is None else without_credentials(hint)

    def __str__(self) -> str:
        where = [
            f"{name} {value!r}"
            for name, value in (
                ("path", self.path),
                ("shard", self.shard),
                ("record", self.record),
                ("key", self.key),
            )
            if value is not None
        ]
        text = f"{self.message} ({', '.join(where)})" if where else self.message
        return f"{text}\n{self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[object, ...]:
        names = ("path", "shard", "record", "key", "hint")
        return _rebuild, (type(self), self.message, {name: getattr(self, name) for name in names})


def _rebuild(cls: type[StokerError], message: str, details: dict[str, Any]) -> StokerError:
    return cls(message, **details)


class ConfigError(StokerError, ValueError):
    """An argument cannot be meant as given."""


class MissingDependencyError(StokerError, ImportError):
    """An optional package is needed and not installed."""


def install_hint(*packages: str) -> str:
    """Return the hint of a MissingDependencyError: the command that installs the packages.

    It names the packages themselves, as extras of Stoker can be installed only from where Stoker lies.
    """
    return f"Install it: pip install {' '.join(packages)}"


class DatasetError(StokerError, ValueError):
    """A folder is no dataset, or not one that this version reads."""


class StaleIndexError(DatasetError):
    """Index, manifest and shards do not belong together."""


class SourceError(StokerError, ValueError):
    """A source of a conversion cannot be used."""


class LockedError(StokerError, BlockingIOError):
    """Another process is writing into the same folder."""


class WriteError(StokerError, OSError):
    """The disk is full or refuses a write."""


class StorageError(StokerError, OSError):
    """A remote store refuses, or does not answer as it should."""


class SampleError(StokerError, ValueError):
    """One sample is bad."""


class CorruptRecordError(SampleError):
    """A checksum, a length or the framing of a record is wrong."""


class DecodeError(SampleError):
    """The bytes are intact and are no decodable image."""


class ImageTooLargeError(DecodeError):
    """An image has more pixels than ``max_pixels`` allows."""


class EngineError(StokerError, RuntimeError):
    """An engine failed for a reason other than a sample."""


class CheckpointError(StokerError, ValueError):
    """A saved state does not fit this loader."""


class LoaderClosedError(StokerError, RuntimeError):
    """A loader was used after ``close()``."""
