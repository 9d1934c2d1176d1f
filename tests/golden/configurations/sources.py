"""Images, annotations and text that are the same bytes on every machine, and datasets made of them."""

from __future__ import annotations

import gzip
import json
import shutil
import struct
import zlib
from base64 import b64decode
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from helpers.datasets import count_words
from helpers.options import text_options

import stoker

EXAMPLES = Path(__file__).parents[3] / "examples"
CLASSES = ("ant", "bee", "cow")

Array = np.ndarray[Any, Any]

OTHER_FORMATS = {
    "gif": (
        "R0lGODdhCAAGAIMAAIDAwMDAAIDAAICAwECAwECAgMAAQMAAAEBAgABAgABAQAAAQAAAAAAAAAAAAAAAACwAAAAACAAGAAAIKgAX"
        "JEhQgAAAAQcUECQwQEAAAwkQMBQgwADEggcPGFBQsOFDgRMrbkwQEAA7"
    ),
    "webp": "UklGRiwAAABXRUJQVlA4TB8AAAAvB0ABAM1lRP8DZNlIEjcfxPnj/fQE4zwyMQEtG24AAA==",
    "tiff": (
        "SUkqAHwAAACAAAZGQPFBBDw3KAtIxfHhVNxLMh9LRzBhpAQbBQjHiBpaDLSEtKGPCHg6JCyKkoUQuNqoyRFBRRQRdfPARNwHEB9C"
        "wvQiFQyHRCJRSLRibFScnKPyGRyWTymMGgRFRDS9kTFzTMCTWbzmdl4MEo+DY0JqAgoAAAEDAAEAAAAIAAAAAQEDAAEAAAAGAAAA"
        "AgEDAAMAAAD6AAAAAwEDAAEAAAAFAAAABgEDAAEAAAACAAAAEQEEAAEAAAAIAAAAFQEDAAEAAAADAAAAFgEDAAEAAAAGAAAAFwEE"
        "AAEAAAB0AAAAHAEDAAEAAAABAAAAAAAAAAgACAAIAA=="
    ),
    "bmp": (
        "Qk3GAAAAAAAAADYAAAAoAAAACAAAAAYAAAABABgAAAAAAJAAAADEDgAAxA4AAAAAAAAAAAAAyJZk5rSCBNKgIvC+QA7cXiz6fEoY"
        "mmg2tIJQ0qBu8L6MDtyqLPrIShjmaDYEhlQioG48voxa3Kp4+siWGOa0NgTSVCLwckAOjFooqnhGyJZk5rSCBNKgIvC+QA7cXiz6"
        "eEYUlmQytIJQ0qBu8L6MDtyqLPrIShjmZDIAglAeoG48voxa3Kp4+siWGOa0NgTS"
    ),
}
"""An image of 8 x 6 pixels in each format, in base 64."""


def picture(seed: int, height: int = 24, width: int = 32) -> Array:
    """Returns a picture of slopes and an edge, (H, W, 3) uint8, made with whole numbers only."""
    y, x, channel = np.ogrid[:height, :width, :3]
    slope = (x * (5 + seed % 3) + y * (9 - seed % 4) + seed * 29 + channel * (60 + 7 * seed)) % 510
    pixels = np.where(slope < 255, slope, 510 - slope)
    left, top = seed * 5 % (width // 2), seed * 3 % (height // 2)
    pixels[top : top + 6, left : left + 9] = (seed * 41 % 256, 200 - seed % 100, seed * 13 % 256)
    return pixels.astype(np.uint8)


def png(pixels: Array) -> bytes:
    """Returns a PNG, of grey values or RGB, that is not compressed: Pillow's bytes differ by version."""
    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    packed = b"\x78\x01"
    for start in range(0, len(rows), 65535):
        block = rows[start : start + 65535]
        last = start + 65535 >= len(rows)
        packed += struct.pack("<BHH", last, len(block), len(block) ^ 0xFFFF) + block
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if pixels.ndim == 3 else 0, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", packed + struct.pack(">I", zlib.adler32(rows))), (b"IEND", b""))
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def photograph(name: str) -> bytes:
    """Returns the JPEG of a photograph, named as in ``sunset-05``."""
    return (EXAMPLES / "photos" / "train" / name.rpartition("-")[0] / f"{name}.jpg").read_bytes()


def turned(jpeg: bytes, orientation: int) -> bytes:
    """Returns a JPEG with an EXIF orientation."""
    exif = b"Exif\0\0II*\0\x08\0\0\0\x01\0" + struct.pack("<HHIHHI", 0x0112, 3, 1, orientation, 0, 0)
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + jpeg[2:]


class Sandbox:
    """A temporary folder with sources and datasets, each made at its first use."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, name: str) -> Path:
        """Returns a path in the folder, whose parent exists."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write(self, name: str, data: bytes | str) -> Path:
        """Writes a file."""
        path = self.path(name)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    def removed(self, name: str) -> Path:
        """Removes a file or folder and returns its path."""
        shutil.rmtree(self.root / name, ignore_errors=True)
        return self.path(name)

    @cached_property
    def mixed_source(self) -> Path:
        """A folder with photographs, some of them turned, other formats and files to be skipped."""
        for i, name in enumerate(("sunset-05", "wine-02", "kleiber-01", "bridge-03", "fossa-04", "umang-02")):
            photo = photograph(name)
            self.write(f"mixed/{CLASSES[i % 3]}/photo/{name}.jpg", turned(photo, 3 + i) if i % 2 else photo)
        for i, (kind, data) in enumerate(OTHER_FORMATS.items()):
            self.write(f"mixed/{CLASSES[i % 3]}/other/{i}.{kind}", b64decode(data))
        for i in range(6):
            self.write(f"mixed/{CLASSES[i % 3]}/{i}.png", png(picture(i, 40 + 9 * i, 70 - 5 * i)))
        self.write("mixed/ant/cut.jpg", photograph("sunset-05")[:5000])
        self.write("mixed/bee/notes.txt", "no image")
        return self.root / "mixed"

    @cached_property
    def small_source(self) -> Path:
        """A folder of 61 pictures of 24 x 32 in three classes of different sizes."""
        for i in range(61):
            name = CLASSES[(i % 10 > 4) + (i % 10 > 7)]
            self.write(f"small/{name}/{i:02d}.png", png(picture(i)))
        return self.root / "small"

    @cached_property
    def small(self) -> Path:
        """A dataset of ``small_source`` in its order."""
        stoker.convert(self.small_source, self.path("sets/small"), storage=stoker.ImageStorage(shards=2))
        return self.root / "sets/small"

    @cached_property
    def photos(self) -> Path:
        """A dataset of eight photographs."""
        for i, name in enumerate(
            ("sunset", "wine", "kleiber", "bridge", "fossa", "umang", "free", "friends")
        ):
            self.write(f"photographs/{CLASSES[i % 3]}/{i}.jpg", photograph(f"{name}-01"))
        stoker.convert(self.root / "photographs", self.path("sets/photos"))
        return self.root / "sets/photos"

    @cached_property
    def square_source(self) -> Path:
        """A folder of eight pictures of 64 x 64."""
        for i in range(8):
            self.write(f"square/{CLASSES[i % 3]}/{i}.png", png(picture(i, 64, 64)))
        return self.root / "square"

    @cached_property
    def squares(self) -> Path:
        """A dataset of ``square_source``."""
        stoker.convert(self.square_source, self.path("sets/squares"), storage=stoker.ImageStorage(shards=2))
        return self.root / "sets/squares"

    @cached_property
    def coco_source(self) -> Path:
        """COCO's JSON of nine pictures with polygons, run lengths and keypoints, and broken objects."""
        return write_coco(self)

    @cached_property
    def coco(self) -> Path:
        """A dataset of ``coco_source``."""
        stoker.convert(
            self.coco_source,
            self.path("sets/coco"),
            source_options=stoker.SourceOptions(images=self.root / "coco/images"),
            storage=stoker.ImageStorage(shards=2),
            selection=stoker.Selection(allow_loss=1),
        )
        return self.root / "sets/coco"

    @cached_property
    def pairs_source(self) -> tuple[Path, Path]:
        """Folders of seven pictures and their masks of classes, some pixels of which are ignored."""
        for i in range(7):
            self.write(f"pairs/images/{i}.png", png(picture(i, 36, 52)))
            mask = picture(i + 3, 36, 52)[..., 0] // 60
            mask[i : i + 4, :9] = 255
            self.write(f"pairs/masks/{i}.png", png(mask))
        self.write("pairs/images/lonely.png", png(picture(9)))
        self.write("pairs/classes.txt", "sky\nsea\nland\nroad\ncar\n")
        return self.root / "pairs/images", self.root / "pairs/masks"

    @cached_property
    def pairs(self) -> Path:
        """A dataset of ``pairs_source``."""
        images, masks = self.pairs_source
        stoker.convert(
            images,
            self.path("sets/pairs"),
            source_options=stoker.SourceOptions(masks=masks),
            selection=stoker.Selection(allow_loss=1),
        )
        return self.root / "sets/pairs"

    @cached_property
    def questions(self) -> Path:
        """JSON Lines of 240 questions and answers, with lines to be skipped."""
        lines = gzip.decompress((EXAMPLES / "text/gsm8k-1000.jsonl.gz").read_bytes()).splitlines()[:240]
        lines[7:7] = [b'{"question": "", "answer": "no question"}', b"no JSON", b'{"question": "alone"}']
        return self.write("text/questions.jsonl", b"\n".join(lines) + b"\n")

    def words(self, name: str, source: Path, fields: Sequence[str] = ()) -> Path:
        """A tokenizer of the words in a source, or in the fields of its objects."""
        texts = []
        for line in source.read_text(encoding="utf-8").split("\n"):
            with suppress(ValueError, KeyError):
                texts.append([json.loads(line)[field] for field in fields] if fields else [line])
        return count_words(
            self.path(f"words/{name}/whitespace"), (text for sample in texts for text in sample)
        )

    @cached_property
    def text(self) -> Path:
        """A dataset of ``questions``."""
        fields = ("question", "answer")
        words = self.words("sets", self.questions, fields)
        options = {"tokenizer": words, "fields": fields, "seed": 2, "shards": 2}
        stoker.convert_text(self.questions, self.path("sets/text"), **text_options(options))
        return self.root / "sets/text"


def write_coco(sandbox: Sandbox) -> Path:
    """Writes pictures and the annotations of objects in them."""
    images, objects = [], []
    for i in range(9):
        sandbox.write(f"coco/images/{i}.png", png(picture(i, 48, 64)))
        images.append({"id": 50 - i, "file_name": f"{i}.png", "height": 48, "width": 64})
        for j in range(i % 4):
            x, y, w, h = 4 + 11 * j + i, 3 + 7 * j, 12 + 2 * i, 14 + i
            annotation = {"id": 10 * i + j, "image_id": 50 - i, "category_id": (1, 4, 9)[(i + j) % 3]}
            annotation |= {"bbox": [x, y, w, h], "area": w * h * 0.75, "iscrowd": 0}
            annotation["segmentation"] = [[x, y, x + w, y, x + w, y + h, x + 2, y + h - 3]]
            if annotation["category_id"] == 4:
                annotation["keypoints"] = [x + 3, y + 4, 2, x + w - 3, y + 4, 1 + j % 2, x + 5, y + h - 2, 2]
                annotation["num_keypoints"] = 3
            if j == 2:
                runs = [x * 48 + y, *[h, 48 - h] * 8, h]
                annotation["iscrowd"] = 1
                annotation["segmentation"] = {"size": [48, 64], "counts": [*runs, 3072 - sum(runs)]}
            objects.append(annotation)
    objects += [
        {"id": 900, "image_id": 50, "category_id": 77, "bbox": [1, 1, 5, 5], "area": 25},
        {"id": 901, "image_id": 49, "category_id": 1, "bbox": [90, 1, 5, 5], "area": 25},
        {"id": 902, "image_id": 3, "category_id": 1, "bbox": [1, 1, 5, 5], "area": 25},
    ]
    images.append({"id": 1000, "file_name": "missing.png", "height": 5, "width": 5})
    points = {"keypoints": ["left_eye", "right_eye", "tail"], "skeleton": [[1, 2], [1, 3]]}
    categories = [{"id": 9, "name": "cow"}, {"id": 1, "name": "ant"}, {"id": 4, "name": "bee", **points}]
    document = {"images": images, "annotations": objects, "categories": categories}
    return sandbox.write("coco/instances.json", json.dumps(document))
