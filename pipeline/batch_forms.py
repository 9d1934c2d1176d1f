"""Forms of a batch: what the loaders' argument ``batch_as`` makes of it at the very end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

from stoker.errors import ConfigError

from .options import Objects

Preset = Literal["dict", "transformers", "torchvision-detection", "detr", "ultralytics"]
BatchForm: TypeAlias = Preset | Mapping[str, str] | Callable[[Any], Any]
"""A form of batches: the name of one, new names of columns, or a function of the named tuple."""

_TRANSFORMERS = {"image": "pixel_values", "label": "labels"}
_OBJECTS = ("image", "boxes", "box_labels")
MASK = "mask"  # whatever form a padded batch has, it says which samples are repeated


def usual_columns(batch_as: Any) -> tuple[str, ...] | None:
    """The columns that a form needs, for a loader that is given none; None if the form takes any."""
    if isinstance(batch_as, Mapping):
        return tuple(batch_as.values())
    return {
        "torchvision-detection": (*_OBJECTS, "row", "area", "crowd"),
        "detr": (*_OBJECTS, "row", "area", "crowd"),
        "ultralytics": (*_OBJECTS, "key", "source_size"),
    }.get(batch_as if isinstance(batch_as, str) else "")


def batch_form(batch_as: BatchForm, columns: Sequence[str]) -> Callable[[Any], Any]:
    """The function that makes ``batch_as`` of a batch with these columns.

    Raises:
        ConfigError: There is no such form, or it needs a column that the batch lacks.
    """
    if callable(batch_as):
        return batch_as
    if isinstance(batch_as, Mapping):
        _check(columns, list(batch_as.values()), "batch_as")
        names = {old: new for new, old in batch_as.items()}
        kept = [name for name in columns if name in names or name == MASK]
        return lambda batch: {names.get(name, name): batch[name] for name in kept}
    if batch_as not in get_args(Preset):
        known = ", ".join(map(repr, get_args(Preset)))
        raise ConfigError(
            f"batch_as must be {known}, a mapping of names or a function, found {batch_as!r}",
            hint="A mapping has the name of your model and that of the column: "
            'batch_as={"pixel_values": "image", "labels": "label"}.',
        )
    if batch_as == "dict":
        return dict
    if batch_as == "transformers":
        of_masks = {"segmentation": "labels"} if "label" not in columns else {}
        new = _TRANSFORMERS | of_masks
        return lambda batch: {new.get(name, name): value for name, value in batch.items()}
    _check(columns, usual_columns(batch_as) or (), f"batch_as={batch_as!r}")
    from .adapters.torch.forms import FORMS

    form: Callable[[Any], Any] = FORMS[batch_as]
    return form


def check_objects(batch_as: Any, objects: Objects, output: str) -> None:
    """Raise ConfigError if the forms of detectors would not get tensors, lists and corners."""
    if batch_as not in ("torchvision-detection", "detr", "ultralytics"):
        return
    if (objects.form, objects.box_format, output) != ("ragged", "XYXY", "torch"):
        raise ConfigError(
            f"batch_as={batch_as!r} needs output='torch' and the default Objects()",
            hint="It makes boxes of its own form: leave out objects.",
        )


def _check(columns: Sequence[str], needed: Sequence[str], what: str) -> None:
    if missing := [name for name in needed if name not in columns]:
        raise ConfigError(
            f"{what} needs the columns {', '.join(missing)}, and the batch has {', '.join(columns)}",
            hint="Name them in columns.",
        )
