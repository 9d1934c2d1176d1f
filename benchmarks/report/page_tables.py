"""The tables of the page of the comparison: loaders by a figure, and loaders that are better than Stoker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from stoker.benchmarks.peers import TITLES
from stoker.benchmarks.peers.text import TEXT_TITLES

__all__ = ["Column", "ColumnSpec", "Figure", "Row", "Table", "make_table"]

_TITLES = TITLES | TEXT_TITLES
ColumnSpec: TypeAlias = tuple[str, str, str, str | Callable[[Mapping[str, Any]], Any]]
"""Title, best figures ("most", "least" or ""), format, and key or function of a loader, of a column."""


@dataclass(frozen=True)
class Figure:
    """A figure and its text; words have None."""

    value: float | None
    text: str


@dataclass(frozen=True)
class Column:
    """A column: its title, and which of its figures are better, "most" or "least"; "" for words."""

    title: str
    best: str


@dataclass(frozen=True)
class Row:
    """A loader in a table.

    Attributes:
        name: Name of the loader.
        figures: A figure for each column; the first one is the length of the bar.
    """

    name: str
    figures: tuple[Figure, ...]

    @property
    def title(self) -> str:
        """Title of the loader."""
        return _TITLES[self.name]

    @property
    def ours(self) -> bool:
        """Whether this is Stoker."""
        return self.name.startswith("stoker")


@dataclass(frozen=True)
class Table:
    """A table, which is also a panel of the picture.

    Attributes:
        title: Title of the panel.
        columns: The columns; the first one decides the order.
        rows: The loaders with figures, the best first.
        notes: Lines below the table: differences between loaders, and those without figures.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def better(self) -> dict[str, list[str]]:
        """Return the loaders that are better than the best of Stoker, with their figures, by column."""
        found = {}
        for number, column in enumerate(self.columns):
            sign = {"most": 1, "least": -1}.get(column.best, 0)
            figures = [(row, row.figures[number]) for row in self.rows]
            ours = [sign * (figure.value or 0) for row, figure in figures if row.ours]
            found[column.title] = [
                f"{row.title} ({figure.text})"
                for row, figure in figures
                if sign and ours and sign * (figure.value or 0) > max(ours)
            ]
        return {title: names for title, names in found.items() if names}


def make_table(
    title: str, columns: Sequence[ColumnSpec], loaders: Sequence[Mapping[str, Any]], *, ours: str = ""
) -> Table:
    """Return a table.

    Args:
        title: Title of the panel.
        columns: The columns.
        loaders: Loaders of the document, with those that have no figures.
        ours: Title of a column with the figure of Stoker over that of each loader; none if empty.
    """
    rows = [
        Row(one["name"], tuple(_figure(one, *column[1:]) for column in columns))
        for one in loaders
        if not one["missing"]
    ]
    sign = 1 if columns[0][1] == "least" else -1
    rows.sort(key=lambda row: sign * (row.figures[0].value or 0))
    named = [Column(name, best) for name, best, *_ in columns]
    if ours:
        own = max(row.figures[0].value or 0 for row in rows if row.ours)
        named.insert(1, Column(ours, ""))
        rows = [_with_ratio(row, own) for row in rows]
    noted = [one for one in loaders if one.get("notes") and not one["missing"]]
    notes = [f"{_TITLES[one['name']]}: {'; '.join(one['notes'])}." for one in noted]
    notes += [f"{_TITLES[one['name']]}: not measured, {one['missing']}." for one in loaders if one["missing"]]
    return Table(title, tuple(named), tuple(rows), tuple(notes))


def _figure(
    one: Mapping[str, Any], best: str, form: str, value: str | Callable[[Mapping[str, Any]], Any]
) -> Figure:
    found = one[value] if isinstance(value, str) else value(one)
    return Figure(found if best else None, format(found, form))


def _with_ratio(row: Row, own: float) -> Row:
    first, *others = row.figures
    return Row(row.name, (first, Figure(None, f"{own / (first.value or own):.1f}"), *others))
