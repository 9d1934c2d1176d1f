"""Options that are declared once, as fields of frozen dataclasses.

``option`` declares a field with its check, help and group; ``check_options`` puts the values in one form.
The command line, the checks of public functions and the reference pages read the declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any

from stoker import arguments as checks

Check = Callable[[str, Any], Any]
"""Takes the name and the value of an option; returns the value in one form, or raises ConfigError."""


@dataclass(frozen=True)
class Declaration:
    """What an option's field says beside its name, type and default."""

    help: str
    group: str  # Heading of the option in the help of a command
    check: Check | None = None  # Not called with None
    sources: tuple[str, ...] = ()  # Names of the source formats that take the option; empty for all of them
    flags: tuple[str, ...] = ()  # Names on the command line, if other than --the-name
    metavar: str | None = None  # Form of the value in the help of a command
    parse: Callable[[Any], Any] | None = None  # Makes the value of the text on the command line
    repeatable: bool = False  # Whether the command line takes the option several times, as a list of texts
    on_command_line: bool = True


def option(default: Any, help: str, group: str, **declaration: Any) -> Any:  # noqa: A002 - as argparse names it
    """Declare an option as a field of a dataclass; ``declaration`` has the other fields of Declaration."""
    return field(default=default, metadata={"option": Declaration(help, group, **declaration)})


def declarations(options: Any) -> Iterator[tuple[Field[Any], Declaration]]:
    """Yield the options that a dataclass, or an instance of one, declares, in their order."""
    for item in fields(options):
        if "option" in item.metadata:
            yield item, item.metadata["option"]


def option_group(options: type) -> Any:
    """Declare a field that holds a dataclass of further options."""
    return field(default_factory=options, metadata={"options": options})


def option_groups(options: Any) -> dict[str, type]:
    """The dataclasses of further options that a dataclass, or an instance of one, holds, by field."""
    return {item.name: item.metadata["options"] for item in fields(options) if "options" in item.metadata}


def flat_declarations(options: Any) -> Iterator[tuple[Field[Any], Declaration]]:
    """Yield the options of a dataclass, then those of its groups."""
    yield from declarations(options)
    for further in option_groups(options).values():
        yield from declarations(further)


def gather_options(options: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a function, some of which are groups of options, from all values by name."""
    arguments = {item.name: values[item.name] for item, _ in declarations(options) if item.name in values}
    for name, further in option_groups(options).items():
        names = [item.name for item, _ in declarations(further) if item.name in values]
        if names:
            arguments[name] = further(**{item: values[item] for item in names})
    return arguments


def check_options(options: Any) -> None:
    """Replace the values of an instance by their checked form; a dataclass calls it in ``__post_init__``."""
    for item, declaration in declarations(options):
        value = getattr(options, item.name)
        if declaration.check is not None and value is not None:
            object.__setattr__(options, item.name, declaration.check(item.name, value))


def given_options(options: Any) -> dict[str, Any]:
    """The values of an instance that differ from the defaults, by name."""
    values = {item.name: (getattr(options, item.name), item.default) for item, _ in declarations(options)}
    return {name: value for name, (value, default) in values.items() if value != default}


def one_of(*allowed: str) -> Check:
    """A check that a value is one of several texts."""
    return lambda name, value: checks.one_of(name, value, allowed)


def whole(least: int, most: int) -> Check:
    """A check that a value is an integer within limits."""
    return lambda name, value: checks.whole_number(name, value, least, most)
