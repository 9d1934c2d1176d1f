"""States of loaders: what they record, and which states a loader refuses."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import pytest

from stoker.errors import CheckpointError
from stoker.pipeline.execution.state import State, convert_stream_state

IDENTITY = {"dataset": "abc", "seed": 3, "transforms": {"size": [2, 2]}}
STATE = State(2, 7, IDENTITY).to_dict()


def test_a_state_survives_json() -> None:
    assert State.from_dict(json.loads(json.dumps(STATE)), IDENTITY, 10) == State(2, 7, IDENTITY)


def test_a_state_is_small_json_data() -> None:
    assert STATE == {"version": 1, "epoch": 2, "position": 7, "identity": IDENTITY}


def test_a_state_can_be_any_mapping() -> None:
    assert State.from_dict(MappingProxyType(STATE), IDENTITY, 10).position == 7


@pytest.mark.parametrize(
    "state",
    [
        None,
        {},
        [],
        {**STATE, "more": 1},
        {k: v for k, v in STATE.items() if k != "epoch"},
        {**STATE, "identity": 3},
    ],
)
def test_refuses_data_that_is_no_state(state: Any) -> None:
    with pytest.raises(CheckpointError, match="not a state of a Stoker loader"):
        State.from_dict(state, IDENTITY, 10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "version 2, but this Stoker reads version 1"),
        ({"epoch": -1}, "epoch must be a whole number from 0, found -1"),
        ({"epoch": True}, "epoch must be a whole number"),
        ({"position": 1.5}, r"position must be a whole number from 0, found 1\.5"),
        ({"position": "1"}, "position must be a whole number"),
        ({"position": 11}, "at position 11, but an epoch ends at 10"),
    ],
)
def test_refuses_impossible_states(change: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        State.from_dict({**STATE, **change}, IDENTITY, 10)


def test_the_error_names_what_differs() -> None:
    other = {**IDENTITY, "seed": 4, "order": "full"}
    with pytest.raises(CheckpointError) as caught:
        State.from_dict(STATE, other, 10)
    assert "order was None and is 'full'; seed was 3 and is 4" in str(caught.value)
    assert "transforms" not in str(caught.value)
    with pytest.raises(CheckpointError, match="order was 'full' and is None; seed was 4 and is 3"):
        State.from_dict(State(0, 0, other).to_dict(), IDENTITY, 10)


def test_the_error_names_only_the_leaf_that_differs() -> None:
    crop, flip = {"name": "CenterCrop", "size": [8, 8]}, {"name": "RandomHorizontalFlip", "p": 0.5}
    saved = {"plan": {"transforms": [crop, flip], "dtype": "uint8"}}
    current = {"plan": {"transforms": [crop, {**flip, "p": 0.4}, crop], "dtype": "uint8"}}
    with pytest.raises(CheckpointError) as caught:
        State.from_dict(State(0, 0, saved).to_dict(), current, 10)
    message = "plan.transforms[1].p was 0.5 and is 0.4; plan.transforms had 2 entries and has 3"
    assert caught.value.message == f"the state belongs to another loader: {message}"
    with pytest.raises(CheckpointError, match=r"transforms had 3 entries and has 2"):
        State.from_dict(State(0, 0, current).to_dict(), saved, 10)


STREAM = {**STATE, "samples_per_epoch": 60}


@pytest.mark.parametrize(
    ("samples", "epoch", "position"),
    [(60, 2, 7), (30, 4, 7), (100, 1, 27), (127, 1, 0), (1, 127, 0), (500, 0, 127)],
)
def test_a_stream_continues_at_the_same_draw_with_another_length_of_epochs(
    samples: int, epoch: int, position: int
) -> None:
    assert convert_stream_state(samples, STREAM) == {**STATE, "epoch": epoch, "position": position}


def test_the_end_of_an_epoch_stays_its_end() -> None:
    assert convert_stream_state(60, {**STREAM, "position": 60})["position"] == 60


@pytest.mark.parametrize("state", [STATE, None, [], {}])
def test_states_of_other_loaders_do_not_change(state: Any) -> None:
    assert convert_stream_state(30, state) is state


@pytest.mark.parametrize(
    "change",
    [
        {"samples_per_epoch": 0},
        {"samples_per_epoch": -60},
        {"samples_per_epoch": 60.0},
        {"samples_per_epoch": True},
        {"epoch": None},
        {"position": -1},
    ],
)
def test_refuses_impossible_positions_in_a_stream(change: dict[str, Any]) -> None:
    with pytest.raises(CheckpointError, match="must be whole numbers from 0"):
        convert_stream_state(30, {**STREAM, **change})
