"""What a DALI pipeline is fed for a batch, and what its graph must be able to do; no DALI in here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker.augment.params import ImageParams
from stoker.pipeline.engines.base import Status

if TYPE_CHECKING:
    import numpy.typing as npt

    from stoker.pipeline.engines.payloads import Payload

__all__ = ["Batch", "Graph", "one_pixel_params"]


@dataclass(frozen=True)
class Graph:
    """What a pipeline must be able to do; one is built for each graph that occurs.

    Attributes:
        size: Height and width of the output.
        padded: Some ``dest`` does not fill the output.
        fill: RGB of what lies outside ``dest``.
        vertical: Some sample is mirrored vertically.
        mixing: Some sample's colour matrix mixes channels, or empties one.
    """

    size: tuple[int, int]
    padded: bool
    fill: tuple[int, ...]
    vertical: bool
    mixing: bool

    @classmethod
    def of(cls, params: ImageParams) -> Graph:
        """The smallest graph that executes ``params``."""
        padded = bool((params.dest != np.array((0, 0, *params.size))).any())
        fill = tuple(int(v) for v in params.fill) if padded else (0, 0, 0)
        return cls(params.size, padded, fill, bool(params.flip[:, 1].any()), _mixes(params.color))


def _mixes(color: npt.NDArray[np.float32]) -> bool:
    scale = np.einsum("nii->ni", color[:, :, :3])
    diagonal = scale[:, :, None] * np.eye(3, dtype=np.float32)
    return not np.array_equal(color[:, :, :3], diagonal) or bool((scale == 0).any())


@dataclass(frozen=True)
class Batch:
    """Payloads and parameters; ``only`` narrows the parameters to one sample."""

    graph: Graph
    params: ImageParams
    payloads: list[Payload]
    only: int | None = None

    def inputs(self) -> dict[str, Any]:
        """What the graph's external sources are fed, by name."""
        chosen = slice(None) if self.only is None else slice(self.only, self.only + 1)
        params = self.params
        crop, region, dest, color = (
            array[chosen].copy() for array in (params.crop, params.region, params.dest, params.color)
        )
        bad = [i for i, payload in enumerate(self.payloads) if payload.status != Status.OK]
        # One black pixel over all of the output, and its colours left as they are: zeros.
        crop[bad], region[bad], dest[bad] = (0, 0, 1, 1), (0, 0, 1, 1), (0, 0, *params.size)
        color[bad] = np.eye(3, 4)
        feeds = {
            "payload": [payload.data for payload in self.payloads],
            "anchor": crop[:, :2],
            "shape": crop[:, 2:],
            "roi_start": (region[:, :2] - crop[:, :2]).astype(np.float32),
            "roi_end": (region[:, 2:] - crop[:, :2]).astype(np.float32),
            "horizontal": params.flip[chosen, 0].astype(np.int32),
        }
        if self.graph.mixing:
            feeds["color"] = color
        else:
            # DALI computes (x - mean) / stddev; ours is scale * x + shift.
            scale = np.einsum("nii->ni", color[:, :, :3])
            feeds |= {"mean": -color[:, :, 3] / scale, "stddev": 1 / scale}
        if self.graph.vertical:
            feeds["vertical"] = params.flip[chosen, 1].astype(np.int32)
        if self.graph.padded:
            feeds["dest_size"] = dest[:, 2:].astype(np.float32)
            feeds["dest_anchor"] = -dest[:, :2]
        return feeds


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
