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


def test_a_state_is_small_json_data_in_any_mapping() -> None:
    assert STATE == {"version": 1, "epoch": 2, "position": 7, "identity": IDENTITY}
    saved = MappingProxyType(json.loads(json.dumps(STATE)))
    assert State.from_dict(saved, IDENTITY, 10) == State(2, 7, IDENTITY)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (None, "not a state of a Stoker loader"),
        ({}, "not a state of a Stoker loader"),
        ([], "not a state of a Stoker loader"),
        ({**STATE, "more": 1}, "not a state of a Stoker loader"),
        ({k: v for k, v in STATE.items() if k != "epoch"}, "not a state of a Stoker loader"),
        ({**STATE, "identity": 3}, "not a state of a Stoker loader"),
        ({**STATE, "version": 2}, "version 2, but this Stoker reads version 1"),
        ({**STATE, "epoch": -1}, "epoch must be a whole number from 0, found -1"),
        ({**STATE, "epoch": True}, "epoch must be a whole number"),
        ({**STATE, "position": 1.5}, r"position must be a whole number from 0, found 1\.5"),
        ({**STATE, "position": "1"}, "position must be a whole number"),
        ({**STATE, "position": 11}, "at position 11, but an epoch ends at 10"),
    ],
)
def test_refuses_impossible_states(state: Any, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        State.from_dict(state, IDENTITY, 10)


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
    assert convert_stream_state(samples, STATE) == STATE, "it is not the state of a stream"
    assert convert_stream_state(60, {**STREAM, "position": 60})["position"] == 60, "the end stays the end"


WRONG = [("samples_per_epoch", wrong) for wrong in (0, -60, 60.0, True)]


@pytest.mark.parametrize(("name", "value"), [*WRONG, ("epoch", None), ("position", -1)])
def test_refuses_impossible_positions_in_a_stream(name: str, value: Any) -> None:
    with pytest.raises(CheckpointError, match="must be whole numbers from 0"):
        convert_stream_state(30, {**STREAM, name: value})
