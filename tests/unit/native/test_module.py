"""The CPU level, the pool of buffers and the pool of threads of the C++ module."""

import os
import subprocess
import sys

import numpy as np
import pytest

from stoker import _native


class TestCpuLevel:
    def test_a_lower_level_can_be_asked_for(self) -> None:
        program = "from stoker import _native; print(_native.cpu_level())"
        command = [sys.executable, "-c", program]
        environment = {**os.environ, "STOKER_CPU_LEVEL": "plain"}
        assert subprocess.check_output(command, env=environment, text=True).strip() == "plain"
        assert _native.cpu_level() in ("avx512", "avx2", "neon", "plain")


class TestBufferPool:
    def test_a_buffer_is_used_again_when_no_array_holds_it(self) -> None:
        pool = _native.BufferPool(2)
        array = pool.array((4, 5), "float32")
        assert (array.shape, array.dtype, array.ctypes.data % 64) == ((4, 5), np.float32, 0)
        address, view = array.ctypes.data, array[1:]
        del array
        other = pool.array((4, 5), "float32")
        assert other.ctypes.data != address
        del view
        assert pool.array((4, 5), "float32").ctypes.data == address

    @pytest.mark.parametrize(("keep", "kept"), [(0, 1), (3, 3)])
    def test_it_keeps_as_many_buffers_as_it_is_asked_to(self, keep: int, kept: int) -> None:
        pool = _native.BufferPool(1)
        pool.keep_at_least(keep)
        sizes = [(size << 20,) for size in (1, 2, 3)]
        arrays = [pool.array(size, "uint8") for size in sizes]
        addresses = {array.ctypes.data for array in arrays}
        del arrays
        others = [np.empty(size, np.uint8) for size in sizes]  # they take what the pool has freed
        again = [pool.array(size, "uint8") for size in sizes]
        assert len(addresses & {array.ctypes.data for array in again}) == kept
        del others

    def test_arrays_outlive_the_pool(self) -> None:
        array = _native.BufferPool(0).array((1000,), "uint8")
        array[:] = 7
        assert array.sum() == 7000

    def test_impossible_shapes_are_refused(self) -> None:
        with pytest.raises(ValueError, match="too large"):
            _native.BufferPool(0).array((2**40, 2**40), "uint8")
        with pytest.raises(MemoryError):
            _native.BufferPool(0).array((2**64 - 1,), "uint8")
        with pytest.raises(ValueError, match="dtype"):
            _native.BufferPool(0).array((1,), "int64")


class TestPool:
    def test_a_pool_may_be_closed_twice(self) -> None:
        pool = _native.Pool(2)
        pool.close()
        pool.close()
