"""Loaders whose states name the version of their dataset, to go on with it.

The classes of checkpoints of images and of text derive from :class:`VersionedLoader`.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from stoker.errors import CheckpointError, DatasetError
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.dataset.versions import split_version
from stoker.formats.open import open as open_dataset

from .description import describe
from .execution.loader import Loader
from .order.sample_source import SampleSource

L = TypeVar("L", bound="VersionedLoader")

_NAME = "dataset_version"


class VersionedLoader(Loader):
    """A loader of a dataset that may have versions.

    A state of version 1 names no version, like states from the time before versions.
    """

    _given_dataset: Any
    _given_options: dict[str, Any]

    def __new__(cls: type[L], *positional: Any, **options: Any) -> L:
        """Keep the arguments, so that the loader can begin anew with another version."""
        loader = super().__new__(cls, *positional, **options)
        loader._given_dataset = positional[0] if positional else options.get("dataset")
        loader._given_options = {name: value for name, value in options.items() if name != "dataset"}
        return loader

    @property
    @abstractmethod
    def dataset(self) -> SampleSource:
        """The dataset or mixture whose samples are drawn."""

    def state_dict(self) -> dict[str, Any]:
        """Return the loader's state, with the version of its dataset; a mixture has a list of versions."""
        version = self._version
        return super().state_dict() if version == 1 else {**super().state_dict(), _NAME: version}

    def describe(self) -> dict[str, Any]:
        """Return dataset, arguments, ranks and state, to make this loader again on another machine.

        The dict is JSON data for ``stoker replay``, which shows any batch of the training from it. Write it
        beside the checkpoints. Its entry "missing" names arguments that JSON cannot hold, such as functions.
        """
        names = [cls.__name__ for cls in type(self).__mro__]
        options = self._given_options if self._knows_arguments else {"arguments": type(self)}
        return describe(
            "TextLoader" if "TextLoader" in names else "ImageLoader",
            self._given_dataset,
            self.dataset,
            options,
            world_size=self._ranks.world_size,
            state=self.state_dict(),
        )

    def _stores(self) -> tuple[str, ...]:
        return tuple(dataset.address for dataset in self.dataset.datasets)

    @property
    def _version(self) -> int | list[int]:
        versions = [dataset.manifest.dataset_version for dataset in self.dataset.datasets]
        return versions if len(versions) > 1 and max(versions) > 1 else versions[0]

    def _go_to_version(self, state: Any) -> Any:
        """Go to the version of the dataset that a state belongs to, and return the state without it."""
        if not isinstance(state, Mapping):
            return state
        plain = {name: value for name, value in state.items() if name != _NAME}
        identity = plain.get("identity")
        wanted = identity.get("dataset") if isinstance(identity, Mapping) else None
        if not isinstance(wanted, str) or wanted == self.dataset.fingerprint:
            return plain
        if self._may_choose():
            self._restart(wanted, state.get(_NAME))
        elif (named := state.get(_NAME, 1)) != self._version:
            raise CheckpointError(
                f"the state is of version {named} of the dataset, and the loader has version {self._version}",
                hint=f"To go on with version {named}, open it: stoker.open(path, version={named}). To train "
                "on with this one, leave the state and begin its next epoch: loader.set_epoch(epoch).",
            )
        return plain

    def _may_choose(self) -> bool:
        """Return whether the state decides the version, as the dataset was given by a path without one."""
        is_path = isinstance(self._given_dataset, (str, os.PathLike))
        return is_path and self._knows_arguments and split_version(self._given_dataset)[1] is None

    @property
    def _knows_arguments(self) -> bool:
        """Whether the arguments are a loader's, and not those of a user's class that is derived from one."""
        return type(self).__init__.__module__.startswith("stoker.")

    def _begin_anew(self, dataset: SampleSource, **changes: Any) -> None:
        """Begin as a loader of an opened dataset, with the given arguments and their ``changes``."""
        self._given_options |= changes
        options = {
            name: value for name, value in self._given_options.items() if name not in ("cache", "cache_size")
        }
        self.close()
        begin: Callable[..., None] = type(self).__init__
        begin(self, dataset, **options)

    def _restart(self, fingerprint: str, named: Any) -> None:
        """Begin anew with the version that has a fingerprint; without such a version nothing happens."""
        options = self._given_options
        cache = {name: options[name] for name in ("cache", "cache_size") if name in options}
        last = self.dataset.manifest.dataset_version
        for number in [named] if type(named) is int else range(max(last, 1), 0, -1):
            try:
                dataset: Dataset = open_dataset(self._given_dataset, version=number, **cache)
            except DatasetError:  # a version that is not here
                continue
            if dataset.fingerprint == fingerprint:
                self._begin_anew(dataset)
                return
