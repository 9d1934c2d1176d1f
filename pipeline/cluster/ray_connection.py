"""The connection of this process to a Ray cluster."""

from __future__ import annotations

import logging
import os
from typing import Any

from stoker.errors import ConfigError, optional_import

# Seconds for which Ray looks for a cluster that is lost, before it ends the process: 28 hours in place of a
# minute. Ray reads them at its import.
_PATIENCE = {"RAY_gcs_rpc_server_reconnect_timeout_s": "100000"}


def connected(address: str) -> Any:
    """Return Ray, with the connection that it has, or a new one that stays until the process ends."""
    for name, value in _PATIENCE.items():
        os.environ.setdefault(name, value)
    with optional_import("workers=RayWorkers(...) needs Ray", "ray"):
        import ray
    if not ray.is_initialized():
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise ConfigError(
                f"there is no Ray cluster at address={address!r}: {error}",
                hint="Start one with ray start --head, or name the address of one.",
            ) from error
    return ray
