"""Plans of conversions of images."""

from __future__ import annotations

from stoker.formats.conversion.image_encoder import ImageEncoder
from stoker.formats.conversion.options import ConvertOptions
from stoker.formats.conversion.plan import ConversionPlan, plan_conversion
from stoker.formats.sources.listing import Listing


def plan_images(listing: Listing, options: ConvertOptions) -> ConversionPlan:
    """Plan a conversion of the images of a listing."""
    return plan_conversion(listing, options, ImageEncoder(listing, options))
