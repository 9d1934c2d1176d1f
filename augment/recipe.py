"""Recipes: a list of transforms as JSON, to be kept beside a model and shared.

    {"version": 1, "transforms": [{"name": "RandomResizedCrop", "size": [224, 224]}, ...]}

Transforms within others are such objects, too. :func:`register` makes a user's own transform known by name.
"source" may say where a recipe comes from, and how it differs from the original. Arguments that are left
out have their defaults; unknown names and arguments are refused.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from stoker.errors import ConfigError

from . import transforms as available
from .batch.mix import CutMix, MixUp
from .batch.mosaic import Mosaic
from .description import Description
from .transforms.base import Transform

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .batch.base import BatchTransform

    AnyTransform = Transform | BatchTransform

__all__ = ["from_dicts", "load_recipe", "recipe_names", "register", "save_recipe"]

_T = TypeVar("_T", bound=Transform)

VERSION = 1
_REGISTERED: dict[str, type[Transform]] = {}
_READY = Path(__file__).with_name("recipes")


def recipe_names() -> list[str]:
    """Names of the recipes that come with Stoker."""
    return sorted(path.stem for path in _READY.glob("*.json"))


def load_recipe(name_or_path: str | Path) -> list[AnyTransform]:
    """Load a recipe.

    Args:
        name_or_path: A name from :func:`recipe_names`, or the path of a JSON file.

    Raises:
        ConfigError: There is no such recipe, or the file holds none; the error names the file.
    """
    path = Path(name_or_path)
    if str(name_or_path) in recipe_names():
        path = _READY / f"{name_or_path}.json"
    elif not path.is_file():
        raise ConfigError(
            f"there is no recipe {str(name_or_path)!r}, neither a file nor a name",
            hint=_suggest(str(name_or_path), recipe_names()),
        )
    try:
        recipe = json.loads(path.read_text("utf-8"))
        return _from_recipe(recipe)
    except ConfigError as error:
        raise ConfigError(error.message, path=path, hint=error.hint) from None
    except RecursionError as error:
        raise ConfigError("transforms are nested too deeply for a recipe", path=path) from error
    except ValueError as error:
        raise ConfigError(f"not JSON: {error}", path=path) from error


def save_recipe(transforms: Sequence[Description], path: str | Path) -> None:
    """Write ``transforms`` with all their arguments to a JSON file.

    Raises:
        ConfigError: An item is no transform, or has an argument that JSON cannot hold.
    """
    for transform in transforms:
        if not isinstance(transform, Description):
            raise ConfigError(f"a recipe holds transforms; found {transform!r}")
    recipe = {"version": VERSION, "transforms": [transform.to_dict() for transform in transforms]}
    Path(path).write_text(json.dumps(recipe, indent=2) + "\n", "utf-8")


def register(transform: type[_T]) -> type[_T]:
    """Let recipes name your own transform; a decorator of its class.

    Raises:
        ConfigError: The class is no dataclass derived from Transform, or another transform has its name.
    """
    name = transform.__name__
    if not (issubclass(transform, Transform) and "__dataclass_params__" in vars(transform)):
        raise ConfigError(
            f"a recipe cannot hold {name}",
            hint="Derive it from stoker.augment.Transform and put @dataclass(frozen=True) below @register.",
        )
    known = _classes().get(name)
    # Running a cell of a notebook again defines the same class once more.
    if known is not None and (known.__module__, known.__qualname__) != (
        transform.__module__,
        transform.__qualname__,
    ):
        raise ConfigError(f"there is already a transform named {name}", hint="Choose another name.")
    _REGISTERED[name] = transform
    return transform


def from_dicts(descriptions: Iterable[Any]) -> list[AnyTransform]:
    """Transforms from the dictionaries of ``to_dict``.

    Raises:
        ConfigError: A name or argument is unknown (the hint has the nearest known one), or a value is out of
            range.
    """
    return [_from_dict(description) for description in descriptions]


def _from_recipe(recipe: Any) -> list[AnyTransform]:
    if not isinstance(recipe, dict) or not isinstance(recipe.get("transforms"), list):
        raise ConfigError('a recipe is an object with "version" and a list of "transforms"')
    if recipe.get("version") != VERSION:
        raise ConfigError(f"version must be {VERSION}; found {recipe.get('version')!r}")
    unknown = sorted(recipe.keys() - {"version", "source", "transforms"})
    if unknown:
        raise ConfigError(f"unknown key {unknown[0]!r} in a recipe")
    if not isinstance(recipe.get("source", ""), str):
        raise ConfigError(f"source must be text; found {recipe['source']!r}")
    return from_dicts(recipe["transforms"])


def _from_dict(description: Any) -> AnyTransform:
    if not isinstance(description, dict) or "name" not in description:
        raise ConfigError(f'a transform is an object with a "name"; found {description!r}')
    arguments = dict(description)
    name = arguments.pop("name")
    if not isinstance(name, str) or name not in _classes():
        raise ConfigError(f"no transform is named {name!r}", hint=_suggest(str(name), _classes()))
    transform = _classes()[name]
    known = [field.name for field in fields(transform)]
    for argument in arguments:
        if argument not in known:
            raise ConfigError(f"{name} has no argument {argument!r}", hint=_suggest(argument, known))
    try:
        return transform(**{argument: _value(value) for argument, value in arguments.items()})
    except TypeError as error:  # an argument without a default is missing
        raise ConfigError(f"{name}: {error}") from error


def _value(value: Any) -> Any:
    """An argument as a transform takes it: lists are tuples, and descriptions are transforms."""
    if isinstance(value, dict):
        return _from_dict(value)
    return tuple(map(_value, value)) if isinstance(value, list) else value


def _classes() -> dict[str, type[AnyTransform]]:
    """Transforms that a recipe may name."""
    single = {name: getattr(available, name) for name in available.__all__ if name != "Transform"}
    return single | {transform.__name__: transform for transform in (MixUp, CutMix, Mosaic)} | _REGISTERED


def _suggest(name: str, known: Iterable[str]) -> str:
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(names)}."
