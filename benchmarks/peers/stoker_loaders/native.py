"""Stoker with its C++ engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice, repeat
from typing import Any, ClassVar

import stoker
from stoker.augment import (
    JPEG,
    ColorJitter,
    ElasticTransform,
    GaussianNoise,
    Normalize,
    RandAugment,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Transform,
    load_recipe,
)
from stoker.benchmarks.peers.base import (
    JITTER,
    JPEG_QUALITY,
    MEAN,
    RAND_AUGMENT,
    RATIO,
    SCALE,
    STD,
    PeerSettings,
    PeerSource,
    WithLoaderState,
)

_PREFETCH = 4  # the default


class StokerNative(WithLoaderState):
    """``stoker.ImageLoader`` with the native engine."""

    packages: tuple[str, ...] = ("stoker", "numpy")
    lead = _PREFETCH + 1
    engine = "native"
    read_ahead = 8
    shuffle: bool | stoker.BlockShuffle = True
    workers: stoker.RayWorkers | None = None
    colors: ClassVar[Sequence[Transform]] = ()
    """Transforms between the flip and the normalisation."""

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        """Open the dataset and start the engine."""
        self._loader = stoker.ImageLoader(
            self.folder(source),
            batch_size=settings.batch_size,
            **self.work(settings),
            shuffle=self.shuffle,
            seed=settings.seed,
            last_batch="drop",
            engine=self.engine,
            device=settings.device,
            output="numpy" if settings.device == "cpu" else "torch",
            num_threads=settings.num_threads,
            prefetch=_PREFETCH,
            read_ahead=self.read_ahead,
            cache=source.scratch / "cache" if source.remote else None,
            workers=self.workers,
        )
        # The loader works across the end of a pass, so a turn may begin in the middle of one.
        self._batches = chain.from_iterable(repeat(self._loader))
        return ()

    def folder(self, source: PeerSource) -> Any:
        """Return the folder or the URL of the dataset."""
        return source.remote or source.dataset

    def epoch(self) -> Iterator[Any]:
        """Yield as many batches as a pass has, from consecutive passes."""
        for images, *_ in islice(self._batches, len(self._loader)):
            yield images

    def work(self, settings: PeerSettings) -> dict[str, Any]:
        """Return the loader's arguments for the transforms, and with a recipe for the boxes."""
        if settings.recipe:
            return {
                "transforms": load_recipe(settings.recipe),
                "columns": ("image", "boxes", "box_labels"),
                "min_visible": settings.min_visible,
                "min_size": settings.min_size,
            }
        crop = RandomResizedCrop(settings.size, scale=SCALE, ratio=RATIO)
        return {"transforms": [crop, RandomHorizontalFlip(), *self.colors, Normalize(mean=MEAN, std=STD)]}


class StokerWithoutReadAhead(StokerNative):
    """The same loader without reading ahead."""

    read_ahead = 0


class StokerBlocks(StokerNative):
    """The same loader, which shuffles blocks of neighbours and the samples of eight blocks."""

    shuffle = stoker.BlockShuffle(block=64, window=8)


class StokerJitter(StokerNative):
    """The same loader with ColorJitter."""

    colors: ClassVar[Sequence[Transform]] = (ColorJitter(*JITTER),)


class StokerRandAugment(StokerNative):
    """The same loader with RandAugment."""

    colors: ClassVar[Sequence[Transform]] = (RandAugment(*RAND_AUGMENT),)


class StokerElastic(StokerNative):
    """The same loader with ElasticTransform."""

    colors: ClassVar[Sequence[Transform]] = (ElasticTransform(),)


class StokerNoise(StokerNative):
    """The same loader with GaussianNoise."""

    colors: ClassVar[Sequence[Transform]] = (GaussianNoise(),)


class StokerJPEG(StokerNative):
    """The same loader with JPEG."""

    colors: ClassVar[Sequence[Transform]] = (JPEG(JPEG_QUALITY),)
