"""Translation of torchvision's transforms, v1 and v2, by their names and attributes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any

from stoker import augment
from stoker.errors import ConfigError

from .transforms.base import Description

# They change no pixel, or do what a loader does.
_NOT_NEEDED = {
    "ToImage",
    "PILToTensor",
    "MaybePILToTensor",
    "ToNumpy",
    "ToPureTensor",
    "RGB",
    "Identity",
    "ClampBoundingBoxes",
    "ClampKeyPoints",
    "SanitizeBoundingBoxes",
    "SanitizeKeyPoints",
}
_FLOATS = {"ToTensor", "MaybeToTensor", "ConvertImageDtype"}
_NESTING = {"RandomApply", "RandomChoice", "RandomOrder"}
_ATTRIBUTES = {"sampler_options": "options"}
"""Attributes of torchvision's transforms that are not named as the arguments."""
_OURS = {"CenterCrop": ("fill",), "MixUp": ("p",), "CutMix": ("p",)}
"""Arguments that torchvision's transforms lack; those that resize PIL images need no ``antialias``."""


def stoker_transforms(transform: Any) -> Any:
    """Return transforms that a loader takes: Stoker's as they are, and torchvision's translated.

    Raises:
        ConfigError: A transform of torchvision, or an argument of one, has no equivalent.
    """
    if transform is None:
        return []
    if isinstance(transform, Mapping):
        return transform
    return list(_steps(transform))


def _steps(transform: Any) -> Iterator[Any]:
    if isinstance(transform, Description):
        yield transform
    elif isinstance(transform, (list, tuple)):
        for one in transform:
            # A list may end with functions of batches, as a loader's transforms.
            yield from (one,) if inspect.isroutine(one) else _steps(one)
    elif (name := type(transform).__name__) in ("Compose", "Sequential") or _hands_over(transform):
        inner = getattr(transform, "transforms", None)
        yield from _steps(list(transform) if inner is None else inner)
    elif name == "ImageClassification":  # of the weights of a model
        how = {"interpolation": _plain(transform.interpolation), "antialias": transform.antialias}
        yield augment.Resize(*transform.resize_size, **how)
        yield augment.CenterCrop(*transform.crop_size)
        yield augment.Normalize(tuple(transform.mean), tuple(transform.std))
    elif name in _NESTING and hasattr(transform, "transforms"):
        options = {"p": transform.p} if getattr(transform, "p", None) is not None else {}
        yield getattr(augment, name)(list(_steps(list(transform.transforms))), **options)
    elif name in _FLOATS:
        yield augment.ToDtype(_plain(getattr(transform, "dtype", "float32")))
    elif name not in _NOT_NEEDED:
        yield _translated(name, transform)


class _Preset:
    """The whole of a class that hands images over to its ``transforms``, as torchvision's references have."""

    transforms: Any

    def __call__(self, img: Any) -> Any:
        return self.transforms(img)


def _hands_over(transform: Any) -> bool:
    code = getattr(inspect.getattr_static(type(transform), "__call__", None), "__code__", None)
    known = _Preset.__call__.__code__
    return code is not None and (code.co_code, code.co_names) == (known.co_code, known.co_names)


def _translated(name: str, transform: Any) -> Any:
    known: Callable[..., Any] | None = getattr(augment, name.removesuffix("AndInterpolation"), None)
    if known is None or not inspect.isclass(known) or not _has_arguments(known, transform):
        raise ConfigError(
            f"the transform {_name(name, transform)} has no equivalent among those of stoker.augment",
            hint="Leave it out, give transforms of stoker.augment, or write a Transform of your own; see the "
            "guide to augmentation. Functions of whole batches stand at the end of a list of Stoker's.",
        )
    arguments = {
        argument: _plain(getattr(transform, _ATTRIBUTES.get(argument, argument)))
        for argument in inspect.signature(known).parameters
        if hasattr(transform, _ATTRIBUTES.get(argument, argument))
    }
    if name == "RandomErasing" and arguments["value"] is None:  # v2 keeps "random" so
        arguments["value"] = "random"
    try:
        if name.endswith("AndInterpolation") and isinstance(every := arguments["interpolation"], tuple):
            crops = [known(**{**arguments, "interpolation": _plain(one)}) for one in every]
            return augment.RandomChoice(crops)  # timm draws one of them
        return known(**arguments)
    except ConfigError as error:
        raise ConfigError(f"{name} of torchvision: {error.message}", hint=error.hint) from error


def _has_arguments(known: Callable[..., Any], transform: Any) -> bool:
    """Whether a transform has an attribute for each argument, and is no other class of this name."""
    return all(
        name in _OURS.get(known.__name__, ("antialias",)) or hasattr(transform, _ATTRIBUTES.get(name, name))
        for name in inspect.signature(known).parameters
    )


def _plain(value: Any) -> Any:
    """An argument without the types of torchvision and PyTorch."""
    if isinstance(value, Enum):
        value = value.value
    if hasattr(value, "tolist"):
        return value.tolist()
    if type(value).__module__ == "torch":  # a dtype
        return str(value).removeprefix("torch.")
    return value


def _name(name: str, transform: Any) -> str:
    return repr(transform) if inspect.isroutine(transform) else name
