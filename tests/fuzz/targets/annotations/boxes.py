"""Lists of boxes: Open Images' CSV, CrowdHuman's lines of JSON, and MOTChallenge's sequences."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from mutations import replace_words
from targets.listings import IMAGES, check_listing, write_images

from stoker.formats.sources.detect import find_format, list_source
from stoker.formats.sources.source import Source

_FILES = {
    "boxes.csv": b"ImageID,LabelName,XMin,XMax,YMin,YMax,IsGroupOf,IsInside\na,/m/01,0.1,0.5,0.2,0.6,1,0\n",
    "boxes.odgt": b'{"ID": "a", "gtboxes": [{"tag": "person", "fbox": [1, 2, 9, 8], "extra": {"x": 1}}]}\n',
    "gt/gt.txt": b"1,1,2,3,5,6,1,1,0.5\n2,1,4,3,5,6,0,8,1\n",
    "seqinfo.ini": b"[Sequence]\nseqLength=2\nimWidth=16\nimHeight=12\nimDir=img1\nimExt=.jpg\n",
}
_SOURCES = {"boxes.csv": "open_images", "boxes.odgt": "crowdhuman", "gt/gt.txt": "mot", "seqinfo.ini": "mot"}
_WORDS = (b"0.5", b"1", b"person", b"fbox", b"ID", b",", b"\n", b"=", b"[", b'"', b"a", b"img1")
_OTHERS = (b"nan", b"-1e999", b"1e308", b"../x", b"a" * 300, b"\x00", b'"', b"%(x)s", b"", b"9" * 20)


def make(scratch: Path) -> Callable[[np.random.Generator], bool]:
    """Attack with two images and a damaged file; accepted if an object is read."""
    write_images(scratch / "img1")
    for number, name in enumerate(IMAGES, 1):
        data = (scratch / "img1" / name).read_bytes()
        (scratch / name).write_bytes(data)
        (scratch / "img1" / f"{number:06}.jpg").write_bytes(data)
    (scratch / "gt").mkdir()

    def attack(rng: np.random.Generator) -> bool:
        chosen = list(_FILES)[int(rng.integers(0, len(_FILES)))]
        for name, data in _FILES.items():
            (scratch / name).write_bytes(data)
        (scratch / chosen).write_bytes(replace_words(_FILES[chosen], _WORDS, _OTHERS, rng))
        kind = _SOURCES[chosen]
        source = Source(scratch if kind == "mot" else scratch / chosen)
        return check_listing(list_source(source, find_format(source, kind)))

    return attack
