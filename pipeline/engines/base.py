"""The contract between a loader and an engine.

A loader draws the parameters of a batch, and an engine executes them on the bytes of its samples. Batches
enter with ``submit`` and leave in the same order with ``collect``. In between the engine works on threads of
its own, so a loader keeps it busy by submitting batches before it collects the oldest one.

A new engine is a class that fulfils :class:`Engine`, and a row of
:data:`~stoker.pipeline.engines.registry.ENGINES`. Engines read payloads with :func:`checked_payload`, and
decode codecs that they do not decode themselves with :func:`decode`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import KW_ONLY, dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from stoker._native import Column, Shards, crc32c
from stoker.arguments import one_of
from stoker.errors import ConfigError, DatasetError, ImageTooLargeError, StaleIndexError, StokerError
from stoker.formats.dataset.index import NO_CHECKSUM, Samples
from stoker.formats.files import NO_MEMORY
from stoker.types import Color, DType, Layout, Size

if TYPE_CHECKING:
    from stoker.augment.params import ImageParams
    from stoker.formats.dataset.dataset import Dataset

    from ..options import DaliOptions

_Side = TypeVar("_Side", bound="int | None")


class Status(IntEnum):
    """The outcome for one sample. The numbers are those of the C++ module, in native/decode/status.h."""

    OK = 0
    READ_ERROR = 1
    CHECKSUM_MISMATCH = 2
    NOT_DECODABLE = 3
    TRUNCATED = 4
    TOO_LARGE = 5
    SIZE_MISMATCH = 6
    """The image has another size than the index says."""


@dataclass(frozen=True)
class ImageFormat:
    """Dtype and layout of the images that an engine makes."""

    # Dtype of the elements. Whole numbers are rounded half up and clipped to their range
    dtype: DType = "float32"
    # Order of the axes. NHWC4 has a fourth channel of zeros, which suits tensor cores
    layout: Layout = "NCHW"
    color: Color = "rgb"  # Which channels the images have
    channels: int = 3  # Number of channels
    bits: int = 8  # Bits of a level of the stored images: 8 or 16, or 32 for floats

    def __post_init__(self) -> None:
        for name, kind in (("dtype", DType), ("layout", Layout), ("color", Color)):
            one_of(name, getattr(self, name), get_args(kind))
        if self.layout == "NHWC4" and self.color != "rgb":
            raise ConfigError(
                f"layout='NHWC4' is RGB with a fourth channel of zeros, and color is {self.color!r}",
                hint="Use layout='NHWC'.",
            )

    @property
    def is_deep(self) -> bool:
        """Whether images have other channels than RGB or grey, so that their colours do not change."""
        return self.color in ("rgba", "as_stored")

    @property
    def numpy_dtype(self) -> str:
        """The dtype of NumPy's arrays: uint16 bits for bfloat16, which NumPy does not have."""
        return "uint16" if self.dtype == "bfloat16" else self.dtype

    def shape(self, n: int, size: tuple[_Side, _Side]) -> tuple[int, int | _Side, _Side, int | _Side]:
        """Shape of ``n`` images of ``size``, (height, width) in pixels; None for a side that differs."""
        height, width = size
        if self.layout == "NCHW":
            return n, self.channels, height, width
        return n, height, width, 4 if self.layout == "NHWC4" else self.channels


@dataclass(frozen=True)
class Work:
    """A batch to execute: N samples, from 1, and the parameters of the images to make of them.

    If the parameters have a composition, the samples are the parts of fewer images, and ``others`` is empty.
    Each sample has a status.
    """

    samples: Samples  # N rows of the index
    # Parameters of the images of one size, M = V * N of them: V views of each sample, view by view
    params: ImageParams
    # Parameters of further images of the same samples, of other sizes or transforms
    others: tuple[ImageParams, ...] = ()

    @property
    def columns(self) -> tuple[ImageParams, ...]:
        return self.params, *self.others

    def views(self, params: Sized) -> int:
        """V, the number of images of each sample; ``params`` has a row for each image."""
        return len(params) // len(self.samples)


@dataclass(frozen=True)
class Result:
    # Array of the shape ``ImageFormat.shape(M, params.size)``, of NumPy or, with DLPack's protocol, on the
    # engine's device. Its memory belongs to the receiver until the last reference is gone. NumPy's arrays
    # hold bfloat16 as uint16 bits; a GPU engine leaves float32 instead
    images: Any
    # (N,) uint8, the :class:`Status` of each sample. The images of bad samples are zeros
    status: npt.NDArray[np.uint8]
    # Messages of the decoder about bad samples, by index in the batch
    reason: dict[int, str] = field(default_factory=dict)
    # Errors of steps in Python, by index in the batch
    step_errors: dict[int, StokerError] = field(default_factory=dict)
    others: tuple[Any, ...] = ()  # Arrays of further images, as :attr:`Work.others` has their parameters

    @property
    def columns(self) -> tuple[Any, ...]:
        return self.images, *self.others


@dataclass(frozen=True)
class EngineSettings:
    """Settings that an engine is made from; each engine uses those that concern it."""

    files: Sequence[Path | str]  # Paths of the dataset's data files, in the manifest's order
    sizes: Sequence[int]  # Bytes of each, as the manifest says
    image_format: ImageFormat  # Form of the images
    _: KW_ONLY
    max_pixels: int  # An image with more pixels is TOO_LARGE, found in its header
    device: str = "cpu"  # Where the engine leaves images, "cpu" or "cuda:N"
    num_threads: int = 1  # Threads, from 1
    depth: int = 2  # Batches in flight at once, from 1
    batch_size: int = 1  # Samples of the largest batch
    verify: bool = True  # Whether each payload is compared with its checksum
    mapped: bool = True  # Whether files are mapped into memory
    listing: bool = True  # Whether a file that begins as a listing of image files is one
    exact: bool = False  # Whether images are decoded at their full size even if they then become much smaller
    # Samples of mosaics that stay decoded in memory, because other mosaics show them again
    cached_samples: int = 0
    # Makes the array of a shape and dtype that a batch on the CPU is written into
    allocate: Callable[[tuple[int, ...], str], npt.NDArray[Any]] | None = None
    dali: DaliOptions | None = None  # How DALI decodes
    # Height and width of nearly all images, pixels, for decoders that allocate memory beforehand
    largest: Size | None = None
    # Samples and parameters like those of later batches, for engines that prepare themselves
    typical: Work | None = None
    # Whether the engine "native" leaves colours, dtype and layout to another process
    unfinished: bool = False


class Engine(Protocol):
    """Executes batches, in the order in which they were submitted.

    One thread at a time calls an engine: the loader's producer thread, or the thread that closes the loader
    once the producer has ended. The engine works on threads of its own. Bad samples are reported in
    :attr:`Result.status`, and only what ends the whole batch is raised, as EngineError.
    """

    name: str
    """Key of the engine in :data:`~stoker.pipeline.engines.registry.ENGINES`."""
    device: str
    """Where images are left, "cpu" or "cuda:N"."""
    max_in_flight: int
    """Batches that may be submitted and not collected: enough to keep its threads busy."""

    def read_ahead(self, samples: Samples, columns: Sequence[ImageParams] = ()) -> None:
        """Ask the kernel for payloads that will be needed, or for parts of them; returns at once."""

    def submit(self, work: Work) -> None:
        """Start a batch of at least one sample; returns at once unless too many batches are in flight."""

    def collect(self) -> Result:
        """Wait for the oldest batch that was submitted, and return it."""

    def close(self) -> None:
        """End the threads, forget the batches in flight and close the files; safe to call twice."""
        # Results that were collected stay valid: their memory is their receiver's.


def to_bfloat16(array: Any) -> Any:
    """Bits of bfloat16, uint16 of the same shape, rounded to nearest even."""
    bits = array.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def list_files(datasets: Iterable[Dataset]) -> bool:
    """Whether data files of some of these datasets are listings, which name image files of this machine."""
    return any(one.manifest.container == "listing" for one in datasets)


def open_shards(
    files: Sequence[Path | str], sizes: Sequence[int], *, mapped: bool = True, listing: bool = True
) -> Shards:
    """Open data files, which the caller closes; with ``listing``, one that begins as a listing is one."""
    try:
        return Shards(list(map(str, files)), list(sizes), mapped, listing)
    except OSError as error:
        if error.errno is None:
            hint = "Rebuild the index with `stoker index`, or bring back the file that it was made for."
            raise StaleIndexError(str(error), hint=hint) from error
        raise DatasetError(f"a data file cannot be opened: {error}") from error


AGAIN = "Make the storage readable. The next pass begins with this batch."
"""What to do where the storage of a batch fails."""


class PayloadError(ValueError):
    """A payload that cannot be decoded; ``status`` is the status of its sample."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def decode(
    data: Any, samples: Samples, i: int, *, max_pixels: int, color: Color = "rgb", reference: bool = False
) -> npt.NDArray[Any]:
    """Decode the payload of a sample, its EXIF orientation applied."""
    # -> (H, W, 3) uint8
    from stoker.formats.codecs.decode import (  # it loads Pillow, which the native engine seldom needs
        PixelCountError,
        decode_channels,
        decode_for_reference,
        decode_grey,
        decode_rgb,
    )

    height, width = int(samples.height[i]), int(samples.width[i])
    try:
        codec = samples.codec[i]
        if color == "gray":
            return decode_grey(data, codec, height, width, max_pixels)
        if color != "rgb":
            return decode_channels(data, codec, height, width, max_pixels, alpha=color == "rgba")
        decoder = decode_for_reference if reference else decode_rgb
        return decoder(data, codec, height, width, max_pixels)
    except ImageTooLargeError as error:
        raise PayloadError(Status.TOO_LARGE, error.message) from error
    except PixelCountError as error:
        raise PayloadError(Status.SIZE_MISMATCH, str(error)) from error
    except MemoryError as error:
        raise PayloadError(Status.READ_ERROR, NO_MEMORY) from error
    except Exception as error:  # Pillow's parsers raise almost anything on damaged data
        raise PayloadError(Status.NOT_DECODABLE, str(error) or type(error).__name__) from error


def checked_payload(shards: Shards, samples: Samples, i: int, *, verify: bool) -> Any:
    """The payload of a sample, compared with its checksum if ``verify``."""
    try:
        data = shards.view(int(samples.shard[i]), int(samples.offset[i]), int(samples.length[i]))
    except (ValueError, RuntimeError, OSError, MemoryError) as error:  # RuntimeError: a path is not UTF-8
        of_system = NO_MEMORY if isinstance(error, MemoryError) else getattr(error, "strerror", None)
        raise PayloadError(Status.READ_ERROR, of_system or str(error)) from error
    checked = verify and shards.has_checksums(int(samples.shard[i]))
    if checked and int(samples.crc[i]) not in (NO_CHECKSUM, crc32c(data)):
        raise PayloadError(Status.CHECKSUM_MISMATCH, "CRC32C differs from the index")
    return data


def pack(columns: Iterable[Column], source: object) -> dict[str, npt.NDArray[Any]]:
    """Collect the attributes of ``source`` that columns are named after, in the form that C++ takes."""
    # A dotted name leads through attributes of attributes. Attributes that are None are left out. Arrays are
    # copied only where their type or their order in memory is another one.
    values = {column: _attribute(source, column.name) for column in columns}
    return {
        column.name: np.asarray(value, column.dtype, order="C")
        for column, value in values.items()
        if value is not None
    }


def _attribute(source: object, path: str) -> Any:
    name, _, rest = path.partition(".")
    value = getattr(source, name)
    return _attribute(value, rest) if rest and value is not None else value
