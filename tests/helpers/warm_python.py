"""A Python process that has imported modules, and forks itself for each program of a test.

Imports of PyTorch and Stoker take longer than most of these programs. Tests use the fixtures
``warm_python`` and ``warm_torch``. A signal ends a program that runs longer than ``LIMIT`` seconds.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import types
import warnings
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

LIMIT = 1200


class WarmPython:
    """A process that has imported the given modules, as far as their packages are installed.

    Use it in a ``with`` statement, which ends the process.
    """

    def __init__(self, *modules: str) -> None:
        found = [name for name in modules if find_spec(name.partition(".")[0])]
        # Otherwise Arrow starts further threads at any moment.
        environment = os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system"}
        self._server = subprocess.Popen(
            [sys.executable, __file__, *found],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._folder = Path(tempfile.mkdtemp())
        self._started = 0

    def __enter__(self) -> WarmPython:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.communicate()
        shutil.rmtree(self._folder)

    def start(
        self,
        program: Path | str,
        *arguments: object,
        folder: Path | None = None,
        paths: Sequence[Path] = (),
        environment: Mapping[str, str] | None = None,
        strict: bool = False,
    ) -> Run:
        """Starts a program."""
        self._started += 1
        streams = [self._folder / f"{self._started}.{name}" for name in ("out", "err")]
        before = [str(path) for path in paths]
        path = os.pathsep.join([*before, *filter(None, [os.environ.get("PYTHONPATH")])])
        number = self._ask(
            {
                "file" if isinstance(program, Path) else "code": str(program),
                "arguments": [str(argument) for argument in arguments],
                "folder": str(folder or Path.cwd()),
                "paths": before,
                "environment": {**os.environ, "PYTHONPATH": path, **(environment or {})},
                "strict": strict,
                "streams": [str(stream) for stream in streams],
            }
        )
        return Run(self, number, streams)

    def run(
        self, program: Path | str, *arguments: object, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Starts a program as :meth:`start` does, and returns its result."""
        return self.start(program, *arguments, **options).finish()

    def output(self, program: Path | str, *arguments: object, **options: Any) -> str:
        """Runs a program, which must succeed, and returns what it prints."""
        return self.start(program, *arguments, **options).output()

    def _ask(self, request: object) -> int:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())


class Run:
    """A program that a warm process has started."""

    def __init__(self, python: WarmPython, number: int, streams: list[Path]) -> None:
        self._python, self._number, self._streams = python, number, streams

    def finish(self) -> subprocess.CompletedProcess[str]:
        """Waits for the end of the program."""
        code = self._python._ask(self._number)
        out, err = (stream.read_text() for stream in self._streams)
        return subprocess.CompletedProcess([], code, out, err)

    def output(self) -> str:
        """Waits for the end of the program, which must succeed, and returns what it prints."""
        done = self.finish()
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def execute(request: dict[str, Any]) -> None:
    """Runs a program in this process, which is a fork."""
    signal.alarm(LIMIT)
    for descriptor, name in enumerate((os.devnull, *request["streams"])):
        opened = os.open(name, os.O_RDWR | os.O_CREAT)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    name = request.get("file", "-c")
    sys.argv = [name, *request["arguments"]]
    sys.path[:0] = [str(Path(name).parent) if "file" in request else "", *request["paths"]]
    if request["strict"]:
        warnings.simplefilter("error")
    if "file" in request:
        runpy.run_path(name, run_name="__main__")
    else:
        module = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(request["code"], module.__dict__)


def serve() -> None:
    """Serves requests: forks for a program, or waits for the process of a program."""
    for line in sys.stdin:
        request = json.loads(line)
        if isinstance(request, int):
            answer = os.waitstatus_to_exitcode(os.waitpid(request, 0)[1])
        elif not (answer := os.fork()):
            execute(request)
            return
        print(answer, flush=True)


if __name__ == "__main__":
    del sys.path[0]  # programs must not import the modules of this folder
    for module in sys.argv[1:]:
        importlib.import_module(module)
    gc.freeze()
    serve()
