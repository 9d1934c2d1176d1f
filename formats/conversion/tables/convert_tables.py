"""``stoker convert`` of tables: rows of Parquet or Arrow files, one after the other, go to a writer."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from stoker.errors import ConfigError

from ..run import no_progress
from ..samples.writer import Writer
from .table_columns import find_columns
from .table_files import find_tables, open_table

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from ..execution import Summary
    from ..run import Progress

__all__ = ["convert_tables"]

_TICK = 0.1  # seconds between two reports of progress
_LACKS = {"image": "row without an image", "label": "row without a label"}


def convert_tables(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    *,
    fields: Mapping[str, str | None] | None,
    num_threads: int | None,
    progress: Progress | None,
    **options: Any,
) -> Summary:
    """Convert the images in the rows of tables, in the order of the files and of their rows.

    Args:
        src: A Parquet file, a pattern or URL of some, a folder of them, or one of ``save_to_disk``.
        dst: Folder to write.
        fields: image, label, key, or the name in the dataset, by the name of a column; None leaves one out.
        num_threads: Threads that encode.
        progress: Called about ten times a second.
        options: Options of :class:`stoker.Writer`.

    Raises: As :func:`stoker.convert`; SourceError for a table that is damaged or differs from the first one.
    """
    report = progress or no_progress
    report(0, 0, 0, "listing")
    tables = [open_table(path) for path in find_tables(src)]
    columns = find_columns(tables, fields or {})
    total, done, shown = sum(table.rows for table in tables), 0, 0.0
    if not total:
        raise ConfigError("the table has no rows", path=src, hint="name a table with samples")
    if options["classes"] is None:
        options["classes"] = columns.classes
    with Writer(dst, num_threads=num_threads, **options) as writer:
        for table in tables:
            first = done
            for batch in _read_ahead(table.batches(columns.all)):
                for sample in columns.samples(batch):
                    _write(writer, f"{table.name}/{done - first:08d}", sample)
                    done += 1
                if time.monotonic() - shown > _TICK:
                    shown = time.monotonic()
                    report(done, total, 0, "converting")
        report(done, total, 0, "publishing")
        return writer.close()


def _read_ahead(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches while a thread decompresses the next one."""
    with ThreadPoolExecutor(1, thread_name_prefix="stoker-table") as thread:
        following = thread.submit(next, batches, None)
        while (batch := following.result()) is not None:
            following = thread.submit(next, batches, None)
            yield batch


def _write(writer: Writer, key: str, sample: dict[str, Any]) -> None:
    """Write a row, whose own key goes before ``key``; skip it if it lacks its image or its label."""
    key = sample.pop("key", None) or key
    lacks = [words for name, words in _LACKS.items() if sample.get(name, 0) is None]
    if lacks:
        writer.skip(key, lacks[0])
    else:
        writer.write(key=key, **sample)
