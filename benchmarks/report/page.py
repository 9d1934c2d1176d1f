"""The page of the comparison and its pictures, made of the JSON files in ``benchmarks/results/comparison``.

python -m stoker.benchmarks.report.page [--results DIR] [--docs docs]
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stoker.benchmarks.arguments import make_parser
from stoker.benchmarks.report.bars import DARK, LIGHT, Bar, Panel, draw
from stoker.benchmarks.report.sections import SECTIONS, Section, Table

_ROOT = Path(__file__).resolve().parents[2]
_RESULTS = _ROOT / "benchmarks" / "results" / "comparison"
_HEAD = """# Comparison with other loaders

Every loader has a process of its own on the same cores, as many threads or workers as cores, and files of its
own format, written with its own tools. Turns alternate, and medians are shown.
[The benchmarks](../benchmarks/README.md) explain how the comparison is kept fair. `make bench` measures
everything again, and `make bench PARTS=text` one part; `python -m stoker.benchmarks.report.page` makes this
page of the results. A line below each table names the figures of other loaders that are better than Stoker's.
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
            panels = [_panel(table) for table in tables]
            for name, colours in (("light", LIGHT), ("dark", DARK)):
                files[f"images/comparison/{section.part}-{name}.svg"] = draw(panels, colours)
            parts.append(_section(section, tables, results[section.part]))
    return {"comparison.md": "\n".join([*parts, _TAIL, _machines(results)]), **files}


def _panel(table: Table) -> Panel:
    bars = [Bar(row.title, row.figures[0].value or 0.0, row.figures[0].text, row.ours) for row in table.rows]
    return Panel(table.title, bars)


def _section(section: Section, tables: tuple[Table, ...], document: Any) -> str:
    picture = f"images/comparison/{section.part}"
    lines = [
        f"## {section.title}\n",
        f"{section.text} {_facts(document)}\n",
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{picture}-dark.svg">'
        f'<img alt="{section.title}" src="{picture}-light.svg"></picture>\n',
    ]
    for table in tables:
        lines += [_table(table), ""]
        lines += [f"{_better(table)}\n"]
        if table.notes:
            lines += [*(f"- {note}" for note in table.notes), ""]
    return "\n".join([*lines, f"`python -m stoker.benchmarks.comparison --parts {section.part}`\n"])


def _facts(document: Any) -> str:
    """Return the facts of a run in a sentence."""
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
    facts = [text.format(document[name]) for name, text in words.items() if name in document]
    if "rounds" in document:
        facts.append(_rounds(document["rounds"]))
    line = ", ".join(facts)
    return f"{line[:1].upper()}{line[1:]}."


def _rounds(count: int) -> str:
    return f"{count} round{'s' * (count != 1)}"


def _table(table: Table) -> str:
    header = ("loader", *(column.title for column in table.columns))
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    for row in table.rows:
        mark = "**" if row.ours else ""
        cells = [f"{mark}{row.title}{mark}", *(figure.text for figure in row.figures)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _better(table: Table) -> str:
    better = table.better()
    if not better:
        return "No other loader has a better figure than Stoker here."
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
    parser.add_argument("--results", type=Path, default=_RESULTS)
    parser.add_argument("--docs", type=Path, default=_ROOT / "docs")
    args = parser.parse_args()
    for name, text in make_page(read_results(args.results)).items():
        path = args.docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(path)


if __name__ == "__main__":
    main()
