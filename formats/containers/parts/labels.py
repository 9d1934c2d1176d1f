"""Labels of external records: the numbers in a record become one label or several."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.errors import SourceError

from ..messages.image_record import Label


def to_label(values: Sequence[float], label_type: str, what: str) -> Label:
    """Return the label that the numbers of a record state, in one of the forms of ``LABEL_TYPES``.

    ``what`` is the source of the numbers in errors, such as "the feature 'label'".
    """
    if label_type == "shard":
        return 0  # the indexer sets it
    if label_type in ("one-hot", "multi-hot"):
        return _indexes_of_ones(values, label_type, what)
    if label_type == "several":
        return tuple(_whole(value, what) for value in values)
    if len(values) != 1:
        raise SourceError(
            f"{what} is not one integer, but {len(values)} numbers",
            hint="name the form of the label, --label-type several, one-hot or multi-hot; or another label, "
            "or none",
        )
    return float(values[0]) if label_type == "float" else _whole(values[0], what)


def _whole(value: float, what: str) -> int:
    """Return the number of a class, which many writers store as a float."""
    if isinstance(value, int):
        return value
    if not value.is_integer():
        raise SourceError(
            f"{what} is not one integer: {value:g} is not whole",
            hint="--label-type float keeps a number that is not a class",
        )
    return int(value)


def _indexes_of_ones(values: Sequence[float], label_type: str, what: str) -> Label:
    ones = tuple(index for index, value in enumerate(values) if value == 1)
    other_values = [value for value in values if value not in (0, 1)]
    if other_values:
        raise SourceError(
            f"{what} is not {label_type}: it holds {other_values[0]:g}, neither 0 nor 1",
            hint="name another form of the label (--label-type), or another label (--label)",
        )
    if label_type == "multi-hot":
        return ones
    if len(ones) != 1:
        hint = "--label-type multi-hot takes several" if ones else "name another label, or none"
        raise SourceError(f"{what} is not one-hot: {len(ones)} of its {len(values)} numbers are 1", hint=hint)
    return ones[0]
