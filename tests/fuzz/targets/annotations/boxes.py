"""Open Images' CSV of boxes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from mutations import replace_words
from targets.listings import check_listing, list_as, write_images

_BOXES = b"ImageID,LabelName,XMin,XMax,YMin,YMax,IsGroupOf,IsInside\na,/m/01,0.1,0.5,0.2,0.6,1,0\n"
_WORDS = (b"0.5", b"1", b"ImageID", b",", b"\n", b"/", b"a", b"XMin")
_OTHERS = (b"nan", b"-1e999", b"1e308", b"../x", b"a" * 300, b"\x00", b'"', b"", b"9" * 20)


def make(scratch: Path) -> Callable[[np.random.Generator], bool]:
    """Attack with two images and a damaged file; accepted if an object is read."""
    folder = scratch / "source"
    write_images(folder)

    def attack(rng: np.random.Generator) -> bool:
        (folder / "boxes.csv").write_bytes(replace_words(_BOXES, _WORDS, _OTHERS, rng))
        return check_listing(list_as("open_images", folder / "boxes.csv"))

    return attack
