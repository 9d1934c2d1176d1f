"""Certificates of loaders: digests of all that decides what a training sees, which two runs can compare."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker.errors import ConfigError
from stoker.formats.verification.sha256_tree import data_tree
from stoker.version import __version__

if TYPE_CHECKING:
    from stoker.formats.dataset.dataset import Dataset

    from ..sample_source import SampleSource
    from .ledger import Ledger

__all__ = ["certificate_problems", "make_certificate"]

_VERSION = 1
_IDENTITY = ("dataset", "order", "seed")


def make_certificate(
    source: SampleSource, identity: Mapping[str, Any], ledger: Ledger, *, world_size: int, engine: str
) -> dict[str, Any]:
    """Return a certificate; see ``loader.certificate``.

    Args:
        source: What the loader draws from.
        identity: What decides order and content of its batches, as states have it.
        ledger: Samples that are left out.
        world_size: Number of ranks.
        engine: Name of the engine.
    """
    content = {name: value for name, value in identity.items() if name not in _IDENTITY}
    order = {name: identity[name] for name in _IDENTITY if name in identity} | {"excluded": ledger.to_json()}
    certificate = {
        "version": _VERSION,
        "data": [asdict(data_tree(one)) for one in source.datasets],
        "order": _digest(order),
        "transforms": _digest(content),
        "world_size": world_size,
        "engine": engine,
        "versions": {"stoker": __version__, "numpy": np.__version__, "python": platform.python_version()},
    }
    return {**certificate, "digest": _digest(certificate)}


def certificate_problems(certificate: Any, dataset: Dataset) -> list[str]:
    """Return what speaks against a certificate: it was changed, or the data is not that of ``dataset``.

    All bytes of the dataset are read.

    Raises:
        ConfigError: It is no certificate.
    """
    fields = {"version", "data", "order", "transforms", "world_size", "engine", "versions", "digest"}
    if (
        not isinstance(certificate, Mapping)
        or set(certificate) != fields
        or certificate["version"] != _VERSION
    ):
        raise ConfigError(
            "this is no certificate", hint="Write json.dumps(loader.certificate()) to the file."
        )
    problems = []
    if (
        _digest({name: value for name, value in certificate.items() if name != "digest"})
        != certificate["digest"]
    ):
        problems.append("the certificate was changed: its digest differs from its content")
    found = asdict(data_tree(dataset, anew=True))
    trees = {one["fingerprint"]: one for one in certificate["data"]}
    if found["fingerprint"] not in trees:
        problems.append(f"the certificate is of other data: {', '.join(trees)}, not {found['fingerprint']}")
    elif trees[found["fingerprint"]] != found:
        expected = trees[found["fingerprint"]]["root"]
        problems.append(f"the data differs: its tree has the root {found['root']}, not {expected}")
    return problems


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
