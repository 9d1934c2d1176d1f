"""The sections of the page of the comparison, and their tables, made from the JSON files of its parts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias
from xml.sax.saxutils import escape

from rich.console import Console
from rich.table import Table as RichTable

from ..measuring import make_parser
from ..peers import TITLES

ColumnSpec: TypeAlias = tuple[str, str, str, str | Callable[[Mapping[str, Any]], Any]]
"""Of a column: title, which values are better ("most", "least", or "" for words), format, and the key of a
loader's value or a function of the loader."""


@dataclass(frozen=True)
class Row:
    """A loader in a table."""

    title: str
    ours: bool  # Whether this is Stoker
    cells: tuple[tuple[float, str], ...]  # Value and text of each column; 0 for words


@dataclass(frozen=True)
class Table:
    """A table, which is also a panel of the picture: the first column decides the order, and has bars."""

    title: str
    columns: tuple[tuple[str, str], ...]  # Title, and which values are better
    rows: tuple[Row, ...]  # The loaders with results, the best first
    notes: tuple[str, ...]  # Differences between loaders, and the loaders without results

    def better(self) -> dict[str, list[str]]:
        """Return the loaders that are better than the best of Stoker, with their values, by column."""
        better = {}
        for number, (title, best) in enumerate(self.columns):
            sign = {"most": 1, "least": -1}.get(best, 0)
            ours = [sign * row.cells[number][0] for row in self.rows if row.ours]
            names = [
                f"{row.title} ({row.cells[number][1]})"
                for row in self.rows
                if sign and ours and sign * row.cells[number][0] > max(ours)
            ]
            if names:
                better[title] = names
        return better


def make_table(
    title: str, columns: Sequence[ColumnSpec], loaders: Sequence[Mapping[str, Any]], *, ratio: str = ""
) -> Table:
    """Return a table; ``ratio`` titles a column of Stoker's first value over each loader's."""
    measured = [one for one in loaders if not one["missing"]]
    rows = [
        Row(
            TITLES[one["name"]],
            one["name"].startswith("stoker"),
            tuple(_cell(one, *spec) for spec in columns),
        )
        for one in measured
    ]
    rows.sort(key=lambda row: row.cells[0][0] if columns[0][1] == "least" else -row.cells[0][0])
    named = [(name, best) for name, best, *_ in columns]
    if ratio:
        named.insert(1, (ratio, ""))
        own = max(row.cells[0][0] for row in rows if row.ours)
        with_ratio = ((row, (0.0, f"{own / (row.cells[0][0] or own):.1f}")) for row in rows)
        rows = [replace(row, cells=(row.cells[0], cell, *row.cells[1:])) for row, cell in with_ratio]
    notes = [f"{TITLES[one['name']]}: {'; '.join(one['notes'])}." for one in measured if one.get("notes")]
    notes += [f"{TITLES[one['name']]}: not measured, {one['missing']}." for one in loaders if one["missing"]]
    return Table(title, tuple(named), tuple(rows), tuple(notes))


def _cell(one: Mapping[str, Any], _: str, best: str, form: str, value: Any) -> tuple[float, str]:
    shown = one[value] if isinstance(value, str) else value(one)
    return (float(shown) if best else 0.0), format(shown, form)


@dataclass(frozen=True)
class Section:
    """A section of the page."""

    part: str  # Name of the part of the comparison, which is also that of the JSON file
    title: str  # Title
    text: str  # A paragraph
    tables: Callable[[Any], tuple[Table, ...]]  # Makes the tables of the file's contents


_RATIO = "Stoker is times as fast"
_MIB = 2**20


def _images(document: Sequence[Mapping[str, Any]]) -> tuple[Table, ...]:
    columns: Sequence[ColumnSpec] = (
        ("images/s", "most", ",.0f", "median_images_per_second"),
        ("CPU s per 1,000", "least", ".2f", "median_cpu_seconds_per_1000"),
        ("first batch, s", "least", ".2f", "first_batch_seconds"),
        ("peak MiB", "least", ",.0f", lambda peer: peer["peak_rss"] / _MIB),
    )
    titles = {section.part: section.title for section in SECTIONS}
    tables = []
    for one in document:
        title = titles.get(one["workload"], one["workload"])
        tables.append(make_table(f"{title}, images/s", columns, one["peers"], ratio=_RATIO))
    return tuple(tables)


def _loaders(title: str, *columns: ColumnSpec) -> Callable[[Any], tuple[Table, ...]]:
    """Return a function that makes the table of a document's loaders; ``title`` may name its values."""

    def tables(document: Mapping[str, Any]) -> tuple[Table, ...]:
        return (make_table(title.format_map(document), columns, document["loaders"]),)

    return tables


_text = _loaders(
    "Million tokens/s, without padding",
    ("million tokens/s", "most", ".2f", "million_tokens_per_second"),
    ("CPU s a million", "least", ".3f", "cpu_seconds_per_million"),
    ("padding", "least", ".1%", "padding"),
    ("first batch, s", "least", ".2f", "first_batch_seconds"),
)
_resume = _loaders(
    "First batch of the second half, s",
    ("seconds", "least", ".2f", "seconds"),
    ("from", "", "", lambda one: "a saved state" if one["saves_state"] else "the start of the epoch"),
    ("samples repeated", "least", ",d", "repeated"),
    ("samples left out", "least", ",d", "omitted"),
)
_memory = _loaders(
    "MiB after {epochs} epochs",
    ("MiB after the last epoch", "least", ",.0f", lambda one: one["memory"][-1] / _MIB),
    ("after two epochs", "least", ",.0f", lambda one: one["memory"][1] / _MIB),
    ("growth since", "least", "+,.0f", lambda one: (one["memory"][-1] - one["memory"][1]) / _MIB),
)
_conversion = _loaders(
    "Images written a second",
    ("images/s", "most", ",.0f", "images_per_second"),
    ("CPU s per 1,000", "least", ".2f", "cpu_seconds_per_1000"),
    ("bytes / bytes of the JPEGs", "least", ".3f", "bytes_over_jpegs"),
)
_remote = _loaders(
    "First epoch, images/s",
    ("first epoch, images/s", "most", ",.0f", lambda one: one["images_per_second"][0]),
    ("later epochs", "most", ",.0f", lambda one: one["images_per_second"][1]),
    ("first batch, s", "least", ".2f", "first_batch_seconds"),
)
_disk = _loaders(
    "First epoch, images/s",
    ("first epoch, images/s", "most", ",.0f", "images_per_second"),
    ("MB read", "least", ",.0f", "megabytes"),
    ("requests", "least", ",d", "requests"),
    ("first batch, s", "least", ".2f", "first_batch_seconds"),
)
_cold = _loaders(
    "First epoch of a new process, images/s",
    ("nothing in the page cache", "most", ",.0f", "cold"),
    ("all of it there", "most", ",.0f", "warm"),
    ("first batch, s", "least", ".3f", "first_batch_seconds"),
)

SECTIONS = (
    Section(
        "imagenet",
        "Photographs as they are",
        "Photographs with a long side of 500 pixels, quality 96, 110 KB on average.",
        _images,
    ),
    Section(
        "restarts",
        "With restart markers",
        "The same photographs, with restart markers in the JPEGs.",
        _images,
    ),
    Section("imagenet256", "Short side 256", "The same photographs, resized once, at quality 90.", _images),
    Section("raw256", "Raw pixels", "Pixels of photographs at short side 256, without a codec.", _images),
    Section(
        "published",
        "What FFCV and SPDL publish",
        "FFCV's recipes for ImageNet write part of the images raw and part as JPEG of quality 90, and make "
        "uint8 batches of random crops and flips at 192 pixels. SPDL's example resizes whole images to 224 "
        "pixels, in order. Stoker does the same work on the same images; for FFCV's recipes it writes the "
        "same mix.",
        _images,
    ),
    Section(
        "text",
        "Text",
        "Sequences with the lengths of GSM8K's answers, in batches of 64, padded. Random batches pad most; "
        "buckets and sorted windows pad less, and move fewer bytes.",
        _text,
    ),
    Section(
        "resume",
        "Going on in the middle of an epoch",
        "A new process goes on after half of an epoch. Loaders without a state make the first half again "
        "with the same seed. A sample that comes twice is repeated; one that neither half has is left out.",
        _resume,
    ),
    Section(
        "memory",
        "Memory",
        "All processes of a loader, without pages of mapped files; images at short side 256.",
        _memory,
    ),
    Section(
        "conversion",
        "Writing the files",
        "The same JPEGs, written by the tools of each loader without a change of their bytes. Stoker reads "
        "loose files, checks each image and syncs its shards to the disk; the others get the bytes from the "
        "page cache.",
        _conversion,
    ),
    Section(
        "remote",
        "An object store",
        "A server of S3's protocol on the same cores, which waits before each answer and shares one link. "
        "The first epoch fetches the files; later ones find what the loader has cached.",
        _remote,
    ),
    Section(
        "disk",
        "A slow disk",
        "The kernel limits each loader to the bytes and the requests of a hard disk. Nothing of its "
        "files is in the page cache. Loose files cost a request each; a shuffle of blocks reads long runs.",
        _disk,
    ),
    Section(
        "cold",
        "A new process",
        "The first epoch of a new process on raw pixels, without and with its files in the page cache.",
        _cold,
    ),
    Section("batches", "Batch sizes", "Photographs at short side 256, in batches of several sizes.", _images),
    Section("threads", "Threads", "The same, with several numbers of threads on the same cores.", _images),
)
"""All sections in the order of the page."""


_WIDTH, _LABELS, _VALUES = 760, 250, 90
"""Width of a picture, of its labels and of its values, pixels."""
_ROW, _BAR, _TITLE, _MARGIN = 24, 16, 34, 12


@dataclass(frozen=True)
class Colours:
    """Colours of a picture."""

    ground: str
    ink: str
    ours: str
    theirs: str


_COLOURS = {
    "light": Colours(ground="#ffffff", ink="#24292f", ours="#00796b", theirs="#b0bec5"),
    "dark": Colours(ground="#1e2129", ink="#e3e6eb", ours="#4db6ac", theirs="#566573"),
}


def draw(tables: Sequence[Table], colours: Colours) -> str:
    """Return a picture with the bars of each table; the longest bar of a table has the whole width."""
    top, parts = _MARGIN, []
    for table in tables:
        parts.append(_svg_text(_MARGIN, top + 17, table.title, colours.ink, "font-weight='bold'"))
        top += _TITLE
        longest = max((row.cells[0][0] for row in table.rows), default=0.0) or 1.0
        for row in table.rows:
            value, text = row.cells[0]
            length = (_WIDTH - _LABELS - _VALUES) * value / longest
            weight = "font-weight='bold'" if row.ours else ""
            fill = colours.ours if row.ours else colours.theirs
            parts += [
                _svg_text(_LABELS - 8, top + 13, row.title, colours.ink, f"text-anchor='end' {weight}"),
                f"<rect x='{_LABELS}' y='{top}' width='{max(length, 1):.1f}' height='{_BAR}' fill='{fill}'/>",
                _svg_text(_LABELS + length + 6, top + 13, text, colours.ink, weight),
            ]
            top += _ROW
        top += _MARGIN
    titles = escape("; ".join(table.title for table in tables))
    return "\n".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {top}' font-size='13' "
            "font-family='Helvetica, Arial, sans-serif'>",
            f"<title>{titles}</title>",
            f"<rect width='{_WIDTH}' height='{top}' fill='{colours.ground}'/>",
            *parts,
            "</svg>\n",
        ]
    )


def _svg_text(x: float, y: float, text: str, colour: str, more: str) -> str:
    return f"<text x='{x:.1f}' y='{y}' fill='{colour}' {more}>{escape(text)}</text>"


_ROOT = Path(__file__).resolve().parents[2]
RESULTS = _ROOT / "benchmarks" / "results" / "comparison"
_HEAD = """# Comparison with other loaders

Every loader has a process of its own on the same cores, as many threads or workers as cores, and files of its
own format, written with its own tools. Turns alternate, and medians are shown.
[The benchmarks](../benchmarks/README.md) explain how the comparison is kept fair. `make bench` measures
everything again, and `make bench PARTS=text` one part;
`python -m stoker.benchmarks.comparison.page` makes this page of the results. A line below each table names
the results of other loaders that are better than Stoker's.
"""
_TAIL = """## What the others do better

- WebDataset, LitData, Mosaic Streaming and Ray Data take any data, not images and text alone.
- Hugging Face datasets and Ray Data transform tables, and read the Hub.
- DALI decodes and augments on a GPU; nothing has been measured on one here.
- PyTorch's DataLoader runs any Python code in its workers, and most programs for PyTorch use it already.
"""


def read_results(folder: Path) -> dict[str, Any]:
    """Return the contents of the JSON file of each part that has one."""
    paths = {section.part: folder / f"{section.part}.json" for section in SECTIONS}
    return {part: json.loads(path.read_text()) for part, path in paths.items() if path.exists()}


def make_page(results: Mapping[str, Any]) -> dict[str, str]:
    """Return the page and its pictures, by their paths below ``docs``."""
    files, parts = {}, [_HEAD]
    for section in SECTIONS:
        if section.part in results:
            tables = section.tables(results[section.part])
            for name, colours in _COLOURS.items():
                files[f"images/comparison/{section.part}-{name}.svg"] = draw(tables, colours)
            parts.append(_section(section, tables, results[section.part]))
    return {"comparison.md": "\n".join([*parts, _TAIL, _machines(results)]), **files}


def print_tables(part: str, document: Any) -> None:
    """Print the tables of a part's results; those of image loaders are printed with more columns before."""
    for section in SECTIONS:
        if section.part == part and not isinstance(document, list):
            for table in section.tables(document):
                printed = RichTable("loader", *(title for title, _ in table.columns), title=table.title)
                for row in table.rows:
                    printed.add_row(row.title, *(text for _, text in row.cells))
                Console().print(printed, "\n".join(table.notes))


def _section(section: Section, tables: tuple[Table, ...], document: Any) -> str:
    picture = f"images/comparison/{section.part}"
    lines = [
        f"## {section.title}\n",
        f"{section.text} {_conditions(document)}\n",
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{picture}-dark.svg">'
        f'<img alt="{section.title}" src="{picture}-light.svg"></picture>\n',
    ]
    for table in tables:
        lines += [_table(table), ""]
        lines += [f"{_better(table)}\n"]
        if table.notes:
            lines += [*(f"- {note}" for note in table.notes), ""]
    return "\n".join([*lines, f"`python -m stoker.benchmarks.comparison --parts {section.part}`\n"])


def _conditions(document: Any) -> str:
    """Return the conditions of a run in a sentence."""
    if isinstance(document, list):
        first = document[0]
        settings = first["settings"]
        return (
            f"{first['records']:,} images, batches of {settings['batch_size']}, "
            f"{settings['num_threads']} threads, {_rounds(first['rounds'])}."
        )
    words = {
        "records": "{:,} images",
        "epochs": "{} epochs",
        "latency_ms": "{:g} ms before each answer",
        "megabytes_per_second": "at most {:g} MB/s",
        "requests_per_second": "at most {:g} requests a second",
    }
    conditions = [text.format(document[name]) for name, text in words.items() if name in document]
    if "rounds" in document:
        conditions.append(_rounds(document["rounds"]))
    line = ", ".join(conditions)
    return f"{line[:1].upper()}{line[1:]}."


def _rounds(count: int) -> str:
    return f"{count} round{'s' * (count != 1)}"


def _table(table: Table) -> str:
    header = ("loader", *(title for title, _ in table.columns))
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    for row in table.rows:
        mark = "**" if row.ours else ""
        cells = [f"{mark}{row.title}{mark}", *(text for _, text in row.cells)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _better(table: Table) -> str:
    better = table.better()
    if not better:
        return "No other loader has a better result than Stoker here."
    columns = [f"{column}: {', '.join(names)}" for column, names in better.items()]
    return f"Better than Stoker's best: {'; '.join(columns)}."


def _machines(results: Mapping[str, Any]) -> str:
    """Return the machine of each part, and the versions of the libraries."""
    machines: dict[str, list[str]] = {}
    versions: dict[str, str] = {}
    for part, document in results.items():
        for one in document if isinstance(document, list) else [document]:
            line = (
                "{cpu}, {cores} cores, {memory_gib} GiB of memory, {kernel}, Python {python}, Stoker {stoker}"
            )
            parts = machines.setdefault(line.format(**one["machine"]), [])
            parts += [part] if part not in parts else []
            for loader in one.get("peers") or one["loaders"]:
                versions |= loader.get("versions", {})
    versions.pop("stoker", None)  # the line of the machine has it
    named = ", ".join(f"{name} {number}" for name, number in sorted(versions.items()))
    listed = [f"- {line}: {', '.join(parts)}" for line, parts in machines.items()]
    return "\n".join(["## Machine and versions\n", *listed, f"- {named}", ""])


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--docs", type=Path, default=_ROOT / "docs")
    args = parser.parse_args()
    for name, text in make_page(read_results(args.results)).items():
        path = args.docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(path)


if __name__ == "__main__":
    main()
