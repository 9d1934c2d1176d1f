"""Every error that Stoker raises, as one tree.

    StokerError
    ├── ConfigError           (ValueError)       an argument has a value that is not allowed
    ├── MissingDependencyError (ImportError)     an optional package is not installed
    ├── DatasetError          (ValueError)       a folder is not a dataset that this version reads
    │   └── StaleIndexError                      index, manifest and shards do not belong together
    ├── SourceError           (ValueError)       a source of a conversion cannot be used
    ├── LockedError           (BlockingIOError)  another process is writing into the same folder
    ├── WriteError            (OSError)          the disk is full or refuses a write
    ├── StorageError          (OSError)          a remote store refuses, or does not answer as it should
    ├── SampleError           (ValueError)       one sample is bad; names shard, record and key
    │   ├── CorruptRecordError                   checksum, length or framing is wrong
    │   └── DecodeError                          the bytes are intact, but cannot be decoded as an image
    │       └── ImageTooLargeError               more pixels than ``max_pixels``
    ├── EngineError           (RuntimeError)     an engine failed for a reason other than a sample
    ├── CheckpointError       (ValueError)       a state does not fit this loader
    └── LoaderClosedError     (RuntimeError)     a loader was used after ``close()``

Each error is also a built-in exception, in brackets above, which code that does not know Stoker can catch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

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
    """Base of all errors raised by Stoker. Credentials in URLs are removed from its message and hint.

    Args:
        message: What is wrong, in one sentence.
        path: File or folder concerned.
        shard: Name of the shard file.
        record: Number of the record in its shard, from 0.
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
        # Before path is set: ImportError sets it to None.
        super().__init__(message)
        self.message = message
        self.path = None if path is None else without_credentials(str(path))
        self.shard = shard
        self.record = record
        self.key = key
        self.hint = None if hint is None else without_credentials(hint)

    def __str__(self) -> str:
        values = {name: getattr(self, name) for name in _LOCATION}
        location = [f"{name} {value!r}" for name, value in values.items() if value is not None]
        text = f"{self.message} ({', '.join(location)})" if location else self.message
        return f"{text}\n{self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, {name: getattr(self, name) for name in _DETAILS})


_Error = TypeVar("_Error", bound=StokerError)
_LOCATION = ("path", "shard", "record", "key")
_DETAILS = (*_LOCATION, "hint")


def _rebuild(cls: type[_Error], message: str, details: dict[str, Any]) -> _Error:
    return cls(message, **details)


def with_details(error: _Error, **details: Any) -> _Error:
    """Return the same error with other details, such as its path."""
    return _rebuild(type(error), error.message, {name: getattr(error, name) for name in _DETAILS} | details)


class ConfigError(StokerError, ValueError):
    """An argument cannot have the value that was given.

    The name is unknown, the value is out of range, or two arguments exclude each other.

    What to do: read the second line of the error, which gives the values that are allowed. For an argument of
    another loader it gives Stoker's equivalent.
    """


class MissingDependencyError(StokerError, ImportError):
    """An optional package that is needed here is not installed.

    What to do: run the ``pip install`` command in the error. ``stoker doctor`` lists all optional packages.
    """


def install_hint(*packages: str) -> str:
    """Return the hint of a MissingDependencyError: the command that installs the packages.

    It names the packages, not an extra of Stoker, which pip could install only from Stoker's own source.
    """
    return f"Install it: pip install {' '.join(packages)}"


@contextmanager
def optional_import(message: str, *packages: str) -> Iterator[None]:
    """Raise MissingDependencyError with this message if an import in the block fails."""
    try:
        yield
    except ImportError as error:
        raise MissingDependencyError(message, hint=install_hint(*packages)) from error


class DatasetError(StokerError, ValueError):
    """A folder is not a dataset, or this version cannot read it.

    The conversion into it has not finished, a shard is missing or cut short, the path leads elsewhere, or a
    later version of Stoker wrote it.

    What to do: look for ``dataset.json`` in the folder. If it is missing, run the conversion once more: it
    continues. With ``--val`` or ``--test`` the datasets are the folders inside. Copy a shard that is missing
    or cut short again.
    """


class StaleIndexError(DatasetError):
    """Index, manifest and shards do not belong together.

    A file was replaced, or a copy was interrupted.

    What to do: copy the whole folder again, or convert again with ``--overwrite``. After a change to indexed
    shards of another program, run ``stoker index`` again.
    """


class SourceError(StokerError, ValueError):
    """A source of a conversion cannot be used.

    It does not exist, has another format than it seems, or its annotations contradict themselves.

    What to do: repair the file that the error names, or set the format with ``--source-format``. Without
    ``--strict`` a conversion leaves out single bad samples, and lists them in ``skipped.jsonl``.
    """


class LockedError(StokerError, BlockingIOError):
    """Another process is writing into the same folder.

    What to do: wait until it has finished, or choose another folder. A process that has ended holds no lock.
    """


class WriteError(StokerError, OSError):
    """The disk is full or refuses a write.

    What to do: free space or repair the permissions, then run the same command again. It continues.
    """


class StorageError(StokerError, OSError):
    """A remote store refuses, or does not answer as it should, or the disk of a source fails.

    The address or the credentials are wrong, the network fails, or the server does not answer range requests.
    Or a file that was listed is gone or cannot be read, as where a share vanishes.

    What to do: check the address, the credentials and the network. Stoker has already repeated the request.
    The next pass over a loader continues with the same batch.
    """


class SampleError(StokerError, ValueError):
    """One sample is bad.

    What to do: find the sample by the shard, record and key in the error. ``on_error="skip"`` or
    ``"replace"`` lets a training go on without it, and ``stoker verify`` lists all that are damaged.
    """


class CorruptRecordError(SampleError):
    """A checksum, a length or the framing of a record is wrong.

    The shard was damaged after it was written, on the disk or while it was copied.

    What to do: copy the shard again, and check the whole dataset with ``stoker verify``.
    """


class DecodeError(SampleError):
    """The bytes are intact, but they are not an image that can be decoded.

    The image was damaged before its conversion.

    What to do: replace it and convert again, or load with ``on_error="skip"``. ``stoker verify --decode``
    finds such images before a training does.
    """


class ImageTooLargeError(DecodeError):
    """An image has more pixels than ``max_pixels`` allows.

    What to do: raise ``max_pixels`` if you trust the source, or make the images smaller with ``stoker convert
    --resize``.
    """


class EngineError(StokerError, RuntimeError):
    """An engine failed for a reason other than a sample.

    The GPU has too little memory, a driver is too old, or a worker process died.

    What to do: follow the second line of the error; ``stoker doctor`` says what each engine finds on the
    machine, and ``engine="native"`` needs no GPU.
    """


class CheckpointError(StokerError, ValueError):
    """A saved state does not fit this loader.

    The dataset, the transforms or the seed differ from the saved loader's; the error names all
    differences.

    What to do: make the loader with the same arguments. Threads, prefetching, the engine and the number of
    ranks may differ.
    """


class LoaderClosedError(StokerError, RuntimeError):
    """A loader was used after ``close()``.

    It was closed, another loop over it has started, or this process was forked from the one that made it.

    What to do: make a loader for each use. Threads share a pass through one iterator, ``iter(loader)``.
    """
