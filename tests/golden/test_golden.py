"""Results of the library are the recorded ones, on any machine: see the README beside this file."""

from __future__ import annotations

import json

import pytest
from check import EXACT, PORTABLE, results_of
from configurations import CONFIGURATIONS
from configurations.results import Local, Near, Pixels, digest, is_close
from configurations.sources import Sandbox


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    return Sandbox(tmp_path_factory.mktemp("golden"))


@pytest.mark.filterwarnings("ignore:a bad sample was", "ignore:.*an empty last batch")
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_results_are_the_recorded_ones(name: str, sandbox: Sandbox) -> None:
    exact = json.loads(EXACT.read_text())[name]
    portable = json.loads(PORTABLE.read_text()).get(name, {})
    results = results_of(name, sandbox)
    assert sorted(results) == sorted(exact)
    different = []
    for key, result in results.items():
        if isinstance(result, (Near, Pixels)):
            same = is_close(result, portable[key])
        else:
            same = isinstance(result, Local) or digest(result) == exact[key]
        if not same:
            different.append(key)
    assert different == []
