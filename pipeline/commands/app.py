"""The command line ``stoker``: the table of its commands, each of which is imported when it runs.

A command is the function of its name in the file of its name, or the file in :data:`_FILES`. It reads its
options, calls the library and prints the result.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Mapping
from inspect import cleandoc
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from stoker.errors import StokerError, with_details

COMMANDS = {
    "convert": "Convert images and their annotations into shards.",
    "convert-text": "Convert text into shards of token ids.",
    "index": "Make a dataset of shards that other programs wrote, or of image files, without copying them.",
    "append": "Add samples to a dataset: its next version.",
    "merge": "Make one dataset of the samples of several datasets, without copying their shards.",
    "remove": "Leave samples out of a dataset: its next version.",
    "stage": "Copy a dataset to a local disk and check every byte of it.",
    "info": "Describe a dataset: samples, classes, sizes, options.",
    "verify": "Check every byte of a dataset.",
    "preview": "Draw samples of images and what transforms make of them, or show samples of text.",
    "replay": "Show the samples of any batch of a training, such as the batch of a loss spike.",
    "buckets": "Compare ways to batch a dataset of text by length, or of images by aspect ratio.",
    "bench": "Measure images per second of Stoker and of other loaders.",
    "advise": "Say whether a training step would wait for images, and what to convert them to.",
    "cache": "List the indexes of sources that are read in place, or clear them.",
    "doctor": "Show what is installed and which engine a loader uses.",
}
"""The first sentence of each command, which ``stoker --help`` shows without importing the command."""

_FILES = {"convert-text": "convert", **dict.fromkeys(("append", "merge", "remove"), "changes")}
_SETTINGS = {"help_option_names": ["-h", "--help"]}


def load_command(name: str) -> Any:
    """Import a command, and return it as Click runs it."""
    function_name = name.replace("-", "_")
    module = importlib.import_module(f".{_FILES.get(name, function_name)}", __package__)
    function = getattr(module, function_name)
    # "\b" keeps Click from joining the lines of the examples.
    text = cleandoc(function.__doc__).replace("Examples:\n", "\b\nExamples:\n")
    command = typer.Typer(add_completion=False, rich_markup_mode="rich", context_settings=_SETTINGS)
    command.command(name, help=text)(function)
    made = typer.main.get_command(command)
    flags = {str(option.name): option.opts[0] for option in made.params if option.opts[0].startswith("--")}
    made.callback = _naming(flags, made.callback)
    return made


def _naming(flags: Mapping[str, str], command: Any) -> Any:
    """The command, whose errors also say how the options that they name are written on the command line."""

    def run(**values: Any) -> Any:
        try:
            return command(**values)
        except StokerError as error:
            text = f"{error.message} {error.hint}"
            named = [name for name in flags if re.search(rf"\b{name}{'' if '_' in name else '='}", text)]
            written = ", ".join(flags[name] for name in named if flags[name] not in text)
            if not written:
                raise
            hint = f"{error.hint or ''} On the command line: {written}.".strip()
            raise with_details(error, hint=hint) from error.__cause__

    return run


class _Commands(TyperGroup):
    """The commands, imported by name; the types are Click's, of which Typer may have a copy."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return load_command(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


app = typer.Typer(
    cls=_Commands,
    name="stoker",
    help="Convert images and text into shards, and look at, check and measure datasets.",
    epilog="stoker COMMAND --help explains a command and shows examples.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=_SETTINGS,
)


def main() -> None:
    """Run the command line; an error of Stoker, of the system, or of memory ends it with exit status 1."""
    if isinstance(sys.stdout, TextIOWrapper):  # names may have letters that its encoding lacks
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app()
    except (StokerError, OSError, MemoryError) as error:
        from .console import print_error

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
