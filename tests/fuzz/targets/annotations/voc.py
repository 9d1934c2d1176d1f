"""Pascal VOC's XML."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from mutations import replace_words
from targets.listings import IMAGES, check_listing, list_as, write_images

_OBJECT = """<object><name>{}</name><difficult>0</difficult><truncated>1</truncated>
<bndbox><xmin>2</xmin><ymin>3.5</ymin><xmax>9</xmax><ymax>11</ymax></bndbox></object>"""
_TURNED = """<object><name>cat</name><attributes>
<attribute><name>rotation</name><value>30.0</value></attribute></attributes><bndbox><xmin>2</xmin><ymin>3</ymin><xmax>9</xmax><ymax>9</ymax></bndbox>
<part><name>head</name><bndbox><xmin>3</xmin></bndbox></part></object>"""
_XML = f"""<?xml version="1.0" encoding="utf-8"?><!-- a comment -->
<annotation><filename>{IMAGES[0]}</filename><size><width>16</width><height>12</height></size>
{_OBJECT.format("cat")}{_TURNED}{_OBJECT.format("dog &amp; <![CDATA[eel]]>")}</annotation>""".encode()
_WORDS = (
    b"name",
    b"object",
    b"bndbox",
    b"xmin",
    b"filename",
    b"size",
    b"robndbox",
    b"rotation",
    b"30.0",
    b"utf-8",
    b"16",
    b"3.5",
    b"<",
    b">",
)
_OTHERS = (
    b"nan",
    b"inf",
    b"-1e999",
    b"utf-16",
    b"cp037",
    b"../x",
    b"robndbox",
    b"a" * 300,
    b"&#0;",
    b"]]>",
    b"",
    b"xmin",
)


def make(scratch: Path) -> Callable[[np.random.Generator], bool]:
    """Attack with a folder of two images; accepted if the annotation that was damaged has an object."""
    write_images(scratch / "JPEGImages")
    annotations = scratch / "Annotations"
    annotations.mkdir()
    (annotations / "b.xml").write_bytes(_XML.replace(IMAGES[0].encode(), IMAGES[1].encode()))

    def attack(rng: np.random.Generator) -> bool:
        (annotations / "a.xml").write_bytes(replace_words(_XML, _WORDS, _OTHERS, rng))
        listing = list_as("voc", scratch)
        return check_listing(listing) and not any("a.xml" in str(skip) for skip in listing.skipped)

    return attack
