"""The tree of errors."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

from stoker import errors
from stoker.errors import (
    CheckpointError,
    ConfigError,
    CorruptRecordError,
    DatasetError,
    DecodeError,
    EngineError,
    ImageTooLargeError,
    LoaderClosedError,
    LockedError,
    MissingDependencyError,
    SampleError,
    SourceError,
    StaleIndexError,
    StokerError,
)

ALL = [getattr(errors, name) for name in errors.__all__]


@pytest.mark.parametrize(
    ("error", "also"),
    [
        (ConfigError, ValueError),
        (MissingDependencyError, ImportError),
        (DatasetError, ValueError),
        (StaleIndexError, DatasetError),
        (SourceError, ValueError),
        (LockedError, BlockingIOError),
        (SampleError, ValueError),
        (CorruptRecordError, SampleError),
        (DecodeError, SampleError),
        (ImageTooLargeError, DecodeError),
        (EngineError, RuntimeError),
        (CheckpointError, ValueError),
        (LoaderClosedError, RuntimeError),
    ],
)
def test_each_is_also_what_other_code_catches(error: type[StokerError], also: type[Exception]) -> None:
    assert issubclass(error, StokerError)
    assert issubclass(error, also)


def test_the_list_is_complete_and_so_is_the_drawing() -> None:
    defined = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, BaseException)
    }
    assert defined == set(errors.__all__)
    assert (
        set(re.findall(r"\w+Error\b", errors.__doc__))
        - {"ValueError", "ImportError", "OSError", "RuntimeError", "BlockingIOError"}
        == defined
    )


@pytest.mark.parametrize("error", ALL)
def test_a_message_says_where_and_what_to_do(error: type[StokerError]) -> None:
    raised = error("it broke", path="/d/a", shard="s-0", record=3, key="cat/1", hint="mend it")
    assert str(raised) == "it broke (path '/d/a', shard 's-0', record 3, key 'cat/1')\nmend it"
    assert (raised.message, raised.path, raised.shard) == ("it broke", "/d/a", "s-0")
    assert (raised.record, raised.key, raised.hint) == (3, "cat/1", "mend it")
    assert str(error("it broke")) == "it broke"
    assert str(error("it broke", record=0)) == "it broke (record 0)"


@pytest.mark.parametrize("error", ALL)
@pytest.mark.parametrize("through", [copy.copy, lambda e: pickle.loads(pickle.dumps(e))])
def test_it_travels_between_processes(error: type[StokerError], through: object) -> None:
    raised = error("it broke", path="/d/a", record=0, hint="mend it")
    arrived = through(raised)
    assert type(arrived) is error
    assert (str(arrived), vars(arrived)) == (str(raised), vars(raised))


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("https://user:SECRET@host/a b", "https://host/a b"),
        ("https://SECRET@host:8080/x.tfrecord?X-Amz-Signature=SECRET", "https://host:8080/x.tfrecord"),
        ("403, url='http://host/x?sig=SECRET', and s3://a:SECRET@b", "403, url='http://host/x', and s3://b"),
        ("HTTPS://host/x#token=SECRET", "HTTPS://host/x"),
        ("simplecache::ftp://u:SECRET@host/x", "simplecache::ftp://host/x"),
        ("s3://bucket/train-0000?", "s3://bucket/train-0000?"),
        ("/data/user@host/x?y", "/data/user@host/x?y"),
    ],
)
def test_errors_show_no_credentials_of_urls(text: str, safe: str) -> None:
    error = errors.StorageError(text, path=text, hint=text)
    assert (error.message, error.path, error.hint, error.args) == (safe, safe, safe, (safe,))
    assert "SECRET" not in str(pickle.loads(pickle.dumps(error)))
