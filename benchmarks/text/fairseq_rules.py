"""The batches of fairseq, whose package does not install beside a current PyTorch: its rules written again.

fairseq 0.12.2: ``LanguagePairDataset.ordered_indices`` sorts a permutation by length, ``batch_by_size_vec``
fills batches up to ``--max-tokens``, in numbers of samples that are multiples of
``--required-batch-size-multiple``, and ``EpochBatchIterator`` shuffles the batches.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def fairseq_batches(
    lengths: npt.NDArray[np.int64], max_tokens: int, multiple: int, seed: int
) -> list[npt.NDArray[np.int64]]:
    """Return the batches of an epoch, as rows."""
    # lengths (N,) int64
    draw = np.random.RandomState(seed)
    order = draw.permutation(len(lengths))
    order = order[np.argsort(lengths[order], kind="mergesort")]
    batches, start = [], 0
    while start < len(order):
        end = start + 1
        while end < len(order) and (end + 1 - start) * lengths[order[end]] <= max_tokens:
            end += 1
        if end < len(order):
            end = start + max((end - start) // multiple * multiple, (end - start) % multiple)
        batches.append(order[start:end])
        start = end
    return [batches[number] for number in draw.permutation(len(batches))]
