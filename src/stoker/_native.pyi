"""Types of the C++ module. Buffers are anything with the buffer protocol, C-contiguous."""

from collections.abc import Sequence
from typing import Any

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

_Color = tuple[float, float, float]
_Noise = tuple[npt.NDArray[np.uint64], _Color, npt.NDArray[np.float32]]

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
    shards: Shards,
    shard: npt.NDArray[np.int32],
    offset: npt.NDArray[np.int64],
    length: npt.NDArray[np.int64],
    crc: npt.NDArray[np.uint32],
    codec: npt.NDArray[np.uint8],
    height: npt.NDArray[np.int32],
    width: npt.NDArray[np.int32],
    max_pixels: int,
    verify: bool,
) -> tuple[list[npt.NDArray[np.uint8]], dict[int, tuple[int, str]]]:
    """Payloads of N samples, checked before a decoder sees them, for those who decode elsewhere.

    Returns the bytes of each, (length,) uint8, read-only and without a copy where mapped (empty where they
    cannot be read), and by position what is wrong: status and reason. Checked are the checksum, of a JPEG
    its header, its size (at most ``max_pixels``, and that of the index) and its end, of raw pixels their
    number; of other codecs the checksum alone. GIL released.
    """

class Steps:
    """Steps of a batch of ``count`` samples, see ``stoker.augment.steps``; done in the order of the calls.

    All arrays are C-contiguous with a row a sample and are kept alive. A batch or a mix takes the steps
    for itself: after that these methods raise ValueError, as they do for a wrong number of rows.
    """

    def __init__(self, count: int) -> None: ...
    def affine(
        self,
        where: npt.NDArray[np.bool_],
        color: npt.NDArray[np.float32],
        mean: npt.NDArray[np.float32] | None,
    ) -> None: ...
    def table(self, where: npt.NDArray[np.bool_], levels: npt.NDArray[np.uint8]) -> None: ...
    def posterize(self, where: npt.NDArray[np.bool_], bits: npt.NDArray[np.uint8]) -> None: ...
    def solarize(self, where: npt.NDArray[np.bool_], threshold: npt.NDArray[np.int16]) -> None: ...
    def autocontrast(self, where: npt.NDArray[np.bool_]) -> None: ...
    def equalize(self, where: npt.NDArray[np.bool_]) -> None: ...
    def sharpen(self, where: npt.NDArray[np.bool_], factor: npt.NDArray[np.float32]) -> None: ...
    def blur(
        self, where: npt.NDArray[np.bool_], kernel_size: tuple[int, int], sigma: npt.NDArray[np.float32]
    ) -> None: ...
    def shift(
        self,
        where: npt.NDArray[np.bool_],
        matrix: npt.NDArray[np.float64],
        fill: tuple[int, int, int],
        nearest: bool = False,
    ) -> None: ...
    def mix(
        self, where: npt.NDArray[np.bool_], weights: npt.NDArray[np.float32], chains: Sequence[Steps]
    ) -> None: ...

class Pool:
    """Threads that execute batches, first come first served."""

    def __init__(self, num_threads: int) -> None: ...
    @property
    def num_threads(self) -> int: ...
    def submit(
        self,
        shards: Shards,
        shard: npt.NDArray[np.int32],
        offset: npt.NDArray[np.int64],
        length: npt.NDArray[np.int64],
        crc: npt.NDArray[np.uint32],
        codec: npt.NDArray[np.uint8],
        height: npt.NDArray[np.int32],
        width: npt.NDArray[np.int32],
        orientation: npt.NDArray[np.uint8],
        decoded: dict[int, npt.NDArray[np.uint8]],
        crop: npt.NDArray[np.int32],
        region: npt.NDArray[np.float64],
        dest: npt.NDArray[np.int32],
        flip: npt.NDArray[np.bool_],
        color: npt.NDArray[np.float32],
        fill: npt.NDArray[np.uint8],
        out: npt.NDArray[Any],
        layout: int,
        status: npt.NDArray[np.uint8],
        max_pixels: int,
        verify: bool,
        decode_only: bool = False,
        steps: Steps | None = None,
        mean: npt.NDArray[np.float32] | None = None,
        warp: tuple[npt.NDArray[np.float64], int, int, npt.NDArray[np.bool_] | None] | None = None,
        erase: Sequence[tuple[npt.NDArray[np.int32], _Color, _Noise | None]] = (),
        interpolation: npt.NDArray[np.uint8] | None = None,
        border: tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32]] | None = None,
    ) -> Job:
        """Start a batch. All arrays are kept alive until the job is done.

        Raises ValueError for parameters that lead outside an image, RuntimeError after ``close`` and in a
        forked child, which has no threads. ``decode_only`` leaves ``out`` as it is: the ceiling that a
        benchmark compares with. ``decoded`` holds (H, W, 3) uint8 oriented pixels for samples of codecs that
        are not decoded here.
        ``layout``: 0 NCHW, 1 NHWC, 2 NHWC padded to four channels. ``out`` is uint8, float16, float32,
        or uint16 for bfloat16. The last six are the optional fields of ``ImageParams``: ``warp`` is its
        matrix, the canvas' height and width, and which samples are nearest; ``erase`` has boxes, their
        RGB, and of noise the keys, RGB and quantiles (65536); ``border`` is its size, rows and columns.
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
