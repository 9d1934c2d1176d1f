"""The check that a source of text is text, before its bytes become tokens."""

from __future__ import annotations

from pathlib import Path

from stoker.errors import SourceError

START_BYTES = 4096
"""Bytes at the start of a file that :func:`check_text` needs."""

_TABLES = (".csv", ".tsv", ".arrow", ".feather", ".orc", ".avro", ".xls", ".xlsx")
_COMPRESSED = {
    b"\xfd7zXZ\0": "xz",
    b"BZh91AY&SY": "bzip2",
    b"PK\x03\x04": "zip",
    b"\x04\x22\x4d\x18": "lz4",
}
_BINARY = {
    b"PAR1": "Parquet",
    b"ARROW1": "Arrow",
    b"FEA1": "Feather",
    b"Obj\x01": "Avro",
    b"%PDF-": "PDF",
    b"SQLite format 3": "SQLite",
    b"\x89HDF": "HDF5",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
_JSON_LINES = (
    "write its texts to JSON Lines, one object in each line; with pandas: "
    "to_json(PATH, orient='records', lines=True)"
)


def check_text(path: Path, start: bytes) -> None:
    """Check that a file holds lines of text, by its suffix and its first bytes, unpacked."""
    for signature, name in _COMPRESSED.items():
        if start.startswith(signature):
            raise SourceError(
                f"the file is compressed with {name}, not with gzip or zstd",
                path=path,
                hint="unpack it, or compress it with gzip or zstd",
            )
    if start.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd")):
        raise SourceError("the file is compressed twice", path=path, hint="unpack it once")
    for signature, name in _BINARY.items():
        if start.startswith(signature):
            hint = "convert it to UTF-8" if name == "UTF-16" else _JSON_LINES
            raise SourceError(f"the file is no text in UTF-8, but {name}", path=path, hint=hint)
    if b"\0" in start:
        raise SourceError("the file is binary, no text: it has a zero byte", path=path, hint=_JSON_LINES)
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:] if suffix.lower() not in (".gz", ".zst")]
    if suffixes and suffixes[-1] in _TABLES:
        raise SourceError(f"a {suffixes[-1]} file is a table, not lines of text", path=path, hint=_JSON_LINES)
