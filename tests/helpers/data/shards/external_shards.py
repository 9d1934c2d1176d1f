"""Shards as other programs write them: TFRecord files of Examples, and LMDB."""

import os
from collections.abc import Mapping
from pathlib import Path

import lmdb as py_lmdb

from stoker.formats.containers import tfrecord
from stoker.formats.containers.lmdb import encode_datum
from stoker.formats.containers.protobuf import Feature, encode_example


def write_tfrecord(path: Path, examples: list[Mapping[str, Feature]]) -> Path:
    with tfrecord.TFRecordWriter(path) as writer:
        for features in examples:
            writer.write(b"", encode_example(features)[0], b"", b"")
        writer.finish()
    path.with_suffix(".idx").unlink()
    return path


def write_lmdb(path: Path, values: Mapping[bytes, bytes]) -> Path:
    with py_lmdb.open(os.fspath(path), map_size=1 << 26) as env, env.begin(write=True) as txn:
        for key, value in values.items():
            txn.put(key, value)
    return path


def example(image: bytes, label: int, **more: Feature) -> dict[str, Feature]:
    return {"image/encoded": image, "image/class/label": [label], **more}


def datum(image: bytes, label: int) -> bytes:
    return image.join(encode_datum(payload_bytes=len(image), height=1, width=1, label=label))
