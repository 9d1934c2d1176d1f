"""Batches of the native engine with each instruction set, which a process chooses once."""

from __future__ import annotations

import errno
import gc
import itertools
import json
import os
import pickle
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from helpers.datasets import read_files
from helpers.options import convert_options
from helpers.warm_python import WarmPython

import stoker
from stoker.augment import ImageParams
from stoker.errors import DatasetError, WriteError
from stoker.formats.containers import lmdb, tfrecord
from stoker.formats.dataset.index import Samples
from stoker.formats.dataset.manifest import MANIFEST_NAME
from stoker.types import DType, Layout

BatchForm = tuple[DType, Layout, ImageParams]

PROGRAM = """
import hashlib, pickle, sys
from stoker.pipeline.engines.base import EngineSettings, ImageFormat, Work
from stoker.pipeline.engines.native import NativeEngine
path, bytes, samples, batches = pickle.load(sys.stdin.buffer)
for dtype, layout, params in batches:
    engine = NativeEngine(EngineSettings([path], [bytes], ImageFormat(dtype, layout), max_pixels=10**6))
    engine.submit(Work(samples, params))
    result = engine.collect()
    assert not result.status.any(), result.reason
    print(hashlib.sha256(result.images).hexdigest())
    engine.close()
"""


def digests_at_level(level: str, path: Path, samples: Samples, batches: Sequence[BatchForm]) -> list[str]:
    """Returns a digest of the images of each batch of the samples in a file."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=pickle.dumps((str(path), path.stat().st_size, samples, list(batches))),
        env={**os.environ, "STOKER_CPU_LEVEL": level},
        capture_output=True,
        check=True,
    )
    digests = done.stdout.decode().split()
    assert len(digests) == len(batches)
    return digests


TESTS = Path(__file__).parents[1]


def run_program(name: str, *arguments: str | Path, timeout: float = 1200) -> str:
    """Runs a program to its good end and returns what it prints."""
    command = [sys.executable, Path(__file__).parent / name, *arguments]
    path = os.pathsep.join([str(TESTS), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_in_fork(python: WarmPython, name: str, *arguments: str | Path) -> str:
    """Runs a program, which must succeed, in a fork of a warm process, and returns what it prints."""
    return python.output(Path(__file__).parent / name, *arguments, paths=[TESTS])


def printed_json(code: str, *arguments: object) -> list[Any]:
    """Runs Python code without GPUs and warnings, and returns the JSON of each line that it prints."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def fork(work: Callable[[], object]) -> int:
    """Runs a function in a forked process, and returns its id; see :func:`end_of`."""
    child = os.fork()
    if child:
        return child
    try:
        work()
        os._exit(0)
    except DatasetError as error:
        os._exit(3 if "already" in str(error) else 4)
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
        os._exit(5)


def end_of(child: int) -> int:
    """Waits for a process, and returns its status: minus a signal, or 3 if the dataset was already there."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die() -> None:
    """Kills this process, as the machine or another program may."""
    os.kill(os.getpid(), signal.SIGKILL)


class DiskFault:
    """A fault in the n-th call that changes the disk, or in the n-th call of one kind."""

    def __init__(self, number: int, fault: Callable[[], Any], kind: str | None = None) -> None:
        self.counts: Counter[str] = Counter()
        self.hit = False
        self._number, self._fault, self._kind = number, fault, kind
        self._lock = threading.Lock()

    def wrap(self, call: Callable[..., Any], kind: str = "") -> Callable[..., Any]:
        """Returns the call with the fault in it."""

        def wrapped(*arguments: Any, **options: Any) -> Any:
            with self._lock:
                self.counts[kind] += 1
                count = self.counts.total() if self._kind is None else self.counts[kind]
                failing = count == self._number and self._kind in (None, kind)
                self.hit |= failing
            if failing:
                self._fault()
            return call(*arguments, **options)

        return wrapped

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Puts the fault into every call that changes the disk, and replaces syncs by nothing."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", lambda descriptor: None)
            calls: list[tuple[Any, str]] = [(os, "write"), (os, "fsync"), (Path, "rename"), (Path, "mkdir")]
            for writer in (tfrecord.TFRecordWriter, lmdb.LMDBWriter):
                calls += [(writer, "write"), (writer, "finish")]
            for owner, name in calls:
                patch.setattr(owner, name, self.wrap(getattr(owner, name), f"{owner.__name__}.{name}"))
            yield


@contextmanager
def full_disk(shards: int = 0) -> Iterator[None]:
    """A disk that has room for so many shards of a conversion: the files of any other cannot be synced."""
    fitting: set[str] = set()
    lock = threading.Lock()

    def fsync(descriptor: int) -> None:
        attempt = re.search(r"/attempt-\w+", str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        with lock:
            if attempt and len(fitting) < shards:
                fitting.add(attempt[0])
        if attempt and attempt[0] not in fitting:
            os_error(errno.ENOSPC)()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        yield


def os_error(code: int) -> Callable[[], None]:
    """Returns a fault that raises an OSError with this number."""

    def fail() -> None:
        raise OSError(code, os.strerror(code))

    return fail


def deadly_faults(calls: DiskFault, *, every: bool) -> list[DiskFault]:
    """Returns faults that kill the process, at every counted call or at the middle one of each kind."""
    if every:
        return [DiskFault(number + 1, die) for number in range(calls.counts.total())]
    return [DiskFault((count + 1) // 2, die, kind) for kind, count in calls.counts.items()]


class FailingConversion:
    """A conversion of pictures in which a call fails, and which the same command then resumes."""

    def __init__(self, photos: Path, folder: Path, container: Any, code: int) -> None:
        self._photos, self._folder, self._code = photos, folder, code
        self._options: dict[str, Any] = {"format": container, "seed": 3, "shards": 3, "val": "25%"}
        self.calls = DiskFault(0, os_error(code))
        self._run(folder / "reference", self.calls)
        self._expected = read_files(folder / "reference")

    def _run(self, out: Path, fault: DiskFault) -> None:
        with fault.installed():
            stoker.convert(self._photos, out, num_threads=2, **convert_options(self._options))

    def fails_and_resumes(self, number: int, kind: str | None = None) -> bool:
        """Runs with the fault in a call, then without, and returns whether there is such a call."""
        out = self._folder / f"out-{kind}-{number}"
        fault = DiskFault(number, os_error(self._code), kind)
        try:
            self._run(out, fault)
        except WriteError as error:
            assert fault.hit
            assert ("disk is full" in str(error)) == (self._code == errno.ENOSPC)  # noqa: PT017 - not every fault is an error
        assert not list(out.glob(".stoker-*/attempt-*"))
        for manifest in out.glob(f"*/{MANIFEST_NAME}"):
            stoker.open(manifest.parent)
        try:
            self._run(out, DiskFault(0, os_error(self._code)))
        except DatasetError as error:
            assert "already" in str(error)  # noqa: PT017 - the fault may come after the last rename
        assert read_files(out) == self._expected
        shutil.rmtree(out)
        return fault.hit


def at_point(number: int, what: Callable[[], None], action: Callable[[], Any]) -> bool:
    """Run ``action``, and ``what`` at the n-th point where Python handles signals; return whether it exists.

    Points inside the start of a thread do not count: there Ctrl-C can leave a lock of Python's own taken.
    """
    left = number

    def look(frame: FrameType, event: str, argument: object) -> None:
        nonlocal left
        left -= event in ("call", "c_return") and not _starts_thread(frame)
        if not left:
            left -= 1
            what()

    sys.setprofile(look)
    try:
        action()
    finally:
        sys.setprofile(None)
    return left < 0


def _starts_thread(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code is not threading.Thread.start.__code__:
        frame = frame.f_back
    return frame is not None


def interrupted_everywhere(make: Callable[[], tuple[Callable[[], Any], Callable[[], None]]]) -> None:
    """Run an action with Ctrl-C at each point in turn, and then its check in a thread; ``make`` makes both.

    The error is kept alive during the check, as in an interactive session.
    """

    def interrupt() -> None:
        raise KeyboardInterrupt

    for number in itertools.count(1):
        action, check = make()
        try:
            if not at_point(number, interrupt, action):
                assert number > 1
                return
        except KeyboardInterrupt as error:
            kept = error
            ends(check)
            del kept
        else:
            ends(check)


def ends(check: Callable[[], Any]) -> None:
    """Run ``check`` in a thread; fail if it does not end, and raise what it raises."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            check()
        except BaseException as error:  # the test raises it, whatever it is
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "it waits for a lock that stays taken"
    if errors:
        raise errors[0]


def entries(folder: str) -> int:
    return len(list(Path(folder).iterdir()))


def tasks() -> int:
    """Count all threads of the process except those of Arrow's allocator, which can start at any time."""
    count = 0
    for path in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # the thread has ended
            count += not (path / "comm").read_text().startswith("jemalloc")
    return count


def left() -> dict[str, int]:
    """Count the things that a loader could leave behind in its process."""
    with Path("/proc/self/statm").open() as file:
        resident = int(file.read().split()[1]) >> 8
    shared = sum(path.name.startswith("stoker") for path in Path("/dev/shm").iterdir())
    return {
        "threads": threading.active_count(),
        "tasks": tasks(),
        "descriptors": entries("/proc/self/fd"),
        "shared": shared,
        "temporary": entries(tempfile.gettempdir()),
        "MiB": resident,
    }


def settled(before: dict[str, int] | None = None) -> dict[str, int]:
    """Return :func:`left` after threads that are ending have ended."""
    end = time.monotonic() + (60 if before else 0.5)
    while time.monotonic() < end:
        gc.collect()
        now = left()
        if before and all(now[name] <= before[name] for name in before if name != "MiB"):
            break
        time.sleep(0.01)
    return left()


LIMIT = 200
"""Seconds after which a child has hung, on any machine; children that only wait sleep longer."""

PROLOGUE = """
import gc, os, signal, sys, threading, time
# Otherwise Arrow starts further threads at moments of its own.
os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
import pyarrow
pyarrow.set_cpu_count(1)
pyarrow.set_io_thread_count(1)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell makes background processes ignore it
from stoker import ImageLoader
from stoker.augment import Resize
from stoker.errors import LoaderClosedError

def make(**options):
    options = {"batch_size": 5, "engine": ENGINE, "num_threads": 2, **options}
    return ImageLoader(FOLDER, **{"transforms": [Resize((16, 16))], **options})

def tasks():
    count = 0
    for task in os.listdir("/proc/self/task"):
        try:
            count += not open(f"/proc/self/task/{task}/comm").read().startswith("jemalloc")
        except OSError:
            pass  # the thread has ended
    return count

def settled(count, expected):
    end = time.monotonic() + 60
    while count() > expected and time.monotonic() < end:
        time.sleep(0.01)
    return count()
"""


def program(engine: str, folder: Path, code: str) -> str:
    """Returns the code after the first lines that all these processes run."""
    return f"ENGINE, FOLDER = {engine!r}, {str(folder)!r}\n{PROLOGUE}{code}"


def start(engine: str, folder: Path, code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program(engine, folder, code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(engine: str, folder: Path, code: str) -> str:
    """Run a child to its end, which must come and be a success; return what it printed."""
    child = start(engine, folder, code)
    try:
        out, err = child.communicate(timeout=LIMIT)
    finally:
        child.kill()
    assert child.returncode == 0, err
    assert "Traceback" not in err
    return out


def run_until_signal(engine: str, folder: Path, code: str, number: signal.Signals) -> str:
    """Send a signal to a child once it prints "ready"; it must end by that signal. Return its errors."""
    child = start(engine, folder, code)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(number)
        _, err = child.communicate(timeout=LIMIT)
    finally:
        child.kill()
    assert child.returncode == -number, err
    return err


def free_ports(n: int) -> list[int]:
    """Return free ports below those that the system gives to clients: none takes them before their use."""
    ports: list[int] = []
    begin = os.getpid() * 16 % 10_000 + 10_000  # processes that ask at once have neighbouring numbers
    for port in range(begin, begin + 10_000):
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            ports.append(port)
        if len(ports) == n:
            return ports
    raise AssertionError("no port is free")


def wait_until(condition: Callable[[], object], seconds: float = 120) -> None:
    """Waits for a condition, which must come true in time; the limit is long enough for any machine."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.001)
    assert condition()
