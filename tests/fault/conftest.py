"""A web server that drops connections, damages data, waits or dies, for tests of faults."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest


class FaultyServer:
    """Serves a folder with range requests.

    Attributes:
        url: Its address.
        requests: Names and ranges, in the order of the requests.
        faults: Faults of the first requests for each range: "drop" ends the answer in its middle,
            "refuse" is status 503.
        corrupt: How many more answers have one byte changed, by name.
        latency: Seconds before each answer.
        ranges: Whether the server answers range requests as such.
        signature: The query that every request must have; empty for none.
        only: The end of all paths that the signature allows.
        closed: While this event is set, the server closes every connection without an answer.
        held: While this event is not set, the server gives no answer.
        concerns: Whether ``closed`` and ``held`` hold for a request, by its name and its number, from 1.
    """

    def __init__(self, root: Path) -> None:
        self.requests: list[tuple[str, int, int]] = []
        self.faults: tuple[str, ...] = ()
        self.corrupt: dict[str, int] = {}
        self.latency = 0.0
        self.ranges = True
        self.signature = self.only = ""
        self.closed, self.held = threading.Event(), threading.Event()
        self.held.set()
        self.concerns: Callable[[str, int], bool] = lambda name, number: True
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler(root))
        self._server.daemon_threads = True
        self._server.socket.listen(128)  # with the default of 5, further connections wait for seconds
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self.held.set()
        self._server.shutdown()
        self._server.server_close()

    def count(self, name: str) -> int:
        return sum(requested.endswith(name) for requested, _, _ in self.requests)

    def _handler(server: FaultyServer, root: Path) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - two selves
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_HEAD(self) -> None:
                self.do_GET()

            def do_GET(self) -> None:
                path, _, query = self.path.partition("?")
                if (server.signature and query != server.signature) or not path.endswith(server.only):
                    self.send_error(403)
                    return
                server._answer(self, root / path.lstrip("/"))

        return Handler

    def _answer(self, request: BaseHTTPRequestHandler, file: Path) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("Range", ""))
        whole = file.read_bytes() if file.is_file() else b""
        start, stop = (int(asked[1]), int(asked[2]) + 1) if asked and self.ranges else (0, len(whole))
        with self._lock:
            self.requests.append((file.name, start, stop))
            concerned = self.concerns(file.name, len(self.requests))
            before = self.requests.count(self.requests[-1]) - 1
            fault = self.faults[before] if before < len(self.faults) else ""
            wrong = self.corrupt.get(file.name, 0) > 0 and request.command == "GET"
            if wrong:
                self.corrupt[file.name] -= 1
        time.sleep(self.latency)
        if concerned:
            self.held.wait()
        if concerned and self.closed.is_set():
            request.close_connection = True
            return
        if not file.is_file() or fault == "refuse":
            request.send_response(503 if file.is_file() else 404)
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        self._send(request, bytearray(whole[start:stop]), asked is not None and self.ranges, fault, wrong)

    def _send(
        self, request: BaseHTTPRequestHandler, body: bytearray, partial: bool, fault: str, wrong: bool
    ) -> None:
        request.send_response(206 if partial else 200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if request.command == "HEAD":
            return
        if wrong:
            body[len(body) // 2] ^= 1
        if fault == "drop":
            body = body[: len(body) // 2]
            request.close_connection = True
        request.wfile.write(body)


@pytest.fixture
def serve(short_pauses: None) -> Iterator[object]:
    """``serve(folder)`` starts a server."""
    servers: list[FaultyServer] = []

    def start(root: Path) -> FaultyServer:
        servers.append(FaultyServer(root))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()
