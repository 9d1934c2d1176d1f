"""What a DALI pipeline is fed for a batch, and what its graph must be able to do; no DALI in here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker.augment.geometry.interpolation import Interpolation

from ..base import Status
from .payloads import BLACK_PIXEL, Payloads
from .steps import inputs_of, signatures_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from stoker.augment.params.image_params import ImageParams

    from .steps import StepSignature

__all__ = ["Batch", "Graph", "as_mean"]

_PROBES = 8
"""Points along either axis where it is looked how much a warp shrinks."""


@dataclass(frozen=True)
class Graph:
    """What a pipeline must be able to do; one is built for each graph that occurs.

    Attributes:
        size: Height and width of the output.
        encoded: Some payload may be a JPEG, so that all go to the decoder; else all are pixels.
        padded: Some ``dest`` does not fill the output.
        fill: RGB of what shows nothing of the source.
        vertical: Some sample is mirrored vertically.
        mixing: Some sample's colour matrix mixes channels, or empties one.
        interpolation: Each sample says by which filter it is resized; else all are bilinear.
        whole: ``region`` is all of ``crop`` for every sample, so that no region need be told.
        scale: Colour of all samples, where it is one that does not mix: three factors; else None.
        shift: Likewise three constants.
        steps: Steps on pixels, in order.
        mean: The mean RGB has a share in the colour.
        warp: Images are resampled by a matrix, which also mirrors and pads.
        perspective: The matrix may have a horizon.
        nearest: Some samples may be picked by it, not interpolated.
        erase: Values of the boxes that are overwritten, RGB each.
    """

    size: tuple[int, int]
    padded: bool
    fill: tuple[int, ...]
    vertical: bool
    mixing: bool
    whole: bool
    encoded: bool = True
    interpolation: bool = False
    scale: tuple[float, ...] | None = None
    shift: tuple[float, ...] | None = None
    steps: tuple[StepSignature, ...] = ()
    mean: bool = False
    warp: bool = False
    perspective: bool = False
    nearest: bool = False
    erase: tuple[tuple[float, ...], ...] = ()

    @classmethod
    def of(
        cls, params: ImageParams, color: npt.NDArray[np.float32] | None = None, *, encoded: bool = True
    ) -> Graph:
        """The smallest graph that executes ``params``.

        Args:
            params: Parameters of a batch.
            color: (3, 4), a matrix that is worth a graph of its own: what all samples have as a rule.
            encoded: Whether there may be JPEGs among the payloads.
        """
        warp = params.warp is not None
        padded = not warp and bool((params.dest != np.array((0, 0, *params.size))).any())
        common = color is not None and bool((params.color == color).all()) and not _mixes(color[None])
        return cls(
            size=params.size,
            padded=padded,
            fill=tuple(params.fill.tolist()) if padded or warp else (0, 0, 0),
            vertical=not warp and bool(params.flip[:, 1].any()),
            mixing=params.mean is not None or (not common and _mixes(params.color)),
            whole=bool((params.region == _edges(params.crop)).all()),
            encoded=encoded,
            interpolation=params.interpolation is not None,
            scale=tuple(np.diag(color[:, :3]).tolist()) if common and color is not None else None,
            shift=tuple(color[:, 3].tolist()) if common and color is not None else None,
            steps=signatures_of(params.steps or ()),
            mean=params.mean is not None,
            warp=warp,
            perspective=params.warp is not None and params.warp.perspective,
            nearest=params.warp is not None and params.warp.nearest is not None,
            erase=tuple(tuple(erase.value.tolist()) for erase in params.erase or ()),
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


@dataclass(frozen=True)
class Batch:
    """Payloads and parameters; with ``only`` the parameters of that sample are those of all payloads."""

    graph: Graph
    params: ImageParams
    payloads: Payloads
    only: int | None = None

    def alone(self, i: int) -> Batch:
        """Sample ``i`` without the others."""
        return replace(self, payloads=Payloads([self.payloads.data[i]]), only=i)

    def black(self, n: int) -> Batch:
        """``n`` times a black pixel in place of the first sample, without the others."""
        bad = dict.fromkeys(range(n), (Status.NOT_DECODABLE, ""))
        return replace(self, payloads=Payloads([BLACK_PIXEL] * n, bad), only=0)

    def data(self) -> list[npt.NDArray[np.uint8]]:
        """What the graph is fed as payloads: (length,) for its decoder, or the crops, (h, w, 3)."""
        if self.graph.encoded:
            return self.payloads.encoded()
        rows = self._rows()
        crop = np.where(self._bad()[rows, None], (0, 0, 1, 1), self.params.crop[rows])
        # Here what is as wide as its image is not copied, and a GPU is sent no more than it needs.
        return [
            np.ascontiguousarray(pixels[top : top + height, left : left + width])
            for pixels, (top, left, height, width) in zip(self.payloads.data, crop.tolist(), strict=True)
        ]

    def inputs(self) -> dict[str, npt.NDArray[Any]]:
        """What the graph's external sources are fed beside payloads, by name: (N, ...), C-contiguous."""
        rows, bad = self._rows(), self._bad()
        params = _without(self.params, bad) if bad.any() else self.params
        feeds: dict[str, npt.NDArray[Any]] = {}
        if self.graph.encoded:
            feeds = {"anchor": params.crop[:, :2], "shape": params.crop[:, 2:]}
        feeds |= _warped(params) if self.graph.warp else _along_axes(params, self.graph)
        if not self.graph.whole:
            feeds["roi_start"] = (params.region[:, :2] - params.crop[:, :2]).astype(np.float32)
            feeds["roi_end"] = (params.region[:, 2:] - params.crop[:, :2]).astype(np.float32)
        if params.interpolation is not None:
            feeds["interpolation"] = _interpolation(params, params.interpolation)
        feeds |= inputs_of(params.steps or (), ~bad)
        feeds |= _colors(params, self.graph)
        for position, erase in enumerate(params.erase or ()):
            box = np.where(bad[:, None], 0, erase.box).astype(np.float32)
            feeds |= {f"erase.{position}.anchor": box[:, :2], f"erase.{position}.shape": box[:, 2:]}
        if self.only is not None:
            feeds = {name: values[rows] for name, values in feeds.items()}
        return {name: np.ascontiguousarray(values) for name, values in feeds.items()}

    def _rows(self) -> npt.NDArray[np.int64]:
        """Rows of the parameters that belong to the payloads."""
        n = len(self.payloads)
        return np.arange(n) if self.only is None else np.full(n, self.only)

    def _bad(self) -> npt.NDArray[np.bool_]:
        """Which rows of the parameters belong to bad samples."""
        bad = np.zeros(len(self.params), np.bool_)
        bad[self._rows()[list(self.payloads.bad)]] = True
        return bad


def _colors(params: ImageParams, graph: Graph) -> dict[str, npt.NDArray[Any]]:
    """Inputs of the last colour map."""
    feeds: dict[str, npt.NDArray[Any]] = {}
    if graph.mixing:
        feeds["color"] = params.color
        if params.mean is not None:
            feeds["mean"] = params.mean
    elif graph.scale is None:
        diagonal = np.einsum("nii->ni", params.color[:, :, :3])
        feeds["average"], feeds["deviation"] = as_mean(diagonal, params.color[:, :, 3])
    return feeds


def _without(params: ImageParams, bad: npt.NDArray[np.bool_]) -> ImageParams:
    """The same with one black pixel over all of the output, its colours left as they are, for bad samples."""
    crop, region, dest, color = (
        array.copy() for array in (params.crop, params.region, params.dest, params.color)
    )
    crop[bad], region[bad], dest[bad] = (0, 0, 1, 1), (0, 0, 1, 1), (0, 0, *params.size)
    color[bad] = np.eye(3, 4)
    mean = None if params.mean is None else np.where(bad[:, None, None], np.float32(0), params.mean)
    warp = params.warp
    if warp is not None:
        dest[bad] = (0, 0, *warp.canvas)
        matrix = warp.matrix.copy()
        matrix[bad] = ((0, 0, warp.canvas[1] / 2), (0, 0, warp.canvas[0] / 2), (0, 0, 1))
        warp = replace(warp, matrix=matrix)
    return replace(params, crop=crop, region=region, dest=dest, color=color, mean=mean, warp=warp)


def _interpolation(params: ImageParams, chosen: npt.NDArray[np.uint8]) -> npt.NDArray[np.int32]:
    """The filter of each sample, (N,): DALI's numbers are ours. What a warp interpolates is bilinear."""
    return np.where(_is_interpolated(params), Interpolation.BILINEAR, chosen).astype(np.int32)


def _is_interpolated(params: ImageParams) -> npt.NDArray[np.bool_]:
    """Which samples are, by a warp, (N,)."""
    if params.warp is None:
        return np.zeros(len(params), np.bool_)
    warped = np.any(params.warp.matrix != np.eye(3), axis=(1, 2)) | (params.warp.canvas != params.size)
    return np.asarray(warped if params.warp.nearest is None else warped & ~params.warp.nearest)


def _along_axes(params: ImageParams, graph: Graph) -> dict[str, npt.NDArray[Any]]:
    """Inputs of geometry along the axes."""
    feeds: dict[str, npt.NDArray[Any]] = {"horizontal": params.flip[:, 0].astype(np.int32)}
    if graph.vertical:
        feeds["vertical"] = params.flip[:, 1].astype(np.int32)
    if graph.padded:
        feeds["dest_size"] = params.dest[:, 2:].astype(np.float32)
        feeds["dest_anchor"] = -params.dest[:, :2]
    return feeds


def _warped(params: ImageParams) -> dict[str, npt.NDArray[Any]]:
    """Inputs of a warp: the size to which the region is shrunk first, and the matrix that leads there.

    DALI's warp has no antialiasing, so what is to become smaller is resized before as far as all of it
    does: what only turns or grows is resampled once, and the rest twice. What is not warped, or picked from,
    is resized to the end, by its own filter, and no more than moved.
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
    """The least that the filter of :class:`Warp` reaches along x and y, (N, 2)."""
    mapped = matrix @ _grid(size, (np.arange(_PROBES) + 0.5) / _PROBES)  # (N, 3, P)
    seen = mapped[:, 2:] > 0
    w = np.where(seen, mapped[:, 2:], 1.0)
    place = (mapped[:, :2] / w)[..., None]
    steps = matrix[:, :2, None, :2] - place * matrix[:, 2:, None, :2]  # the quotient rule, times w
    reach = np.where(seen, np.hypot(steps[..., 0], steps[..., 1]) / w, np.inf)
    return np.asarray(np.maximum(reach.min(axis=2), 1.0))


def _grid(size: tuple[int, int], shares: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(3, P): x, y, 1 of points at these shares of the width and of the height."""
    x, y = (grid.ravel() for grid in np.meshgrid(shares * size[1], shares * size[0]))
    return np.stack((x, y, np.ones_like(x)))


def as_mean(scale: Any, shift: Any) -> tuple[Any, Any]:
    """Mean and deviation of DALI's ``(x - mean) / stddev`` for our ``scale * x + shift``."""
    return -shift / scale, 1 / scale
