"""Processes for the cases of one test, two at a time: most of their time is imports, which take one core."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

T = TypeVar("T")


@contextmanager
def side_by_side(
    request: pytest.FixtureRequest, parameter: str, run: Callable[[Any], T]
) -> Iterator[dict[Any, Future[T]]]:
    """Starts a function for each value that a parameter has in the chosen tests of the requesting module."""
    cases = [getattr(item, "callspec", None) for item in request.session.items if item.path == request.path]
    values = dict.fromkeys(case.params[parameter] for case in cases if case and parameter in case.params)
    with ThreadPoolExecutor(2) as pool:
        yield {value: pool.submit(run, value) for value in values}
