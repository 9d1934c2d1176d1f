"""Conversions: the bytes of shards, index and manifest."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from helpers.options import convert_options
from PIL import Image

import stoker
from stoker.formats.dataset.versions import SHA256_NAME

from .results import Local, Pixels, digest
from .sources import CLASSES, Sandbox, photograph, picture, png

EXACT = (".tfrecord", ".idx", ".jsonl", "tokenizer.json")
"""Files that are the same with any version of Arrow and LMDB, where bytes are kept."""


def files(sandbox: Sandbox, folder: Path, *, kept: bool = True) -> dict[str, Any]:
    """Returns a digest of each file in the folder of a dataset, or of several datasets.

    Args:
        sandbox: The folder with all datasets.
        folder: The folder of the dataset or datasets.
        kept: Whether the conversion kept the bytes of images, so that digests hold on any machine.
    """
    results: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != SHA256_NAME:  # it follows from the other files
            # A dataset of external shards names their paths, which are in a temporary folder.
            value = digest(path.read_bytes().replace(bytes(sandbox.root), b"<root>"))
            exact = kept and path.name.endswith(EXACT)
            results[f"{folder.name}/{path.relative_to(folder)}"] = value if exact else Local(value)
    return results


def content(folder: Path, *, kept: bool = True) -> dict[str, Any]:
    """Returns what a dataset holds: manifest, columns of the index and payloads."""
    dataset = stoker.open(folder)
    manifest = json.loads((folder / "dataset.json").read_text())
    del manifest["index"], manifest["shards"]
    rows = range(len(dataset))
    columns = {name: column(dataset, name) for name in dataset.columns}
    payloads = [dataset.read(row) for row in rows]
    results: dict[str, Any] = {"manifest": manifest, "fingerprint": Local(dataset.fingerprint)}
    if kept:
        return {**results, "columns": columns, "payloads": payloads}
    results |= {"columns": Local(columns), "payloads": Local(payloads)}
    sizes = [dataset.column(name) for name in ("codec", "height", "width", "orientation")]
    results |= {"keys": dataset.keys(rows), "sizes": sizes}
    images = list(map(cells, payloads, np.stack(sizes, 1)))
    return {**results, "pixels": Pixels(np.stack(images))}


def column(dataset: stoker.Dataset, name: str) -> Any:
    """Returns a column of the index: strings, numbers or lists of numbers."""
    rows = range(len(dataset))
    if name == "key":
        return dataset.keys(rows)
    return dataset.lists(name, rows) if "list" in dataset.types[name] else dataset.column(name)


def cells(payload: bytes, size: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns a stored image at 16 x 16, for its summary."""
    codec, height, width, _ = size.tolist()
    if codec == 0:
        image = Image.frombytes("RGB", (width, height), payload)
    else:
        image = Image.open(io.BytesIO(payload)).convert("RGB")
    return np.asarray(image.resize((16, 16), Image.Resampling.BOX))


def prefixed(prefix: str, results: dict[str, Any]) -> dict[str, Any]:
    """Returns the results under longer names."""
    return {f"{prefix}/{name}": value for name, value in results.items()}


def convert(sandbox: Sandbox, name: str, source: Any, *, kept: bool = True, **options: Any) -> dict[str, Any]:
    """Converts a source and returns the files, the content and the summary of the dataset."""
    folder = sandbox.removed(f"converted/{name}")
    summary = stoker.convert(source, folder, **convert_options({"allow_loss": 1, **options}))
    results = {**files(sandbox, folder, kept=kept), **prefixed(name, content(folder, kept=kept))}
    return {**results, f"{name}/summary": [summary.written, summary.skipped, summary.shards]}


def keep_tfrecord(sandbox: Sandbox) -> dict[str, Any]:
    """All formats as they are, shuffled."""
    return convert(sandbox, "keep", sandbox.mixed_source, seed=3, shards=3)


def keep_lmdb(sandbox: Sandbox) -> dict[str, Any]:
    """The same in LMDB, in order, and by records of a shard."""
    return convert(sandbox, "lmdb", sandbox.mixed_source, format="lmdb", shard_records=5)


def classes_and_splits(sandbox: Sandbox) -> dict[str, Any]:
    """Held-out shares, classes in another order and classes of the first folder."""
    folder = sandbox.removed("converted/splits")
    stoker.convert(
        sandbox.small_source,
        folder,
        val="20%",
        test=0.1,
        seed=5,
        storage=stoker.ImageStorage(shard_records=9),
    )
    results = files(sandbox, folder)
    for split in ("train", "val", "test"):
        results |= prefixed(split, content(folder / split))
    classes = ("cow", "ant", "none", "bee")
    results |= convert(sandbox, "named", sandbox.small_source, classes=classes, shard_size="20KB")
    return {**results, **convert(sandbox, "depth", sandbox.mixed_source, class_depth=1)}


def resized(sandbox: Sandbox) -> dict[str, Any]:
    """Every way to resize."""
    results: dict[str, Any] = {}
    modes = ("shorter=32", "longer=40", "squash=24x36", "crop=30x30", "fill=28x44")
    for mode in modes:
        name = mode.replace("=", "-")
        results |= convert(sandbox, name, sandbox.mixed_source, kept=False, resize=mode, seed=1)
    return results


def encoded(sandbox: Sandbox) -> dict[str, Any]:
    """Every encoding; raw pixels of PNG are exact."""
    mixed = sandbox.mixed_source
    results = convert(sandbox, "raw", sandbox.small_source, encoding="raw", shards=2)
    results |= convert(sandbox, "raw-lmdb", sandbox.small_source, encoding="raw", format="lmdb")
    results |= convert(sandbox, "png", mixed, kept=False, encoding="png", resize="shorter=40")
    results |= convert(sandbox, "jpeg", mixed, kept=False, encoding="jpeg")
    options: dict[str, Any] = {"encoding": "jpeg", "quality": 75, "subsampling": "444", "resize": "longer=64"}
    return {**results, **convert(sandbox, "jpeg-75", mixed, kept=False, **options)}


def lists(sandbox: Sandbox) -> dict[str, Any]:
    """Lists in CSV, JSON and JSON Lines: numbers, names, several labels, further columns."""
    for i in range(8):
        sandbox.write(f"listed/{i}.png", png(picture(i, 12, 15)))
    lines = [f"{i}.png,{i * 3 % 4},{i / 4}" for i in range(8)]
    numbers = sandbox.write("listed/numbers.csv", "\n".join(["path,label,score", *lines, "none.png,1,0"]))
    several = [f"{i}.png,{'|'.join(CLASSES[: i % 4])}" for i in range(8)]
    labels = sandbox.write("listed/several.csv", "\n".join(["path,labels", *several]))
    rows = [{"path": f"{i}.png", "label": CLASSES[i * 2 % 3], "group": i // 2} for i in range(8)]
    names = sandbox.write("listed/names.jsonl", "\n".join(map(json.dumps, rows)))
    rows = [{"path": f"{i}.png", "labels": list(range(i % 3))} for i in range(8)]
    whole = sandbox.write("listed/whole.json", json.dumps(rows))
    results = convert(sandbox, "numbers", numbers) | convert(sandbox, "several", labels, seed=4)
    return results | convert(sandbox, "names", names, format="lmdb") | convert(sandbox, "whole", whole)


def coco(sandbox: Sandbox) -> dict[str, Any]:
    """COCO as it is, in both containers, and resized with its objects."""
    source, images = sandbox.coco_source, sandbox.root / "coco/images"
    results = convert(sandbox, "coco", source, images=images, seed=1, shards=2)
    results |= convert(sandbox, "coco-lmdb", source, images=images, format="lmdb")
    for mode in ("crop=30x30", "fill=40x40", "shorter=24"):
        name = "coco-" + mode.replace("=", "-")
        results |= convert(sandbox, name, source, images=images, resize=mode, kept=False)
        results[f"{name}/objects"] = objects(sandbox.root / "converted" / name)
    return {**results, "objects": objects(sandbox.root / "converted/coco")}


def objects(folder: Path) -> Any:
    """Returns the annotations of a dataset."""
    dataset = stoker.open(folder)
    return dataset.annotations(range(len(dataset)))


def voc(sandbox: Sandbox) -> dict[str, Any]:
    """Pascal VOC's folder, and a list of it."""
    for i in range(5):
        sandbox.write(f"voc/JPEGImages/{i}.jpg", photograph(f"bridge-0{i}"))
        with Image.open(sandbox.root / f"voc/JPEGImages/{i}.jpg") as image:
            size = image.size
        parts = [
            f"<filename>{i}.jpg</filename><size><width>{size[0]}</width><height>{size[1]}</height></size>"
        ]
        for j in range(i % 3 + 1):
            box = zip(
                ("xmin", "ymin", "xmax", "ymax"), (5 + i, 9.5 * j + 1, 100 + 40 * j, 120 - i), strict=True
            )
            sides = "".join(f"<{side}>{value}</{side}>" for side, value in box)
            flags = f"<difficult>{j % 2}</difficult><truncated>{i % 2}</truncated>"
            parts.append(
                f"<object><name>{CLASSES[(i + j) % 3]}</name>{flags}<bndbox>{sides}</bndbox></object>"
            )
        sandbox.write(f"voc/Annotations/{i}.xml", f"<annotation>{''.join(parts)}</annotation>")
    train = sandbox.write("voc/ImageSets/Main/train.txt", "3\n0\n1\n")
    results = convert(sandbox, "voc", sandbox.root / "voc", seed=2)
    results["objects"] = objects(sandbox.root / "converted/voc")
    return {**results, **convert(sandbox, "voc-train", train, format="lmdb")}


def yolo(sandbox: Sandbox) -> dict[str, Any]:
    """YOLO's folders with boxes and outlines, and with keypoints."""
    for i in range(5):
        split = "val" if i == 3 else "train"
        for name in ("yolo", "pose"):
            sandbox.write(f"{name}/images/{split}/{i}.png", png(picture(i, 40, 80)))
        lines = [f"{(i + j) % 3} 0.{3 + j} 0.45 0.{2 + i} 0.25" for j in range(i % 3)]
        outline = "1 0.125 0.25 0.75 0.25 0.75 0.875 0.25 0.75"
        sandbox.write(f"yolo/labels/{split}/{i}.txt", "\n".join([*lines, outline, "7 nonsense"]) + "\n")
        points = [f"0 0.{4 + j} 0.5 0.25 0.5 0.{3 + j} 0.375 2 0.625 0.625 {j}" for j in range(i % 3)]
        sandbox.write(f"pose/labels/{split}/{i}.txt", "\n".join(points))
    sandbox.write("yolo/data.yaml", "names:\n  0: ant\n  1: 'bee'\n  2: cow\n")
    sandbox.write("pose/data.yaml", "names: [ant]\nkpt_shape: [2, 3]\nflip_idx: [1, 0]\n")
    results: dict[str, Any] = {}
    for name in ("yolo", "pose"):
        results |= convert(sandbox, name, sandbox.root / name, source_format="yolo", shards=2)
        results[f"{name}/objects"] = objects(sandbox.root / "converted" / name)
    return results


def pairs(sandbox: Sandbox) -> dict[str, Any]:
    """Images and masks, as they are and resized."""
    images, masks = sandbox.pairs_source
    same = "0:0,1:1,2:2,3:3,4:4"
    results: dict[str, Any] = {}
    for name, kept, options in (
        ("pairs", True, {"seed": 1}),
        ("pairs-lmdb", True, {"format": "lmdb", "ignore_index": 2, "mask_map": f"{same},255:2"}),
        ("pairs-crop", False, {"resize": "crop=24x24"}),
        ("pairs-fill", False, {"resize": "fill=32x32", "ignore_index": None, "mask_map": f"{same},255:0"}),
    ):
        results |= convert(sandbox, name, images, masks=masks, kept=kept, **options)
        dataset = stoker.open(sandbox.root / "converted" / name)
        stored = [dataset.mask(row) for row in range(len(dataset))]
        results[f"{name}/masks"] = [np.asarray(Image.open(io.BytesIO(mask))) for mask in stored]
        results[f"{name}/mask bytes"] = Local(stored)
    return results


CONFIGURATIONS = (
    keep_tfrecord,
    keep_lmdb,
    classes_and_splits,
    resized,
    encoded,
    lists,
    coco,
    voc,
    yolo,
    pairs,
)
