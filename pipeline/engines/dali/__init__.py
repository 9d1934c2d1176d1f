"""The engine on NVIDIA DALI, and its options; nothing outside of this folder imports DALI."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.errors import ConfigError


@dataclass(frozen=True)
class DaliOptions:
    """How DALI decodes JPEGs.

    Attributes:
        region_decode: Whether DALI decodes only the region of a JPEG that its crop needs. None decodes
            regions on a CPU, and whole images on a GPU: there nvImageCodec 0.9 may end the process when it
            decodes a region (https://github.com/NVIDIA/nvImageCodec/issues/55).
        hw_decoder_load: Share of a batch, 0 to 1, that the JPEG engines of a GPU decode; CUDA decodes the
            rest, and what the engines refuse. The two differ by rounding. With 0 or 1 the pixels of an image
            depend on the image alone. Any other share takes the first ``round(share * N)`` images of a batch
            of N, so that the rounding of an image depends on its index in the batch. DALI's own default is
            0.65.

    Raises:
        ConfigError: The share is not a number between 0 and 1.
    """

    region_decode: bool | None = None
    hw_decoder_load: float = 1.0

    def __post_init__(self) -> None:
        load = self.hw_decoder_load
        if isinstance(load, bool) or not isinstance(load, (int, float)) or not 0 <= load <= 1:
            raise ConfigError(f"hw_decoder_load must be a number between 0 and 1, found {load!r}")
        if self.region_decode not in (None, True, False):
            raise ConfigError(f"region_decode must be True, False or None, found {self.region_decode!r}")

    def decodes_regions(self, device: str) -> bool:
        """Whether regions are decoded on this device, "cpu" or "gpu"."""
        return device == "cpu" if self.region_decode is None else self.region_decode
