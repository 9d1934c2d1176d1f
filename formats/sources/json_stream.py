"""A reader of large JSON objects and arrays: one value at a time, in a few megabytes of memory.

docs/decisions/0011 compares it with ijson.
"""

from __future__ import annotations

import codecs
import gzip
import json
import math
import os
import re
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, NoReturn

from stoker.errors import SourceError

from ..files import open_regular

_WINDOW = 1 << 22
_LONGEST = 1 << 28  # characters of one value; a file with a longer one does not list small things
_GZIP = b"\x1f\x8b"  # RFC 1952, section 2.3.1
_SPACE = re.compile(r"[ \t\n\r]*")


def stream_object(path: Path, arrays: Collection[str], window: int = _WINDOW) -> Iterator[tuple[str, Any]]:
    """Members of the JSON object that a file holds, in their order."""
    # Python's json writes such numbers; in annotations they mean nothing.
    decoder = json.JSONDecoder(parse_constant=lambda name: math.nan)
    with _open(path, "object", decoder, window) as stream:
        yield from stream.members(arrays)


def stream_array(
    path: Path, window: int = _WINDOW, read: Callable[[int], bytes] | None = None
) -> Iterator[Any]:
    """Elements of the JSON array that a UTF-8 file holds; ``read`` reads the file if it is open already."""
    decoder = json.JSONDecoder()
    with (
        nullcontext(_Stream(path, read, "array", decoder, window))
        if read
        else _open(path, "array", decoder, window) as stream
    ):
        yield from stream.elements()
        stream.end()


@contextmanager
def _open(path: Path, container: str, decoder: json.JSONDecoder, window: int) -> Iterator[_Stream]:
    try:
        with open_regular(path) as (descriptor, _), os.fdopen(os.dup(descriptor), "rb") as file:
            is_packed = os.pread(descriptor, 2, 0) == _GZIP
            read = gzip.GzipFile(fileobj=file).read if is_packed else file.read
            yield _Stream(path, read, container, decoder, window)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise SourceError(f"the file is not gzip, or not a whole one: {error}", path=path) from error
    except OSError as error:
        raise SourceError(f"the file cannot be read: {error.strerror or error}", path=path) from error


def unpacked(head: bytes) -> bytes:
    """Unpack the start of a file that may be packed by gzip; other bytes stay as they are."""
    if head.startswith(_GZIP):
        with suppress(zlib.error):
            return zlib.decompressobj(wbits=31).decompress(head, len(head))
    return head


class _Stream:
    """A window of text that moves through a file."""

    def __init__(
        self, path: Path, read: Callable[[int], bytes], container: str, decoder: json.JSONDecoder, window: int
    ) -> None:
        self._path = path
        self._container = container
        self._read = read
        self._window = window
        # A byte order mark is not JSON, but some editors write one.
        self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
        self._scan = decoder.raw_decode
        self._text = ""
        self._at = 0
        self._before = 0  # characters before the window
        self._more = True

    def members(self, arrays: Collection[str]) -> Iterator[tuple[str, Any]]:
        """Members of the object at the window, after which the file must end; see :func:`stream_object`."""
        for _ in self._items("{}"):
            name = self._value()
            if not isinstance(name, str):
                self._fail("a member without a name")
            self._expect(":")
            if name in arrays and self._peek() == "[":
                yield from ((name, value) for value in self.elements())
            else:
                yield name, self._value()
        self.end()

    def elements(self) -> Iterator[Any]:
        """Elements of the array that comes next."""
        return (self._value() for _ in self._items("[]"))

    def _items(self, brackets: str) -> Iterator[None]:
        """Yield where each item of the array or object that comes next begins."""
        self._expect(brackets[0])
        if self._peek() == brackets[1]:
            self._at += 1
            return
        yield
        while self._expect(f",{brackets[1]}") == ",":
            yield

    def end(self) -> None:
        """Raise SourceError if anything follows."""
        if self._peek():
            self._fail(f"something after the end of the {self._container}")

    def _expect(self, characters: str) -> str:
        character = self._peek()
        if not character or character not in characters:
            self._fail(f"{' or '.join(characters)} is missing")
        self._at += 1
        return character

    def _peek(self) -> str:
        """The next character that is not whitespace; empty at the end of the file."""
        while True:
            space = _SPACE.match(self._text, self._at)
            assert space is not None, "the pattern matches the empty string"
            self._at = space.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._fill():
                return ""

    def _value(self) -> Any:
        """The next value, whole."""
        if not self._peek():
            self._fail("the file ends in the middle")
        while True:
            try:
                value, end = self._scan(self._text, self._at)
            except (ValueError, RecursionError) as error:
                if isinstance(error, RecursionError) or not self._more:
                    self._fail(str(error))
            else:
                # A number may continue in the next window, even if this one ends with "e+".
                if end + 2 < len(self._text) or not self._more:
                    self._at = end
                    return value
            self._fill()

    def _fill(self) -> bool:
        """Move the window on, and make it longer for a longer value; False at the end of the file."""
        if not self._more:
            return False
        rest = self._text[self._at :]
        if len(rest) > _LONGEST:
            self._fail(f"a value of more than {_LONGEST} characters")
        data = self._read(max(self._window, len(rest)))
        self._more = bool(data)
        self._before += self._at
        try:
            self._text, self._at = rest + self._decode(data, final=not data), 0
        except UnicodeDecodeError as error:
            self._fail(f"not UTF-8: {error}")
        return self._more

    def _fail(self, message: str) -> NoReturn:
        raise SourceError(
            f"the file is not a JSON {self._container}, or not a whole one: {message}, at character "
            f"{self._before + self._at:,}",
            path=self._path,
        )
