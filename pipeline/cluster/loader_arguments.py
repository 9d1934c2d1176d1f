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


@dataclass(frozen=True)
class LoaderArguments:
    """The arguments of a loader's copy on another machine."""

    kind: type[Any]  # Class of the loader
    dataset: Mapping[str, Any]  # Description of its dataset, as JSON data
    options: Mapping[str, Any]  # The other arguments
    unfinished: bool = False  # Whether the copy leaves colours and dtype of images to the loader

    @classmethod
    def of_loader(
        cls, loader: VersionedLoader, changed: Mapping[str, Any], *, unfinished: bool = False
    ) -> LoaderArguments:
        """Return the arguments of a loader's copies."""
        bases = [base for base in type(loader).__mro__ if base.__module__.startswith("stoker.")]
        if not type(loader).__init__.__module__.startswith("stoker."):
            raise ConfigError(
                f"{type(loader).__name__} has other arguments, so workers cannot make copies of it",
                hint=f"Use workers with {bases[0].__name__} itself.",
            )
        try:
            dataset = describe_dataset(loader._given_dataset, loader.dataset)
        except NotPortableError as error:
            raise ConfigError(f"workers cannot open the dataset: it is {error}") from None
        kept = {
            name: value for name, value in loader._given_options.items() if name not in ELSEWHERE - {"mapped"}
        }
        ranks = {"rank": loader._ranks.rank, "world_size": loader._ranks.world_size}
        kind = next(base for base in bases if base.__name__ in ("ImageLoader", "TextLoader"))
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


def described_dataset(description: Mapping[str, Any], arguments: dict[str, Any]) -> Any:
    """The dataset of a description. A plain path stays one: the loader applies the cache's arguments."""
    if "mixture" in description:
        parts = [described_dataset(part, {}) for part in description["mixture"]]
        mixture = mix(
            list(zip(parts, description["weights"], strict=True)), samples=sum(description["weights"])
        )
        moving = description.get("moving")
        return replace(mixture, moving=MovingWeights.from_json(moving, len(parts))) if moving else mixture
    if "version" not in description:
        return description["path"]
    cache = {name: arguments.pop(name) for name in ("cache", "cache_size") if name in arguments}
    opened = open_dataset(description["path"], version=description["version"], **cache)
    return opened.select(unpack_rows(description["rows"])) if "rows" in description else opened
