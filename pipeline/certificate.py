"""Certificates of loaders: digests of everything that decides a training's batches, to compare two runs."""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import PIL
from PIL import features

from stoker import _native
from stoker.errors import ConfigError
from stoker.formats.codecs.codec import Codec, is_native
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.sha256_tree import data_tree
from stoker.version import __version__

from .order.exclusions import Exclusions
from .order.sampling import SampleSource

_VERSION = 2
_IDENTITY = ("dataset", "order", "seed")
_ENTRIES = ("version", "data", "order", "transforms", "world_size", "engine", "versions", "digest")
_ADDED = {1: (), 2: ("batches",)}
"""Entries beside :data:`_ENTRIES`, by the certificate's version."""


def make_certificate(
    source: SampleSource,
    identity: Mapping[str, Any],
    exclusions: Exclusions | None,
    *,
    batches: Mapping[str, Any],
    world_size: int,
    engine: str,
) -> dict[str, Any]:
    """Return a certificate; see ``loader.certificate``."""
    content = {name: value for name, value in identity.items() if name not in _IDENTITY}
    order = {name: identity[name] for name in _IDENTITY if name in identity} | {
        "excluded": exclusions.to_json() if exclusions else []
    }
    certificate = {
        "version": _VERSION,
        "data": [asdict(data_tree(dataset)) for dataset in source.datasets],
        "order": _digest(order),
        "transforms": _digest(content),
        "batches": dict(batches),
        "world_size": world_size,
        "engine": engine,
        "versions": _versions(engine),
    }
    return {**certificate, "digest": _digest(certificate)}


def _versions(engine: str) -> dict[str, str | None]:
    """Versions of the libraries that make batches; with an engine of images, also those of the decoders."""
    versions = {"stoker": __version__, "numpy": np.__version__, "python": platform.python_version()}
    if not engine:
        return versions
    decoders = {
        "pillow": PIL.__version__,
        "pillow_libjpeg_turbo": features.version("libjpeg_turbo"),
        "pillow_libwebp": features.version("webp"),
        "jpeg_decoder": _native.jpeg_decoder(),
        "webp_decoder": "libwebp" if is_native(Codec.WEBP) else "pillow",
    }
    decoders |= {f"native_{codec.lower()}": library for codec, library in _native.LIBRARIES.items()}
    dali = {"dali": sys.modules["nvidia.dali"].__version__} if engine == "dali" else {}
    return {**versions, **decoders, **dali}


def certificate_problems(certificate: Any, dataset: Dataset) -> list[str]:
    """Return the problems of a certificate: it was changed, or the data of ``dataset`` differs."""
    # The function reads all bytes of the dataset.
    _check_entries(certificate)
    problems = []
    content = {name: value for name, value in certificate.items() if name != "digest"}
    if _digest(content) != certificate["digest"]:
        problems.append("the certificate was changed: its digest differs from its content")
    tree = asdict(data_tree(dataset, again=True))
    trees = {saved["fingerprint"]: saved for saved in certificate["data"]}
    if tree["fingerprint"] not in trees:
        names = f"{', '.join(trees)}, not {tree['fingerprint']}"
        problems.append(f"entry 'data': the certificate is of other data: {names}")
    elif trees[tree["fingerprint"]] != tree:
        expected = trees[tree["fingerprint"]]["root"]
        problems.append(
            f"entry 'data': the data differs: its tree has the root {tree['root']}, not {expected}"
        )
    return problems


def _check_entries(certificate: Any) -> None:
    version = certificate.get("version") if isinstance(certificate, Mapping) else None
    if type(version) is not int or version not in _ADDED:
        wrong = f"its entry 'version' must be one of {', '.join(map(str, _ADDED))}, found {version!r}"
    elif differing := set(certificate) ^ {*_ENTRIES, *_ADDED[version]}:
        wrong = "; ".join(
            f"it {'has the unknown entry' if name in certificate else 'lacks the entry'} {name!r}"
            for name in sorted(differing)
        )
    else:
        return
    raise ConfigError(
        f"this is not a certificate: {wrong}", hint="Write json.dumps(loader.certificate()) to the file."
    )


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
