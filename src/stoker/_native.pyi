"""Types of the C++ module. Buffers are anything with the buffer protocol, C-contiguous."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

DECODED_CODECS: tuple[int, ...]
"""The codecs that the module decodes; their numbers are those of ``stoker.formats.codecs.codec.Codec``."""

def crc32c(data: Any, value: int = 0) -> int:
    """CRC32C of ``data``, continuing from ``value``; in hardware where there is any. GIL released."""

def cpu_level() -> str:
    """Instruction set chosen at run time: avx512, avx2, neon or plain."""

def probe(data: Any) -> tuple[int, int, int, int, int]:
    """(codec, stored width, stored height, EXIF orientation, channels) from the header of an image.

    Knows JPEG and PNG; (255, 0, 0, 1, 0) for what it does not know. Raises ValueError with the
    reason for a damaged header. Codec numbers are those of ``stoker.formats.codecs.codec.Codec``.
    """

def take_lists(
    columns: list[tuple[npt.NDArray[np.int64], npt.NDArray[Any]]], rows: npt.NDArray[np.int64]
) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[Any]]]:
    """The lists at ``rows`` of columns, each (starts, values) as ``ListColumn`` has them.

    Where lists lie alike in two columns, both results have the same ``starts``. Raises IndexError for a row
    that is not there, ValueError for starts that are no places in the values.
    """

def fill_polygons(
    out: npt.NDArray[np.uint8],
    owner: npt.NDArray[np.int64],
    matrix: npt.NDArray[np.float64],
    region: npt.NDArray[np.float64],
    shown: npt.NDArray[np.bool_],
    points: npt.NDArray[np.float64],
    sizes: npt.NDArray[np.int64],
    polygons: npt.NDArray[np.int64],
) -> None:
    """Write masks, ``out`` (M, H, W): 1 for pixels whose centres lie in polygons, else 0. GIL released.

    ``owner`` (M,) names the image of each object, out of N; ``matrix`` (N, 3, 3) leads from the source to the
    output, ``region`` (N, 4) is top, left, bottom, right of what is seen, ``shown`` (N,) whether anything is.
    ``polygons`` (M,) says how many of the ``sizes`` (P,) each object has, those how many of the ``points``
    (V, 2). Raises ValueError for numbers that do not fit together or are not finite.
    """

def fill_runs(
    out: npt.NDArray[np.uint8],
    owner: npt.NDArray[np.int64],
    matrix: npt.NDArray[np.float64],
    region: npt.NDArray[np.float64],
    shown: npt.NDArray[np.bool_],
    height: npt.NDArray[np.int32],
    width: npt.NDArray[np.int32],
    runs: npt.NDArray[np.uint32],
    counts: npt.NDArray[np.int64],
) -> None:
    """Draw run lengths, down the columns of sources of ``height`` and ``width`` (N,), into masks.

    Other arguments as in ``fill_polygons``; ``out`` was written by it. ``matrix`` leads from the output to
    the source here. ``counts`` (M,) says how many of the ``runs`` (R,) each object has.
    """

def class_masks(
    out: npt.NDArray[np.uint8],
    data: list[Any],
    matrix: npt.NDArray[np.float64],
    region: npt.NDArray[np.float64],
    shown: npt.NDArray[np.bool_],
    height: npt.NDArray[np.int32],
    width: npt.NDArray[np.int32],
    nothing: int,
) -> list[int]:
    """Write masks of classes, N files of PNG, into ``out`` (N, H, W); ``nothing`` where no source is seen.

    Other arguments as in ``fill_runs``. Returns the positions of the files that are no intact PNG of one
    channel of 8 bits and of their source's size; their masks are left as they are. GIL released.
    """

def place_boxes(
    boxes: npt.NDArray[np.float32],
    owner: npt.NDArray[np.int64],
    size: tuple[int, int],
    region: npt.NDArray[np.float64],
    dest: npt.NDArray[np.int32],
    flip: npt.NDArray[np.bool_],
    shown: npt.NDArray[np.bool_],
    window: npt.NDArray[np.float64] | None,
    min_visible: float,
    min_size: float,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Boxes (M, 4) XYXY in an output of ``size`` that is not warped, and which to keep, (M,).

    ``owner`` (M,) names the image of each; the other arrays are those of ``ImageParams``, but for ``shown``
    (N,): whether anything of an image is. Raises ValueError for arrays that do not fit together.
    """

def place_keypoints(
    keypoints: npt.NDArray[np.float32],
    owner: npt.NDArray[np.int64],
    size: tuple[int, int],
    region: npt.NDArray[np.float64],
    dest: npt.NDArray[np.int32],
    flip: npt.NDArray[np.bool_],
    shown: npt.NDArray[np.bool_],
    swap: npt.NDArray[np.int64] | None,
) -> npt.NDArray[np.float64]:
    """Keypoints (M, K, 3) likewise; ``swap`` (K,) says what each was in a mirrored image."""

class Column(NamedTuple):
    """An array that C++ takes for a batch. Tables of them say what to pass, by name.

    Attributes:
        name: Its key, and the path of the attribute that it holds.
        dtype: NumPy's name of its element type.
        per_sample: Whether it has a row for each sample; otherwise all samples share it.
        optional: Whether it may be missing.
        row_shape: The shape of a row, or of the whole where samples share it; None for any size.
    """

    name: str
    dtype: str
    per_sample: bool
    optional: bool
    row_shape: tuple[int | None, ...]

SAMPLE_COLUMNS: tuple[Column, ...]
"""Attributes of ``stoker.formats.dataset.samples.Samples``."""

PARAMETER_COLUMNS: tuple[Column, ...]
"""Attributes of ``stoker.augment.params.image_params.ImageParams``, and of its warp and border."""

ERASE_COLUMNS: tuple[Column, ...]
"""Attributes of ``stoker.augment.params.optional_params.Erase`` and of its noise, and its ``quantiles``."""

STEP_COLUMNS: dict[str, tuple[Column, ...]]
"""For each kind of step the attributes of its class in ``stoker.augment.steps``."""

class Arena:
    """Memory for batches, aligned to 64 bytes, used again once the last array over it is gone.

    At most ``keep`` unused blocks stay allocated.
    """

    def __init__(self, keep: int) -> None: ...
    def array(self, shape: Sequence[int], dtype: str) -> npt.NDArray[Any]:
        """A C-contiguous array of uint8, uint16, float16 or float32, its contents undefined."""

class Job:
    """A batch under way. When it is dropped, samples that nobody has begun are given up."""

    def wait(self) -> None:
        """Wait, GIL released, until every sample of the batch has its status."""
    def done(self) -> bool: ...
    def reason(self, i: int) -> str:
        """What the decoder said of sample ``i``; empty for a good one."""

class Shards:
    """Data files opened for reading; ``sizes`` are the bytes each must have (checked: OSError)."""

    def __init__(self, paths: Sequence[str], sizes: Sequence[int], mapped: bool = True) -> None: ...
    def view(self, shard: int, offset: int, length: int) -> memoryview:
        """Read-only bytes of a payload, without a copy where mapped. Raises ValueError out of bounds."""
    def will_need(
        self, shard: npt.NDArray[np.int32], offset: npt.NDArray[np.int64], length: npt.NDArray[np.int64]
    ) -> None:
        """Ask the kernel to read these ranges ahead, neighbouring ones in one request."""
    def close(self) -> None: ...

def payloads(
    shards: Shards, samples: dict[str, npt.NDArray[Any]], count: int, max_pixels: int, verify: bool
) -> tuple[list[npt.NDArray[np.uint8]], dict[int, tuple[int, str]]]:
    """Read and check the payloads of ``count`` samples for another decoder. The GIL is released.

    Args:
        shards: The data files.
        samples: Arrays by name, see ``SAMPLE_COLUMNS``.
        count: Number of samples.
        max_pixels: An image with more pixels is refused.
        verify: Whether to compare payloads with their checksums.

    Returns:
        The bytes of each payload, (length,) uint8, read-only, without a copy where the file is mapped, empty
        where they cannot be read; and by position the status and the reason of each bad sample. Of a JPEG the
        header, the size and the end marker are checked, of raw pixels their number, of other codecs the
        checksum alone.
    """

class Steps:
    """The steps of a batch of ``count`` samples, done in the order of the calls.

    A batch or a weighted sum takes the steps for itself: after that ``append`` raises ValueError.
    """

    def __init__(self, count: int) -> None: ...
    def append(self, kind: str, columns: dict[str, npt.NDArray[Any]], chains: Sequence[Steps] = ()) -> None:
        """Append a step.

        Args:
            kind: A key of ``STEP_COLUMNS``.
            columns: Arrays by name, see there. They are kept alive.
            chains: The chains of a weighted sum, which takes them.

        Raises:
            ValueError: The kind is unknown, or an array is missing, unknown or of another type or shape.
        """

class Pool:
    """Threads that execute batches, first come first served."""

    def __init__(self, num_threads: int) -> None: ...
    @property
    def num_threads(self) -> int: ...
    def submit(
        self,
        shards: Shards,
        samples: dict[str, npt.NDArray[Any]],
        params: dict[str, npt.NDArray[Any]],
        *,
        out: npt.NDArray[Any],
        status: npt.NDArray[np.uint8],
        layout: int,
        max_pixels: int,
        verify: bool,
        decoded: dict[int, npt.NDArray[np.uint8]] = ...,
        steps: Steps | None = None,
        erase: Sequence[dict[str, npt.NDArray[Any]]] = (),
        decode_only: bool = False,
    ) -> Job:
        """Start a batch. All arrays are kept alive until it is done.

        Args:
            shards: The data files.
            samples: Arrays by name, see ``SAMPLE_COLUMNS``.
            params: Arrays by name, see ``PARAMETER_COLUMNS``.
            out: The images to write, in the order of ``layout``: uint8, float16, float32, or uint16 for
                bfloat16.
            status: (N,) uint8 to write.
            layout: 0 for NCHW, 1 for NHWC, 2 for NHWC padded to four channels.
            max_pixels: An image with more pixels is refused.
            verify: Whether to compare payloads with their checksums.
            decoded: Oriented pixels, (H, W, 3) uint8, by position, for samples that are decoded already.
            steps: Steps, which the batch takes.
            erase: Boxes to overwrite: arrays by name, see ``ERASE_COLUMNS``.
            decode_only: Leave ``out`` as it is: the ceiling that a benchmark compares with.

        Raises:
            ValueError: An array is missing, unknown, or of another type or shape than its column, or a
                parameter leads outside an image.
            RuntimeError: The pool is closed, or belongs to the parent of this process.
        """
    def close(self) -> None:
        """Give up what nobody has begun, wait for the rest, end the threads."""

def transcode(
    data: Any,
    mode: str,
    height: int,
    width: int,
    encoding: str,
    quality: int,
    subsampling: str,
    max_pixels: int,
) -> tuple[bytes, int, int]:
    """Decode a JPEG, apply its EXIF orientation, resize, encode: (payload, height, width). GIL released.

    ``encoding``: jpeg or raw; ``subsampling``: 444, 422 or 420. ``mode``:

    - none: the size of the image;
    - shorter: the shorter side becomes ``height``, the other is rounded down as torchvision's ``Resize``
      does; smaller images keep their size;
    - longer: the same with the longer side;
    - squash: ``height`` x ``width``, whatever becomes of the aspect;
    - crop: scaled to cover ``height`` x ``width``, then its centre;
    - fill: scaled to fit into ``height`` x ``width``, then centred on black.

    The last three scale up too; their sizes and offsets are rounded as in ``resize_image`` of NVIDIA DIGITS
    (digits/utils/image.py), which fills with noise instead of black. Images of at least twice the new size
    are reduced while they are decoded, as in the loader. Raises ValueError with the reason.
    """

def transcode_pixels(
    pixels: npt.NDArray[np.uint8],
    mode: str,
    height: int,
    width: int,
    encoding: str,
    quality: int,
    subsampling: str,
    max_pixels: int,
) -> tuple[bytes, int, int]:
    """The same as :func:`transcode` for (H, W, 3) uint8 RGB, C-contiguous, from another decoder."""

def resize(
    pixels: npt.NDArray[np.uint8], size: tuple[int, int], box: tuple[float, float, float, float] | None = None
) -> npt.NDArray[np.uint8]:
    """Antialiased bilinear resize of (H, W, 3) uint8 to ``size`` (height, width), Pillow's within one level.

    ``box`` is (top, left, bottom, right) in the source. GIL released.
    """
