"""Keyed pseudo-random permutations and numbers, evaluated where they are wanted, without an array of them."""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

__all__ = ["Permutation", "hash_words", "permute", "uniform"]

Int64 = npt.NDArray[np.int64]
UInt64 = npt.NDArray[np.uint64]

_ROUNDS = 12
_MULTIPLIER = np.uint64(0xD6E8FEB86659FD93)  # of the "rrmxmx" family of mixers: odd, with well spread bits
_GOLDEN = 0x9E3779B97F4A7C15
_MIX13 = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_MASK64 = (1 << 64) - 1


def _mix(x: int) -> int:
    """A 64-bit integer from another, every bit depending on every bit (Stafford's Mix13)."""
    x = ((x ^ (x >> 30)) * _MIX13[0]) & _MASK64
    x = ((x ^ (x >> 27)) * _MIX13[1]) & _MASK64
    return x ^ (x >> 31)


def _mix_words(x: UInt64) -> UInt64:
    """:func:`_mix` of each of the words."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(_MIX13[0])
    x = (x ^ (x >> np.uint64(27))) * np.uint64(_MIX13[1])
    mixed: UInt64 = x ^ (x >> np.uint64(31))
    return mixed


def _hash(*words: int) -> int:
    """A 64-bit integer from integers of any size or sign."""
    state = 0
    for word in words:
        digits = word.to_bytes(word.bit_length() // 64 * 8 + 8, "little", signed=True)
        for (digit,) in struct.iter_unpack("<Q", digits):
            state = _mix((state + digit + _GOLDEN) & _MASK64)
    return state


def hash_words(key: tuple[int, ...], *words: npt.NDArray[np.int64 | np.uint64]) -> UInt64:
    """(N,) uint64, for each element a hash of integers of any size and of N words, (N,) each."""
    state = np.asarray(np.uint64(_hash(*key)))
    for word in words:
        state = _mix_words(state + word.astype(np.uint64) + np.uint64(_GOLDEN))
    return state


def uniform(key: tuple[int, ...], positions: Int64) -> npt.NDArray[np.float64]:
    """Numbers uniform in [0, 1), multiples of 2**-53, (N,) float64: one for each position, (N,)."""
    words = hash_words(key, positions) >> np.uint64(11)
    numbers: npt.NDArray[np.float64] = np.ldexp(words.astype(np.float64), -53)
    return numbers


class Permutation:
    """A keyed pseudo-random permutation of ``range(n)``, evaluated at any positions without an array.

    An alternating Feistel network over the smallest power of two that holds n, with cycle walking
    (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002): what falls outside ``range(n)`` is
    permuted again, fewer than twice on average.

    Args:
        n: Size of the domain, at least 1.
        key: Integers that choose the permutation.
    """

    def __init__(self, n: int, *key: int) -> None:
        if n < 1:
            raise ConfigError(f"n must be at least 1, found {n}")
        bits = max(2, (n - 1).bit_length())
        self.n = n
        self._low = np.asarray(np.uint64(bits // 2))
        self._high = np.asarray(np.uint64(bits - bits // 2))
        state = _hash(n, *key)
        self._keys = [np.asarray(np.uint64(_mix((state + i * _GOLDEN) & _MASK64))) for i in _rounds()]

    def __call__(self, positions: npt.ArrayLike) -> Int64:
        """Images of ``positions``, (N,) integers in ``range(n)``, as (N,) int64."""
        return self._walk(positions, 1)

    def inverse(self, images: npt.ArrayLike) -> Int64:
        """Positions of which ``images`` are the images, (N,) int64."""
        return self._walk(images, -1)

    def _walk(self, values: npt.ArrayLike, direction: int) -> Int64:
        x = np.atleast_1d(np.asarray(values)).astype(np.uint64)
        x = _network(x, self._high, self._low, self._keys, direction)
        outside = np.flatnonzero(x >= np.uint64(self.n))
        while outside.size:
            x[outside] = _network(x[outside], self._high, self._low, self._keys, direction)
            outside = outside[x[outside] >= np.uint64(self.n)]
        return x.astype(np.int64)


def permute(positions: Int64, sizes: Int64, words: UInt64) -> Int64:
    """Images under many permutations at once, as :class:`Permutation` makes them, one for each element.

    Args:
        positions: (N,) int64, each in ``range(sizes[i])``.
        sizes: (N,) int64, sizes of the domains, from 1.
        words: (N,) uint64: elements of one size and word share a permutation.

    Returns:
        (N,) int64, each in ``range(sizes[i])``.
    """
    # frexp's exponent is the bit length; above 2**53 it may be one more, which is only a larger domain.
    bits = np.maximum(2, np.frexp((sizes - 1).astype(np.float64))[1]).astype(np.uint64)
    low = bits >> np.uint64(1)
    x, high, limit = positions.astype(np.uint64), bits - low, sizes.astype(np.uint64)
    left = np.arange(len(x))
    while left.size:
        # Derived again for the few that walk on: that costs less than keeping them for all.
        keys = [_mix_words(words[left] + np.uint64(i * _GOLDEN & _MASK64)) for i in _rounds()]
        x[left] = _network(x[left], high[left], low[left], keys, 1)
        left = left[x[left] >= limit[left]]
    return x.astype(np.int64)


def _rounds() -> range:
    return range(1, _ROUNDS + 1)


def _network(x: UInt64, high: UInt64, low: UInt64, keys: list[UInt64], direction: int) -> UInt64:
    """Images of numbers of ``high + low`` bits; backwards where ``direction`` is -1.

    ``high``, ``low`` and each key are one for all, or (N,) as ``x`` is.
    """
    one, shift = np.uint64(1), np.uint64(32)
    masks = (one << high) - one, (one << low) - one
    halves = [x >> low, x & masks[1]]
    for i in range(_ROUNDS)[::direction]:
        target = i & 1
        mixed = (halves[1 - target] + keys[i]) * _MULTIPLIER
        mixed ^= mixed >> shift
        mixed *= _MULTIPLIER
        mixed >>= shift
        halves[target] ^= mixed & masks[target]
    joined: UInt64 = (halves[0] << low) | halves[1]
    return joined
