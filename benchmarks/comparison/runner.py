"""The runner of a comparison: peers in their own processes, pinned to the same cores, in turns."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from types import TracebackType
from typing import IO, Any

from stoker.benchmarks.peers import PEERS, TEXT_PEERS
from stoker.benchmarks.peers.base import PeerSettings, PeerSource
from stoker.errors import ConfigError

from ..measuring import allowed_cores, describe
from .results import Comparison, PeerResult

_STDERR_BYTES = 2000
"""Bytes at the end of a peer's standard error that may hold the reason why it ended."""


@dataclass(frozen=True)
class ComparisonPlan:
    """The plan of a comparison."""

    peers: tuple[str, ...]  # Names of the loaders, see ``peers.PEERS``
    settings: PeerSettings  # The work
    cores: tuple[int, ...]  # Numbers of the cores that every loader is pinned to
    rounds: int = 5  # Number of timed turns of each loader
    min_seconds: float = 2.0  # Least time of a turn, which consists of whole epochs
    workload: str = ""  # Title of the samples in the result

    def __post_init__(self) -> None:
        known = TEXT_PEERS if set(self.peers) <= set(TEXT_PEERS) else PEERS
        if unknown := [name for name in self.peers if name not in known]:
            raise ConfigError(
                f"no loader named {', '.join(unknown)} to compare with", hint=f"known are {', '.join(known)}"
            )
        if not self.peers or len(set(self.peers)) != len(self.peers):
            raise ConfigError(f"peers must be one or more different names, found {list(self.peers)}")
        if not self.cores:
            raise ConfigError("cores must name at least one core")
        if self.rounds < 1:
            raise ConfigError(f"rounds must be at least 1, found {self.rounds}")
        if self.min_seconds <= 0:
            raise ConfigError(f"min_seconds must be greater than 0, found {self.min_seconds}")


class PeerGone(Exception):  # noqa: N818 - the table shows the reason
    """A peer cannot continue; the message is the reason."""


class PeerProcess:
    """The process of one peer, which is stopped except while it answers."""

    def __init__(self, name: str, cores: Sequence[int] | None = None, num_threads: int | None = None) -> None:
        self.name = name
        cores = allowed_cores() if cores is None else cores
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in end()
        # A process that is killed removes none of its temporary files; TensorFlow writes some.
        self._temporary = tempfile.TemporaryDirectory(prefix="stoker-", ignore_cleanup_errors=True)
        module = "stoker.benchmarks.comparison.worker"
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, name, ",".join(map(str, cores))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            bufsize=1,
            env={
                **os.environ,
                "OMP_NUM_THREADS": str(len(cores)),
                "NUMBA_NUM_THREADS": str(num_threads or len(cores)),
                "TMPDIR": self._temporary.name,
            },
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> PeerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._signal(signal.SIGCONT)
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise PeerGone(f"its process ended in {do!r}: {self._last_line()}")
        reply: dict[str, Any] = json.loads(answer)
        if reason := reply.get("unsupported") or reply.get("failed"):
            raise PeerGone(reason)
        # Threads that go on working would take time from the next peer.
        self._signal(signal.SIGSTOP)
        return reply

    def begin(self, source: PeerSource, settings: PeerSettings, *, write: bool = True) -> dict[str, Any]:
        """Let the peer import its library, write its files and make its loader; return all answers in one.

        The files of the peer go into a folder of ``source.scratch``.
        """
        in_scratch = replace(source, scratch=source.scratch / self.name)
        in_scratch.scratch.mkdir(exist_ok=True)
        arguments = {"source": in_scratch.to_json(), "settings": asdict(settings)}
        start = self.ask("import")
        if write:
            start |= self.ask("write", **arguments)
        return start | self.ask("prepare", **arguments)

    def end(self) -> None:
        self._kill()
        self._temporary.cleanup()
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            if stream is not None:
                with suppress(BrokenPipeError):  # the process ended before it read a command
                    stream.close()

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def _kill(self) -> None:
        # After wait() the number may belong to another process.
        if self._process.returncode is None:
            self._signal(signal.SIGKILL)
            self._process.kill()  # it may not lead its group yet
            self._process.wait()

    def _last_line(self) -> str:
        self._kill()
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - _STDERR_BYTES))
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit status {self._process.returncode}"


@dataclass
class Turns:
    """What a peer answered in a comparison."""

    name: str
    start: dict[str, Any] = field(default_factory=dict)  # Of its start, see :meth:`PeerProcess.begin`
    answers: list[dict[str, Any]] = field(default_factory=list)  # Of each timed turn
    missing: str = ""  # Reason why there are no results; empty where there are


def run_in_turns(
    source: PeerSource, plan: ComparisonPlan, report: Callable[[str], None] = lambda _: None
) -> list[Turns]:
    """Run each peer in a process of its own, in turns.

    First every loader is imported, prepared and warmed up by one untimed epoch. Then every loader has one
    turn in each round; another loader begins each round.
    """
    with ExitStack() as stack:
        running: list[tuple[PeerProcess, Turns]] = []

        def attempt(process: PeerProcess, turns: Turns, line: str, *, timed: bool) -> None:
            if turns.missing:
                return
            report(line)
            try:
                if timed:
                    turns.answers.append(process.ask("turn", min_seconds=plan.min_seconds))
                else:
                    turns.start.update(process.begin(source, plan.settings))
                    turns.start["first_batch_seconds"] = process.ask("warm_up")["first_batch_seconds"]
            except PeerGone as reason:
                turns.missing = str(reason)
                process.end()

        for name in plan.peers:
            process = stack.enter_context(PeerProcess(name, plan.cores, plan.settings.num_threads))
            running.append((process, Turns(name)))
            attempt(*running[-1], f"{name}: preparing", timed=False)
        for number in range(plan.rounds):
            first = number % len(running)
            for one in running[first:] + running[:first]:
                attempt(*one, f"round {number + 1} of {plan.rounds}: {one[1].name}", timed=True)
        return [turns for _, turns in running]


def compare(
    source: PeerSource, plan: ComparisonPlan, report: Callable[[str], None] = lambda _: None
) -> Comparison:
    """Run a comparison of image loaders and return its results."""
    if source.records < plan.settings.batch_size:
        raise ConfigError(
            f"{source.records} samples do not fill one batch of {plan.settings.batch_size}",
            path=source.dataset,
            hint="Choose a smaller batch size.",
        )
    return Comparison(
        workload=plan.workload,
        machine=describe(list(plan.cores)),
        settings=asdict(plan.settings),
        records=source.records,
        rounds=plan.rounds,
        peers=tuple(map(_result, run_in_turns(source, plan, report))),
    )


def _result(turns: Turns) -> PeerResult:
    if turns.missing:
        return PeerResult(turns.name, missing=turns.missing, versions=turns.start.get("versions", {}))
    answers = turns.answers
    return PeerResult(
        name=turns.name,
        images_per_second=tuple(one["images"] / one["seconds"] for one in answers),
        cpu_seconds_per_1000=tuple(1000 * one["cpu_seconds"] / one["images"] for one in answers),
        peak_rss=max(one["peak_rss"] for one in answers),
        **{**turns.start, "notes": tuple(turns.start["notes"])},
    )
