"""What a DALI pipeline is fed for a batch, and what its graph must be able to do; no DALI in here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker.augment.params import ImageParams

if TYPE_CHECKING:
    import numpy.typing as npt

    from stoker.pipeline.engines.payloads import Payloads

__all__ = ["Batch", "Graph", "as_mean", "one_pixel_params"]


@dataclass(frozen=True)
class Graph:
    """What a pipeline must be able to do; one is built for each graph that occurs.

    Attributes:
        size: Height and width of the output.
        padded: Some ``dest`` does not fill the output.
        fill: RGB of what lies outside ``dest``.
        vertical: Some sample is mirrored vertically.
        mixing: Some sample's colour matrix mixes channels, or empties one.
        whole: ``region`` is all of ``crop`` for every sample, so that no region need be told.
        scale: Colour of all samples, where it is one that does not mix: three factors; else None.
        shift: Likewise three constants.
    """

    size: tuple[int, int]
    padded: bool
    fill: tuple[int, ...]
    vertical: bool
    mixing: bool
    whole: bool
    scale: tuple[float, ...] | None
    shift: tuple[float, ...] | None

    @classmethod
    def of(cls, params: ImageParams, color: npt.NDArray[np.float32] | None = None) -> Graph:
        """The smallest graph that executes ``params``.

        Args:
            params: Parameters of a batch.
            color: (3, 4), a matrix that is worth a graph of its own: what all samples have as a rule.
        """
        padded = bool((params.dest != np.array((0, 0, *params.size))).any())
        common = color is not None and bool((params.color == color).all()) and not _mixes(color[None])
        return cls(
            size=params.size,
            padded=padded,
            fill=tuple(int(v) for v in params.fill) if padded else (0, 0, 0),
            vertical=bool(params.flip[:, 1].any()),
            mixing=not common and _mixes(params.color),
            whole=bool((params.region == _edges(params.crop)).all()),
            scale=tuple(np.diag(color[:, :3]).tolist()) if common and color is not None else None,
            shift=tuple(color[:, 3].tolist()) if common and color is not None else None,
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
    """Payloads and parameters; ``only`` narrows the parameters to one sample."""

    graph: Graph
    params: ImageParams
    payloads: Payloads
    only: int | None = None

    def inputs(self) -> dict[str, npt.NDArray[Any]]:
        """What the graph's external sources are fed beside payloads, by name: (N, ...), C-contiguous."""
        chosen = slice(None) if self.only is None else slice(self.only, self.only + 1)
        params, graph = self.params, self.graph
        crop, region, dest, color = (
            array[chosen] for array in (params.crop, params.region, params.dest, params.color)
        )
        if self.payloads.bad:
            crop, region, dest, color = (array.copy() for array in (crop, region, dest, color))
            bad = list(self.payloads.bad)
            # One black pixel over all of the output, and its colours left as they are: zeros.
            crop[bad], region[bad], dest[bad] = (0, 0, 1, 1), (0, 0, 1, 1), (0, 0, *params.size)
            color[bad] = np.eye(3, 4)
        feeds = {
            "anchor": crop[:, :2],
            "shape": crop[:, 2:],
            "horizontal": params.flip[chosen, 0].astype(np.int32),
        }
        if not graph.whole:
            feeds["roi_start"] = (region[:, :2] - crop[:, :2]).astype(np.float32)
            feeds["roi_end"] = (region[:, 2:] - crop[:, :2]).astype(np.float32)
        if graph.mixing:
            feeds["color"] = color
        elif graph.scale is None:
            feeds["mean"], feeds["stddev"] = as_mean(np.einsum("nii->ni", color[:, :, :3]), color[:, :, 3])
        if graph.vertical:
            feeds["vertical"] = params.flip[chosen, 1].astype(np.int32)
        if graph.padded:
            feeds["dest_size"] = dest[:, 2:].astype(np.float32)
            feeds["dest_anchor"] = -dest[:, :2]
        return {name: np.ascontiguousarray(values) for name, values in feeds.items()}


def as_mean(scale: Any, shift: Any) -> tuple[Any, Any]:
    """Mean and deviation of DALI's ``(x - mean) / stddev`` for our ``scale * x + shift``."""
    return -shift / scale, 1 / scale


def one_pixel_params(graph: Graph) -> ImageParams:
    """Parameters of one sample, one pixel large, that ``graph`` executes."""
    one = np.array([[0, 0, 1, 1]], dtype=np.int32)
    return ImageParams(
        size=graph.size,
        crop=one,
        region=one.astype(np.float64),
        dest=np.array([[0, 0, *graph.size]], dtype=np.int32),
        flip=np.zeros((1, 2), dtype=np.bool_),
        color=np.eye(3, 4, dtype=np.float32)[None],
        fill=np.array(graph.fill, dtype=np.uint8),
    )
