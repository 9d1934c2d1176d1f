"""The preview of a dataset of text: samples as texts with the trained tokens marked, and a packed row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from stoker.bucketing import pack
from stoker.errors import ConfigError
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.open import open as open_dataset
from stoker.formats.text.encoder import length_column, trained_column
from stoker.formats.tokenization.decoding import make_decoder

from .page import render_text_page
from .sheet import PackedRow, Passage, ShownText, TextSheet

Decode = Callable[[Sequence[int]], str]
Int64 = npt.NDArray[np.int64]

__all__ = ["preview_text"]


def preview_text(
    dataset: str | Path,
    out: str | Path | None = None,
    *,
    samples: int = 6,
    positions: Sequence[int] | None = None,
    pack_length: int | None = None,
    seed: int = 0,
) -> TextSheet:
    """Return the texts of some samples, and write them as a page.

    Args:
        dataset: Folder of a dataset of text.
        out: HTML file to write; None writes none.
        samples: Number of samples, which are spread evenly over the dataset.
        positions: Positions of the samples in the dataset, instead of ``samples``.
        pack_length: Tokens of a packed row. One row of epoch 0 of a loader with this seed is then shown, too,
            with the usual number of sequences.
        seed: Seed of the loader.

    Raises:
        ConfigError: The dataset holds images, or an argument is wrong.
        MissingDependencyError: The tokenizer needs a package that is not installed.
    """
    if out is not None and Path(out).suffix != ".html":
        raise ConfigError(f"the preview of text is a page: out must end in .html, found {str(out)!r}")
    opened = open_dataset(dataset)
    n = len(opened)
    if positions is None:
        count = min(samples, n)
        positions = ((np.arange(count) + 0.5) * n / max(count, 1)).astype(np.int64).tolist()
    if outside := [position for position in positions if not 0 <= position < n]:
        raise ConfigError(
            f"there is no sample {outside[0]}: positions go from 0 to {n - 1}", path=opened.path
        )
    texts = _Texts(opened)
    row = None if pack_length is None else texts.packed_row(pack_length, seed)
    shown = tuple(one for position in positions for one in texts.of(position))
    sheet = TextSheet(opened.path.resolve().name, texts.facts(), shown, row, texts.marks_trained)
    if out is not None:
        Path(out).write_text(render_text_page(sheet), "utf-8")
    return sheet


class _Texts:
    """The texts of a dataset's samples."""

    def __init__(self, dataset: Dataset) -> None:
        options = dataset.manifest.options
        self._dataset = dataset
        self._fields = str(options["fields"]).split(",")
        self._dtype = np.dtype(str(options["dtype"])).newbyteorder("<")
        file = dataset.tokenizer_file() if options.get("tokenizer_digest") else None
        self._decode = make_decoder(options, file)
        self.marks_trained = any(trained_column(field) in dataset.types for field in self._fields)

    def facts(self) -> tuple[str, ...]:
        """Lines that say what the dataset holds."""
        tokens = {name: int(self._dataset.column(length_column(name)).sum()) for name in self._fields}
        parts = [f"{count:,} tokens of {name}" for name, count in tokens.items()]
        return (f"{len(self._dataset):,} samples, {', '.join(parts)}",)

    def of(self, position: int, most: int | None = None) -> list[ShownText]:
        """The fields of a sample; ``most`` tokens of each, or all."""
        dataset = self._dataset
        ids = np.frombuffer(dataset.read(position), self._dtype)
        lengths = [int(dataset.values(length_column(name), [position])[0]) for name in self._fields]
        parts = np.split(ids, np.cumsum(lengths)[:-1])
        key, label = dataset.keys([position])[0], ""
        if "label" in dataset.types:
            number = int(dataset.values("label", [position])[0])
            label = dataset.classes[number] if dataset.classes else str(number)
        return [
            ShownText(key, name, label, self._passages(name, position, part[:most]))
            for name, part in zip(self._fields, parts, strict=True)
        ]

    def _passages(self, field: str, position: int, ids: npt.NDArray[np.int32]) -> tuple[Passage, ...]:
        """A text in pieces whose tokens are all trained, or none."""
        name = trained_column(field)
        if name not in self._dataset.types:
            return (Passage(self._decode(ids.tolist()), not self.marks_trained, len(ids)),)
        edges = self._dataset.lists(name, [position]).values.clip(max=len(ids)).tolist()
        bounds = [0, *edges, len(ids)]
        pieces = pairwise(bounds)
        return tuple(
            Passage(self._decode(ids[a:b].tolist()), bool(number % 2), b - a)
            for number, (a, b) in enumerate(pieces)
            if b > a
        )

    def packed_row(self, length: int, seed: int) -> PackedRow:
        """A packed row of epoch 0 of the first field, with the median number of sequences."""
        field = self._fields[0]
        lengths = self._dataset.column(length_column(field)).astype(np.int64)
        plan = pack(lengths, length, seed=seed, epoch=0, too_long="truncate")
        order = np.argsort(np.diff(plan.offsets), kind="stable")
        pieces = plan.pieces(int(order[len(order) // 2]))
        own = zip(plan.rows[pieces].tolist(), plan.lengths[pieces].tolist(), strict=True)
        return PackedRow(length, tuple(self.of(row, tokens)[0] for row, tokens in own))
