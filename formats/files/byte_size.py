"""Numbers of bytes as users write them: 256MB, 1.5 GiB."""

from __future__ import annotations

import re
from fractions import Fraction

from stoker.errors import ConfigError

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {"KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}


def parse_byte_size(option: str, value: str | int) -> int:
    """Return the number of bytes that a text such as 256MB, 1.5 GiB or 1000000 names.

    M is 10^6 and Mi is 2^20. The error names the option.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]I?|)B?\s*", str(value).upper())
    if match is None or (size := int(Fraction(match[1]) * _UNITS[match[2]])) < 1:
        raise ConfigError(f"{option} must be a number of bytes such as 256MB or 1GiB, not {value!r}")
    return size
