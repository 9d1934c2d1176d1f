"""A loader as data: the arguments with which another machine makes a copy of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from stoker.errors import ConfigError
from stoker.formats.open import open as open_dataset

from ..description.describe import ELSEWHERE, describe_dataset, unpack_rows
from ..description.portable import NotPortableError
from ..order.changes.weight_parts import MovingWeights
from ..order.mixtures.mix import mix

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..order.versioned_loader import VersionedLoader

__all__ = ["LoaderArguments", "described_dataset"]


@dataclass(frozen=True)
class LoaderArguments:
    """The arguments of a loader's copy on another machine.

    Attributes:
        kind: Class of the loader.
        dataset: Description of its dataset, as JSON data.
        options: The other arguments.
        unfinished: Whether the copy leaves colours and dtype of images to the loader.
    """

    kind: type[Any]
    dataset: Mapping[str, Any]
    options: Mapping[str, Any]
    unfinished: bool = False

    @classmethod
    def of(
        cls, loader: VersionedLoader, changed: Mapping[str, Any], *, unfinished: bool = False
    ) -> LoaderArguments:
        """Return the arguments of a loader's copies.

        Args:
            loader: The loader.
            changed: Arguments that a copy needs in place of the given ones.
            unfinished: See the attribute.

        Raises:
            ConfigError: The loader cannot have copies: its dataset has no description, or its class has
                other arguments.
        """
        own = [one for one in type(loader).__mro__ if one.__module__.startswith("stoker.")]
        if not type(loader).__init__.__module__.startswith("stoker."):
            raise ConfigError(
                f"{type(loader).__name__} has arguments of its own, so workers cannot make copies of it",
                hint=f"Use workers with {own[0].__name__} itself.",
            )
        try:
            dataset = describe_dataset(loader._given_dataset, loader.dataset)
        except NotPortableError as error:
            raise ConfigError(f"workers cannot open the dataset: it is {error}") from None
        kept = {
            name: value for name, value in loader._given_options.items() if name not in ELSEWHERE - {"mapped"}
        }
        ranks = {"rank": loader._ranks.rank, "world_size": loader._ranks.world_size}
        kind = next(one for one in own if one.__name__ in ("ImageLoader", "TextLoader"))
        return cls(kind, dataset, {**kept, **ranks, **changed}, unfinished)

    def make(self, num_threads: int) -> Any:
        """Make the loader; ``num_threads`` are those of an engine."""
        options = dict(self.options)
        dataset = described_dataset(self.dataset, options)
        if "engine" in options:
            options["num_threads"] = num_threads
        loader = self.kind(dataset, **options)
        if self.unfinished:
            loader._leave_unfinished()
        return loader


def described_dataset(found: Mapping[str, Any], arguments: dict[str, Any]) -> Any:
    """The dataset of a description. A plain path stays one, because the loader applies the cache's arguments.

    Args:
        found: The description.
        arguments: Arguments of the loader; those of the cache are taken out if the dataset is opened here.
    """
    if "mixture" in found:
        parts = [described_dataset(one, {}) for one in found["mixture"]]
        made = mix(list(zip(parts, found["weights"], strict=True)), samples=sum(found["weights"]))
        moving = found.get("moving")
        return replace(made, moving=MovingWeights.from_json(moving, len(parts))) if moving else made
    if "version" not in found:
        return found["path"]
    cache = {name: arguments.pop(name) for name in ("cache", "cache_size") if name in arguments}
    opened = open_dataset(found["path"], version=found["version"], **cache)
    return opened.select(unpack_rows(found["rows"])) if "rows" in found else opened
