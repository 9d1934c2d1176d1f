"""These tests need an NVIDIA GPU with DALI; without one they are skipped, and say so."""

from pathlib import Path

import pytest

from stoker.pipeline.engines.selection.devices import has_dali
from stoker.pipeline.engines.selection.gpus import gpu_count


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, so that no measurement of an earlier run counts."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = (
        None
        if gpu_count() and has_dali()
        else "needs an NVIDIA GPU and DALI, and this machine lacks one of them"
    )
    for item in items:
        if "tests/gpu" in item.path.as_posix():
            item.add_marker(pytest.mark.gpu)
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))
