"""The samples of a listing, and the reasons for those that it left out."""

from stoker.formats.sources.listing import Listing


def content(listing: Listing) -> dict[str, str]:
    """Class by key."""
    labels = listing.labels.to_pylist()
    return {key: listing.classes[label] for key, label in zip(listing.keys.to_pylist(), labels, strict=True)}


def reasons(listing: Listing) -> dict[str, str]:
    return {skip.key: skip.reason for skip in listing.skipped}
