"""The reference of the command line in Markdown, printed from the commands themselves for the site.

``python tools/docs/cli_page.py`` needs Stoker and its dependencies; :mod:`hooks` runs it.
"""

from __future__ import annotations

import re
from typing import Any

from stoker.pipeline.commands.app import COMMANDS, load_command


def prose(text: str) -> str:
    """Return a text of the help in Markdown: options as code, and no other markup."""
    escaped = re.sub(r"([\\`*_<>\[\]|])", r"\\\1", text)
    return re.sub(r"(?<![\w-])(--[a-z][\w-]*)", r"`\1`", escaped)


def terms(command: Any, context: Any, *, options: bool) -> list[str]:
    """Return a list of definitions: the arguments or the options of a command, as its help shows them."""
    records = []
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record and record[0].startswith("-") == options:
            name, text = record
            records.append(f"`{name}`\n:   {prose(text)}\n")
    return records


def section(name: str, command: Any) -> str:
    """Return the part of the page for one command: its description, examples, arguments and options."""
    context = command.context_class(command, info_name=f"stoker {name}")
    text, _, examples = command.help.partition("\b\nExamples:\n")
    parts = [
        f"## stoker {name}\n",
        f"```text\n{command.get_usage(context).removeprefix('Usage: ')}\n```\n",
        prose(text),
    ]
    if examples:
        lines = "\n".join(line.strip() for line in examples.splitlines())
        parts.append(f"```shell\n{lines}\n```\n")
    parts += terms(command, context, options=False)
    parts += terms(command, context, options=True)
    return "\n".join(parts)


def page() -> str:
    """Return the sections of all commands."""
    return "\n".join(section(name, load_command(name)) for name in COMMANDS)


if __name__ == "__main__":
    print(page())
