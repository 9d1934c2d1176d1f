"""Ports for programs that a test starts."""

from __future__ import annotations

import os
import socket
from contextlib import suppress


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
