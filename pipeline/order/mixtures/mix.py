"""``stoker.mix``: checks datasets and their weights, and makes a mixture of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np

from stoker.arguments import whole_number
from stoker.errors import ConfigError
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.open import open as open_dataset

from ..changes.weight_parts import scheduled_parts
from ..quotas import apportion_draws
from .class_merging import check_mixable, merge_classes
from .mixture import Mixture


def mix(
    datasets_and_weights: Sequence[tuple[Dataset | str | os.PathLike[str], float]],
    samples: int | None = None,
    *,
    schedule: Mapping[int, Sequence[float]] | None = None,
    global_batch: int | None = None,
) -> Mixture:
    """Return several datasets as one, from which an epoch draws in proportion to their weights.

    Each dataset has its exact share of the draws in an epoch, rounded, spread evenly over the epoch. Its
    draws cycle through its samples and continue in the next epoch, so that no sample is drawn again before
    all others have been. The loader's ``shuffle`` determines the order of each cycle, but draws within about
    64 of each other may be swapped.

    If the datasets have different classes, the mixture has all their names in the order in which they first
    appear. So labels of the first dataset do not change; other labels of samples and objects are translated.

    Datasets may have different tasks, such as boxes with and without keypoints. The mixture has the columns
    that all of them have; ``Mixture.left_out`` names the others.

    Args:
        datasets_and_weights: Datasets of images, or of text, or their paths, each with a weight from 0.
        samples: Draws in an epoch; by default the number of samples of all datasets together.
        schedule: Weights that apply from a step of the training on: ``{10_000: (0.5, 0.5)}``. Each part
            between two steps has exact shares. Text is planned for whole epochs: an epoch that
            spans two parts mixes the shares of both.
        global_batch: Samples of a step on all ranks, by which ``schedule`` counts. After a resume with
            another number of ranks or batch size it stays the same.

    Raises:
        ConfigError: ``schedule`` and ``global_batch`` do not go together, or have a wrong value; a weight
            is no number from 0, or all are 0; the datasets cannot be mixed, because only some have names of
            classes, annotations of one task have different meanings, or tokenizers or fields differ; or there
            are no samples to draw.
        DatasetError: A path has no dataset that can be read.
    """
    opened = [_open(pair) for pair in datasets_and_weights]
    check_mixable(opened)
    weights = [float(weight) for _, weight in datasets_and_weights]
    n = sum(map(len, opened)) if samples is None else whole_number("samples", samples)
    if n < 1:
        raise ConfigError(f"a mixture needs at least 1 sample in an epoch, found {n}")
    quotas, moving = apportion_draws(weights, n), None
    if schedule is not None and global_batch is not None:
        moving = scheduled_parts(weights, schedule, whole_number("global_batch", global_batch, 1), n)
        quotas = np.array(moving.parts[-1].quotas, np.int64)
    elif schedule is not None or global_batch is not None:
        raise ConfigError(
            "a schedule of weights counts steps of global_batch samples: give both, or neither",
            hint="global_batch is batch_size times the number of ranks.",
        )
    drawn = quotas if moving is None else np.sum([part.quotas for part in moving.parts], axis=0)
    for dataset, quota in zip(opened, drawn, strict=True):
        if quota and not len(dataset):
            raise ConfigError(
                "a dataset of the mixture has a weight and no samples",
                path=dataset.path,
                hint="Leave the dataset out, or give it weight 0.",
            )
    return Mixture(tuple(opened), quotas, merge_classes(opened), moving)


def _open(pair: tuple[Dataset | str | os.PathLike[str], float]) -> Dataset:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise ConfigError(f"a mixture needs pairs of a dataset and its weight, found {pair!r}")
    dataset = pair[0]
    return dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
