"""Refusals of arguments and uses that only other loaders allow, with their replacements."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

from stoker.errors import ConfigError, LoaderClosedError
from stoker.porting import LOADER_ARGUMENTS, check_arguments

L = TypeVar("L", bound="Refusals")


class Refusals:
    """A base of loaders that refuses arguments of other loaders, items, and pickling."""

    def __new__(cls: type[L], *_: Any, **arguments: Any) -> L:
        """Refuse an argument that only other loaders have, and name its replacement."""
        check_arguments(cls, arguments, LOADER_ARGUMENTS)
        return super().__new__(cls)

    def __getitem__(self, _: object) -> NoReturn:
        """Refuse to be the dataset of torch's DataLoader, which reads by index."""
        raise ConfigError(
            "a loader has no items: it makes whole batches, and replaces a DataLoader",
            hint="Iterate over the loader. Code that needs a DataLoader takes "
            "DataLoader(iterable_dataset(loader), batch_size=None), with iterable_dataset from "
            "stoker.pipeline.adapters.torch.",
        )

    def __reduce__(self) -> NoReturn:
        raise LoaderClosedError(
            "a loader cannot be pickled: its threads and open files belong to this process",
            hint="Make the loader in the process that iterates over it.",
        )
