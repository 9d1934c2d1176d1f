"""The loaders that are compared; each is a :class:`stoker.benchmarks.peers.base.Peer`.

The module of a peer is imported when the peer is loaded, so that the others run where its library is missing.
"""

from __future__ import annotations

import importlib
import importlib.util

from stoker.benchmarks.peers.base import Peer
from stoker.errors import ConfigError

_LOADERS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "stoker": ("Stoker, C++ engine", "stoker:StokerNative", ()),
    "stoker-no-read-ahead": ("Stoker, no read-ahead", "stoker:StokerWithoutReadAhead", ()),
    "stoker-ray": ("Stoker, workers on Ray", "stoker:StokerRay", ()),
    "stoker-dali": ("Stoker, DALI engine", "stoker:StokerDali", ()),
    "torch": ("PyTorch DataLoader", "torch:TorchLoader", ("torch",)),
    "tfdata": ("tf.data, antialiased", "tfdata:TFData", ("tensorflow",)),
    "tfdata-plain": ("tf.data, not antialiased", "tfdata:TFDataPlain", ("tensorflow",)),
    "tfdata-service": ("tf.data service", "tfdata:TFDataService", ()),
    "dali": ("DALI pipeline written by hand", "dali:DaliPipeline", ("nvidia.dali",)),
    "ffcv": ("FFCV", "ffcv:FFCV", ("ffcv",)),
    "spdl": ("SPDL", "spdl:SPDL", ("spdl",)),
    "webdataset": ("WebDataset", "webdataset:WebDataset", ("webdataset", "torchvision")),
    "litdata": ("LitData", "litdata:LitData", ("litdata", "torchvision")),
    "mosaic-streaming": (
        "Mosaic Streaming",
        "mosaic_streaming:MosaicStreaming",
        ("streaming", "torchvision"),
    ),
    "grain": ("Grain", "grain:Grain", ("grain", "array_record", "torchvision")),
    "hf-datasets": (
        "Hugging Face datasets",
        "hugging_face:HuggingFaceDatasets",
        ("datasets", "torchvision"),
    ),
    "hf-streaming": (
        "Hugging Face datasets, streamed",
        "hugging_face:HuggingFaceStreaming",
        ("datasets", "torchvision"),
    ),
    "ray-data": ("Ray Data", "ray_data:RayData", ("ray", "torchvision")),
    "stoker-blocks": ("Stoker, blocks shuffled", "stoker:StokerBlocks", ()),
    "stoker-files": ("Stoker, loose files", "stoker:StokerFiles", ()),
    "stoker-conversion": ("Stoker", "stoker:StokerConversion", ()),
    "torch-files": ("PyTorch DataLoader, loose files", "torch:TorchFiles", ()),
    "ffcv-rn18": ("FFCV, its ResNet-18", "ffcv:FFCVResNet18", ()),
    "ffcv-rn50": ("FFCV, its ResNet-50", "ffcv:FFCVResNet50", ()),
    "stoker-rn18": ("Stoker, FFCV's ResNet-18", "stoker:StokerResNet18", ()),
    "stoker-rn50": ("Stoker, FFCV's ResNet-50", "stoker:StokerResNet50", ()),
    "spdl-example": ("SPDL, its example", "spdl:SPDLExample", ()),
    "stoker-resized": ("Stoker, SPDL's example", "stoker:StokerResized", ()),
    "stoker-text": ("Stoker, random batches", "text:StokerText", ()),
    "stoker-buckets": ("Stoker, buckets", "text:StokerBuckets", ()),
    "torch-text": ("PyTorch DataLoader, pad_sequence", "text:TorchText", ()),
    "transformers": ("Hugging Face, group_by_length", "text:TransformersText", ()),
    "tfdata-text": ("tf.data, bucket_by_sequence_length", "text:TFDataText", ()),
    "grain-text": ("Grain, random batches", "text:GrainText", ()),
    "mosaic-text": ("Mosaic Streaming, random batches", "text:MosaicText", ()),
}
"""Of each loader by its name for ``--against``: title, module and class, and the libraries that it needs.

``--against all`` stands for those whose libraries are installed; loaders of Stoker and variants name none.
"""
TITLES = {name: title for name, (title, *_) in _LOADERS.items()}
TEXT_PEERS = tuple(name for name, (_, place, _) in _LOADERS.items() if place.startswith("text:"))
PEERS = tuple(name for name in _LOADERS if name not in TEXT_PEERS)


def installed_rivals() -> tuple[str, ...]:
    """Names of the loaders of other libraries that are installed."""
    return tuple(
        name for name, (_, _, needed) in _LOADERS.items() if needed and all(map(_is_installed, needed))
    )


def _is_installed(library: str) -> bool:
    try:
        return importlib.util.find_spec(library) is not None
    except ModuleNotFoundError:
        return False


def load_peer(name: str) -> Peer:
    """Import the library of a peer and return the peer."""
    if name not in _LOADERS:
        known = ", ".join(_LOADERS)
        raise ConfigError(f"no loader named {name!r} to compare with", hint=f"known are {known}")
    module, _, attribute = _LOADERS[name][1].partition(":")
    peer: Peer = getattr(importlib.import_module(f"stoker.benchmarks.peers.{module}"), attribute)()
    return peer
