"""The samples of a source that a conversion takes: listed, checked, and chosen by their classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.errors import ConfigError, SourceError

from ..sources.class_limits import limit_classes, select_classes
from ..sources.classes import number_classes
from ..sources.detect import list_source
from ..sources.folders.local_images import may_be_image
from ..sources.no_images import name_reasons

if TYPE_CHECKING:
    import os

    from ..sources.listing import Listing
    from ..sources.registry import SourceFormat
    from ..sources.source import Source
    from .request import ConvertRequest

__all__ = ["list_samples"]

_NAMED = 5  # classes that an error names


def list_samples(
    request: ConvertRequest, source: Source, source_format: SourceFormat, names: tuple[str, ...] | None
) -> Listing:
    """Return the samples of a source that a conversion takes.

    Args:
        request: The options of the conversion.
        source: The source.
        source_format: Its format.
        names: Names of the classes, that of label 0 first; None for those of the source.

    Raises:
        ConfigError: An option does not fit the source.
        SourceError: The source cannot be used, has a class without an image, or files may be lost and the
            request is strict.
        StorageError: A URL cannot be read.
    """
    listing = list_source(source, source_format)
    if request.strict:
        _check_nothing_lost(source.path, listing)
    if not request.allow_missing_classes:
        _check_classes_have_images(source.path, listing)
    if request.skip_other_classes:
        if names is None:
            raise ConfigError("skip_other_classes needs classes, the names of those that stay")
        listing = select_classes(listing, names)
    if request.min_per_class is not None or request.max_per_class is not None:
        least, most = request.min_per_class, request.max_per_class
        least = 1 if least is None else least
        listing = limit_classes(listing, least, most, request.seed or 0, renumber=names is None)
    return listing if names is None else number_classes(listing, names, source.path)


def _check_nothing_lost(src: str | os.PathLike[str], listing: Listing) -> None:
    """Raise SourceError for the files that the listing leaves out and that may be images."""
    lost = list(filter(may_be_image, listing.skipped))
    if lost:
        raise SourceError(
            lost[0].message if len(lost) == 1 else name_reasons(lost),
            path=src,
            key=lost[0].key,
            hint="repair or remove them, or convert without strict to skip them",
        )


def _check_classes_have_images(src: str | os.PathLike[str], listing: Listing) -> None:
    """Raise SourceError if classes of the source have no image."""
    missing = listing.missing_classes
    if not missing:
        return
    named = ", ".join(f"{skip.key} ({skip.message})" for skip in missing[:_NAMED])
    more = f" and {len(missing) - _NAMED:,} more" if len(missing) > _NAMED else ""
    raise SourceError(
        f"classes without an image: {named}{more}",
        path=src,
        hint="repair or remove them, or convert the other classes alone: --allow-missing-classes "
        "(allow_missing_classes=True)",
    )
