"""Making shards on threads of this process."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from ...threads import TaskGroup
from ..plan import ConversionPlan
from ..run import ProgressCounter, ShardMaker
from ..shards.planned_shard import ShardContext


@dataclass(frozen=True)
class LocalRunner:
    """Makes a few shards at a time, whose samples are all encoded by one pool of threads.

    While one shard waits for the disk to sync, the pool encodes samples of the next one. See
    :data:`stoker.formats.conversion.run.Runner`.
    """

    num_threads: int  # Threads that encode

    def __call__(
        self, plan: ConversionPlan, maker: ShardMaker, missing: Sequence[int], counter: ProgressCounter
    ) -> None:
        """Make the shards of these numbers."""
        stop = threading.Event()
        at_once = _shards_at_once(self.num_threads)
        with (
            ThreadPoolExecutor(self.num_threads, thread_name_prefix="stoker-encode") as encoders,
            ThreadPoolExecutor(at_once, thread_name_prefix="stoker-shard") as writers,
        ):
            context = ShardContext(encoders, self.num_threads + 2, counter.add, stop)
            shards = TaskGroup(writers)
            try:
                for number in missing:
                    shards.start(partial(maker, plan, number, context))
                shards.wait(partial(counter.show, "converting"))
            finally:
                # The pool shuts down first: a shard that is stopped must not make room for another one.
                writers.shutdown(wait=False, cancel_futures=True)
                stop.set()


def _shards_at_once(num_threads: int) -> int:
    return 2 + num_threads // 8
