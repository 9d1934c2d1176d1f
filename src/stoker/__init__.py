"""Stoker keeps the training step fed.

Image folders and text become contiguous, checksummed shards; a loader turns shards into finished
batches on the device where the model lives, while the previous step is still running.

    import stoker
    from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop

    loader = stoker.ImageLoader("shards/train", batch_size=64, shuffle=True, seed=0, output="torch",
                                transforms=[RandomResizedCrop(224), RandomHorizontalFlip(), Normalize()])
    for images, labels in loader:
        ...

Importing this module imports nothing else: every public name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from stoker.version import __version__ as __version__


def _check_platform() -> None:
    """Check that Stoker can run on this system and in this interpreter."""
    if sys.platform == "win32":
        raise ImportError(
            "Stoker does not run on Windows itself. Run it in WSL, the Windows Subsystem for Linux: "
            "wsl --install"
        )
    if not _is_main_interpreter():
        raise ImportError(
            "Stoker does not run in a subinterpreter, as its C++ module has one state for the process. "
            "Import it in the main interpreter, and use threads or processes."
        )


def _is_main_interpreter() -> bool:
    """Return whether this is the interpreter that the process began with."""
    for name in ("_interpreters", "_xxsubinterpreters"):  # CPython 3.13 and later, and earlier versions
        try:
            current = importlib.import_module(name).get_current()
        except ImportError:
            continue
        return int(current[0] if isinstance(current, tuple) else current) == 0
    return True


_check_platform()

if TYPE_CHECKING:
    from stoker import augment, bucketing, errors, formats
    from stoker.formats.changes.append import append
    from stoker.formats.changes.merge import merge
    from stoker.formats.changes.remove import remove
    from stoker.formats.conversion.captions import Captions
    from stoker.formats.conversion.convert import convert
    from stoker.formats.conversion.options import ImageStorage, Selection, Storage
    from stoker.formats.conversion.writer import Writer
    from stoker.formats.dataset.dataset import Dataset
    from stoker.formats.open import open  # noqa: A004 - stoker.open, as gzip.open
    from stoker.formats.sources.options import SourceOptions
    from stoker.formats.text.convert import convert_text
    from stoker.formats.text.options import Training
    from stoker.formats.text.writer import TextWriter
    from stoker.formats.verify import verify
    from stoker.pipeline.cluster.ray_workers import RayWorkers
    from stoker.pipeline.images.captions import Tokens
    from stoker.pipeline.images.loader import ImageLoader
    from stoker.pipeline.images.patches import Patches
    from stoker.pipeline.images.planners import AspectBuckets
    from stoker.pipeline.images.sizes import RandomSizes
    from stoker.pipeline.options import (
        BadSamples,
        Buckets,
        Cache,
        DaliOptions,
        MaxLength,
        MaxTokens,
        Objects,
        Packing,
        Padded,
        Pixels,
        Ragged,
        Ranks,
        Reading,
        Samples,
        Seeds,
        Streams,
    )
    from stoker.pipeline.order.mixture import Mixture, mix
    from stoker.pipeline.order.orders import BlockShuffle
    from stoker.pipeline.order.sampling import ClassBalanced, Repeated, Weighted
    from stoker.pipeline.text.loader import TextLoader

__all__ = [
    "AspectBuckets",
    "BadSamples",
    "BlockShuffle",
    "Buckets",
    "Cache",
    "Captions",
    "ClassBalanced",
    "DaliOptions",
    "Dataset",
    "ImageLoader",
    "ImageStorage",
    "MaxLength",
    "MaxTokens",
    "Mixture",
    "Objects",
    "Packing",
    "Padded",
    "Patches",
    "Pixels",
    "Ragged",
    "RandomSizes",
    "Ranks",
    "RayWorkers",
    "Reading",
    "Repeated",
    "Samples",
    "Seeds",
    "Selection",
    "SourceOptions",
    "Storage",
    "Streams",
    "TextLoader",
    "TextWriter",
    "Tokens",
    "Training",
    "Weighted",
    "Writer",
    "append",
    "augment",
    "bucketing",
    "convert",
    "convert_text",
    "errors",
    "formats",
    "merge",
    "mix",
    "open",
    "remove",
    "verify",
]

_HOME = {
    "AspectBuckets": "stoker.pipeline.images.planners",
    "BadSamples": "stoker.pipeline.options",
    "BlockShuffle": "stoker.pipeline.order.orders",
    "Buckets": "stoker.pipeline.options",
    "Cache": "stoker.pipeline.options",
    "Captions": "stoker.formats.conversion.captions",
    "ClassBalanced": "stoker.pipeline.order.sampling",
    "DaliOptions": "stoker.pipeline.options",
    "Dataset": "stoker.formats.dataset.dataset",
    "ImageLoader": "stoker.pipeline.images.loader",
    "ImageStorage": "stoker.formats.conversion.options",
    "MaxLength": "stoker.pipeline.options",
    "MaxTokens": "stoker.pipeline.options",
    "Mixture": "stoker.pipeline.order.mixture",
    "Objects": "stoker.pipeline.options",
    "Packing": "stoker.pipeline.options",
    "Padded": "stoker.pipeline.options",
    "Patches": "stoker.pipeline.images.patches",
    "Pixels": "stoker.pipeline.options",
    "Ragged": "stoker.pipeline.options",
    "RandomSizes": "stoker.pipeline.images.sizes",
    "Ranks": "stoker.pipeline.options",
    "RayWorkers": "stoker.pipeline.cluster.ray_workers",
    "Reading": "stoker.pipeline.options",
    "Repeated": "stoker.pipeline.order.sampling",
    "Samples": "stoker.pipeline.options",
    "Seeds": "stoker.pipeline.options",
    "Selection": "stoker.formats.conversion.options",
    "SourceOptions": "stoker.formats.sources.options",
    "Storage": "stoker.formats.conversion.options",
    "Streams": "stoker.pipeline.options",
    "TextLoader": "stoker.pipeline.text.loader",
    "TextWriter": "stoker.formats.text.writer",
    "Tokens": "stoker.pipeline.images.captions",
    "Training": "stoker.formats.text.options",
    "Weighted": "stoker.pipeline.order.sampling",
    "Writer": "stoker.formats.conversion.writer",
    "append": "stoker.formats.changes.append",
    "convert": "stoker.formats.conversion.convert",
    "convert_text": "stoker.formats.text.convert",
    "merge": "stoker.formats.changes.merge",
    "mix": "stoker.pipeline.order.mixture",
    "open": "stoker.formats.open",
    "remove": "stoker.formats.changes.remove",
    "verify": "stoker.formats.verify",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    elif name in __all__:
        value = importlib.import_module(f"stoker.{name}")
    else:
        raise AttributeError(f"module 'stoker' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
