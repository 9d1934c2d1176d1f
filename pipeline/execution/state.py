"""A checkpoint of a loader: where it is, and what it must be to go on from there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from stoker.errors import CheckpointError

__all__ = ["State", "in_epochs_of"]

_VERSION = 1


@dataclass(frozen=True)
class State:
    """Plain data that any checkpoint format can hold.

    Attributes:
        epoch: The epoch that the next pass runs.
        position: Samples of that epoch's global order which all ranks together have received.
        identity: What decides the order and the pixels: dataset, seed, shuffle, transforms; and what becomes
            of objects. Ranks, batch size, threads and engine may change between saving and loading.
    """

    epoch: int
    position: int
    identity: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """As JSON-able data."""
        return {"version": _VERSION, **asdict(self)}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any], identity: Mapping[str, Any], samples: int) -> State:
        """Check a saved state against the loader that is to go on from it.

        Args:
            state: What :meth:`to_dict` made.
            identity: Of the loader.
            samples: In an epoch of the loader.

        Raises:
            CheckpointError: It is no state, of another version, or of another loader; says what differs.
        """
        names = {"version", "epoch", "position", "identity"}
        if (
            not isinstance(state, Mapping)
            or set(state) != names
            or not isinstance(state["identity"], Mapping)
        ):
            raise CheckpointError(
                "this is no state of a Stoker loader", hint="Pass what state_dict() returned."
            )
        if state["version"] != _VERSION:
            raise CheckpointError(f"the state has version {state['version']!r}, this Stoker reads {_VERSION}")
        for name in ("epoch", "position"):
            if type(state[name]) is not int or state[name] < 0:
                raise CheckpointError(f"{name} must be a whole number from 0, found {state[name]!r}")
        differing = list(_differences("", state["identity"], identity))
        if differing:
            raise CheckpointError(
                f"the state belongs to another loader: {'; '.join(differing)}",
                hint="Make the loader with the arguments it was saved with.",
            )
        if state["position"] > samples:
            raise CheckpointError(f"position is {state['position']}, and an epoch has {samples} samples")
        return cls(state["epoch"], state["position"], identity)


def _differences(name: str, saved: Any, found: Any) -> Iterator[str]:
    """What differs between two values as JSON has them, each leaf by where it is."""
    if isinstance(saved, Mapping) and isinstance(found, Mapping):
        for key in sorted({*saved, *found}, key=str):
            yield from _differences(f"{name}.{key}" if name else str(key), saved.get(key), found.get(key))
    elif isinstance(saved, list) and isinstance(found, list):
        for i, (before, now) in enumerate(zip(saved, found, strict=False)):
            yield from _differences(f"{name}[{i}]", before, now)
        if len(saved) != len(found):
            yield f"{name} had {len(saved)} entries and has {len(found)}"
    elif saved != found:
        yield f"{name} was {saved!r} and is {found!r}"


def in_epochs_of(samples: int, state: Mapping[str, Any]) -> Mapping[str, Any]:
    """A state that says how many samples its epochs had, for epochs of ``samples``; others as they are.

    Of a stream any length of epochs is the same stream, and only its place in it matters.

    Raises:
        CheckpointError: What it says is no number.
    """
    if not isinstance(state, Mapping) or "samples_per_epoch" not in state:
        return state
    plain = dict(state)
    numbers = (plain.pop("samples_per_epoch"), plain.get("epoch"), plain.get("position"))
    if any(type(number) is not int or number < 0 for number in numbers) or not numbers[0]:
        raise CheckpointError(
            f"samples_per_epoch, epoch and position must be whole numbers from 0, found {numbers}"
        )
    before, epoch, position = numbers
    if before != samples:
        plain["epoch"], plain["position"] = divmod(epoch * before + position, samples)
    return plain
