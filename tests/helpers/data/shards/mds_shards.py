"""MDS shards as mosaicml-streaming's MDSWriter writes them; nothing here is shared with the reader.

mosaicml-streaming wants an older NumPy, so that the tests cannot use it. ``test_mds.py`` holds this writer to
a file that MDSWriter 0.13.0 wrote.
"""

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SIZES = {"int": 8, "float32": 4, "uint8": 1, "int16": 2}
ENCODE = {
    "int": lambda value: struct.pack("<q", value),
    "float32": lambda value: struct.pack("<f", value),
    "uint8": lambda value: struct.pack("<B", value),
    "int16": lambda value: struct.pack("<h", value),
    "str": lambda value: value.encode(),
    "str_int": lambda value: str(value).encode(),
    "json": lambda value: json.dumps(value).encode(),
}


def shard(
    columns: Mapping[str, str], samples: Sequence[Mapping[str, Any]], hashes: Sequence[str] = ()
) -> bytes:
    """The bytes of a shard; images and other encodings are given as bytes."""
    description = {
        **_description(columns),
        "compression": None,
        "hashes": list(hashes),
        "size_limit": 1 << 26,
    }
    config = json.dumps(description, sort_keys=True).encode()
    encoded = []
    for sample in samples:
        values = [ENCODE.get(columns[name], bytes)(sample[name]) for name in sorted(columns)]
        varying = [
            len(value)
            for value, name in zip(values, sorted(columns), strict=True)
            if columns[name] not in SIZES
        ]
        encoded.append(struct.pack(f"<{len(varying)}I", *varying) + b"".join(values))
    first = 4 * (len(samples) + 2) + len(config)
    offsets = [first + sum(map(len, encoded[:number])) for number in range(len(samples) + 1)]
    return struct.pack(f"<{len(samples) + 2}I", len(samples), *offsets) + config + b"".join(encoded)


def _description(columns: Mapping[str, str]) -> dict[str, Any]:
    names = sorted(columns)
    return {
        "column_names": names,
        "column_encodings": [columns[name] for name in names],
        "column_sizes": [SIZES.get(columns[name]) for name in names],
        "format": "mds",
        "version": 2,
    }


def write_mds(
    folder: Path,
    columns: Mapping[str, str],
    shards: Sequence[Sequence[Mapping[str, Any]]],
    hashes: Sequence[str] = (),
) -> Path:
    """Write a dataset: shards and ``index.json``."""
    folder.mkdir(parents=True)
    described = []
    for number, samples in enumerate(shards):
        data = shard(columns, samples, hashes)
        (folder / f"shard.{number:05}.mds").write_bytes(data)
        raw = {"basename": f"shard.{number:05}.mds", "bytes": len(data)}
        digests = {name: hashlib.new(name, data).hexdigest() for name in hashes}
        described.append(
            {**_description(columns), "samples": len(samples), "raw_data": {**raw, "hashes": digests}}
        )
    (folder / "index.json").write_text(json.dumps({"shards": described, "version": 2}))
    return folder
