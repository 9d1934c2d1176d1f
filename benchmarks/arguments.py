"""The parser of command lines that the benchmarks share."""

from __future__ import annotations

import argparse

__all__ = ["make_parser"]


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help shows the docstring of a program with its line breaks."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
