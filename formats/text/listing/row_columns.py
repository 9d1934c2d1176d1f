"""The names of labels and further columns that a conversion of text reads from the objects of its source."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stoker.arguments import list_of_names
from stoker.errors import ConfigError

from ...conversion.samples.values.columns import check_names
from ...sources.classes import check_classes


@dataclass(frozen=True)
class RowColumns:
    """The values of a sample that become columns of the index."""

    # Name of the value that is the class of a sample; None if samples have no classes
    label: str | None = None
    columns: tuple[str, ...] = ()  # Names of further numbers and texts
    # Names of the classes, that of label 0 first; None takes the sorted names in the source
    classes: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls, label: str | None, columns: Sequence[str] | None, classes: Sequence[str] | None
    ) -> RowColumns:
        """The columns that the arguments of a conversion name."""
        names = () if columns is None else list_of_names("columns", columns)
        return cls(label, names, check_classes(classes))

    def __post_init__(self) -> None:
        check_names(self.columns)
        if len(set(self.columns)) < len(self.columns):
            raise ConfigError(f"columns must be different names, not {self.columns}")
        if self.classes is not None and self.label is None:
            raise ConfigError(
                "classes name labels, and no label is read",
                hint="say with label= (--label) which value of a sample it is",
            )
        if self.label is not None and not (isinstance(self.label, str) and self.label):
            raise ConfigError(f"label must be the name of a value, not {self.label!r}")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all values that are read."""
        return (*([] if self.label is None else [self.label]), *self.columns)

    def check(self, fields: Iterable[str], json_lines: bool) -> None:
        """Check the columns against the fields of the text."""
        if self.names and not json_lines:
            raise ConfigError(
                "label and columns are values of objects, and files of lines have texts alone",
                hint="write JSON Lines, one object in each line, and name the file .jsonl",
            )
        derived = {f"{field}_{end}" for field in fields for end in ("length", "trained")}
        if taken := derived & set(self.columns):
            raise ConfigError(
                f"column {min(taken)!r} is a name that the index uses itself", hint="rename it in the source"
            )
