"""The contract between a loader and an engine.

A loader decides; an engine executes. Work enters with ``submit`` and leaves, in the same order,
with ``collect``; between the two the engine runs on threads of its own, so a loader keeps it busy
by submitting a batch before it collects the one before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from stoker.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from stoker.augment.params.image_params import ImageParams
    from stoker.formats.dataset.samples import Samples

__all__ = ["DType", "Engine", "Layout", "Output", "Result", "Status", "Work"]

DType = Literal["uint8", "float16", "bfloat16", "float32"]
Layout = Literal["NCHW", "NHWC", "NHWC4"]


class Status(IntEnum):
    """What became of one sample; the numbers are those of the C++ engine."""

    OK = 0
    READ_ERROR = 1
    CHECKSUM_MISMATCH = 2
    NOT_DECODABLE = 3
    TRUNCATED = 4
    TOO_LARGE = 5
    SIZE_MISMATCH = 6
    """The image's size is not the one in the index."""


@dataclass(frozen=True)
class Output:
    """Form of the images that leave an engine.

    Attributes:
        dtype: Element type; uint8 is rounded half away from zero and clipped to 0..255.
        layout: Axis order. NHWC4 pads the channels with a zero to four, as tensor cores like it.
    """

    dtype: DType = "float32"
    layout: Layout = "NCHW"

    def __post_init__(self) -> None:
        for name, known in (("dtype", get_args(DType)), ("layout", get_args(Layout))):
            if getattr(self, name) not in known:
                raise ConfigError(f"{name} must be one of {', '.join(known)}, found {getattr(self, name)!r}")

    @property
    def numpy_dtype(self) -> str:
        """The dtype in NumPy memory: that of bit patterns for bfloat16, which NumPy does not have."""
        return "uint16" if self.dtype == "bfloat16" else self.dtype

    def shape(self, n: int, size: tuple[int, int]) -> tuple[int, int, int, int]:
        """Shape of ``n`` images of ``size`` (height, width)."""
        height, width = size
        if self.layout == "NCHW":
            return n, 3, height, width
        return n, height, width, 4 if self.layout == "NHWC4" else 3


@dataclass(frozen=True)
class Work:
    """One batch to execute: N samples and their N parameters."""

    samples: Samples
    params: ImageParams


@dataclass(frozen=True)
class Result:
    """One executed batch.

    Attributes:
        images: Array of ``Output.shape(N, params.size)``, in NumPy memory or on the engine's device;
            it speaks DLPack and belongs to the receiver for as long as it is referenced. bfloat16
            travels as uint16 bit patterns in NumPy, which has no such type.
        status: (N,) uint8, a :class:`Status` a sample. Rows that are not OK hold zeros.
        reason: What the decoder said, by position in the batch, for samples that are not OK.
    """

    images: Any
    status: npt.NDArray[np.uint8]
    reason: dict[int, str] = field(default_factory=dict)


class Engine(Protocol):
    """Executes batches, in order."""

    name: str
    device: str
    executes: frozenset[str] | None
    """What it executes of :meth:`ImageParams.needs`; None for everything."""
    max_in_flight: int
    """Batches that may be submitted and not collected: enough to keep its threads busy."""

    def read_ahead(self, samples: Samples) -> None:
        """Ask the kernel for payloads that will be needed; returns at once."""

    def submit(self, work: Work) -> None:
        """Start a batch; returns at once unless too many are in flight."""

    def collect(self) -> Result:
        """Wait for the oldest batch submitted and return it."""

    def close(self) -> None:
        """Stop threads and free memory; safe to call twice."""
