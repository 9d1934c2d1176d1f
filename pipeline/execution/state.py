"""Checkpoints of loaders: the next batch, and what a loader and the saved one must have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, cast

from stoker.errors import CheckpointError

_VERSION = 1


@dataclass(frozen=True)
class State:
    """A loader's state: JSON data that any checkpoint format can hold."""

    epoch: int  # The epoch of the next pass
    # Draws (ImageLoader) or steps (TextLoader) of that epoch that all ranks together have received, see
    # :class:`~stoker.pipeline.order.schedule.Schedule`
    position: int
    # Everything that determines order and content of batches: dataset, seed, shuffle, transforms and the form
    # of objects. Ranks, threads and engine are not part of it, nor, of images, the batch size
    identity: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return {"version": _VERSION, **asdict(self)}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any], identity: Mapping[str, Any], samples: int) -> State:
        """Check a saved state against the loader that is to continue from it."""
        is_state = isinstance(state, Mapping) and set(state) == {"version", "epoch", "position", "identity"}
        if not is_state or not isinstance(state["identity"], Mapping):
            raise CheckpointError(
                "this is not a state of a Stoker loader", hint="Pass what state_dict() returned."
            )
        if state["version"] != _VERSION:
            raise CheckpointError(
                f"the state has version {state['version']!r}, but this Stoker reads version {_VERSION}"
            )
        for name in ("epoch", "position"):
            if type(state[name]) is not int or state[name] < 0:
                raise CheckpointError(f"{name} must be a whole number from 0, found {state[name]!r}")
        differing = list(differences("", state["identity"], identity))
        if differing:
            raise CheckpointError(
                f"the state belongs to another loader: {'; '.join(differing)}",
                hint="Make the loader with the arguments of the saved one.",
            )
        if state["position"] > samples:
            raise CheckpointError(
                f"the state is at position {state['position']}, but an epoch ends at {samples}"
            )
        return cls(state["epoch"], state["position"], identity)


def differences(name: str, saved: Any, current: Any) -> Iterator[str]:
    """Yield a phrase for each leaf that differs between two values of JSON data."""
    if isinstance(saved, Mapping) and isinstance(current, Mapping):
        for key in sorted({*saved, *current}, key=str):
            yield from differences(f"{name}.{key}" if name else str(key), saved.get(key), current.get(key))
    elif isinstance(saved, list) and isinstance(current, list):
        for i, (before, now) in enumerate(zip(saved, current, strict=False)):
            yield from differences(f"{name}[{i}]", before, now)
        if len(saved) != len(current):
            yield f"{name} had {len(saved)} entries and has {len(current)}"
    elif saved != current:
        yield f"{name} was {saved!r} and is {current!r}"


def convert_stream_state(samples: int, state: Mapping[str, Any]) -> Mapping[str, Any]:
    """Convert the state of a stream to epochs of ``samples`` draws, and return other states as they are."""
    # The next draw of the stream stays the same, since a stream does not depend on the length of its epochs.
    if "samples_per_epoch" not in state:
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


History = tuple[tuple[int, int], ...]
"""(world size, steps done) of each part of an epoch that was resumed with another number of ranks."""


def resumed_history(state: Mapping[str, Any], position: int, world_size: int) -> tuple[History, bool]:
    """Return the parts before the rest of an epoch, and whether that rest has another plan."""
    history = checked_history([*state["history"], [state["world_size"], position]])
    saved, done = history[-1]
    if saved == world_size:
        return history[:-1], False
    return (history if done else history[:-1]), True


class OldRanks(NamedTuple):
    """The number of ranks, and the batch size of each, with which an unfinished epoch started."""

    world_size: int
    batch_size: int


class EpochParts(NamedTuple):
    """The parts of one epoch that ran before a resume; other epochs have none."""

    epoch: int = 0
    history: History = ()
    begun: OldRanks | None = None  # None if the epoch has this loader's ranks and batch size

    def of(self, epoch: int) -> EpochParts:
        return self if self.epoch == epoch else EpochParts(epoch)


def checked_history(parts: Sequence[Any]) -> History:
    """The parts of an epoch as a state records them."""
    history = tuple(tuple(part) for part in parts)
    for part in history:
        if len(part) != 2 or any(type(number) is not int or number < 0 for number in part) or part[0] < 1:
            raise CheckpointError(
                f"a part of an epoch is (ranks, steps), found {part!r}",
                hint="Pass what state_dict() returned.",
            )
    return cast("History", history)
