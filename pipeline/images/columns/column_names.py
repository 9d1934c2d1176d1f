"""The names of the columns of a batch of images, checked against the dataset and the columns of images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stoker.arguments import list_of_names
from stoker.errors import ConfigError
from stoker.formats.dataset.columns import shape_column
from stoker.formats.tokenization.captions import CAPTION, IDS_COLUMN

from ...order.rank_draws import LastBatch
from ...order.sample_source import SampleSource, batchable_columns
from ..annotations.annotation_config import task_columns
from ..annotations.objects import ObjectConfig
from ..captions.captions import MASK, Captions
from ..sizes.padding import IMAGE_SIZE
from ..sizes.patches.patch_columns import patch_column_names
from ..sizes.size_plan import SizePlan
from .array_reader import ArrayConfig
from .image_column import ImageColumn
from .source_columns import SOURCE_SIZE, TO_SOURCE


def column_names(
    columns: Sequence[str] | None,
    images: Sequence[ImageColumn],
    dataset: SampleSource,
    *,
    last_batch: LastBatch,
    objects: ObjectConfig,
    arrays: ArrayConfig,
    captions: Captions | None,
    sizes: SizePlan,
) -> tuple[str, ...]:
    """Names of the columns of a batch, in their order, with those that arguments add."""
    if sizes.patch_planner:
        names = patch_column_names(columns, dataset, last_batch, captions)
        _check_captions(names, captions, dataset)
        return names
    of_captions = captions.columns if captions else ()
    if columns is None:
        masks = [f"{one.prefix}mask" for one in images if one.mask]
        columns = (
            *(one.name for one in images),
            *masks,
            *of_captions[:1],
            *(["label"] if "label" in dataset.types else []),
        )
    names, annotated = list_of_names("columns", columns), task_columns(dataset)
    if last_batch == "pad" and "mask" not in names:
        names = (*names, "mask")
    for prefix in (one.prefix for one in images):
        follows = {f"{prefix}{name}" for name in set(annotated) - {"segmentation"}}
        if objects.form == "padded" and f"{prefix}count" not in names and follows & set(names):
            names = (*names, f"{prefix}count")
    if sizes.padding and not sizes.ragged and IMAGE_SIZE not in names and images[0].name in names:
        names = (*names, IMAGE_SIZE)
    names = arrays.with_shapes(names)
    _check_captions(names, captions, dataset)
    of_images = {one.name: _names_of_images(one, annotated) for one in images}
    of_samples = {
        "row",
        "mask",
        SOURCE_SIZE,
        *batchable_columns(dataset),
        *arrays.columns,
        *of_captions,
    }
    of_samples |= {*map(shape_column, arrays.columns), *(["label"] if "label" in dataset.types else [])}
    if images[0].prefix:
        _check_taken(of_images, of_samples, dataset)
    _check_known(names, of_samples.union(*of_images.values()), dataset)
    return names


def _names_of_images(column: ImageColumn, annotated: Sequence[str]) -> list[str]:
    """The column of images, and all columns that may follow it."""
    follow = [*annotated, *(["count"] if "boxes" in annotated else []), *(["mask"] if column.mask else [])]
    follow += [TO_SOURCE, *([IMAGE_SIZE] if column.plan.pad_to_multiple_of else [])]
    return [column.name, *(f"{column.prefix}{name}" for name in follow)]


def _check_captions(names: Sequence[str], captions: Captions | None, dataset: SampleSource) -> None:
    """Raise ConfigError if captions are in the columns but have no form, or the other way round."""
    if captions and not {CAPTION, MASK, *captions.columns} & set(names):
        raise ConfigError(
            "caption= says how captions are handed out, and columns names none",
            hint=f"Add {CAPTION!r} to columns, or leave caption out.",
        )
    if not captions and CAPTION in names and CAPTION not in dataset.types and IDS_COLUMN in dataset.types:
        raise ConfigError(
            f"columns: {CAPTION!r} has token ids, and their form is not given",
            path=dataset.path,
            hint="Give caption=stoker.Tokens(max_length=77).",
        )


def _check_taken(of_images: Mapping[str, Sequence[str]], of_samples: set[str], dataset: SampleSource) -> None:
    """Raise ConfigError if columns of images, or what follows them, have the name of another column."""
    taken = set(of_samples)
    for own, names in of_images.items():
        for name in names:
            if name in taken:
                raise ConfigError(
                    f"transforms: {own!r} makes a column {name!r}, and there is such a column already",
                    path=dataset.path,
                    hint="Choose another name for these images.",
                )
            taken.add(name)


def _check_known(names: Sequence[str], known: set[str], dataset: SampleSource) -> None:
    for name in names:
        if name not in known:
            arrow_type = dataset.types.get(name)
            found = (
                f"{name!r} holds {arrow_type}, which no batch has" if arrow_type else f"there is no {name!r}"
            )
            raise ConfigError(
                f"columns: {found}{_only_in_some(name, dataset)}",
                path=dataset.path,
                hint=f"There are {', '.join(sorted(known))}.",
            )
    if not names:
        raise ConfigError("columns must name at least one column")


def _only_in_some(name: str, dataset: SampleSource) -> str:
    """The part of the message that some datasets of a mixture lack a column; empty for other columns."""
    lacking = [one.path for one in dataset.datasets if not _has_column(one, name)]
    if not 0 < len(lacking) < len(dataset.datasets):
        return ""
    return f", which {', '.join(map(str, lacking))} lacks; a mixture has the columns that all datasets have"


def _has_column(dataset: SampleSource, name: str) -> bool:
    return name in dataset.types or name in dataset.arrays or name in task_columns(dataset)
