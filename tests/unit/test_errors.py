"""The tree of errors."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable

import pytest

from stoker import errors
from stoker.errors import StokerError, StorageError

ALL = [getattr(errors, name) for name in errors.__all__]


@pytest.mark.parametrize(
    ("error", "base"),
    [
        (errors.ConfigError, ValueError),
        (errors.MissingDependencyError, ImportError),
        (errors.DatasetError, ValueError),
        (errors.StaleIndexError, errors.DatasetError),
        (errors.SourceError, ValueError),
        (errors.LockedError, BlockingIOError),
        (errors.WriteError, OSError),
        (errors.StorageError, OSError),
        (errors.SampleError, ValueError),
        (errors.CorruptRecordError, errors.SampleError),
        (errors.DecodeError, errors.SampleError),
        (errors.ImageTooLargeError, errors.DecodeError),
        (errors.EngineError, RuntimeError),
        (errors.CheckpointError, ValueError),
        (errors.LoaderClosedError, RuntimeError),
    ],
)
def test_an_error_is_caught_as_its_base(error: type[StokerError], base: type[Exception]) -> None:
    assert issubclass(error, StokerError)
    assert issubclass(error, base)


def test_the_list_and_the_drawing_name_every_error() -> None:
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
def test_a_message_gives_the_location_and_the_hint(error: type[StokerError]) -> None:
    raised = error("it broke", path="/d/a", shard="s-0", record=3, key="cat/1", hint="repair it")
    assert str(raised) == "it broke (path '/d/a', shard 's-0', record 3, key 'cat/1')\nrepair it"
    assert (raised.message, raised.path, raised.shard) == ("it broke", "/d/a", "s-0")
    assert (raised.record, raised.key, raised.hint) == (3, "cat/1", "repair it")
    assert str(error("it broke")) == "it broke"
    assert str(error("it broke", record=0)) == "it broke (record 0)"


@pytest.mark.parametrize("error", ALL)
@pytest.mark.parametrize("transfer", [copy.copy, lambda e: pickle.loads(pickle.dumps(e))])
def test_an_error_can_be_copied_and_pickled(
    error: type[StokerError], transfer: Callable[[StokerError], StokerError]
) -> None:
    raised = error("it broke", path="/d/a", record=0, hint="repair it")
    arrived = transfer(raised)
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
    error = StorageError(text, path=text, hint=text)
    assert (error.message, error.path, error.hint, error.args) == (safe, safe, safe, (safe,))
    assert "SECRET" not in str(pickle.loads(pickle.dumps(error)))
