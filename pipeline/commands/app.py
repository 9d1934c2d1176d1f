"""The command line ``stoker``, a registry of its commands; ``stoker --help`` lists them.

Each command is a file of this folder: it reads its options, calls one public function and prints the
result. A command imports what it needs when it runs, so that ``stoker --help`` is instant.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from inspect import cleandoc
from io import TextIOWrapper
from typing import Annotated, Any

import typer

from stoker.errors import StokerError

from .advise import advise
from .append import append
from .bench import bench
from .buckets import buckets
from .cache import cache
from .console import print_error
from .convert import convert
from .convert_text import convert_text
from .doctor import doctor
from .index import index
from .info import info
from .merge import merge
from .preview import preview
from .remove import remove
from .replay import replay
from .stage import stage
from .verify import verify

_COMMANDS: dict[str, Callable[..., Any]] = {
    "convert": convert,
    "convert-text": convert_text,
    "index": index,
    "append": append,
    "merge": merge,
    "remove": remove,
    "stage": stage,
    "info": info,
    "verify": verify,
    "preview": preview,
    "replay": replay,
    "buckets": buckets,
    "bench": bench,
    "advise": advise,
    "cache": cache,
    "doctor": doctor,
}

app = typer.Typer(
    name="stoker",
    help="Convert images and text into shards, and look at, check and measure datasets.",
    epilog="stoker COMMAND --help explains a command and shows examples.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _help_of(command: Callable[..., Any]) -> str:
    r"""Return a command's docstring; ``\b`` keeps Click from joining the lines of the examples."""
    return cleandoc(command.__doc__ or "").replace("Examples:\n", "\b\nExamples:\n")


for _name, _command in _COMMANDS.items():
    app.command(_name, help=_help_of(_command))(_command)


def main() -> None:
    """Run the command line; an error of Stoker or of the operating system ends it with exit status 1."""
    if isinstance(sys.stdout, TextIOWrapper):  # names may have letters that its encoding lacks
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app()
    except (StokerError, OSError) as error:
        print_error(error)
        sys.exit(1)


def _show_version(asked: bool) -> None:
    if asked:
        from stoker import __version__

        print(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
