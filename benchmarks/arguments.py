"""The parser of command lines, and the file of figures, that the benchmarks share."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

__all__ = ["make_parser", "write_json"]


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help shows the docstring of a program with its line breaks."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def write_json(path: Path | None, document: Any) -> None:
    """Write figures into the file of ``--json``, if one is given."""
    if path is not None:
        path.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
