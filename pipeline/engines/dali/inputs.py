"""The inputs of a DALI pipeline for a batch: NumPy arrays by the name of the external source they go to.

Nothing here imports DALI.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker.augment.params import ImageParams
from stoker.augment.resampling import Interpolation
from stoker.formats.codecs.codec import engine_decodes
from stoker.formats.dataset.index import NO_CHECKSUM, Samples

from ..base import EngineSettings, PayloadError, Status, Work, decode, pack
from ..native import pack_images
from .steps import StepSignature, inputs_of, signatures_of


@dataclass(frozen=True)
class PipelineSpec:
    """What a pipeline must be able to do.

    Some fields say what the samples of a batch happen to need. A pipeline that can do more executes them as
    well. So the specifications of a family, which agree in all other fields, share one pipeline.
    """

    size: tuple[int, int]  # Height and width of the output, pixels
    padded: bool  # Whether the ``dest`` of some sample does not fill the output
    fill: tuple[int, ...]  # RGB where an image shows nothing of its source
    vertical: bool  # Whether some sample is mirrored vertically
    mixing: bool  # Whether the colour matrix of some sample mixes channels, or empties one
    whole: bool  # Whether ``region`` is all of ``crop`` for every sample, so that the resize needs no region
    # Whether some payload may be a JPEG, so that the decoder takes all payloads. Otherwise all are pixels
    encoded: bool = True
    # Whether each sample names the filter of its resize. Otherwise all are bilinear
    interpolation: bool = False
    antialias: bool = True  # Whether the resize antialiases
    steps: tuple[StepSignature, ...] = ()  # Steps on pixels, in order
    mean: bool = False  # Whether the mean RGB of an image has a share in its colour
    warp: bool = False  # Whether images are resampled by a matrix, which then also mirrors and pads
    perspective: bool = False  # Whether the matrix may have a horizon
    nearest: bool = False  # Whether some samples take the nearest pixel, and are not interpolated
    erase: tuple[tuple[float, ...], ...] = ()  # RGB of each box that is overwritten

    @classmethod
    def of(cls, params: ImageParams, *, encoded: bool = True) -> PipelineSpec:
        """The smallest specification that executes ``params``."""
        warp = params.warp is not None
        padded = not warp and bool((params.dest != np.array((0, 0, *params.size))).any())
        return cls(
            size=params.size,
            padded=padded,
            fill=tuple(params.fill.tolist()) if padded or warp else (0, 0, 0),
            vertical=not warp and bool(params.flip[:, 1].any()),
            mixing=params.mean_matrix is not None or _mixes(params.color),
            whole=bool((params.region == _edges(params.crop)).all()),
            encoded=encoded,
            interpolation=params.interpolation is not None and params.plain is None,
            antialias=params.plain is None,
            steps=signatures_of(params.steps or ()),
            mean=params.mean_matrix is not None,
            warp=warp,
            perspective=params.warp is not None and params.warp.perspective,
            nearest=params.warp is not None and params.warp.nearest is not None,
            erase=tuple(tuple(erase.value.tolist()) for erase in params.erase or ()),
        )

    @property
    def mirrors_first(self) -> bool:
        """Whether images are mirrored before their steps, which may depend on a pixel's coordinates."""
        return bool(self.steps) and not self.warp

    @property
    def family(self) -> PipelineSpec:
        """The same for all specifications that one pipeline can execute, see :meth:`covering`."""
        fill = self.fill if self.warp else (0, 0, 0)
        return replace(self, padded=False, fill=fill, vertical=False, mixing=False, whole=True, encoded=False)

    def covering(self, other: PipelineSpec) -> PipelineSpec:
        """The specification of a pipeline that executes the batches of both, which are of one family."""
        return replace(
            self,
            padded=self.padded or other.padded,
            fill=self.fill if self.padded else other.fill,
            vertical=self.vertical or other.vertical,
            mixing=self.mixing or other.mixing,
            whole=self.whole and other.whole,
            encoded=self.encoded or other.encoded,
        )


def _edges(boxes: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Top, left, bottom, right of (N, 4) boxes of top, left, height, width."""
    edges: npt.NDArray[np.int32] = boxes.copy()
    edges[:, 2:] += boxes[:, :2]
    return edges


def _mixes(color: npt.NDArray[np.float32]) -> bool:
    scale = np.einsum("nii->ni", color[:, :, :3])
    diagonal = scale[:, :, None] * np.eye(3, dtype=np.float32)
    return not np.array_equal(color[:, :, :3], diagonal) or bool((scale == 0).any())


# Replaces a bad payload, so that DALI decodes the others of its batch.
BLACK_PIXEL = np.zeros((1, 1, 3), dtype=np.uint8)


@dataclass(frozen=True)
class Payloads:
    # For each sample a JPEG, (length,) uint8, or pixels, (H, W, 3) uint8; one black pixel if it is bad
    data: list[npt.NDArray[np.uint8]]
    # Status and message of bad samples, by index in the batch
    bad: dict[int, tuple[Status, str]] = field(default_factory=dict)
    # (N, 2) int32, top and left of each payload in its image; None where all are whole images
    origin: npt.NDArray[np.int32] | None = None
    # What the payloads lie in that were read from the shards
    memory: _native.PayloadMemory = field(default_factory=_native.PayloadMemory)

    def __len__(self) -> int:
        return len(self.data)

    def of(self, rows: Sequence[int]) -> Payloads:
        origin = None if self.origin is None else self.origin[list(rows)]
        return Payloads([self.data[i] for i in rows], origin=origin)

    def repeated(self, times: int) -> Payloads:
        """The same payloads ``times`` times, one after the other."""
        if times == 1:
            return self
        n = len(self)
        bad = {view * n + i: found for view in range(times) for i, found in self.bad.items()}
        origin = None if self.origin is None else np.tile(self.origin, (times, 1))
        return Payloads(self.data * times, bad, origin, self.memory)

    def reject(self, i: int, status: Status, reason: str) -> None:
        """Record that sample ``i`` is bad, and replace its payload by a black pixel."""
        self.data[i] = BLACK_PIXEL
        self.bad[i] = (status, reason)

    def encoded(self) -> list[npt.NDArray[np.uint8]]:
        """The payloads as files that DALI decodes, (length,) uint8 each: pixels become binary PPMs."""
        return [data if data.ndim == 1 else _ppm(data) for data in self.data]

    def status(self) -> npt.NDArray[np.uint8]:
        status = np.full(len(self), Status.OK, np.uint8)
        for i, (found, _) in self.bad.items():
            status[i] = found
        return status

    def reason(self) -> dict[int, str]:
        return {i: reason for i, (_, reason) in self.bad.items()}


def read_payloads(
    shards: _native.Shards,
    samples: Samples,
    settings: EngineSettings,
    crops: npt.NDArray[np.int32] | None = None,
) -> Payloads:
    """Read payloads and check them; those that DALI does not decode become pixels here."""
    # Pixels are RGB, or for grey images three equal channels.
    # crops (N, 4) int32
    data, found, origin, memory = _native.payloads(
        shards,
        pack(_native.SAMPLE_COLUMNS, samples),
        len(samples),
        settings.max_pixels,
        settings.verify,
        crops if crops is None or samples.bands is None else np.ascontiguousarray(crops, np.int32),
    )
    payloads = Payloads(data, origin=None if samples.bands is None else origin, memory=memory)
    for i, (status, reason) in found.items():
        payloads.reject(i, Status(status), reason)
    color, max_pixels = settings.image_format.color, settings.max_pixels
    for i in np.flatnonzero(~engine_decodes("dali", samples.codec)).tolist():
        if i in found:
            continue
        size = int(samples.height[i]), int(samples.width[i])
        try:
            pixels = decode(data[i].data, samples, i, max_pixels=max_pixels, color=color)
            if pixels.shape[:2] != size:
                words = f"{pixels.shape[0]}x{pixels.shape[1]} pixels, the index says {size[0]}x{size[1]}"
                raise PayloadError(Status.SIZE_MISMATCH, words)
            payloads.data[i] = pixels
        except PayloadError as error:
            payloads.reject(i, error.status, str(error))
    return payloads


class DamageScan:
    """Finds the JPEGs that the native engine calls damaged. DALI makes images of most of them."""

    def __init__(self, shards: _native.Shards, settings: EngineSettings) -> None:
        self._shards = shards
        self._settings = settings
        self._pool = _native.Pool(settings.num_threads)
        self._intact = np.zeros(0, np.bool_)  # by row of the index: found whole, and guarded by a checksum

    def reject_damaged(self, work: Work, payloads: Payloads) -> None:
        """Reject the JPEGs whose images in this batch the native engine would not make."""
        samples = work.samples
        suspect = engine_decodes("dali", samples.codec)
        suspect[list(payloads.bad)] = False
        # A scan of whole images is needed once. Restart markers are there to read parts of an image alone.
        if samples.bands is None:
            suspect[suspect] = self._is_damaged(samples.take(np.flatnonzero(suspect)))
        if suspect.any():
            status, job = self._decode(samples, work.columns)
            for i in np.flatnonzero(suspect & (status != Status.OK)).tolist():
                payloads.reject(i, Status(int(status[i])), job.reason(i))

    def close(self) -> None:
        self._pool.close()

    def _is_damaged(self, samples: Samples) -> npt.NDArray[np.bool_]:
        """Whether each JPEG is damaged anywhere; those that were intact before are not read again."""
        self._intact.resize(max(len(self._intact), 1 + int(samples.row.max(initial=-1))), refcheck=False)
        damaged = ~self._intact[samples.row]
        if damaged.any():
            read = samples.take(np.flatnonzero(damaged))
            damaged[damaged] = bad = self._decode(read, [_thumbnails(read)])[0] != Status.OK
            listed = [self._shards.has_checksums(shard) for shard in read.shard.tolist()]
            self._intact[read.row[~bad & (read.crc != NO_CHECKSUM) & listed & self._settings.verify]] = True
        return damaged

    def _decode(
        self, samples: Samples, columns: Sequence[ImageParams]
    ) -> tuple[npt.NDArray[np.uint8], _native.Job]:
        """The status of each sample, (N,) uint8, after the decoding of what the images show of it."""
        status = np.empty(len(samples), np.uint8)
        first, *others = (
            pack_images(
                replace(params, steps=None, erase=None),
                np.empty((len(params), *params.size, 3), np.uint8),  # nothing is written into it
                1,
                exact=False,
            )
            for params in columns
        )
        job = self._pool.submit(
            self._shards,
            pack(_native.SAMPLE_COLUMNS, samples),
            status=status,
            max_pixels=self._settings.max_pixels,
            verify=self._settings.verify,
            decode_only=True,
            others=[_native.ImageArray(**options) for options in others],
            **first,
        )
        job.wait()
        return status, job


def _thumbnails(samples: Samples) -> ImageParams:
    """Parameters of images of one pixel, for which large JPEGs are decoded at an eighth of their size."""
    n = len(samples)
    crop = np.zeros((n, 4), np.int32)
    crop[:, 2], crop[:, 3] = samples.height, samples.width
    return ImageParams(
        size=(1, 1),
        crop=crop,
        region=crop.astype(np.float64),
        dest=np.tile(np.array((0, 0, 1, 1), np.int32), (n, 1)),
        flip=np.zeros((n, 2), np.bool_),
        color=np.tile(np.eye(3, 4, dtype=np.float32), (n, 1, 1)),
        fill=np.zeros(3, np.uint8),
    )


def _ppm(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """(H, W, 3) RGB as a binary PPM, which DALI decodes on every device."""
    height, width, _ = pixels.shape
    header = np.frombuffer(b"P6\n%d %d\n255\n" % (width, height), dtype=np.uint8)
    return np.concatenate([header, pixels.ravel()])


_PROBES = 8
"""Points along either axis at which the shrinking of a warp is measured."""


@dataclass(frozen=True)
class DaliBatch:
    spec: PipelineSpec  # Specification of the pipeline
    params: ImageParams  # Parameters of the batch that was submitted
    payloads: Payloads  # Payloads to execute
    # The sample of the parameters that each payload belongs to; None if payload i is sample i
    rows: tuple[int, ...] | None = None
    column: int = 0  # Index of the array of images in :attr:`Work.columns`
    cuts: int = 1  # Images that are cut out of each decoded payload
    repeats: int = 1  # How often the payload of each sample is in the batch, if images are not cut

    def of(self, rows: Sequence[int]) -> DaliBatch:
        """A batch of good samples alone, by their indices."""
        return replace(self, payloads=self.payloads.of(rows), rows=tuple(rows))

    def black(self, n: int) -> DaliBatch:
        """A batch of ``n`` black pixels with the parameters of the first sample."""
        bad = dict.fromkeys(range(n), (Status.NOT_DECODABLE, ""))
        return replace(self, payloads=Payloads([BLACK_PIXEL] * n, bad), rows=(0,) * n)

    def data(self) -> list[Any]:
        """Payloads for the pipeline as DLPack capsules: files, (length,), or crops, (h, w, 3); uint8."""
        # DALI reads the mapped files in place, and its threads free the capsules without the interpreter.
        return self.payloads.memory.capsules(self.payloads.encoded() if self.spec.encoded else self._crops())

    def _crops(self) -> list[npt.NDArray[np.uint8]]:
        rows = self._rows()
        crop = np.where(
            self._bad()[rows, None], (0, 0, 1, 1), united_crops(self.params.crop, self.cuts)[rows]
        )
        # Crops before the transfer keep the transfer to a GPU small. A crop of full width is not copied.
        return [
            np.ascontiguousarray(pixels[top : top + height, left : left + width])
            for pixels, (top, left, height, width) in zip(self.payloads.data, crop.tolist(), strict=True)
        ]

    def inputs(self) -> dict[str, npt.NDArray[Any]]:
        """All other inputs, (N, ...) and C-contiguous, by the name of their external source."""
        rows, bad = self._rows(), np.tile(self._bad(), self.cuts)
        params = _without(self.params, bad) if bad.any() else self.params
        decoded = united_crops(params.crop, self.cuts)
        feeds: dict[str, npt.NDArray[Any]] = {}
        if self.spec.encoded:
            feeds = {"anchor": self._anchors(decoded)[rows], "shape": decoded[rows, 2:]}
        of_images = self._of_images(params, bad)
        if self.cuts > 1:
            of_images["cut_anchor"] = params.crop[:, :2] - np.tile(decoded[:, :2], (self.cuts, 1))
            of_images["cut_shape"] = params.crop[:, 2:]
        for cut in range(self.cuts):
            prefix, images = cut_prefix(cut) if self.cuts > 1 else "", cut * len(decoded) + rows
            feeds |= {prefix + name: values[images] for name, values in of_images.items()}
        return {name: np.ascontiguousarray(values) for name, values in feeds.items()}

    def _of_images(self, params: ImageParams, bad: npt.NDArray[np.bool_]) -> dict[str, npt.NDArray[Any]]:
        """Inputs after the decoder, by row of the parameters."""
        feeds = _warped(params) if self.spec.warp else _along_axes(params, self.spec)
        if not self.spec.whole:
            feeds["roi_start"] = (params.region[:, :2] - params.crop[:, :2]).astype(np.float32)
            feeds["roi_end"] = (params.region[:, 2:] - params.crop[:, :2]).astype(np.float32)
        if params.interpolation is not None and self.spec.interpolation:
            feeds["interpolation"] = _interpolation(params, params.interpolation)
        feeds |= inputs_of(params.steps or (), ~bad)
        feeds |= _colors(params, self.spec)
        for index, erase in enumerate(params.erase or ()):
            box = np.where(bad[:, None], 0, erase.box).astype(np.float32)
            feeds |= {f"erase.{index}.anchor": box[:, :2], f"erase.{index}.shape": box[:, 2:]}
        return feeds

    def _anchors(self, crops: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Top and left of each crop in its payload, by sample of the parameters."""
        anchors: npt.NDArray[np.int32] = crops[:, :2].copy()
        origin = self.payloads.origin
        if origin is None:
            return anchors
        good = [i for i in range(len(self.payloads)) if i not in self.payloads.bad]
        anchors[self._rows()[good]] -= origin[good]
        return anchors

    def _rows(self) -> npt.NDArray[np.int64]:
        """The sample of the parameters that each payload belongs to, (payloads,)."""
        return np.arange(len(self.payloads)) if self.rows is None else np.array(self.rows, np.int64)

    def _bad(self) -> npt.NDArray[np.bool_]:
        """Whether each sample of the parameters is bad, (N,)."""
        bad = np.zeros(len(self.params) // self.cuts, np.bool_)
        bad[self._rows()[list(self.payloads.bad)]] = True
        return bad


def united_crops(crops: npt.NDArray[np.int32], views: int) -> npt.NDArray[np.int32]:
    """The smallest rectangle of each sample that holds the crops of all its views, (N, 4) int32."""
    # crops (views * N, 4) int32
    if views == 1:
        return crops
    of_views = crops.reshape(views, -1, 4)
    start = of_views[:, :, :2].min(axis=0)
    stop = (of_views[:, :, :2] + of_views[:, :, 2:]).max(axis=0)
    return np.concatenate((start, stop - start), axis=1)


def cut_prefix(cut: int) -> str:
    """The prefix of the names of a cut's inputs, for batches of several cuts."""
    return f"cut{cut}."


def _colors(params: ImageParams, spec: PipelineSpec) -> dict[str, npt.NDArray[Any]]:
    """Inputs of the last colour map."""
    feeds: dict[str, npt.NDArray[Any]] = {}
    if spec.mixing:
        feeds["color"] = params.color
        if params.mean_matrix is not None:
            feeds["mean"] = params.mean_matrix
    else:
        scale, shift = np.einsum("nii->ni", params.color[:, :, :3]), params.color[:, :, 3]
        # DALI computes (x - mean) / stddev, and this is scale * x + shift.
        feeds["average"], feeds["deviation"] = -shift / scale, 1 / scale
    return feeds


def _without(params: ImageParams, bad: npt.NDArray[np.bool_]) -> ImageParams:
    """The parameters, changed so that one black pixel fills the output of each bad sample."""
    crop, region, dest, color = (
        array.copy() for array in (params.crop, params.region, params.dest, params.color)
    )
    crop[bad], region[bad], dest[bad] = (0, 0, 1, 1), (0, 0, 1, 1), (0, 0, *params.size)
    color[bad] = np.eye(3, 4)
    mean_matrix = params.mean_matrix
    if mean_matrix is not None:
        mean_matrix = np.where(bad[:, None, None], np.float32(0), mean_matrix)
    warp = params.warp
    if warp is not None:
        dest[bad] = (0, 0, *warp.canvas)
        matrix = warp.matrix.copy()
        matrix[bad] = ((0, 0, warp.canvas[1] / 2), (0, 0, warp.canvas[0] / 2), (0, 0, 1))
        warp = replace(warp, matrix=matrix)
    return replace(
        params, crop=crop, region=region, dest=dest, color=color, mean_matrix=mean_matrix, warp=warp
    )


def _interpolation(params: ImageParams, chosen: npt.NDArray[np.uint8]) -> npt.NDArray[np.int32]:
    """The filter of each sample, (N,), in our numbers, which are DALI's; bilinear if a warp interpolates."""
    return np.where(_is_interpolated(params), Interpolation.BILINEAR, chosen).astype(np.int32)


def _is_interpolated(params: ImageParams) -> npt.NDArray[np.bool_]:
    if params.warp is None:
        return np.zeros(len(params), np.bool_)
    warped = np.any(params.warp.matrix != np.eye(3), axis=(1, 2)) | (params.warp.canvas != params.size)
    return np.asarray(warped if params.warp.nearest is None else warped & ~params.warp.nearest)


def _along_axes(params: ImageParams, spec: PipelineSpec) -> dict[str, npt.NDArray[Any]]:
    """Inputs of the geometry of batches without a warp."""
    feeds: dict[str, npt.NDArray[Any]] = {"horizontal": params.flip[:, 0].astype(np.int32)}
    if spec.vertical:
        feeds["vertical"] = params.flip[:, 1].astype(np.int32)
    if spec.padded:
        feeds["dest_size"] = params.dest[:, 2:].astype(np.float32)
        feeds["dest_anchor"] = -params.dest[:, :2]
    return feeds


def _warped(params: ImageParams) -> dict[str, npt.NDArray[Any]]:
    """Inputs of a warp: the size to which the region is resized first, and the matrix from the output there.

    DALI's warp has no antialiasing. So a region that shrinks is resized first, by the least factor by which
    any of it shrinks: samples that only turn or grow are resampled once, others twice. Samples that are not
    warped, or that take the nearest pixel, are resized to their final size by their own filter; the warp then
    only moves them.
    """
    matrix = params.to_source()
    start, stop = params.region[:, 1::-1], params.region[:, :1:-1]  # x, y
    size = np.maximum(np.rint((stop - start) / _least_support(matrix, params.size)), 1.0)
    size = np.where(_is_interpolated(params)[:, None], size, params.dest[:, :1:-1])
    to_resized = np.zeros((len(params), 3, 3))
    scale = size / (stop - start)
    to_resized[:, [0, 1], [0, 1]] = scale
    to_resized[:, :2, 2] = -start * scale
    to_resized[:, 2, 2] = 1
    feeds: dict[str, npt.NDArray[Any]] = {
        "dest_size": size[:, ::-1].astype(np.float32),
        "matrix": (to_resized @ matrix).astype(np.float32),
    }
    if params.warp is not None and params.warp.nearest is not None:
        feeds["picks"] = params.warp.nearest
    if params.warp is not None and params.warp.perspective:
        horizon = matrix[:, 2]
        feeds["horizon"] = horizon.astype(np.float32)
        feeds["behind"] = (horizon @ _grid(params.size, np.array((0.0, 1.0)))).min(axis=1) <= 0
    return feeds


def _least_support(matrix: npt.NDArray[np.float64], size: tuple[int, int]) -> npt.NDArray[np.float64]:
    """The least reach of the filter of :class:`Warp` along x and y, (N, 2), from 1."""
    mapped = matrix @ _grid(size, (np.arange(_PROBES) + 0.5) / _PROBES)  # (N, 3, P)
    seen = mapped[:, 2:] > 0
    w = np.where(seen, mapped[:, 2:], 1.0)
    points = (mapped[:, :2] / w)[..., None]
    steps = matrix[:, :2, None, :2] - points * matrix[:, 2:, None, :2]  # the quotient rule, times w
    reach = np.where(seen, np.hypot(steps[..., 0], steps[..., 1]) / w, np.inf)
    return np.asarray(np.maximum(reach.min(axis=2), 1.0))


def _grid(size: tuple[int, int], shares: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(3, P), x, y and 1 of points at these shares of the width and of the height."""
    x, y = (grid.ravel() for grid in np.meshgrid(shares * size[1], shares * size[0]))
    return np.stack((x, y, np.ones_like(x)))
