"""Random numbers as a function of (seed, epoch, transform, sample, draw), for a whole batch at once.

There is no generator and no state: a number is computed from its coordinates, so it does not matter
who asks for it, in which order, or how often.

The construction, all in integers modulo 2**64 and therefore the same on every platform:

1. BLAKE2b (RFC 7693) of (seed, epoch, transform) gives two 64-bit words, so that neighbouring
   seeds, epochs and transforms share nothing.
2. A sample's row becomes a 64-bit state in two rounds of Stafford's "Mix13" finaliser, one word of
   the key entering before each.
3. Its draws are the SplitMix64 sequence from that state (Steele, Lea and Flood, "Fast splittable
   pseudorandom number generators", OOPSLA 2014), which passes BigCrush; the top 53 bits become the
   number.

States are 64 bits wide: among a billion samples a few pairs may share some draws, in different
transforms or epochs other pairs.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Key", "bits", "derive_key", "sequence", "uniform"]

_GOLDEN = 0x9E3779B97F4A7C15
_MIX13 = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))
_DROP = np.uint64(11)


class Key(NamedTuple):
    """128 bits that stand for one (seed, epoch, transform)."""

    first: np.uint64
    second: np.uint64


@lru_cache(maxsize=256)
def derive_key(seed: int, epoch: int, position: int) -> Key:
    """Key of the transform at ``position`` of its list; any integers, negative ones too."""
    text = f"stoker.augment {seed:d} {epoch:d} {position:d}".encode("ascii")
    digest = hashlib.blake2b(text, digest_size=16).digest()
    return Key(*(np.uint64(int.from_bytes(digest[i : i + 8], "little")) for i in (0, 8)))


def bits(key: Key, samples: npt.NDArray[np.int64], draws: int) -> npt.NDArray[np.uint64]:
    """64 random bits for each of ``draws`` draws of each sample.

    Args:
        key: From :func:`derive_key`.
        samples: (N,) int64, rows of the samples in the index.
        draws: Numbers a sample; asking for more does not change the first ones.

    Returns:
        (N, draws) uint64.
    """
    state = samples.astype(np.uint64)
    state += key.first
    _mix(state)
    state ^= key.second
    _mix(state)
    numbers = np.add.outer(state, _steps(draws))
    _mix(numbers)
    return numbers


def uniform(key: Key, samples: npt.NDArray[np.int64], draws: int) -> npt.NDArray[np.float64]:
    """Numbers uniform in [0, 1), multiples of 2**-53: (N, draws) float64; see :func:`bits`."""
    numbers = bits(key, samples, draws)
    numbers >>= _DROP
    return np.multiply(numbers, 2.0**-53)


def sequence(state: int, places: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """The numbers at ``places``, from 0, of the SplitMix64 sequence that starts from ``state``, 64 bits."""
    numbers = places.astype(np.uint64)
    numbers += np.uint64(1)
    numbers *= np.uint64(_GOLDEN)
    numbers += np.uint64(state)
    _mix(numbers)
    return numbers


def _mix(x: npt.NDArray[np.uint64]) -> None:
    """Stafford's Mix13 in place: a bijection of 64-bit words in which one bit changes half of them."""
    x ^= x >> _SHIFTS[0]
    x *= _MIX13[0]
    x ^= x >> _SHIFTS[1]
    x *= _MIX13[1]
    x ^= x >> _SHIFTS[2]


@lru_cache(maxsize=64)
def _steps(draws: int) -> npt.NDArray[np.uint64]:
    """SplitMix64's counter: the state advances by the golden ratio before each output."""
    return np.array([(i + 1) * _GOLDEN % 2**64 for i in range(draws)], np.uint64)
