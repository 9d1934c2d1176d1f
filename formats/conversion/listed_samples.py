"""The samples of a source that a conversion takes: listed, checked, and chosen by their classes."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from stoker.errors import ConfigError, SourceError
from stoker.log import EventLog

from ..sources.classes import limit_classes, number_classes, rename_classes, select_classes, select_objects
from ..sources.detection import is_of_ade20k
from ..sources.image_files import may_be_image
from ..sources.listing import (
    BLANK,
    NO_TOKENS,
    Listing,
    Skip,
    check_damage,
    lost_classes,
    missing_classes_error,
    name_reasons,
    warn_unlabelled,
)
from ..sources.masks import only_class
from ..sources.registry import SourceFormat, list_source
from ..sources.source import Source
from .image_objects import OTHER_TURN
from .options import ConvertArguments
from .plan import ConversionPlan
from .shard import ShardResult

_LABEL_IDS, _TRAIN_IDS = "_gtFine_labelIds.", "_gtFine_labelTrainIds."
_LOG = EventLog("conversion")


def list_samples(source: Source, source_format: SourceFormat, arguments: ConvertArguments) -> Listing:
    """Return the samples of a source that a conversion takes."""
    names = None if arguments.classes is None else tuple(arguments.classes)
    selection = arguments.selection
    listing = list_source(source, source_format)
    if listing.damaged:
        allowed = None if arguments.strict or selection.allow_loss is None else Fraction(1)
        total = len(listing) + len(listing.damaged)
        remedy = "Or leave them out, up to a share: allow_loss={share:g}."
        skips = check_damage(listing.damaged, total, allowed, remedy)
        listing = replace(listing, skipped=tuple(sorted([*listing.skipped, *skips])), damaged=())
    reading = source.options
    asked = reading.unlabelled or reading.fields or reading.label_column == "" or source.caption_column
    if listing.labels is None and listing.objects is None and listing.masks is None and not asked:
        warn_unlabelled(
            source.path,
            "label_column names the part that has them, label_type='shard' makes a class of each archive, "
            "and unlabelled=True says that there are none",
        )
    if arguments.strict:
        _check_nothing_lost(source.path, listing)
    if listing.missing_classes and not selection.allow_missing_classes:
        raise missing_classes_error(listing.missing_classes, source.path)
    if isinstance(selection.class_map, Mapping):
        class_map = dict(selection.class_map)
        if selection.allow_missing_classes:
            class_map = {old: new for old, new in class_map.items() if old in listing.classes}
        listing = rename_classes(listing, class_map)
    if selection.skip_other_classes:
        if names is None:
            raise ConfigError("skip_other_classes needs classes, the names of those that stay")
        has_objects = listing.labels is None and listing.objects is not None
        listing = select_objects(listing, names) if has_objects else select_classes(listing, names)
    if selection.min_per_class is not None or selection.max_per_class is not None:
        least, most = selection.min_per_class or 1, selection.max_per_class
        listing = limit_classes(listing, least, most, arguments.seed or 0, renumber=names is None)
    return listing if names is None else number_classes(listing, names, source.path)


def check_mask_map(listing: Listing, mask_map: str | None) -> None:
    """Check that a map of the values of masks fits the masks of a source."""
    # ADE20K's masks without a map and without names of classes are taken as they are, with a warning.
    masks = listing.masks
    if masks is None:
        if mask_map not in (None, "none"):
            raise ConfigError(
                "mask_map is for masks, and the source has none", hint="Name their folder with masks."
            )
        return
    if mask_map is None:
        ids = next((name for name in masks.names() if _LABEL_IDS in name), None)
        if ids is not None:
            raise ConfigError(
                f"masks such as {ids} are Cityscapes' labelIds, which are not the classes that are trained",
                hint="Give mask_map='cityscapes', or mask_map='none' to keep the ids.",
            )
        first = next(masks.names(), "")
        if not listing.info.mask_classes and is_of_ade20k(f"{masks.root}/{first}"):
            _LOG.warning(
                "ade20k",
                f"the values of ADE20K's masks such as {first} are taken as classes as they are, so class 0 "
                "is 'other'; mask_map='ade20k' ignores it and counts the others from 0",
            )
        ignore = listing.info.ignore
        of_dataset = masks.ranges is not None  # whose values have been mapped
        only = None if ignore is None or of_dataset else only_class(masks, ignore)
        if only is not None:
            raise ConfigError(
                f"the masks have no values but {only} and {ignore}, and {ignore} is ignored",
                path=masks.root,
                hint=f"Give mask_map='{only}:0,{ignore}:1' if {ignore} is a class, or else mask_map='none'.",
            )
    elif mask_map != "none":
        from .mask_values import mask_table

        mask_table(mask_map, listing.info.ignore)
        trained = next((name for name in masks.names() if _TRAIN_IDS in name), None)
        if mask_map == "cityscapes" and trained is not None:
            raise ConfigError(
                f"masks such as {trained} are the training classes already, and mask_map would change them",
                hint="Leave mask_map out, or keep only labelIds in the folder of the masks.",
            )


def _check_nothing_lost(src: str | os.PathLike[str], listing: Listing) -> None:
    """Raise SourceError for the files that the listing leaves out and that may be images."""
    lost = list(filter(may_be_image, listing.skipped))
    if lost:
        raise SourceError(
            lost[0].message if len(lost) == 1 else name_reasons(lost),
            path=src,
            key=lost[0].key,
            hint="Repair or remove them, or convert without strict to skip them.",
        )


def check_no_class_lost(plan: ConversionPlan, results: Sequence[ShardResult]) -> None:
    """Raise SourceError if no image of a class could be converted, although those of others could."""
    if any(result.records for result in results):
        lost = np.array([row for result in results for row in result.lost], np.int64)
        skipped = (skip for result in results for skip in result.skipped)
        if missing := lost_classes(plan.listing, lost, skipped):
            raise missing_classes_error(missing, plan.listing.root)


_DEFAULT = Fraction(1, 100)
_FEW = 10  # samples of text, at most half of all, whose loss is allowed by default
_AS_ASKED = (
    "object outside the crop",
    "restart markers",
    BLANK,
    NO_TOKENS,
)  # starts of reasons that are no loss


def check_loss(
    listing: Listing,
    allowed: Fraction | None,
    results: Sequence[ShardResult] = (),
    sample_type: str = "image",
) -> None:
    """Check that no larger share of the samples and objects of a source is left out than allowed."""
    # Files that are not images by name and content do not count, nor do samples that the options leave out.
    is_text = sample_type == "text"
    if is_text and not any(result.records for result in results):
        return  # publishing says that nothing is left
    few = 0
    if allowed is None:
        if not is_text and listing.objects is None and listing.masks is None:
            return
        allowed = _DEFAULT
        few = min(_FEW, len(listing) // 2) if is_text else 0
    later = [skip for result in results for skip in result.skipped]
    skipped = [skip for skip in (*listing.skipped, *later) if _is_loss(skip)]
    total = len(listing) + sum(1 for skip in listing.skipped if _is_loss(skip))
    if listing.objects is not None:
        total += len(listing.objects.columns["object_labels"].values)
    if len(skipped) > few and Fraction(len(skipped), total) > allowed:
        percent = min(100, math.ceil(100 * Fraction(len(skipped), total)))
        remedy = "Repair the source, or allow it"
        if any(skip.reason == OTHER_TURN for skip in skipped):
            remedy = (
                "Annotations that were made on pixels before the turn need annotations_before_exif=True; "
                "leave it out for others. Or allow the loss"
            )
        counted = "samples" if is_text else "images and objects"
        raise SourceError(
            f"{len(skipped):,} of {total:,} {counted} would be left out, more than "
            f"{float(100 * allowed):g}%: {name_reasons(skipped)}",
            path=listing.place,
            hint=f"{remedy}: allow_loss={percent / 100:g}.",
        )


def _is_loss(skip: Skip) -> bool:
    return may_be_image(skip) and not skip.reason.startswith(_AS_ASKED)
