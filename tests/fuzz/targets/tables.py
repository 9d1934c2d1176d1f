"""Parquet files, and the Arrow files of ``save_to_disk``, with damaged footers, pages and values."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from helpers.datasets import jpeg
from mutations import mutate, pick

from stoker.formats.sources.source import Source
from stoker.formats.sources.tables import BlockImages, list_table


def make(scratch: Path) -> Callable[[np.random.Generator], bool]:
    """Attack with whole files; accepted if the images of all rows are read."""
    folder = scratch / "saved"
    folder.mkdir()
    (folder / "state.json").write_text('{"_data_files": [{"filename": "data.arrow"}]}')
    images = [{"bytes": jpeg(i), "path": f"{i}.jpg"} for i in range(4)]
    table = pa.table({"image": images, "label": [0, 1, 0, 1], "note": ["a", None, "c", "näme"]})
    plain, packed, stream = io.BytesIO(), io.BytesIO(), io.BytesIO()
    pq.write_table(table, plain, row_group_size=2, compression=None, write_page_checksum=True)
    pq.write_table(table, packed, row_group_size=3, compression="zstd")
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    corpus = [(scratch / "x.parquet", plain), (scratch / "x.parquet", packed), (folder, stream)]

    def attack(rng: np.random.Generator) -> bool:
        source, data = pick(corpus, rng)
        file = folder / "data.arrow" if source == folder else source
        file.write_bytes(mutate(data.getvalue(), rng, edits=2))
        listing = list_table(Source(source))
        blocks = listing.blocks
        assert blocks is not None
        with closing(BlockImages(blocks, None, 1)) as reader:
            for row in range(len(listing)):
                image = reader.read(int(blocks.file[row]), int(blocks.block[row]), int(blocks.row[row]))
                assert image is None or isinstance(image, bytes)
        return True

    return attack
