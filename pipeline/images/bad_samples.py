"""Bad samples: the errors that they raise, and how many an epoch may have before a loader gives up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, SupportsIndex

from stoker.arguments import whole_number
from stoker.errors import ConfigError, CorruptRecordError, DecodeError, ImageTooLargeError

from ..engines.base import Status

OnError = Literal["raise", "skip", "replace"]
_SHARE = 0.01
_LEAST_SEEN = 100
"""Samples that a loader has seen before a share counts, because one bad sample of ten says little."""

_LISTS = "on_error='skip' or 'replace' goes on without such samples; stoker verify{} lists them all."
_DAMAGED, _BROKEN = _LISTS.format(""), _LISTS.format(" --decode")
_LARGE = "A larger max_pixels accepts it; on_error='skip' or 'replace' goes on without such samples."

ERRORS = {
    Status.READ_ERROR: (CorruptRecordError, "the payload cannot be read", _DAMAGED),
    Status.CHECKSUM_MISMATCH: (CorruptRecordError, "the payload does not match its checksum", _DAMAGED),
    Status.SIZE_MISMATCH: (CorruptRecordError, "the image is not the one in the index", _BROKEN),
    Status.NOT_DECODABLE: (DecodeError, "the image cannot be decoded", _BROKEN),
    Status.TRUNCATED: (DecodeError, "the image is truncated", _BROKEN),
    Status.TOO_LARGE: (ImageTooLargeError, "the image has more pixels than max_pixels", _LARGE),
}
"""Class of the error, what was wrong, and what to do about it, by the status of a sample."""


@dataclass(frozen=True)
class BadSamplePolicy:
    """What happens to bad samples, and how many of them an epoch may have on one rank."""

    on_error: OnError  # The loader's argument
    max_bad: int | float  # A number of samples, or as a float a share of the epoch's samples

    def is_exceeded(self, bad: int, *, samples: float, seen: int) -> bool:
        """Whether there are too many bad samples."""
        if isinstance(self.max_bad, int):
            return bad > self.max_bad
        return seen >= _LEAST_SEEN and bad > self.max_bad * samples


def make_bad_sample_policy(on_error: OnError, max_bad: int | float | None) -> BadSamplePolicy:
    """Check a loader's arguments ``on_error`` and ``max_bad``, where None is one percent."""
    if on_error not in ("raise", "skip", "replace"):
        raise ConfigError(f"on_error must be 'raise', 'skip' or 'replace', found {on_error!r}")
    if max_bad is None:
        return BadSamplePolicy(on_error, _SHARE)
    if on_error == "raise":
        raise ConfigError(
            "max_bad limits the bad samples that are skipped or replaced, and on_error='raise' does neither",
            hint="Give on_error='skip' or 'replace', too, or leave out max_bad.",
        )
    if isinstance(max_bad, SupportsIndex):
        return BadSamplePolicy(on_error, whole_number("max_bad", max_bad, 0))
    try:
        share = float(max_bad)
    except (TypeError, ValueError):
        raise ConfigError(f"max_bad must be a number or a share, found {max_bad!r}") from None
    if not 0 <= share <= 1:
        raise ConfigError(f"max_bad as a float is a share, 0 to 1, found {max_bad!r}")
    return BadSamplePolicy(on_error, share)
