"""What the parts of the comparison share: their command lines, their lines of progress, and their JSON."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoker.benchmarks.arguments import make_parser
from stoker.benchmarks.report.machine import allowed_cores, describe

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

__all__ = ["make_part_parser", "report", "write_document"]


def make_part_parser(description: str | None, against: Sequence[str]) -> argparse.ArgumentParser:
    """Return a parser with ``--against``, which becomes a tuple of names, and ``--json``."""
    parser = make_parser(description)
    parser.add_argument(
        "--against",
        type=lambda text: tuple(text.split(",")),
        default=tuple(against),
        help=f"loaders, with commas between; by default {', '.join(against)}",
    )
    parser.add_argument("--json", type=Path, help="file for all figures, as JSON")
    return parser


def report(line: str) -> None:
    """Print a line of progress to standard error."""
    print(line, file=sys.stderr, flush=True)


def write_document(path: Path | None, loaders: Sequence[Any], **facts: Any) -> None:
    """Write the figures of each loader, the machine and ``facts`` as JSON; without a path nothing is written.

    Args:
        path: The file.
        loaders: Instances of a dataclass, one for each loader.
        facts: Further values that JSON has.
    """
    if path is not None:
        document = {
            "machine": describe(allowed_cores()),
            **facts,
            "loaders": [asdict(one) for one in loaders],
        }
        path.write_text(json.dumps(document, indent=2) + "\n")
