"""The share of a source that a conversion leaves out, which may not be larger than the caller allows.

The request checks the listing before it converts anything, and each target all samples before it publishes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from stoker.errors import ConfigError, SourceError

from ...sources.image_files import may_be_image
from ...sources.listing import Listing, Skip, name_reasons
from ..option_values import parse_fraction
from ..shards.shard_file import ShardResult

_DEFAULT = Fraction(1, 100)
_AS_ASKED = ("object outside the crop", "restart markers")  # starts of reasons that are no loss


def parse_loss(value: str | float | Fraction | None) -> Fraction | None:
    """Parse the share of a source that may be left out, such as 0.1 or 10%; None stays None."""
    if value is None:
        return None
    share = parse_fraction(value)
    if not 0 <= share <= 1:
        raise ConfigError(f"allow_loss must be a share such as 0.01 or 1%, from 0 to 1, not {value!r}")
    return share


def check_loss(listing: Listing, allowed: Fraction | None, results: Iterable[ShardResult] = ()) -> None:
    """Check that no larger share of the images and objects of a source is left out than allowed.

    Files that are not images by name and content do not count, nor do samples that the options leave out.
    """
    if allowed is None:
        if listing.objects is None and listing.masks is None:
            return
        allowed = _DEFAULT
    later = [skip for result in results for skip in result.skipped]
    skipped = [skip for skip in (*listing.skipped, *later) if _is_loss(skip)]
    total = len(listing) + sum(1 for skip in listing.skipped if _is_loss(skip))
    if listing.objects is not None:
        total += len(listing.objects.columns["object_labels"].values)
    if skipped and Fraction(len(skipped), total) > allowed:
        percent = min(100, math.ceil(100 * Fraction(len(skipped), total)))
        raise SourceError(
            f"{len(skipped):,} of {total:,} images and objects would be left out, more than "
            f"{float(100 * allowed):g}%: {name_reasons(skipped)}",
            path=listing.root,
            hint=f"repair the source, or allow it: --allow-loss {percent}% (allow_loss={percent / 100:g})",
        )


def _is_loss(skip: Skip) -> bool:
    return may_be_image(skip) and not skip.reason.startswith(_AS_ASKED)
