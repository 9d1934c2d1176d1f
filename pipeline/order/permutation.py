"""Keyed pseudo-random permutations of ranges of integers, computed element by element for the orders."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError
from stoker.random import hash_words, sequence

Int64 = npt.NDArray[np.int64]
UInt64 = npt.NDArray[np.uint64]

_ROUNDS = 12
_MULTIPLIER = np.uint64(0xD6E8FEB86659FD93)  # of the "rrmxmx" family of mixers: odd, with well spread bits


class Permutation:
    """A keyed pseudo-random permutation of ``range(n)``, computed for any elements without an array of all.

    An alternating Feistel network over the smallest power of two that holds n, with cycle walking
    (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002): an image outside ``range(n)`` is
    permuted again, less than twice on average.
    """

    def __init__(self, n: int, *key: int) -> None:
        if n < 1:
            raise ConfigError(f"n must be at least 1, found {n}")
        bits = max(2, (n - 1).bit_length())
        self.n = n
        self._low = np.asarray(np.uint64(bits // 2))
        self._high = np.asarray(np.uint64(bits - bits // 2))
        self._keys = sequence(hash_words((n, *key)), np.arange(_ROUNDS))

    def __call__(self, elements: npt.ArrayLike) -> Int64:
        """Images, (M,) int64, of ``elements``, (M,) integers in ``range(n)``."""
        return self._walk(elements, 1)

    def inverse(self, images: npt.ArrayLike) -> Int64:
        """Elements, (M,) int64, that have these ``images``, (M,) integers in ``range(n)``."""
        return self._walk(images, -1)

    def _walk(self, values: npt.ArrayLike, direction: int) -> Int64:
        x = np.atleast_1d(np.asarray(values)).astype(np.uint64)
        x = _network(x, self._high, self._low, self._keys, direction)
        outside = np.flatnonzero(x >= np.uint64(self.n))
        while outside.size:
            x[outside] = _network(x[outside], self._high, self._low, self._keys, direction)
            outside = outside[x[outside] >= np.uint64(self.n)]
        return x.astype(np.int64)


def permute(elements: Int64, sizes: Int64, words: UInt64) -> Int64:
    """Images of elements under one permutation for each element, like :class:`Permutation`."""
    # elements (M,) int64, sizes (M,) int64, words (M,) uint64 -> (M,) int64
    # frexp's exponent is the bit length; above 2**53 it can be one more, which only makes the domain larger.
    bits = np.maximum(2, np.frexp((sizes - 1).astype(np.float64))[1]).astype(np.uint64)
    low = bits >> np.uint64(1)
    x, high, limit = elements.astype(np.uint64), bits - low, sizes.astype(np.uint64)
    left = np.arange(len(x))
    while left.size:
        # Deriving the keys of the few elements left again costs less than keeping the keys of all.
        keys = sequence(words[left], np.arange(_ROUNDS)[:, None])
        x[left] = _network(x[left], high[left], low[left], keys, 1)
        left = left[x[left] >= limit[left]]
    return x.astype(np.int64)


def _network(x: UInt64, high: UInt64, low: UInt64, keys: UInt64, direction: int) -> UInt64:
    """Images of ``x``, (M,) numbers of ``high + low`` bits; of the inverse if ``direction`` is -1.

    ``high`` and ``low`` are scalars or (M,); ``keys`` are (12,) or (12, M), one for each round.
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
