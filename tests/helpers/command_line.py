"""The command line ``stoker`` in the process of a test."""

from __future__ import annotations

from typing import Any

from typer.testing import CliRunner

from stoker.pipeline.commands.app import app


def run(*arguments: object, **options: Any) -> str:
    """Returns what a command prints; its errors are raised, and its status must be 0."""
    result = CliRunner().invoke(app, [*map(str, arguments)], **options)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output
