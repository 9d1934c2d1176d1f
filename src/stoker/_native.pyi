"""Types of the C++ module, in the order of the folders of ``native/``.

A "buffer" is any C-contiguous object with the buffer protocol. Functions that say so release the GIL.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

# native/records

class Column(NamedTuple):
    """The description of an array that C++ takes for a batch. Tables of columns say what to pass, by name.

    Attributes:
        name: Key of the array, and path of the attribute that it holds.
        dtype: NumPy's name of its element type.
        per_sample: Whether each sample has a row; otherwise all samples share the array.
        optional: Whether it may be missing.
        row_shape: Shape of a row, or of the array that samples share; None for a dimension of any size.
    """

    name: str
    dtype: str
    per_sample: bool
    optional: bool
    row_shape: tuple[int | None, ...]

SAMPLE_COLUMNS: tuple[Column, ...]
"""Columns of ``stoker.formats.dataset.index.Samples``."""

def crc32c(data: Any, value: int = 0) -> int:
    """Return the CRC32C of a buffer, which continues ``value``, the checksum of the bytes before.

    It uses the processor's instruction if there is one, and releases the GIL.
    """

class Shards:
    """Data files that are open for reading.

    Args:
        paths: Paths of the files.
        sizes: Bytes that each file must have.
        mapped: Map the files; otherwise each payload is read into memory. All files of the process share 256
            descriptors.
        listing: Read a file that begins as a listing of image files as one.

    Raises:
        OSError: A file cannot be opened, or has another size.
    """

    def __init__(
        self, paths: Sequence[str], sizes: Sequence[int], mapped: bool = True, listing: bool = True
    ) -> None: ...
    def view(self, shard: int, offset: int, length: int) -> memoryview:
        """Return the bytes of a payload, read-only, and without a copy if the file is mapped.

        Raises:
            ValueError: The range does not lie within the shard.
        """

    def has_checksums(self, shard: int) -> bool:
        """Return whether the index has checksums of a shard's payloads; it has none for a listing."""

    def will_need(
        self,
        shard: npt.NDArray[np.int32],
        offset: npt.NDArray[np.int64],
        length: npt.NDArray[np.int64],
        gap: int = 128 << 10,
    ) -> None:
        """Ask the kernel to read these ranges ahead; those less than ``gap`` bytes apart in one request."""

    def close(self) -> None:
        """Close the files as soon as no batch uses them."""

def read_tokens(
    shards: Shards,
    shard: npt.NDArray[np.int32],
    offset: npt.NDArray[np.int64],
    length: npt.NDArray[np.int64],
    expected: npt.NDArray[np.int64],
    crc: npt.NDArray[np.uint32],
    checked: npt.NDArray[np.bool_],
    edges: npt.NDArray[np.int64],
    stored_bytes: int,
    ids: list[npt.NDArray[Any]],
    fill: int = 0,
) -> tuple[int, str] | None:
    """Read the token ids of a batch: check its payloads, join their sequences, and widen the ids.

    It releases the GIL.

    Args:
        shards: The data files.
        shard: (P,), data file of each payload.
        offset: (P,), first byte of each payload.
        length: (P,), bytes of each payload.
        expected: (P,), bytes that the tokens of all fields of each payload take.
        crc: (P,), CRC32C of each payload.
        checked: (P,), whether the checksum is compared.
        edges: (P, D, 4), bytes in the payload for each of D fields: begin and end of its tokens, and begin
            and end of the tokens that follow them, such as those that truncation keeps.
        stored_bytes: Bytes of an id in payloads, 2 (unsigned) or 4.
        ids: D arrays, (T,) int32 or int64, that receive the ids of each field end to end; or (P, L), which
            receive those of each payload in a row. Or D arrays (n, L) of each of several batches, one batch
            after the other, which take the next n payloads.
        fill: Padding of rows.

    Returns:
        Number of the first bad payload, and the reason; None if there is none.

    Raises:
        OSError: The edges lie outside a payload, or do not fit ``ids``.
    """

def encode_token_records(
    fields: list[tuple[str, npt.NDArray[np.int32], npt.NDArray[np.int64]]],
    payload_name: str,
    stored_bytes: int,
) -> list[tuple[bytes, bytes]]:
    """Encode N samples of text as messages tf.train.Example; it releases the GIL.

    Args:
        fields: For each field its name, the token ids of all samples end to end, each at least 0, and the
            number of ids in each sample, (N,).
        payload_name: Name of the last feature, whose value is the payload.
        stored_bytes: Bytes of an id in the payload: 2 or 4.

    Returns:
        For each sample, the bytes before the payload, and the payload: all ids as little-endian numbers.

    Raises:
        OSError: The numbers of ids do not add up to the ids, or fields have different numbers of samples.
    """

def take_lists(
    columns: list[tuple[npt.NDArray[np.int64], npt.NDArray[Any]]], rows: npt.NDArray[np.int64]
) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[Any]]]:
    """Return the lists at ``rows`` of columns of lists.

    Args:
        columns: Starts and values of each column, as in ``ListColumn``.
        rows: Positions of the lists to take.

    Returns:
        Starts and values of each column. Columns with equal bounds of lists share their starts.

    Raises:
        IndexError: A row does not exist.
        ValueError: Starts are not ascending positions in the values.
    """

# native/decode

DECODED_CODECS: tuple[int, ...]
"""Codecs that C++ decodes; the numbers are those of ``stoker.formats.codecs.codec.Codec``."""

LIBRARIES: dict[str, str]
"""Name and version of the library that decodes each codec, such as ``{"PNG": "libdeflate 1.14"}``.

Of libjpeg-turbo and libdeflate it is the version that the module was built with.
"""

def jpeg_decoder() -> str:
    """Return the decoder of baseline JPEGs: stoker, or libjpeg-turbo.

    It is stoker with AVX2 or NEON. ``STOKER_JPEG``, stoker or turbo, chooses another; it is read once. The
    pixels are the same. libjpeg-turbo decodes all other JPEGs, and finds the errors of damaged ones.
    """

def probe(data: Any) -> tuple[int, int, int, int, int]:
    """Read the header of an image, a buffer, without decoding.

    Returns:
        Codec, stored width, stored height, EXIF orientation and number of channels of a JPEG, PNG or WebP;
        (255, 0, 0, 1, 0) for anything else. Codec numbers are those of ``stoker.formats.codecs.codec.Codec``.

    Raises:
        ValueError: The header is damaged; the message is the reason.
    """

def probe_jpeg_files(
    root: str, starts: npt.NDArray[np.int64], text: npt.NDArray[np.uint8], sizes: npt.NDArray[np.int64]
) -> npt.NDArray[np.int32]:
    """Read the headers of JPEG files. It releases the GIL.

    Args:
        root: Folder of the names.
        starts: (N + 1,) where the name of each file starts in ``text``.
        text: The names in UTF-8, relative to ``root`` or absolute.
        sizes: (N,) bytes of each file.

    Returns:
        (N, 4): codec, stored height, stored width and EXIF orientation. The codec is 255 for a file that this
        function cannot judge: it is no JPEG, its header is long, its end is not where it should be, it has
        another size, or it cannot be read.
    """

def first_changed(
    root: str,
    starts: npt.NDArray[np.int64],
    text: npt.NDArray[np.uint8],
    sizes: npt.NDArray[np.int64],
    modified: npt.NDArray[np.int64],
    step: int,
) -> int:
    """Compare every ``step``-th file with its size and time; return the first that differs, or -1.

    The arguments are those of ``probe_jpeg_files``; ``modified`` has nanoseconds since 1970. A size of -1 is
    not compared. It releases the GIL.
    """

class PayloadMemory:
    """The memory of the payloads of a batch; a new one has no payloads."""

    def __init__(self) -> None: ...
    def capsules(self, arrays: list[npt.NDArray[np.uint8]]) -> list[Any]:
        """DLPack capsules (name ``dltensor``) of arrays, which any thread may free without the GIL.

        Array i of payload i, or of a part of it, is not copied. Other arrays are copied.

        Args:
            arrays: C-contiguous, of one to three dimensions.
        """

def payloads(
    shards: Shards,
    samples: dict[str, npt.NDArray[Any]],
    count: int,
    max_pixels: int,
    verify: bool,
    crops: npt.NDArray[np.int32] | None = None,
) -> tuple[list[npt.NDArray[np.uint8]], dict[int, tuple[int, str]], npt.NDArray[np.int32], PayloadMemory]:
    """Read and check the payloads of ``count`` samples for another decoder. It releases the GIL.

    It checks the header, size and end marker of a JPEG, the number of raw pixels, and for other codecs the
    checksum only.

    Args:
        shards: Data files.
        samples: Arrays by name, see ``SAMPLE_COLUMNS``.
        count: Number of samples.
        max_pixels: An image with more pixels is refused.
        verify: Compare payloads with their checksums.
        crops: (N, 4) top, left, height and width of the part of each image that is needed. A JPEG with
            restart markers and EXIF orientation 1 becomes a smaller JPEG, see ``splice``.

    Returns:
        The bytes of each payload, (length,) uint8, read-only, and without a copy if the file is mapped; empty
        if they cannot be read. By position, the status and the reason of each bad sample. Then (N, 2), top
        and left of each payload in its image: 0 unless it is a part of it. And the memory that the payloads
        lie in.
    """

# native/steps

STEP_COLUMNS: dict[str, tuple[Column, ...]]
"""Columns of each step, by the ``operation`` of its class in ``stoker.augment.steps``."""

class Steps:
    """The steps of a batch of ``count`` samples, which run in the order of the calls.

    A batch or a weighted sum takes the steps. After that, ``append`` raises ValueError.
    """

    def __init__(self, count: int) -> None: ...
    def append(self, kind: str, columns: dict[str, npt.NDArray[Any]], chains: Sequence[Steps] = ()) -> None:
        """Append a step.

        Args:
            kind: A key of ``STEP_COLUMNS``.
            columns: Arrays by name, see there. They are kept alive.
            chains: Chains of a weighted sum, which takes them.

        Raises:
            ValueError: The kind is unknown, or an array is missing, unknown, or of another type or shape.
        """

# native/masks

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
    """Write masks of polygons: 1 for pixels whose centres lie in them, otherwise 0. It releases the GIL.

    Args:
        out: (M, H, W), masks of M objects to write.
        owner: (M,), position of each object's image among N images.
        matrix: (N, 3, 3), row-major, from the source to the output.
        region: (N, 4), top, left, bottom, right of the part of the source that is visible.
        shown: (N,), whether the output shows any of the source.
        points: (V, 2), x and y of all points.
        sizes: (P,), number of points of each polygon.
        polygons: (M,), number of polygons of each object.

    Raises:
        ValueError: Lengths do not match, or numbers are not finite.
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
    """Draw run lengths into masks that ``fill_polygons`` wrote. It releases the GIL.

    Args:
        out: As in ``fill_polygons``.
        owner: As in ``fill_polygons``.
        matrix: (N, 3, 3), row-major, from the output to the source.
        region: As in ``fill_polygons``.
        shown: As in ``fill_polygons``.
        height: (N,), heights of the sources, pixels.
        width: (N,), widths of the sources, pixels.
        runs: (R,), lengths of zeros and ones in turn, down the columns of the sources.
        counts: (M,), number of runs of each object.

    Raises:
        ValueError: Lengths do not match, or numbers are not finite.
    """

def class_masks(
    out: npt.NDArray[np.uint8],
    data: list[Any],
    matrix: npt.NDArray[np.float64],
    region: npt.NDArray[np.float64],
    shown: npt.NDArray[np.bool_],
    height: npt.NDArray[np.int32],
    width: npt.NDArray[np.int32],
    fill: int,
) -> list[int]:
    """Write class masks, from PNG files. It releases the GIL.

    Args:
        out: (N, H, W), masks to write.
        data: N buffers.
        matrix: As in ``fill_runs``.
        region: As in ``fill_runs``.
        shown: As in ``fill_runs``.
        height: As in ``fill_runs``.
        width: As in ``fill_runs``.
        fill: Value of pixels that show nothing of the source.

    Returns:
        Positions of the masks that were not written. Their files are not intact PNGs with one channel of 8
        bits and the size of their source.

    Raises:
        ValueError: Lengths do not match, or numbers are not finite.
    """

def transform_boxes(
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
    """Transform boxes to outputs that are not warped.

    Args:
        boxes: (M, 4), left, top, right, bottom in the sources.
        owner: (M,), position of each object's image among N images.
        size: Height and width of the outputs, pixels.
        region: (N, 4), see ``ImageParams``.
        dest: (N, 4), see ``ImageParams``.
        flip: (N, 2), see ``ImageParams``.
        shown: (N,), whether the output shows any of the source.
        window: (N, 4), see ``ImageParams``.
        min_visible: The share of a box that must be visible.
        min_size: The least height and width of the visible part, pixels.

    Returns:
        (M, 4) boxes in the outputs, and (M,) whether to keep each of them.

    Raises:
        ValueError: Lengths do not match.
    """

def transform_keypoints(
    keypoints: npt.NDArray[np.float32],
    owner: npt.NDArray[np.int64],
    size: tuple[int, int],
    region: npt.NDArray[np.float64],
    dest: npt.NDArray[np.int32],
    flip: npt.NDArray[np.bool_],
    shown: npt.NDArray[np.bool_],
    swap: npt.NDArray[np.int64] | None,
) -> npt.NDArray[np.float64]:
    """Transform keypoints to outputs that are not warped.

    Args:
        keypoints: (M, K, 3), x, y and visibility in the sources.
        owner: As in ``transform_boxes``.
        size: As in ``transform_boxes``.
        region: As in ``transform_boxes``.
        dest: As in ``transform_boxes``.
        flip: As in ``transform_boxes``.
        shown: As in ``transform_boxes``.
        swap: (K,), the keypoint that each keypoint becomes in a mirrored image.

    Returns:
        (M, K, 3) keypoints in the outputs.

    Raises:
        ValueError: Lengths do not match.
    """

# native/engine

PARAMETER_COLUMNS: tuple[Column, ...]
"""Columns of ``stoker.augment.params.ImageParams``, its warp and its border."""

COMPOSITION_COLUMNS: tuple[Column, ...]
"""Columns of ``stoker.augment.params.Composition``, by their names in ``ImageParams``."""

ERASE_COLUMNS: tuple[Column, ...]
"""Columns of ``stoker.augment.params.Erase``, its noise, and the noise's ``quantiles``."""

class BufferPool:
    """A pool of buffers for batches, aligned to 64 bytes.

    An array gives its buffer back when the last reference to it is gone. At most ``keep`` unused buffers stay
    allocated.
    """

    def __init__(self, keep: int) -> None: ...
    def keep_at_least(self, keep: int) -> None:
        """Raise the number of unused buffers that stay allocated."""

    def array(self, shape: Sequence[int], dtype: str) -> npt.NDArray[Any]:
        """Return a C-contiguous array of uint8, uint16, float16 or float32 with undefined contents."""

class Job:
    """A batch in flight. If it is dropped, the samples that no thread has begun are cancelled."""

    def work(self) -> None:
        """Execute samples on the calling thread until all are begun. It releases the GIL."""

    def cancel(self) -> None:
        """Finish all samples that no thread has begun, with an error."""

    def wait(self) -> None:
        """Wait until every sample of the batch has its status. It releases the GIL."""

    def done(self) -> bool:
        """Return whether every sample of the batch has its status."""

    def reason(self, i: int) -> str:
        """Return the reason of sample ``i``, if it is bad; otherwise an empty string."""

def resample_channels(
    pixels: npt.NDArray[Any],
    out: npt.NDArray[Any],
    *,
    dtype: str,
    planar: bool,
    crop: npt.NDArray[np.int32],
    region: npt.NDArray[np.float64],
    dest: npt.NDArray[np.int32],
    flip: npt.NDArray[np.bool_],
    interpolation: int,
    scale: npt.NDArray[np.float32],
    shift: npt.NDArray[np.float32],
    fill: npt.NDArray[np.float32],
) -> None:
    """Crop, resize and mirror an image of C channels; see ``stoker.augment.params.Channels``.

    Args:
        pixels: (H, W, C) uint8, uint16 or float32.
        out: Where to write: (C, height, width), or (height, width, C).
        dtype: Elements of ``out``: uint8, uint16, float16, bfloat16 or float32.
        planar: Whether the channels of ``out`` come first.
        crop: (4,), a row of :class:`ImageParams`, as ``region``, ``dest`` and ``flip`` are.
        region: (4,).
        dest: (4,).
        flip: (2,).
        interpolation: Number of an :class:`Interpolation`.
        scale: (C,).
        shift: (C,).
        fill: (C,).

    Raises:
        ValueError: An array has another type or shape, or a parameter leads outside of the image.
    """

def decode_stored(
    codec: int, data: Any, alpha: bool, max_pixels: int, window: npt.NDArray[np.int32]
) -> npt.NDArray[Any] | None:
    """Decode a part of an image, unturned, as ``stoker.formats.codecs.decode.decode_channels`` does.

    Args:
        codec: Number of the image's codec.
        data: The payload, a buffer.
        alpha: Whether to decode to RGB and alpha.
        max_pixels: Largest number of pixels of the image.
        window: (4,), top, left, bottom and right. The part outside of the image is left out.

    Returns:
        (H, W, C) uint8 or uint16, of the size of the whole image; levels outside of ``window`` are undefined.
        None if Pillow must decode the image: a PNG with transparent colours, or a codec that C++ decodes only
        to RGB and grey.

    Raises:
        ValueError: The image is damaged or has more than ``max_pixels``; the message is the reason.
    """

def subtract_mean(
    levels: npt.NDArray[np.float32],
    image: npt.NDArray[np.float32],
    *,
    planar: bool,
    crop: npt.NDArray[np.int32],
    region: npt.NDArray[np.float64],
    dest: npt.NDArray[np.int32],
    flip: npt.NDArray[np.bool_],
    interpolation: int,
    scale: npt.NDArray[np.float32],
) -> None:
    """Subtract a mean image in place; see ``stoker.augment.params.MeanImage``.

    Args:
        levels: (H, W, C).
        image: (C, height, width), or (height, width, C or more).
        planar: Whether the channels of ``image`` come first.
        crop: (4,), a row of the mean image's, as ``region`` is.
        region: (4,).
        dest: (4,), a row of the image's, as ``flip`` and ``interpolation`` are.
        flip: (2,).
        interpolation: Number of an :class:`Interpolation`.
        scale: (C,).

    Raises:
        ValueError: An array has another type or shape, or a parameter leads outside of an image.
    """

def warp_channels(
    pixels: npt.NDArray[Any],
    levels: npt.NDArray[np.float32],
    *,
    matrix: npt.NDArray[np.float64],
    window: npt.NDArray[np.int32],
    picks: bool,
    fill: npt.NDArray[np.float32],
) -> None:
    """Warp an image of C channels; see ``stoker.augment.resampling``.

    Args:
        pixels: (H, W, C) uint8, uint16 or float32.
        levels: Where to write, (height, width, C); levels of uint8 are rounded.
        matrix: (3, 3), from ``levels`` to ``pixels``.
        window: (4,), top, left, bottom, right of the part of ``pixels`` that is seen.
        picks: Whether pixels are picked, not interpolated.
        fill: (C,), outside of the window.

    Raises:
        ValueError: An array has another type or shape, or a parameter leads outside of the image.
    """

def displace_channels(
    levels: npt.NDArray[np.float32],
    *,
    key: int,
    alpha: npt.NDArray[np.float64],
    sigma: npt.NDArray[np.float64],
    nearest: bool,
    rounds: bool,
    fill: npt.NDArray[np.float32],
) -> None:
    """Move each pixel of ``levels``, (H, W, C), in place; see ``stoker.augment.steps.Displace``.

    Args:
        levels: Changed in place.
        key: Of the field.
        alpha: (2,), along x and y.
        sigma: (2,), along x and y, 0 to 1000 pixels.
        nearest: Whether pixels are picked, not interpolated.
        rounds: Whether results are rounded to whole levels.
        fill: (C,), outside of the image.

    Raises:
        ValueError: An array has another type or shape, ``alpha`` is not finite, or ``sigma`` is out of its
            range.
    """

class PythonSteps:
    """A function that changes images after all other steps; it is called with the GIL.

    Args:
        where: (M,), images that it changes.
        function: Takes the position of an image, and its pixels, (H, W, 3) uint8; returns changed pixels,
            C-contiguous.
        memory: Holds the pixels that the function takes.
        takes_several: Whether it takes K images at once instead: (K,) int64 positions, and (K, H, W, 3).
    """

    def __init__(
        self,
        where: npt.NDArray[np.bool_],
        function: Callable[[Any, Any], Any],
        memory: BufferPool,
        *,
        takes_several: bool = False,
    ) -> None: ...

class ImageArray:
    """Images of one size that a batch makes of its N samples: one or several of each, as one array.

    A batch takes it, once.

    Args:
        params: Arrays of M rows by name, see ``PARAMETER_COLUMNS``. M is a multiple of N, and image i shows
            sample i % N.
        out: M images to write, in the order of ``layout``: uint8, float16, float32, or uint16 for bfloat16.
        layout: 0 for NCHW, 1 for NHWC, 2 for NHWC with four channels, 3 for the first channel alone.
        steps: Steps of M images, which the array takes.
        erase: Boxes to erase: arrays by name, see ``ERASE_COLUMNS``.
        exact: Decode JPEGs at their full size, also where they are then made much smaller.
        composition: Arrays of M rows by name, see ``COMPOSITION_COLUMNS``; M is then N, and ``out`` has as
            many images as the parts make. Empty if each image shows one sample.
        last_steps: Steps that Python executes after ``steps``, for M images.

    Raises:
        ValueError: An array is missing, unknown, or of another type or shape than its column.
    """

    def __init__(
        self,
        params: dict[str, npt.NDArray[Any]],
        *,
        out: npt.NDArray[Any],
        layout: int,
        steps: Steps | None = None,
        erase: Sequence[dict[str, npt.NDArray[Any]]] = (),
        exact: bool = False,
        composition: dict[str, npt.NDArray[Any]] = ...,
        last_steps: PythonSteps | None = None,
    ) -> None: ...
    def finish(self, pixels: Sequence[npt.NDArray[np.uint8]]) -> None:
        """Finish images from their pixels, on the calling thread. No batch can take the images then.

        It uses colours and boxes to erase only: geometry and steps come before the pixels.

        Args:
            pixels: The whole images before their colours, in parts of (K, 3, H, W).

        Raises:
            ValueError: The pixels have another shape than ``out``, or there are steps.
        """

class Pool:
    """Threads that execute batches, in the order of submission.

    Args:
        num_threads: Threads, from 1.
        kept: Number of samples that are kept as pixels, at most 4 MiB each, after an image of several samples
            has shown them: other images then show them without decoding.
    """

    def __init__(self, num_threads: int, kept: int = 0) -> None: ...
    @property
    def num_threads(self) -> int:
        """Number of threads."""

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
        exact: bool = False,
        others: Sequence[ImageArray] = (),
        grey: bool = False,
        composition: dict[str, npt.NDArray[Any]] = ...,
        last_steps: PythonSteps | None = None,
        share: int = 1,
        start: bool = True,
    ) -> Job:
        """Start a batch. All arrays are kept alive until it is done.

        Each sample is decoded once for all of its images: the smallest window that holds their crops, at the
        size that the largest of them needs.

        Args:
            shards: Data files.
            samples: Arrays by name, see ``SAMPLE_COLUMNS``.
            params: As in ``ImageArray``.
            out: As in ``ImageArray``.
            status: (N,), statuses to write.
            layout: As in ``ImageArray``.
            max_pixels: An image with more pixels is refused.
            verify: Compare payloads with their checksums.
            decoded: By position, oriented pixels, (H, W, 3), of samples that are decoded already.
            steps: As in ``ImageArray``.
            erase: As in ``ImageArray``.
            decode_only: Decode only, and leave ``out`` unchanged, for benchmarks.
            exact: As in ``ImageArray``.
            others: Further images of the same samples.
            grey: Decode to grey, three equal channels: a JPEG's luma, or that of RGB by ITU-R BT.601.
            composition: As in ``ImageArray``, without ``others``.
            last_steps: As in ``ImageArray``.
            share: Samples that a thread begins at once, whose images can go through ``last_steps`` together.
            start: Whether the pool executes the batch. With ``last_steps``, threads of Python must do it, by
                ``Job.work``.

        Raises:
            ValueError: An array is missing, unknown, or of another type or shape than its column; or a
                parameter leads outside an image.
            RuntimeError: The pool is closed, or belongs to the parent of this process.
        """

    def close(self) -> None:
        """Cancel all samples that no thread has begun, wait for the others, and end the threads."""

def trace_start() -> int:
    """Begin to record the stages of each sample; return the time of the threads' clock, nanoseconds."""

def trace_take() -> list[tuple[int, int, int, int]]:
    """End the record; return thread, stage (0 read, 1 decode, 2 augment), begin and end in nanoseconds."""

def set_range_functions(push: int, pop: int) -> None:
    """Report what native threads do to C functions at these addresses; zeros end the reports.

    They are ``int push(const char*)`` and ``int pop()``, like nvtxRangePushA and nvtxRangePop. They must stay
    as long as the process runs.
    """

# native/transcode

def transcode(
    data: Any,
    mode: str,
    height: int,
    width: int,
    encoding: str,
    quality: int,
    subsampling: str,
    max_pixels: int,
    restarts: bool = False,
) -> tuple[bytes, int, int]:
    """Decode an image, apply its EXIF orientation, resize it and encode it. It releases the GIL.

    Images of at least twice the new size are reduced while they are decoded, as in the loader. ``mode`` is
    the size of the result:

    - none: the size of the image;
    - shorter: the shorter side becomes ``height``; the other side is rounded down, as in torchvision's
      ``Resize``; smaller images keep their size;
    - longer: the longer side becomes ``height``, likewise;
    - squash: ``height`` x ``width``, with another aspect ratio;
    - crop: scaled to cover ``height`` x ``width``, then cut to its centre;
    - fill: scaled to fit into ``height`` x ``width``, then centred on black.

    squash, crop and fill also enlarge. Sizes and offsets of crop and fill are rounded as in ``resize_image``
    of NVIDIA DIGITS (digits/utils/image.py), which fills with noise instead of black.

    Args:
        data: A buffer, an image of a codec that C++ decodes.
        mode: See above.
        height: Pixels.
        width: Pixels.
        encoding: jpeg or raw.
        quality: Quality of the JPEG, 1 to 100.
        subsampling: Chroma subsampling of the JPEG: 444, 422 or 420.
        max_pixels: An image with more pixels is refused.
        restarts: Whether the JPEG gets restart markers, as by ``mark_restarts``.

    Returns:
        The payload, its height and its width.

    Raises:
        ValueError: The image cannot be decoded, or an argument is wrong; the message is the reason.
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
    restarts: bool = False,
) -> tuple[bytes, int, int]:
    """Resize and encode RGB pixels, (H, W, 3), C-contiguous. Other arguments are those of ``transcode``."""

def resize(
    pixels: npt.NDArray[np.uint8], size: tuple[int, int], box: tuple[float, float, float, float] | None = None
) -> npt.NDArray[np.uint8]:
    """Resize RGB pixels by an antialiased bilinear filter, which differs from Pillow's by at most 1.

    It releases the GIL.

    Args:
        pixels: (H, W, 3), C-contiguous.
        size: Height and width of the result.
        box: Top, left, bottom and right of the part to resize; None for all.
    """

# native/restarts

def mark_restarts(data: Any) -> tuple[bytes | None, str, str]:
    """Copy the coefficients of a JPEG, without loss, into a sequential one with restart markers.

    Each row of MCUs has four intervals of the same length, or the most below four that divide it. The Huffman
    tables are made for the image. EXIF, colour profile and all other segments of applications and comments
    stay. Data after the image are left out. It releases the GIL.

    Args:
        data: A JPEG, as any buffer.

    Returns:
        The copy, and two empty strings. None, the kind of the image, and libjpeg's message, where the image
        is damaged or cannot be copied.
    """

def make_bands(data: Any) -> npt.NDArray[np.uint32]:
    """Return the first byte and the CRC32C of the headers of a JPEG and of each band of its MCU rows.

    It is empty, (0,), unless the JPEG is sequential, in one scan, and its restart intervals divide its rows.
    A band has about 8 KiB, or a 64th of a large payload. It releases the GIL.
    """

def bands_match(data: Any, bands: npt.NDArray[np.uint32]) -> bool:
    """Return whether all bytes of a payload have the checksums of its bands. It releases the GIL."""

def splice(
    data: Any, bands: npt.NDArray[np.uint32], crop: tuple[int, int, int, int], verify: bool = True
) -> tuple[bytes, int, int, int] | None:
    """Return a JPEG of the restart intervals that show a crop, with the same pixels there.

    Only the headers and the bands that the crop needs are read. It releases the GIL.

    Args:
        data: A JPEG.
        bands: Its bands.
        crop: Top, left, height and width in the stored image.
        verify: Whether the checksums of the headers and of these bands are compared.

    Returns:
        The JPEG, the top and left of its first pixel in the image, and the number of bytes of the image that
        were looked at. None where there are no bands, the crop lies outside, or the crop needs all intervals.

    Raises:
        ValueError: A checksum does not match.
    """

# native/cpu

def cpu_level() -> str:
    """Return the instruction set of the kernels, chosen at run time: avx512, avx2, neon or plain."""
