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

_NAMES = {
    "stoker.formats.changes.append": ("append",),
    "stoker.formats.changes.merge": ("merge",),
    "stoker.formats.changes.remove": ("remove",),
    "stoker.formats.conversion.captions": ("Captions",),
    "stoker.formats.conversion.convert": ("convert",),
    "stoker.formats.conversion.options": ("ImageStorage", "Selection", "Storage"),
    "stoker.formats.conversion.writer": ("Writer",),
    "stoker.formats.dataset.dataset": ("Dataset",),
    "stoker.formats.open": ("open",),
    "stoker.formats.sources.options": ("SourceOptions",),
    "stoker.formats.text.convert": ("convert_text",),
    "stoker.formats.text.options": ("Training",),
    "stoker.formats.text.writer": ("TextWriter",),
    "stoker.formats.verify": ("verify",),
    "stoker.pipeline.cluster.ray_workers": ("RayWorkers",),
    "stoker.pipeline.images.captions": ("Tokens",),
    "stoker.pipeline.images.loader": ("ImageLoader",),
    "stoker.pipeline.images.planners": ("AspectBuckets", "Patches"),
    "stoker.pipeline.images.sizes": ("RandomSizes",),
    "stoker.pipeline.options": (
        "BadSamples",
        "Buckets",
        "Cache",
        "DaliOptions",
        "MaxLength",
        "MaxTokens",
        "Objects",
        "Packing",
        "Padded",
        "Pixels",
        "Ragged",
        "Ranks",
        "Reading",
        "Samples",
        "Seeds",
        "Streams",
    ),
    "stoker.pipeline.order.mixture": ("Mixture", "mix"),
    "stoker.pipeline.order.orders": ("BlockShuffle",),
    "stoker.pipeline.order.sampling": ("ClassBalanced", "Repeated", "Weighted"),
    "stoker.pipeline.text.loader": ("TextLoader",),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}
_MODULES = ("augment", "bucketing", "errors", "formats", "integrations")

if TYPE_CHECKING:
    from stoker import augment as augment
    from stoker import bucketing as bucketing
    from stoker import errors as errors
    from stoker import formats as formats
    from stoker import integrations as integrations
    from stoker.formats.changes.append import append as append
    from stoker.formats.changes.merge import merge as merge
    from stoker.formats.changes.remove import remove as remove
    from stoker.formats.conversion.captions import Captions as Captions
    from stoker.formats.conversion.convert import convert as convert
    from stoker.formats.conversion.options import ImageStorage as ImageStorage
    from stoker.formats.conversion.options import Selection as Selection
    from stoker.formats.conversion.options import Storage as Storage
    from stoker.formats.conversion.writer import Writer as Writer
    from stoker.formats.dataset.dataset import Dataset as Dataset
    from stoker.formats.open import open as open  # noqa: A004 - stoker.open, as gzip.open
    from stoker.formats.sources.options import SourceOptions as SourceOptions
    from stoker.formats.text.convert import convert_text as convert_text
    from stoker.formats.text.options import Training as Training
    from stoker.formats.text.writer import TextWriter as TextWriter
    from stoker.formats.verify import verify as verify
    from stoker.pipeline.cluster.ray_workers import RayWorkers as RayWorkers
    from stoker.pipeline.images.captions import Tokens as Tokens
    from stoker.pipeline.images.loader import ImageLoader as ImageLoader
    from stoker.pipeline.images.planners import AspectBuckets as AspectBuckets
    from stoker.pipeline.images.planners import Patches as Patches
    from stoker.pipeline.images.sizes import RandomSizes as RandomSizes
    from stoker.pipeline.options import BadSamples as BadSamples
    from stoker.pipeline.options import Buckets as Buckets
    from stoker.pipeline.options import Cache as Cache
    from stoker.pipeline.options import DaliOptions as DaliOptions
    from stoker.pipeline.options import MaxLength as MaxLength
    from stoker.pipeline.options import MaxTokens as MaxTokens
    from stoker.pipeline.options import Objects as Objects
    from stoker.pipeline.options import Packing as Packing
    from stoker.pipeline.options import Padded as Padded
    from stoker.pipeline.options import Pixels as Pixels
    from stoker.pipeline.options import Ragged as Ragged
    from stoker.pipeline.options import Ranks as Ranks
    from stoker.pipeline.options import Reading as Reading
    from stoker.pipeline.options import Samples as Samples
    from stoker.pipeline.options import Seeds as Seeds
    from stoker.pipeline.options import Streams as Streams
    from stoker.pipeline.order.mixture import Mixture as Mixture
    from stoker.pipeline.order.mixture import mix as mix
    from stoker.pipeline.order.orders import BlockShuffle as BlockShuffle
    from stoker.pipeline.order.sampling import ClassBalanced as ClassBalanced
    from stoker.pipeline.order.sampling import Repeated as Repeated
    from stoker.pipeline.order.sampling import Weighted as Weighted
    from stoker.pipeline.text.loader import TextLoader as TextLoader

_PUBLIC = sorted([*_HOME, *_MODULES])
__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"stoker.{name}")
    else:
        raise AttributeError(f"module 'stoker' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return _PUBLIC
