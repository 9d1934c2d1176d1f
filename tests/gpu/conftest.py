"""These tests need an NVIDIA GPU with DALI; without one they are skipped, and say so.

``STOKER_TEST_DEVICE=cpu`` runs most of them on the CPU, see helpers/gpu_device.py.
"""

import os

import pytest
from helpers.gpu_device import ON_GPU

from stoker.pipeline.engines.registry import has_dali, visible_gpus

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else JAX takes most memory of the GPU


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    can_run = has_dali() and (not ON_GPU or visible_gpus())
    reason = "needs an NVIDIA GPU and DALI, and this machine lacks one of them"
    for item in items:
        if "tests/gpu" in item.path.as_posix():
            item.add_marker(pytest.mark.gpu)
            if not can_run:
                item.add_marker(pytest.mark.skip(reason=reason))
