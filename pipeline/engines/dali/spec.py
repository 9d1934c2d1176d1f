"""The specification of a DALI pipeline: what it must be able to do for a batch. Nothing here imports DALI."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from stoker.augment.params import ImageParams

from .steps import StepSignature, signatures_of


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
