"""The steps that the native engine claims to execute."""

import importlib.util

import pytest

from stoker import _native
from stoker.augment import steps as kinds
from stoker.pipeline.engines.native import steps as native_steps


def test_every_operation_of_the_module_is_claimed() -> None:
    claimed = {getattr(kinds, name).operation for name in native_steps.EXECUTES if hasattr(kinds, name)}
    assert claimed == set(_native.STEP_COLUMNS)


def test_a_step_without_an_operation_of_the_module_is_left_to_other_engines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class NumpyOnly(kinds.Step):
        pass

    # The engine collects the steps when it is imported, so its module is loaded again beside a new step.
    monkeypatch.setattr(kinds, "NumpyOnly", NumpyOnly, raising=False)
    monkeypatch.setattr(kinds, "__all__", [*kinds.__all__, "NumpyOnly"])
    spec = importlib.util.spec_from_file_location(f"{native_steps.__name__}_again", native_steps.__file__)
    assert spec is not None
    assert spec.loader is not None
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)
    assert again.EXECUTES == native_steps.EXECUTES
