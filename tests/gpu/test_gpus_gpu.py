"""GPUs that NVML counts, against those that CUDA shows."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from helpers.gpu_device import needs_cuda

from stoker.pipeline.engines.registry import visible_gpus

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("visible", [None, "", "0", "-1", "0,0", "0,99", "none"])
def test_the_count_is_that_of_cuda(visible: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        environment["CUDA_VISIBLE_DEVICES"] = visible
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    program = """
import ctypes
cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
print(0 if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)) else count.value)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    found = done.stdout.strip()
    assert len(visible_gpus()) == (int(found) if found else 0), done.stderr[-500:]


@needs_cuda
def test_counting_starts_no_cuda() -> None:
    program = """
import torch
from stoker.pipeline.adapters.torch import sees_gpu
from stoker.pipeline.engines.registry import visible_gpus
assert visible_gpus() and sees_gpu()
assert not torch.cuda._is_in_bad_fork() and not torch.cuda.is_initialized()
import os
child = os.fork()
if not child:
    torch.zeros(1, device="cuda").item()
    os._exit(0)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@needs_cuda
def test_jax_takes_the_first_gpu() -> None:
    """Devices of JAX have the attributes by which the adapter finds the GPU that CUDA calls 0.

    One process cannot show more: with several, the numbers of JAX go over the GPUs of all processes, and the
    adapter must take one of its own.
    """
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("needs a build of JAX that sees a GPU")
    from stoker.pipeline.adapters.jax import Adapter

    device = Adapter("cuda:0")._device
    assert device.local_hardware_id == 0
    assert device in jax.local_devices()
