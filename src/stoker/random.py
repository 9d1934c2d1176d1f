"""Random numbers and orders that are functions of their keys: there is no generator and no state.

So a number depends on its coordinates alone (a seed, an epoch, a row), and not on when, where or how often it
is computed. All arithmetic is in integers modulo 2**64, and therefore the same on every platform. Two
constructions:

- SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014), which
  passes BigCrush: a counter that advances by the golden ratio, each count finalised by Stafford's "Mix13".
- Philox (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). Only its raw 64-bit output is
  used, because NumPy keeps the streams of bit generators, but not of ``Generator`` (NEP 19).

Each use derives its key in another way, and so has its own stream:

- Transforms (:mod:`stoker.augment`): :func:`derive_key` of the seed, the epoch and a position, by BLAKE2b
  (RFC 7693), so that neighbouring keys share nothing; :func:`uniform` of the key and the sample's row.
  Positions from 0 are those in a list of transforms. -1 is MixUp, -2 CutMix, -4 masks of patches,
  and -5 the draw of one of several captions (:mod:`stoker.pipeline.images.captions`).
  -1,000,000 - k is the choice of the k-th RandomChoice among a loader's transforms of batches.
  -2,000,000 - k is the choice of partners of the transform at position k, such as Mosaic.
  RandomIoUCrop draws with seed 0, epoch 0, the number of its round as the position, and a number from its
  stream in place of the row.
- Noise (:mod:`stoker.augment.noise`): :func:`sequence` of a number that RandomErasing has drawn.
- Orders (:mod:`stoker.pipeline.order`): :func:`hash_words` of a tuple of integers that begins with the seed.
- Sizes (:mod:`stoker.pipeline.images.sizes`): :func:`hash_words` of the seed, the epoch and a word that only
  they use.
- Masks (:mod:`stoker.bucketing.masking`): :func:`hash_words` of the seed, the epoch, a number that only they
  use, and the sample; :func:`sequence` then draws for each token.
- Samplers (:mod:`stoker.bucketing`): :func:`philox_permutation` with the key
  ``epoch << 96 | stream << 64 | seed``.
- Conversion (:mod:`stoker.formats.conversion`): :func:`philox_permutation` with the seed as the key.

States of SplitMix64 are 64 bits wide: among a billion samples a few pairs may share some draws. Other
transforms and epochs have other pairs.
"""

from __future__ import annotations

import hashlib
import struct
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

UInt64 = npt.NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))


class Key(NamedTuple):
    """128 bits that stand for one seed, epoch and position."""

    first: np.uint64
    second: np.uint64


@lru_cache(maxsize=256)
def derive_key(seed: int, epoch: int, position: int) -> Key:
    """Return the key of the transform at ``position`` of its list; any integers, also negative ones."""
    text = f"stoker.augment {seed:d} {epoch:d} {position:d}".encode("ascii")
    digest = hashlib.blake2b(text, digest_size=16).digest()
    return Key(*(np.uint64(int.from_bytes(digest[i : i + 8], "little")) for i in (0, 8)))


def bits(key: Key, samples: npt.NDArray[np.int64], draws: int) -> UInt64:
    """Return 64 random bits for each of ``draws`` draws of each sample."""
    # Two rounds of Mix13 make a 64-bit state of a sample's row; a word of the key enters before each. The
    # draws are the SplitMix64 sequence from that state.
    # samples (N,) int64 -> (N, draws) uint64
    state = samples.astype(np.uint64)
    state += key.first
    _mix13(state)
    state ^= key.second
    _mix13(state)
    return sequence(state[:, None], np.arange(draws))


def uniform(key: Key, samples: npt.NDArray[np.int64], draws: int) -> npt.NDArray[np.float64]:
    """Return uniform numbers in [0, 1), multiples of 2**-53, (N, draws) float64; see :func:`bits`."""
    return unit_interval(bits(key, samples, draws))


def sequence(state: int | UInt64, indices: npt.NDArray[np.int64]) -> UInt64:
    """Return the numbers at ``indices``, from 0, of the SplitMix64 sequences that start from ``state``."""
    # The two are broadcast against each other; the result is uint64.
    numbers = indices.astype(np.uint64)
    numbers += np.uint64(1)
    numbers *= _GOLDEN
    numbers = np.add(numbers, np.asarray(state, np.uint64))
    _mix13(numbers)
    return numbers


def hash_words(key: tuple[int, ...], *words: npt.NDArray[np.int64 | np.uint64]) -> UInt64:
    """Return (N,) uint64, the hash of a key and of the words at each index; (1,) for a key alone."""
    state = np.zeros(1, np.uint64)
    for number in key:
        digits = number.to_bytes(number.bit_length() // 64 * 8 + 8, "little", signed=True)
        for (digit,) in struct.iter_unpack("<Q", digits):
            state += np.uint64(digit)
            state += _GOLDEN
            _mix13(state)
    for word in words:
        state = state + word.astype(np.uint64)
        state += _GOLDEN
        _mix13(state)
    return state


def unit_interval(words: UInt64) -> npt.NDArray[np.float64]:
    """Return the top 53 bits of each word as float64 in [0, 1), a multiple of 2**-53."""
    return np.asarray(np.multiply(words >> np.uint64(11), 2.0**-53))


def philox_permutation(size: int, key: int) -> npt.NDArray[np.int64]:
    """Return a permutation of 0 to ``size - 1``, (size,) int64: the order of Philox's raw words."""
    return np.argsort(np.random.Philox(key=key).random_raw(size), kind="stable")


def _mix13(x: UInt64) -> None:
    """Stafford's Mix13 in place: a bijection of 64-bit words in which one bit changes half of them."""
    x ^= x >> _SHIFTS[0]
    x *= _FACTORS[0]
    x ^= x >> _SHIFTS[1]
    x *= _FACTORS[1]
    x ^= x >> _SHIFTS[2]
