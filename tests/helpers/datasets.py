"""Small images, and datasets made of them without a conversion."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from helpers.images import encode, noise
from helpers.options import convert_options, writer_options
from PIL import Image

import stoker
from stoker.augment import Normalize, RandomCrop, RandomHorizontalFlip, load_recipe, save_recipe
from stoker.formats.codecs.header import read_header
from stoker.formats.containers.container import find_writing
from stoker.formats.containers.image_record import ImageRecord
from stoker.formats.conversion.image_encoder import ImageEncoder
from stoker.formats.conversion.options import ConvertOptions
from stoker.formats.conversion.plan import ConversionPlan, plan_conversion
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.dataset.index import Index, write_index
from stoker.formats.dataset.manifest import INDEX_NAME, MANIFEST_NAME, IndexFile, Manifest, Shard
from stoker.formats.dataset.versions import SHA256_NAME
from stoker.formats.files import file_digest
from stoker.formats.sources.listing import Listing

CLASSES = ("cat", "dog", "eel")


def jpeg(seed: int, height: int = 12, width: int = 16) -> bytes:
    """A JPEG of noise."""
    return encode(noise(seed, height, width), quality=80)


def wrap(container: str, row: int, size: int) -> tuple[bytes, bytes]:
    """Prefix and suffix of a record, as a conversion would write them."""
    labels = (row % len(CLASSES),)
    record = ImageRecord(f"k{row}", size, "JPEG", height=12, width=16, labels=labels, classes=CLASSES)
    return find_writing(container).wrap_image(record)


def write_shard(
    path: Path, container: str, rows: Sequence[int], payloads: Sequence[bytes]
) -> tuple[Shard, dict[str, Any]]:
    """Write one shard of the payloads at ``rows``; return it, and the columns of its samples."""
    with find_writing(container).writer(path) as writer:
        for row in rows:
            prefix, suffix = wrap(container, row, len(payloads[row]))
            writer.write(b"k%d" % row, prefix, payloads[row], suffix)
        shard = writer.finish()
    columns = {
        "offset": shard.offset,
        "length": shard.length,
        "crc": shard.crc,
        "record": np.arange(len(rows)),
    }
    return Shard(path.name, shard.data_bytes, shard.records, shard.digests.crc), columns


def list_column(values: Sequence[Sequence[float]], kind: pa.DataType) -> pa.Array:
    """An index column with a list of numbers for each sample."""
    return pa.array(values, pa.large_list(kind))


def flip_bit(dataset: Dataset, row: int, byte: int = 0) -> None:
    """Change the lowest bit of a byte of a payload."""
    shard, offset = (int(dataset.values(name, [row])[0]) for name in ("shard", "offset"))
    with dataset.data_files[shard].open("r+b") as file:
        file.seek(offset + byte)
        value = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([value ^ 1]))


def publish(folder: Path, container: str, shards: Sequence[Shard]) -> None:
    """Write the manifest that fits the index and these shards."""
    path = folder / INDEX_NAME
    index = Index.open(path)
    manifest = Manifest(
        container=container,
        sample_type="image",
        columns=index.types,
        shards=tuple(shards),
        index=IndexFile(len(index), path.stat().st_size, file_digest(path)),
        classes=CLASSES,
    )
    (folder / MANIFEST_NAME).write_text(manifest.to_json())


def rewrite_index(folder: Path, **columns: Any) -> None:
    """Replaces columns of the index of a dataset, leaves out those that are None, and mends the manifest."""
    index = Index.open(folder / INDEX_NAME)
    columns = {**{name: index.arrow(name) for name in index.types}, **columns}
    # The old file is still mapped, and would change under the map.
    write_index(folder / "new", {name: values for name, values in columns.items() if values is not None})
    path = (folder / "new").rename(folder / INDEX_NAME)
    stated = IndexFile(len(index), path.stat().st_size, file_digest(path))
    manifest = replace(Manifest.load(folder), columns=Index.open(path).types, index=stated)
    (folder / MANIFEST_NAME).write_text(manifest.to_json())
    (folder / SHA256_NAME).unlink(missing_ok=True)  # it has the digests of the old manifest


def build(folder: Path, container: str, payloads: Sequence[bytes], shards: int) -> Path:
    """Write a dataset of JPEGs, 12 x 16, whose label is row % 3 and whose key is ``k<row>``."""
    folder.mkdir(parents=True)
    n, suffix = len(payloads), find_writing(container).suffix
    blocks = np.array_split(np.arange(n), shards)
    written, parts = zip(
        *(
            write_shard(folder / f"shard-{i:05d}-of-{shards:05d}{suffix}", container, rows.tolist(), payloads)
            for i, rows in enumerate(blocks)
        ),
        strict=True,
    )
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    columns |= {"shard": np.repeat(np.arange(shards), list(map(len, blocks))), "label": np.arange(n) % 3}
    constant = {"codec": 1, "height": 12, "width": 16, "orientation": 1}
    columns |= {name: np.full(n, value) for name, value in constant.items()}
    write_index(folder / INDEX_NAME, {**columns, "key": [f"k{row}" for row in range(n)]})
    publish(folder, container, written)
    return folder


def pack(folder: Path, payloads: Sequence[bytes], columns: dict[str, Any]) -> Path:
    """Write any payloads as a dataset of one TFRecord shard; see the fixture of the same name."""
    n = len(payloads)
    shard, index = write_shard(folder / "shard-00000-of-00001.tfrecord", "tfrecord", range(n), payloads)
    index |= {"shard": np.zeros(n), "orientation": np.ones(n), "label": np.arange(n)}
    if "codec" not in columns:
        headers = [read_header(payload) for payload in payloads]
        for field in ("codec", "height", "width", "orientation"):
            index[field] = np.array([getattr(header, field) for header in headers])
    write_index(folder / INDEX_NAME, {**index, "key": [f"k{row}" for row in range(n)], **columns})
    publish(folder, "tfrecord", [shard])
    return folder


def converted(source: Any, target: Path, **options: Any) -> Dataset:
    """The dataset that a conversion of the source makes."""
    stoker.convert(source, target, **convert_options(options))
    return stoker.open(target)


def verified(folder: Path) -> Dataset:
    """The dataset in a folder, all of whose images a verification has decoded."""
    report = stoker.verify(folder, decode=True)
    assert report.ok, report.problems
    return stoker.open(folder)


def read_all(dataset: Dataset) -> list[bytes]:
    """The payload of each sample."""
    return [dataset.read(i) for i in range(len(dataset))]


def read_files(folder: Path) -> dict[str, bytes]:
    """Returns the bytes of every file below a folder, by path relative to it."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def content(listing: Listing) -> dict[str, str]:
    """Class by key."""
    labels = listing.labels.to_pylist()
    return {key: listing.classes[label] for key, label in zip(listing.keys.to_pylist(), labels, strict=True)}


def reasons(listing: Listing) -> dict[str, str]:
    return {skip.key: skip.reason for skip in listing.skipped}


def plan_images(listing: Listing, options: ConvertOptions) -> ConversionPlan:
    """Plan a conversion of the images of a listing."""
    return plan_conversion(listing, options, ImageEncoder(listing, options))


TRANSFORMS = [RandomCrop((12, 16)), RandomHorizontalFlip(), Normalize()]
IMAGES = {"batch_size": 3, "shuffle": True, "seed": 5, "ranks": stoker.Ranks(0, 1), "last_batch": "drop"}
TEXTS = {"batch_size": 2, "shuffle": True, "seed": 5, "ranks": stoker.Ranks(0, 1)}
COLUMNS = ["image", "label", "row"]
OBJECTS = ["image", "boxes", "box_labels", "keypoints", "masks", "segmentation", "score", "caption", "depth"]
IDS = ["input_ids", "attention_mask", "labels", "row"]
PACKED = ["input_ids", "segment_ids"]
LOADERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "images": ("ImageLoader", "images", {**IMAGES, "columns": COLUMNS}),
    "images-lmdb": ("ImageLoader", "images-lmdb", {**IMAGES, "columns": COLUMNS}),
    "objects": ("ImageLoader", "objects", {**IMAGES, "columns": OBJECTS, "objects": "padded"}),
    "texts": ("TextLoader", "texts", {**TEXTS, "buckets": [4, 8], "columns": IDS}),
    "texts-packed": ("TextLoader", "texts", {**TEXTS, "pack": 16, "columns": PACKED}),
}


def picture(number: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(number).integers(0, 256, (16, 20, 3), np.uint8)


def write_images(folder: Path) -> None:
    """Photographs of two classes: PNG, JPEG, and JPEG with restart markers."""
    source = folder / "source"
    for number in range(8):
        path = source / ("cat", "dog")[number % 2] / f"{number}.{('png', 'jpg')[number % 4 > 1]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture(number)).save(path)
    stoker.convert(source, folder / "images", seed=1, storage=stoker.ImageStorage(shards=2, restarts=True))
    stoker.convert(source, folder / "images-lmdb", seed=1, container="lmdb")
    for path in sorted(source.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    source.rmdir()


def write_objects(folder: Path) -> None:
    """Samples with objects, masks, and columns of numbers, texts and arrays, in two versions of a dataset."""
    names = ["cat", "dog"]
    for append in (False, True):
        options = {"append": True} if append else {"classes": names}
        with stoker.Writer(folder / "objects", **writer_options(options)) as writer:
            for number in range(4):
                writer.write(
                    picture(number),
                    key=f"{append:d}{number}",
                    boxes=[[2, 3, 9, 11], [0, 0, 6, 6]][: 1 + number % 2],
                    box_labels=names[: 1 + number % 2],
                    keypoints=[[[4, 5, 2], [7, 9, 1]], [[1, 1, 2], [0, 0, 0]]][: 1 + number % 2],
                    masks=[[[2, 3, 9, 3, 9, 11]], np.eye(16, 20) > 0][: 1 + number % 2],
                    segmentation=(picture(number)[..., 0] > 128).astype(np.uint8),
                    score=number / 4,
                    caption=f"picture {number}",
                    depth=np.full((2, 2), number, np.float32),
                )


def digest(batch: Any) -> str:
    """Returns a digest of the columns of a batch: dtypes, shapes and values."""
    found = hashlib.sha256()
    for column in batch:
        values = np.asarray(column)
        found.update(f"{values.dtype} {values.shape} ".encode() + np.ascontiguousarray(values).tobytes())
    return found.hexdigest()[:16]


def make_loader(folder: Path, name: str) -> Any:
    """Returns a loader of :data:`LOADERS`, of a release's folder."""
    kind, dataset, options = LOADERS[name]
    if kind == "ImageLoader":
        options = {**options, "transforms": load_recipe(folder / "recipe.json")}
    return getattr(stoker, kind)(folder / dataset, **options)


def main(folder: Path) -> None:
    """Writes the datasets, a recipe, and for each loader a state and digests of the batches that follow."""
    folder.mkdir(parents=True)
    write_images(folder)
    write_objects(folder)
    with stoker.TextWriter(folder / "texts", tokenizer="bytes") as writer:
        for number in range(9):
            writer.write("abcdefgh"[: 2 + number % 7])
    save_recipe(TRANSFORMS, folder / "recipe.json")
    kept = {}
    for name in LOADERS:
        with make_loader(folder, name) as loader:
            batches = iter(loader)
            next(batches)
            state = loader.state_dict()
            following = [digest(batch) for batch in [*batches, *islice(loader, 1)]]
            kept[name] = {"state": state, "batches": following}
    (folder / "loaders.json").write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))


SPECIAL = ("[UNK]", "[PAD]", "[BOS]", "[EOS]")

WORDS = Path(__file__).parents[1] / "data" / "words.json"
"""A tokenizer that knows a few words, each of which is a token; others are [UNK]."""


def write_words(path: Path, words: Iterable[str]) -> Path:
    """Write a tokenizer whose tokens are words between whitespace, with ids from 4; return its path."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": number, "content": token, **flags} for number, token in enumerate(SPECIAL)],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": {word: number for number, word in enumerate((*SPECIAL, *words))},
            "unk_token": SPECIAL[0],
        },
    }
    path.write_bytes(json.dumps(document, ensure_ascii=False, indent=0).encode())
    return path


def count_words(path: Path, texts: Iterable[str]) -> Path:
    """Write a tokenizer of all words of texts, the most frequent ones first; return its path."""
    counts = Counter(word for text in texts for word in text.split())
    words = sorted(counts, key=lambda word: (-counts[word], word))
    return write_words(path, (word for word in words if word not in SPECIAL))
