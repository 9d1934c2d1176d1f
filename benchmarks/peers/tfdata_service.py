"""tf.data with its service: another process runs the pipeline, and this one receives batches."""

from __future__ import annotations

import subprocess
import sys

import tensorflow as tf

from stoker.benchmarks.peers.base import PeerSettings, PeerSource
from stoker.benchmarks.peers.tfdata import TFData

__all__ = ["TFDataService"]

_SERVER = """
import sys
import tensorflow as tf

service = tf.data.experimental.service
dispatcher = service.DispatchServer()
address = dispatcher.target.partition("://")[2]
worker = service.WorkerServer(service.WorkerConfig(dispatcher_address=address))
print(dispatcher.target, flush=True)
sys.stdin.read()
"""


class TFDataService(TFData):
    """The same dataset, run by the service."""

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        """Start the service in a process that ends with this one, and describe the dataset."""
        notes = super().prepare(source, settings)
        # The server reads until its standard input ends, as it does when this process dies.
        self._server = subprocess.Popen(
            [sys.executable, "-c", _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._server.stdout is not None, "it is a pipe"
        target = self._server.stdout.readline().strip()
        self._dataset = self._dataset.apply(
            tf.data.experimental.service.distribute(processing_mode="parallel_epochs", service=target)
        )
        return (*notes, "one worker of the service on this machine")
