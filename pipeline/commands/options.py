"""Arguments and options that several commands share, in the form that Typer reads."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection
from dataclasses import Field
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

from stoker.errors import ConfigError
from stoker.formats.options import Declaration, flat_declarations, option_groups

Command = Callable[..., Any]

Dataset = Annotated[
    str,
    typer.Argument(
        help="Folder of a dataset that convert, convert-text, index or stage wrote; FOLDER@3 is version 3."
    ),
]
Target = Annotated[
    str, typer.Argument(help="Folder or URL to write. With --val or --test it holds a folder for each split.")
]
MinVisible = Annotated[
    float,
    typer.Option(
        min=0,
        max=1,
        help="Least share of an object's box, 0 to 1, that must be visible; a loader's min_visible.",
    ),
]
MinSize = Annotated[
    float,
    typer.Option(
        min=0,
        help="Least width and height of an object's box, in pixels after transforms; a loader's min_size.",
    ),
]
Classes = Annotated[
    str | None,
    typer.Option(
        "--classes",
        "--labels",
        help="Names of the classes, label 0 first: names with commas between, a file with a name on each "
        "line, or the folder of a dataset. By default the source names them.",
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        help="Further column of the index: its name, and the part of a record that it holds, such as "
        "caption=txt or width=json:width for a tar. Repeatable.",
    ),
]
Unlabelled = Annotated[
    bool, typer.Option("--unlabelled", help="Take all images of a folder as samples without labels.")
]
Threads = Annotated[
    int | None,
    typer.Option(min=1, help="Number of threads; by default one for each core that this process may use."),
]
JsonFile = Annotated[
    Path | None, typer.Option("--json", help="Write all numbers to this file as JSON, in addition.")
]
JsonOutput = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def takes_options(*tables: type, only: Collection[str] | None = None) -> Callable[[Command], Command]:
    """Give a command the options that tables declare; it gets them as ``options``, those that were given."""

    def decorate(command: Command) -> Command:
        found = {item.name: (item, said) for table in tables for item, said in flat_declarations(table)}
        declared = {
            name: (item, said)
            for name, (item, said) in found.items()
            if said.on_command_line and (only is None or name in only)
        }
        own = inspect.signature(command, eval_str=True).parameters
        groups = [group for table in tables for group in (table, *option_groups(table).values())]
        types = {name: hint for group in groups for name, hint in get_type_hints(group).items()}
        added = [_parameter(name, types[name], item, said) for name, (item, said) in declared.items()]

        @wraps(command)
        def run(**values: Any) -> Any:
            options = {}
            for name, (item, said) in declared.items():
                value = values.pop(name)
                if value != item.default and value is not None:
                    options[name] = said.parse(value) if said.parse else value
            return command(**values, options=options)

        parameters = [parameter for name, parameter in own.items() if name != "options"]
        run.__signature__ = inspect.Signature([*parameters, *added])  # type: ignore[attr-defined]
        return run

    return decorate


def _flags(name: str, said: Declaration) -> list[str]:
    return list(said.flags) or [f"--{name.replace('_', '-')}"]


def _parameter(name: str, hint: Any, item: Field[Any], said: Declaration) -> inspect.Parameter:
    """The parameter of a command for an option: a switch, a number, or a text."""
    kinds = {part for part in (get_args(hint) or (hint,)) if part is not type(None)}
    flags = _flags(name, said)
    if bool in kinds:
        kind: Any = bool if item.default is not None else bool | None
        if item.default is not False:  # a switch that can be set off
            flags = [f"{flags[0]}/--no-{flags[0].removeprefix('--')}"]
    elif said.repeatable:
        kind = list[str] | None
    elif kinds == {int}:
        kind = int | None
    else:
        kind = str | None
    default = item.default if item.default is None or isinstance(item.default, (bool, int, str)) else None
    if kind not in (bool, bool | None, int | None) and default is not None:
        default = str(default)
    information = typer.Option(
        *flags,
        help=re.sub(r"``(\w+)``", lambda named: f"--{named[1].replace('_', '-')}", said.help),
        metavar=said.metavar,
        rich_help_panel=said.group,
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, information]
    )


def parse_columns(options: list[str] | None) -> dict[str, str] | None:
    """Return the parts of records by the names of their columns, from options such as ``caption=txt``."""
    if options is None:
        return None
    columns = {}
    for option in options:
        name, equals, part = option.partition("=")
        if not (name and equals and part):
            raise ConfigError(f"--column must be a name and a part such as caption=txt, found {option!r}")
        columns[name] = part
    return columns
