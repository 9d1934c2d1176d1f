"""JAX: arrays over the engine's memory, and a training loop."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from stoker.errors import ConfigError

jax = pytest.importorskip("jax")


from stoker.pipeline.adapters.jax import Adapter  # noqa: E402 - likewise


def test_the_second_process_of_a_job_takes_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """``jax.devices`` lists the GPUs of all processes, those of the first one first.

    No array can show its device here, as there is no GPU: the test reads the device of the adapter.
    """
    local = [SimpleNamespace(local_hardware_id=number) for number in (1, 0)]
    monkeypatch.setattr(jax, "local_devices", lambda backend: local if backend == "cuda" else [])
    monkeypatch.setattr(jax, "devices", lambda *_: pytest.fail("the GPUs of all processes were asked for"))
    assert Adapter("cuda:0")._device is local[1]
    assert Adapter("cuda:1")._device is local[0]
    with pytest.raises(ConfigError, match="'cuda:2' was asked for, and JAX uses cuda:0, cuda:1"):
        Adapter("cuda:2")
