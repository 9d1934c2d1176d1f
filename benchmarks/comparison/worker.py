"""The process of one peer, which the runner drives over pipes and which measures its own time.

    python -m stoker.benchmarks.comparison.worker NAME CORES

Each line on standard input is a command in JSON; each answer is one line of JSON on standard output. What a
library prints goes to standard error.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, count, islice
from pathlib import Path
from stat import S_ISREG
from typing import Any

import numpy as np

import stoker
from stoker.benchmarks.comparison.usage import unshared_memory, usage_of_tree
from stoker.benchmarks.peers import TEXT_PEERS, load_peer
from stoker.benchmarks.peers.base import (
    Peer,
    PeerSettings,
    PeerSource,
    ResumablePeer,
    Unsupported,
    WritingPeer,
)

from .sources import sample_numbers

_PR_SET_PDEATHSIG = 1  # prctl(2)
_WITH_RECIPES = ("stoker", "torch")
"""First words of the names of peers that load boxes."""
_ON_DEVICES = ("stoker", "torch", "dali")
"""First words of the names of peers that hand out batches on a GPU themselves."""


class PeerWorker:
    """Answers the commands of the runner for one peer."""

    def __init__(self, name: str, peer: Peer | None = None) -> None:
        self._name = name
        self._peer = peer
        self._settings = PeerSettings()
        self._tokens = self._slots = 0

    def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        arguments = {key: value for key, value in command.items() if key != "do"}
        reply: dict[str, Any] = getattr(self, f"do_{command['do']}")(**arguments)
        return reply

    def do_import(self) -> dict[str, Any]:
        start = time.perf_counter()
        self._peer = load_peer(self._name)
        seconds = time.perf_counter() - start
        return {"import_seconds": seconds, "versions": _versions(self._peer.packages)}

    def do_write(self, source: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
        peer, peer_source = self._required(), PeerSource.from_json(source)
        if settings.get("recipe") and self._name.partition("-")[0] not in _WITH_RECIPES:
            raise Unsupported("this comparison has no pipeline with boxes for it")
        start, cpu = time.perf_counter(), usage_of_tree(os.getpid()).cpu_seconds
        if isinstance(peer, WritingPeer):
            peer.write(peer_source, PeerSettings(**settings))
        seconds = time.perf_counter() - start
        # A file with two names counts once.
        paths = map(Path.stat, peer_source.scratch.rglob("*"))
        written = sum({one.st_ino: one.st_size for one in paths if S_ISREG(one.st_mode)}.values())
        return {
            "write_seconds": seconds if written else 0.0,
            "write_cpu_seconds": usage_of_tree(os.getpid()).cpu_seconds - cpu if written else 0.0,
            "written_bytes": written,
        }

    def do_prepare(self, source: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
        self._settings = PeerSettings(**settings)
        notes = self._required().prepare(PeerSource.from_json(source), self._settings)
        return {"notes": [*notes, *self._copied()]}

    def do_warm_up(self) -> dict[str, Any]:
        start = time.perf_counter()
        batches = self._epoch()
        first = next(batches)
        self._check(first)
        first_batch = time.perf_counter() - start
        images = self._touch(first) + sum(self._touch(batch) for batch in batches)
        seconds = time.perf_counter() - start
        return {"first_batch_seconds": first_batch, "seconds": seconds, "images": images}

    def do_turn(self, min_seconds: float) -> dict[str, Any]:
        """Run whole epochs for at least ``min_seconds``, after the untimed batches of ``Peer.lead``.

        Text has two more results: "tokens", and "slots", which counts padding, too.
        """
        peer = self._required()
        for batch in islice(chain.from_iterable(self._epoch() for _ in count()), peer.lead):
            self._touch(batch)
        images, seconds = 0, 0.0
        self._tokens = self._slots = 0
        cpu = usage_of_tree(os.getpid()).cpu_seconds
        start = time.perf_counter()
        while seconds < min_seconds:
            images += sum(self._touch(batch) for batch in self._epoch())
            seconds = time.perf_counter() - start
        usage = usage_of_tree(os.getpid())
        return {
            "seconds": seconds,
            "images": images,
            "cpu_seconds": usage.cpu_seconds - cpu,
            "peak_rss": usage.peak_rss,
            "tokens": self._tokens,
            "slots": self._slots,
        }

    def do_endure(self, epochs: int) -> dict[str, Any]:
        memory = []
        for _ in range(epochs):
            for batch in self._epoch():
                self._touch(batch)
            memory.append(unshared_memory(os.getpid()))
        return {"memory": memory}

    def do_state(self, scratch: str, steps: int) -> dict[str, Any]:
        peer, batches = self._required(), self._epoch()
        seen = [number for batch in islice(batches, steps) for number in sample_numbers(batch)]
        return {"state": peer.state(Path(scratch)) if isinstance(peer, ResumablePeer) else None, "seen": seen}

    def do_resume(self, state: Any, steps: int, rest: int) -> dict[str, Any]:
        """Go on after a state, or after ``steps`` batches where there is none.

        Returns the time to the first batch, and the samples of ``rest`` batches.
        """
        peer = self._required()
        start = time.perf_counter()
        if isinstance(peer, ResumablePeer) and state is not None:
            batches = peer.resume(state)
        else:
            batches = islice(self._epoch(), steps, None)
        first = next(batches)
        self._touch(first)
        seconds = time.perf_counter() - start
        others = islice(batches, rest - 1)
        seen = [number for batch in chain([first], others) for number in sample_numbers(batch)]
        return {"resume_seconds": seconds, "seen": seen}

    def _required(self) -> Peer:
        assert self._peer is not None, "the runner asks for import first"
        return self._peer

    def _epoch(self) -> Iterator[Any]:
        batches = self._required().epoch()
        if self._settings.device == "cpu":
            return batches
        return (_on_device(batch, self._settings.device) for batch in batches)

    def _copied(self) -> list[str]:
        alone = self._settings.device == "cpu" or self._name.partition("-")[0] in _ON_DEVICES
        return [] if alone else ["leaves batches on the CPU: PyTorch copies them to the GPU"]

    def _touch(self, batch: Any) -> int:
        if self._name not in TEXT_PEERS:
            return _read(batch)
        ids, mask = batch
        self._tokens += int(mask.sum())
        self._slots += mask.size
        return len(ids)

    def _check(self, batch: Any) -> None:
        if self._settings.recipe:
            return
        if self._name in TEXT_PEERS:
            _check_text(*batch)
            return
        size, uint8 = self._settings.size, getattr(self._peer, "uint8", False)
        shape, kind = ((size, size, 3), "uint8") if uint8 else ((3, size, size), "float32")
        expected = (self._settings.batch_size, *shape)
        # PyTorch's dtypes are "torch.float32".
        dtype = str(batch.dtype).rpartition(".")[2]
        whole = batch.flags.c_contiguous if isinstance(batch, np.ndarray) else batch.is_contiguous()
        if tuple(batch.shape) != expected or dtype != kind or not whole:
            strides = batch.strides if isinstance(batch, np.ndarray) else batch.stride()
            raise RuntimeError(
                f"{self._name} made {tuple(batch.shape)} {dtype} with strides {strides}, expected "
                f"contiguous {expected} {kind}"
            )


def last_sentence(text: str) -> str:
    """Return the last line that is not indented: in a traceback it names the cause."""
    lines = [line for line in text.splitlines() if line[:1].isalnum()]
    return lines[-1] if lines else text


def _on_device(batch: Any, device: str) -> Any:
    if not isinstance(batch, np.ndarray):
        return batch
    import torch

    return torch.from_numpy(batch).to(device)


def _read(batch: Any) -> int:
    """Read a value of every image, and return their number."""
    if isinstance(batch, list | tuple):
        return sum(_read(image[None]) for image in batch)
    if not abs(float(batch[:, 1, batch.shape[2] // 2, batch.shape[3] // 2].sum())) < float("inf"):
        raise RuntimeError("a batch has values that are not finite")
    return len(batch)


def _check_text(ids: Any, mask: Any) -> None:
    if ids.dtype != np.int64 or mask.dtype not in (np.int64, np.bool_) or ids.shape != mask.shape:
        form = f"ids {ids.shape} {ids.dtype} and a mask {mask.shape} {mask.dtype}"
        raise RuntimeError(f"a batch has {form}, expected int64 ids and a mask of their shape")


def _versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of the installed packages: some libraries have several distributions."""
    versions = {}
    for package in packages:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    if "stoker" in versions:
        versions["stoker"] = stoker.__version__  # an editable install may have the metadata of an earlier one
    return versions


def _die_with_parent() -> None:
    """Let the kernel end this process when the runner ends: it may be stopped at that time."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    """Serve commands until standard input ends."""
    _die_with_parent()
    # If the runner is killed, the kernel sends SIGHUP to the stopped processes of this group.
    os.setpgrp()
    name, cores = sys.argv[1], sys.argv[2]
    os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    worker = PeerWorker(name)
    for line in sys.stdin:
        try:
            reply = worker.answer(json.loads(line))
        except Unsupported as reason:
            reply = {"unsupported": str(reason)}
        except Exception as error:  # the comparison continues without this peer
            reply = {"failed": f"{type(error).__name__}: {last_sentence(str(error))}"}
        answers.write(json.dumps(reply) + "\n")


if __name__ == "__main__":
    main()
