"""Memory and threads of the native engine when batches end early, are kept, or are dropped."""

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from helpers.payloads import GOOD, PAYLOAD_SIZE, Dataset

from stoker import _native
from stoker.errors import EngineError
from stoker.pipeline.engines.base import Work


def test_memory_of_arrays_in_use_is_not_overwritten(tmp_path: Path) -> None:
    dataset = Dataset(tmp_path, GOOD)
    engine = dataset.engine()
    held = []
    for i in range(12):
        engine.submit(Work(dataset.samples, dataset.params))
        images = engine.collect().images
        kept = np.from_dlpack(images[1:]) if i % 2 else images[:1, 0]
        held.append((kept, kept.copy()))
        del images
        for array, copy in held:
            np.testing.assert_array_equal(array, copy)
    addresses = {array.ctypes.data for array, _ in held}
    assert len(addresses) == len(held)
    engine.close()
    for array, copy in held:
        np.testing.assert_array_equal(array, copy)


def test_memory_of_dropped_arrays_is_used_again(tmp_path: Path) -> None:
    dataset = Dataset(tmp_path, GOOD)
    engine = dataset.engine()
    addresses = set()
    for _ in range(10):
        engine.submit(Work(dataset.samples, dataset.params))
        addresses.add(engine.collect().images.ctypes.data)
    engine.close()
    assert len(addresses) <= 2


def test_an_engine_closes_with_batches_in_flight(tmp_path: Path) -> None:
    dataset = Dataset(tmp_path, GOOD * 50)
    engine = dataset.engine()
    for _ in range(2):
        engine.submit(Work(dataset.samples, dataset.params))
    engine.close()
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        engine.submit(Work(dataset.samples, dataset.params))
    with pytest.raises(EngineError, match="no batch"):
        engine.collect()


def test_an_engine_that_is_dropped_while_it_runs_leaves_no_thread(tmp_path: Path) -> None:
    dataset = Dataset(tmp_path, GOOD * 100)
    threads = threading.active_count()
    for _ in range(5):
        engine = dataset.engine()
        engine.submit(Work(dataset.samples, dataset.params))
        del engine
    assert threading.active_count() <= threads


@pytest.mark.parametrize("order", ["pool, shards, job", "job, pool, shards", "shards, job, pool", "nothing"])
def test_the_end_of_the_interpreter_is_silent(order: str, tmp_path: Path) -> None:
    """Nothing hangs, crashes or is reported as leaked, in any order of dropping."""
    path = tmp_path / "shard"
    path.write_bytes(GOOD[0])
    end = "" if order == "nothing" else f"del {order}"
    program = f"""
import numpy as np
from stoker import _native
shards = _native.Shards([{str(path)!r}], [{len(GOOD[0])}])
pool = _native.Pool(2)
n = 200
samples = dict(shard=np.zeros(n, np.int32), offset=np.zeros(n, np.int64), length=np.full(n, {len(GOOD[0])}),
    crc=np.full(n, {_native.crc32c(GOOD[0])}, np.uint32), codec=np.ones(n, np.uint8),
    height=np.full(n, {PAYLOAD_SIZE[0]}, np.int32), width=np.full(n, {PAYLOAD_SIZE[1]}, np.int32),
    orientation=np.ones(n, np.uint8))
box = np.tile([0, 0, {PAYLOAD_SIZE[0]}, {PAYLOAD_SIZE[1]}], (n, 1))
params = dict(crop=box.astype(np.int32), region=box.astype(float),
    dest=np.full((n, 4), [0, 0, 9, 9], np.int32), flip=np.zeros((n, 2), bool),
    color=np.zeros((n, 3, 4), np.float32), fill=np.zeros(3, np.uint8))
job = pool.submit(shards, samples, params, out=np.empty((n, 3, 9, 9), np.float32), layout=0,
    status=np.empty(n, np.uint8), max_pixels=10**6, verify=True)
{end}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
