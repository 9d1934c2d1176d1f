"""labelme's JSON beside its image."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from mutations import as_text, mutate_document
from targets.listings import IMAGES, check_listing, list_as, write_images

_SHAPES = [
    {"label": "cat", "shape_type": "polygon", "group_id": 1, "points": [[1, 1], [9, 1], [9.5, 7]]},
    {"label": "cat", "shape_type": "polygon", "group_id": 1, "points": [[2, 2], [4, 2], [4, 5]]},
    {"label": "dog", "shape_type": "rectangle", "group_id": None, "points": [[9, 8], [3, 2]]},
    {"label": "eel", "shape_type": "circle", "points": [[6, 6], [6, 9]]},
]
_DOCUMENT = {"imagePath": f"..\\{IMAGES[0]}", "imageHeight": 12, "imageWidth": 16, "shapes": _SHAPES}


def make(scratch: Path) -> Callable[[np.random.Generator], bool]:
    """Attack with a folder of two images; accepted if the annotation that was damaged has an object."""
    folder = scratch / "set"
    write_images(folder)
    (folder / "b.json").write_bytes(as_text({**_DOCUMENT, "imagePath": IMAGES[1]}, np.random.default_rng(0)))

    def attack(rng: np.random.Generator) -> bool:
        (folder / "a.json").write_bytes(as_text(mutate_document(_DOCUMENT, rng), rng))
        listing = list_as("labelme", folder)
        return check_listing(listing) and not any("a.json" in str(skip) for skip in listing.skipped)

    return attack
