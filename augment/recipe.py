"""Recipes: a list of transforms as JSON, to be kept with a model and shared.

    {"version": 1, "transforms": [{"name": "RandomResizedCrop", "size": [224, 224]}, ...]}
    {"version": 1, "views": {"large": {"name": "Views", "count": 2, "transforms": [...]}, "whole": [...]}}

Transforms within others are such objects, too. "source" may say where a recipe comes from, and "model" hold
arguments for its model. Arguments that are left out have their defaults; unknown ones are refused.
"""

from __future__ import annotations

import difflib
import importlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, TypeVar

from stoker.arguments import some_of
from stoker.errors import ConfigError

from .batch import BatchTransform
from .transforms.base import Description, Transform
from .views import BlockwiseMask, RandomMask, Views

AnyTransform = Transform | BatchTransform
Contents = Literal["transforms", "views"]

_T = TypeVar("_T", bound=Transform)

VERSION = 1
_REGISTERED: dict[str, type[Transform]] = {}
_READY = {
    "transforms": Path(__file__).with_name("recipes"),
    "views": Path(__file__).with_name("recipes") / "views",
}
_MASKS = {mask.__name__: mask for mask in (BlockwiseMask, RandomMask)}
_VIEWS = {"Views": Views}


def recipe_names() -> list[str]:
    """Names of the recipes of transforms that come with Stoker."""
    return _names("transforms")


def view_recipe_names() -> list[str]:
    """Names of the recipes of views that come with Stoker."""
    return _names("views")


def _names(contents: Contents) -> list[str]:
    return sorted(path.stem for path in _READY[contents].glob("*.json"))


def load_recipe(name_or_path: str | Path) -> list[AnyTransform]:
    """Load a recipe of transforms.

    Args:
        name_or_path: A name from :func:`recipe_names`, or the path of a JSON file.

    Raises:
        ConfigError: There is no such recipe, or the file holds something else; the error names the file.
    """
    transforms: list[AnyTransform] = _load(name_or_path, "transforms")[0]
    return transforms


def model_arguments(name_or_path: str | Path) -> dict[str, Any]:
    """Load the arguments that the model of a recipe needs with it, by name; empty where it needs none.

    For torchvision's detection models they are ``min_size`` and ``max_size``: by default these models
    resize images once more, so that boxes of 137 pixels become 82. It takes the arguments of
    :func:`load_recipe` and raises its errors.
    """
    return dict(_load(name_or_path, "transforms")[1].get("model", {}))


def load_views(name_or_path: str | Path) -> dict[str, Views | list[AnyTransform]]:
    """Load a recipe of views, by a name of :func:`view_recipe_names` or a path, as :func:`load_recipe`.

    A loader takes it as ``transforms``; its keys are the names of the columns.
    """
    views: dict[str, Views | list[AnyTransform]] = _load(name_or_path, "views")[0]
    return views


def _load(name_or_path: str | Path, contents: Contents) -> tuple[Any, dict[str, Any]]:
    """The transforms or views of a recipe, and the whole recipe as it stands in its file."""
    name, path = str(name_or_path), Path(name_or_path)
    names = _names(contents)
    if name in _names("views" if contents == "transforms" else "transforms"):
        raise _wrong_kind(f"the recipe {name!r}", contents)
    if name in names:
        path = _READY[contents] / f"{name}.json"
    elif not path.is_file():
        raise ConfigError(
            f"recipe {name!r} is neither a file nor the name of a recipe", hint=_suggest(name, names)
        )
    try:
        recipe = json.loads(path.read_text("utf-8"))
        return _contents(recipe, contents), recipe
    except ConfigError as error:
        raise ConfigError(error.message, path=path, hint=error.hint) from None
    except RecursionError as error:
        raise ConfigError("transforms are nested too deeply for a recipe", path=path) from error
    except ValueError as error:
        raise ConfigError(f"not JSON: {error}", path=path) from error


def _wrong_kind(recipe: str, contents: Contents) -> ConfigError:
    if contents == "transforms":
        return ConfigError(f"{recipe} has views", hint="Load it with load_views.")
    return ConfigError(f"{recipe} has no views", hint="Load it with load_recipe.")


def _contents(recipe: Any, contents: Contents) -> Any:
    """The transforms or views of a recipe; ConfigError where it is not one."""
    other, kind, rule = {
        "transforms": ("views", list, 'a recipe is an object with "version" and a list of "transforms"'),
        "views": (
            "transforms",
            dict,
            'a recipe of views is an object with "version" and an object of "views"',
        ),
    }[contents]
    if isinstance(recipe, dict) and other in recipe:
        raise _wrong_kind("the recipe", contents)
    if not isinstance(recipe, dict) or not isinstance(recipe.get(contents), kind):
        raise ConfigError(rule)
    if recipe.get("version") != VERSION:
        raise ConfigError(f"version must be {VERSION}, found {recipe.get('version')!r}")
    if unknown := sorted(recipe.keys() - {"version", "source", "model", contents}):
        raise ConfigError(f"unknown key {unknown[0]!r} in a recipe")
    if not isinstance(recipe.get("source", ""), str):
        raise ConfigError(f"source must be text, found {recipe['source']!r}")
    if not isinstance(recipe.get("model", {}), dict):
        raise ConfigError(f"model must be an object of arguments, found {recipe['model']!r}")
    if contents == "transforms":
        return from_dicts(recipe["transforms"])
    return {
        name: from_dicts(view) if isinstance(view, list) else _from_description(view, _VIEWS)
        for name, view in recipe["views"].items()
    }


def save_recipe(
    transforms: Sequence[Description] | Mapping[str, Views | Sequence[Description]], path: str | Path
) -> None:
    """Write ``transforms``, or views by the names of their columns, to a JSON file, or raise ConfigError."""
    Path(path).write_text(json.dumps(recipe_json(transforms), indent=2) + "\n", "utf-8")


def recipe_json(
    transforms: Sequence[Description] | Mapping[str, Views | Sequence[Description]],
) -> dict[str, Any]:
    """Return transforms, or views by the names of their columns, as the JSON of a recipe."""
    if not isinstance(transforms, Mapping):
        return {"version": VERSION, "transforms": _to_dicts(transforms)}
    views = {
        name: given.to_dict() if isinstance(given, Views) else _to_dicts(given)
        for name, given in transforms.items()
    }
    return {"version": VERSION, "views": views}


def _to_dicts(transforms: Sequence[Description]) -> list[dict[str, Any]]:
    for transform in transforms:
        if not isinstance(transform, Description):
            raise ConfigError(f"a recipe holds transforms, found {transform!r}")
    return [transform.to_dict() for transform in transforms]


def register(transform: type[_T]) -> type[_T]:
    """Let recipes name your own transform; a decorator of its class. ConfigError for a name in use."""
    name = transform.__name__
    if not (issubclass(transform, Transform) and "__dataclass_params__" in vars(transform)):
        raise ConfigError(
            f"a recipe cannot hold {name}",
            hint="Derive it from stoker.augment.Transform and put @dataclass(frozen=True) below @register.",
        )
    known = _transform_class(name)
    qualified_name = (transform.__module__, transform.__qualname__)
    # Running a cell of a notebook again defines the same class once more.
    if known is not None and (known.__module__, known.__qualname__) != qualified_name:
        raise ConfigError(f"there is already a transform named {name}", hint="Choose another name.")
    _REGISTERED[name] = transform
    return transform


def from_dicts(descriptions: Iterable[Any]) -> list[AnyTransform]:
    """Transforms from the dictionaries of ``to_dict``."""
    return [_from_description(description) for description in descriptions]


def from_dict(description: Any) -> Any:
    """A transform, :class:`Views` or a mask of patches, from its dictionary."""
    kinds = _VIEWS | _MASKS
    named = isinstance(description, dict) and description.get("name") in kinds
    return _from_description(description, kinds if named else None)


def _from_description(description: Any, kinds: Mapping[str, type[Any]] | None = None) -> Any:
    """The object of a description whose "name" is one of ``kinds``; None for all transforms."""
    if not isinstance(description, dict) or "name" not in description:
        raise ConfigError(f'a transform is an object with a "name", found {description!r}')
    arguments = dict(description)
    name = str(arguments.pop("name"))
    kind: type[Any] | None = _transform_class(name) if kinds is None else kinds.get(name)
    if kind is None:
        names = importlib.import_module(__package__).__all__
        known = kinds or [*filter(_transform_class, names), *_REGISTERED]
        raise ConfigError(f"no transform is named {name!r}", hint=_suggest(name, known))
    takes = [field.name for field in fields(kind)]
    for argument in arguments:
        if argument not in takes:
            raise ConfigError(f"{name} has no argument {argument!r}", hint=_suggest(argument, takes))
    try:
        return kind(**{argument: _value(argument, value) for argument, value in arguments.items()})
    except TypeError as error:  # an argument without a default is missing
        raise ConfigError(f"{name}: {error}") from error


def _value(argument: str, value: Any) -> Any:
    """An argument as a description takes it: lists are tuples, and objects are transforms or masks."""
    if isinstance(value, dict):
        return _from_description(value, _MASKS if argument == "mask" else None)
    return tuple(_value("", item) for item in value) if isinstance(value, list) else value


def _transform_class(name: str) -> type[AnyTransform] | None:
    """The class that a recipe means by a name; None for another name."""
    found = _REGISTERED.get(name) or getattr(importlib.import_module(__package__), name, None)
    is_transform = isinstance(found, type) and issubclass(found, (Transform, BatchTransform))
    return found if is_transform and found not in (Transform, BatchTransform) else None


def _suggest(name: str, known: Iterable[str]) -> str:
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"Known: {some_of(names)}."
