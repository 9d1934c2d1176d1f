"""A stage that an engine leaves out, so that an ablation can measure its cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy.typing as npt

from stoker.formats.dataset.index import Samples


@dataclass(frozen=True)
class AblatedStage:
    """A stage that an engine leaves out. It reads payloads in any case."""

    # "decoding" decodes each sample once, and keeps its pixels
    stage: Literal["nothing", "decoding", "augmentation"] = "nothing"
    # Pixels by shard and offset; engines that have the same dict share them
    pixels: dict[tuple[int, int], npt.NDArray[Any]] = field(default_factory=dict)

    @property
    def decoding(self) -> bool:
        """Whether samples are decoded once."""
        return self.stage == "decoding"

    @property
    def augmentation(self) -> bool:
        """Whether images have no content."""
        return self.stage == "augmentation"

    def decode_once(
        self, samples: Samples, i: int, decode: Callable[[], npt.NDArray[Any]]
    ) -> npt.NDArray[Any]:
        """The pixels of sample ``i`` of a batch; ``decode`` makes them at the first call."""
        location = int(samples.shard[i]), int(samples.offset[i])
        if location not in self.pixels:
            self.pixels[location] = decode()
        return self.pixels[location]


NO_STAGE = AblatedStage()
"""No stage is left out."""
