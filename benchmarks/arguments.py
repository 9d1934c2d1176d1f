"""The command lines of the benchmarks: arguments that several have, lines of progress, and the JSON file."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_PHOTOGRAPHS = Path("examples", "photos", "train")
_SOURCES = Path(__file__).resolve().parents[1]
PHOTOGRAPHS = _SOURCES / _PHOTOGRAPHS if (_SOURCES / _PHOTOGRAPHS).is_dir() else _PHOTOGRAPHS
"""The photographs that Stoker's sources hold; of an installed package, those in the current folder."""
_SHARED: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "dataset": ("dataset", {"type": Path}),
    "source": (
        "--source",
        {"type": Path, "default": PHOTOGRAPHS, "help": "photographs, with one directory for each class"},
    ),
    "work": (
        "--work",
        {"type": Path, "default": Path("build/benchmarks"), "help": "folder for the datasets"},
    ),
    "scratch": ("--work", {"type": Path, "help": "folder for temporary files"}),
    "threads": ("--threads", {"type": int, "help": "threads of each loader; by default as many as cores"}),
    "json": ("--json", {"type": Path, "help": "file for all figures, as JSON"}),
}


def make_parser(
    description: str | None, *shared: str, rounds: int | None = None, copies: int | None = None
) -> argparse.ArgumentParser:
    """Return a parser whose help shows the docstring of a program with its line breaks."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in shared:
        flag, options = _SHARED[name]
        parser.add_argument(flag, **options)
    if rounds is not None:
        parser.add_argument("--rounds", type=int, default=rounds, help="timed turns of each")
    if copies is not None:
        text = "number of photographs, copies of those of the source"
        parser.add_argument("--copies", type=int, default=copies, help=text)
    return parser


def run_module(module: str, *arguments: object) -> Any:
    """Return the JSON that a module prints when a new process runs it."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def report(line: str) -> None:
    """Print a line of progress to standard error."""
    print(line, file=sys.stderr, flush=True)


def write_json(path: Path | None, document: Any) -> None:
    """Write figures into the file of ``--json``, if one is given."""
    if path is not None:
        path.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
