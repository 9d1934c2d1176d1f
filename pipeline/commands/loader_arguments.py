"""Arguments of a loader on the command line, written as in a program."""

from __future__ import annotations

import ast
from typing import Any

from stoker.errors import ConfigError

from ..images.captions import Tokens
from ..images.planners import AspectBuckets, Patches
from ..images.sizes import RandomSizes, Sizes
from ..options import Padded, Ragged


def parse_sizes(text: str) -> Sizes:
    """The argument ``sizes`` of a loader."""
    words: dict[str, Sizes] = {"padded": "padded", "ragged": "ragged"}
    sizes = words.get(text) or _value(text, AspectBuckets, Patches, RandomSizes)
    if text in words or isinstance(sizes, (dict, AspectBuckets, Patches, RandomSizes)):
        return sizes
    raise ConfigError(
        f"sizes are not understood: {text!r}",
        hint="Write padded, ragged, '{0: 160, 10: 192}', 'RandomSizes(320, 608)', 'AspectBuckets(262144)' or "
        "'Patches(size=16, most=256, row=1024)'.",
    )


def with_padding(sizes: Sizes | None, multiple: int | None, factor: int | None) -> Sizes | None:
    """Padded or ragged sizes with two more options of the command line."""
    if multiple is None and factor is None:
        return sizes
    if sizes == "padded":
        return Padded(1 if multiple is None else multiple, factor)
    if sizes == "ragged" and multiple is None:
        return Ragged(factor)
    name = "--pad-to-multiple-of" if multiple is not None else "--aspect-ratio-group-factor"
    raise ConfigError(f"{name} goes with --sizes padded", hint=f"Give --sizes padded, or leave {name} out.")


def parse_caption(text: str) -> Tokens:
    """The argument ``caption`` of a loader."""
    if isinstance(found := _value(text, Tokens), Tokens):
        return found
    raise ConfigError(
        f"a caption is not understood: {text!r}",
        hint="""Write 'Tokens(77, form="packed", row=256)', with the arguments of stoker.Tokens.""",
    )


def _value(text: str, *classes: type) -> Any:
    """The literal or the object of one of the classes that a text stands for; None for any other text."""
    try:
        node = ast.parse(text.removeprefix("stoker."), mode="eval").body
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            return ast.literal_eval(node)
        values = [ast.literal_eval(one) for one in node.args]
        named = {str(one.arg): ast.literal_eval(one.value) for one in node.keywords}
        return {one.__name__: one for one in classes}[node.func.id](*values, **named)
    except ConfigError:
        raise
    except (KeyError, SyntaxError, TypeError, ValueError):
        return None
