"""A server of S3's protocol on this machine, with a latency for each request, behind a narrow link.

    python -m stoker.benchmarks.comparison.object_store PORT SECONDS BYTES_PER_SECOND

It is moto's server in a separate process, which keeps the objects in memory.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from stoker.errors import MissingDependencyError

BUCKET = "bench"
_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "bench",
    "AWS_SECRET_ACCESS_KEY": "bench",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_ALLOW_HTTP": "true",  # of LitData's client
}
_START_SECONDS = 60.0
_UPLOADS = 8


@contextmanager
def object_store(latency: float, bytes_per_second: float = 1e12) -> Iterator[str]:
    """Run a server with one empty bucket; yields its address, and sets it in this process' environment.

    Clients find the server by ``AWS_ENDPOINT_URL``, and Mosaic Streaming by ``S3_ENDPOINT_URL``.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    variables = {**_ENVIRONMENT, "AWS_ENDPOINT_URL": address, "S3_ENDPOINT_URL": address}
    before = {name: os.environ.get(name) for name in variables}
    command = [sys.executable, "-m", "stoker.benchmarks.comparison.object_store"]
    command += [str(port), str(latency), str(bytes_per_second)]
    # A pipe that is not read would stop the server after some hundreds of requests: it logs each one.
    log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed below
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)
    os.environ.update(variables)
    try:
        _wait(server, port, log)
        _client().create_bucket(Bucket=BUCKET, ACL="public-read")
        yield address
    finally:
        server.kill()
        server.wait()
        log.close()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def upload(folder: Path, name: str) -> str:
    """Copy the files of a folder to the server of :func:`object_store` and return their common URL."""
    client = _client()

    def put(path: Path) -> None:
        client.put_object(Bucket=BUCKET, Key=f"{name}/{path.relative_to(folder)}", Body=path.read_bytes())

    with ThreadPoolExecutor(max_workers=_UPLOADS) as pool:
        list(pool.map(put, sorted(path for path in folder.rglob("*") if path.is_file())))
    return f"s3://{BUCKET}/{name}"


def _client() -> Any:
    try:
        import boto3
    except ImportError as error:
        hint = "pip install boto3 'moto[s3,server]'"
        raise MissingDependencyError("an object store needs boto3 and moto", hint=hint) from error
    return boto3.client("s3")


def _wait(server: subprocess.Popen[bytes], port: int, log: IO[str]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    log.seek(0)
    raise MissingDependencyError(
        f"the object store did not start: {log.read().strip()[-500:]}", hint="pip install 'moto[s3,server]'"
    )


class _Link:
    """A link whose answers follow each other."""

    def __init__(self, bytes_per_second: float) -> None:
        self._rate = bytes_per_second
        self._free = 0.0
        self._lock = threading.Lock()

    def wait(self, size: int) -> None:
        with self._lock:
            self._free = max(self._free, time.monotonic()) + size / self._rate
            end = self._free
        time.sleep(max(0.0, end - time.monotonic()))


def _serve(port: int, latency: float, bytes_per_second: float) -> None:
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import run_simple

    inner = DomainDispatcherApplication(create_backend_app)
    link = _Link(bytes_per_second)

    def delayed(environment: Any, start_response: Any) -> Any:
        if environment["REQUEST_METHOD"] == "PUT":
            return inner(environment, start_response)
        time.sleep(latency)
        body = list(inner(environment, start_response))
        link.wait(sum(map(len, body)))
        return body

    run_simple("127.0.0.1", port, delayed, threaded=True)


if __name__ == "__main__":
    _serve(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
