"""The split of samples into two parts by a hash of their keys."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

__all__ = ["in_first_part"]


def in_first_part(keys: Sequence[str], fraction: float, seed: int) -> npt.NDArray[np.bool_]:
    """Return (N,) bool, whether each key is in the part of about ``fraction`` of all keys.

    The part of a key depends on the key and the seed alone.
    """
    salt = int(seed).to_bytes(16, "little", signed=True)
    limit = int(fraction * (1 << 64))
    hashes = (hashlib.blake2b(key.encode(), digest_size=8, key=salt).digest() for key in keys)
    return np.fromiter((int.from_bytes(one, "little") < limit for one in hashes), bool, len(keys))
