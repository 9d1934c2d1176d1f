"""RecordIO files as MXNet writes them, after its documented layout; nothing here is shared with the reader.

dmlc-core's include/dmlc/recordio.h describes records, mxnet/python/mxnet/recordio.py the header of an image.
"""

import struct
from collections.abc import Sequence
from pathlib import Path

MAGIC = b"\x0a\x23\xd7\xce"


def record(value: bytes) -> bytes:
    """A record: whole, or cut at every aligned magic number as ``RecordIOWriter::WriteRecord`` does."""
    cuts = [at for at in range(0, len(value) - 3, 4) if value[at : at + 4] == MAGIC]
    starts, ends = [0, *(cut + 4 for cut in cuts)], [*cuts, len(value)]
    written = b""
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        flag = 0 if not cuts else 1 if number == 0 else 3 if number == len(cuts) else 2
        written += MAGIC + struct.pack("<I", flag << 29 | end - start) + value[start:end]
    return written + bytes(-len(written) % 4)


def image(payload: bytes, label: float | Sequence[float], id: int) -> bytes:  # noqa: A002 - the field's name
    """The value of an image, as ``mxnet.recordio.pack`` makes it."""
    if isinstance(label, float | int):
        return struct.pack("IfQQ", 0, label, id, 0) + payload
    numbers = struct.pack(f"{len(label)}f", *label)
    return struct.pack("IfQQ", len(label), 0, id, 0) + numbers + payload


def write_recordio(path: Path, values: Sequence[bytes], *, with_index: bool = False) -> Path:
    """Write a file, and with ``with_index`` the ``.idx`` file of ``MXIndexedRecordIO`` beside it."""
    records = [record(value) for value in values]
    path.write_bytes(b"".join(records))
    if with_index:
        offsets = [sum(map(len, records[:number])) for number in range(len(records))]
        path.with_suffix(".idx").write_text("".join(f"{key}\t{at}\n" for key, at in enumerate(offsets)))
    return path
