"""The loaders that are compared; each is a :class:`stoker.benchmarks.peers.base.Peer`.

The module of a peer is imported when the peer is loaded, so that the others run where its library is missing.
"""

from __future__ import annotations

import importlib
import importlib.util

from stoker.benchmarks.peers.base import Peer
from stoker.benchmarks.peers.text import TEXT_PEERS
from stoker.errors import ConfigError

__all__ = ["PEERS", "TITLES", "installed_rivals", "load_peer"]

PEERS = {
    "stoker": "stoker_loaders.native:StokerNative",
    "stoker-no-read-ahead": "stoker_loaders.native:StokerWithoutReadAhead",
    "stoker-ray": "stoker_loaders.ray:StokerRay",
    "stoker-dali": "stoker_loaders.dali:StokerDali",
    "torch": "torch_loader:TorchLoader",
    "tfdata": "tfdata:TFData",
    "tfdata-plain": "tfdata:TFDataPlain",
    "tfdata-service": "tfdata_service:TFDataService",
    "dali": "dali_pipeline:DaliPipeline",
    "ffcv": "own_format.ffcv:FFCV",
    "spdl": "spdl:SPDL",
    "webdataset": "own_format.webdataset:WebDataset",
    "litdata": "own_format.litdata:LitData",
    "mosaic-streaming": "own_format.mosaic_streaming:MosaicStreaming",
    "grain": "own_format.grain:Grain",
    "hf-datasets": "own_format.hugging_face:HuggingFaceDatasets",
    "hf-streaming": "own_format.hugging_face:HuggingFaceStreaming",
    "ray-data": "own_format.ray_data:RayData",
    "stoker-jitter": "stoker_loaders.native:StokerJitter",
    "stoker-randaugment": "stoker_loaders.native:StokerRandAugment",
    "torch-jitter": "torch_loader:TorchJitter",
    "torch-randaugment": "torch_loader:TorchRandAugment",
    "dali-jitter": "dali_pipeline:DaliJitter",
    "dali-randaugment": "dali_pipeline:DaliRandAugment",
    "stoker-elastic": "stoker_loaders.native:StokerElastic",
    "stoker-noise": "stoker_loaders.native:StokerNoise",
    "stoker-jpeg": "stoker_loaders.native:StokerJPEG",
    "torch-elastic": "torch_loader:TorchElastic",
    "torch-noise": "torch_loader:TorchNoise",
    "torch-jpeg": "torch_loader:TorchJPEG",
    "stoker-blocks": "stoker_loaders.native:StokerBlocks",
    "stoker-files": "loose_files:StokerFiles",
    "stoker-conversion": "loose_files:StokerConversion",
    "torch-files": "torch_loader:TorchFiles",
    "ffcv-rn18": "own_format.ffcv:FFCVResNet18",
    "ffcv-rn50": "own_format.ffcv:FFCVResNet50",
    "stoker-rn18": "stoker_loaders.published:StokerResNet18",
    "stoker-rn50": "stoker_loaders.published:StokerResNet50",
    "spdl-example": "spdl:SPDLExample",
    "stoker-resized": "stoker_loaders.published:StokerResized",
}
"""Module and class of each peer, by its name for ``--against``."""

TITLES = {
    "stoker": "Stoker, C++ engine",
    "stoker-no-read-ahead": "Stoker, no read-ahead",
    "stoker-ray": "Stoker, workers on Ray",
    "stoker-dali": "Stoker, DALI engine",
    "torch": "PyTorch DataLoader",
    "tfdata": "tf.data, antialiased",
    "tfdata-plain": "tf.data, not antialiased",
    "tfdata-service": "tf.data service",
    "dali": "DALI pipeline written by hand",
    "ffcv": "FFCV",
    "spdl": "SPDL",
    "webdataset": "WebDataset",
    "litdata": "LitData",
    "mosaic-streaming": "Mosaic Streaming",
    "grain": "Grain",
    "hf-datasets": "Hugging Face datasets",
    "hf-streaming": "Hugging Face datasets, streamed",
    "ray-data": "Ray Data",
    "stoker-jitter": "Stoker, ColorJitter",
    "stoker-randaugment": "Stoker, RandAugment",
    "torch-jitter": "PyTorch DataLoader, ColorJitter",
    "torch-randaugment": "PyTorch DataLoader, RandAugment",
    "dali-jitter": "DALI by hand, color_twist",
    "dali-randaugment": "DALI by hand, its rand_augment",
    "stoker-elastic": "Stoker, ElasticTransform",
    "stoker-noise": "Stoker, GaussianNoise",
    "stoker-jpeg": "Stoker, JPEG",
    "torch-elastic": "PyTorch DataLoader, ElasticTransform",
    "torch-noise": "PyTorch DataLoader, GaussianNoise",
    "torch-jpeg": "PyTorch DataLoader, JPEG",
    "stoker-blocks": "Stoker, blocks shuffled",
    "stoker-files": "Stoker, loose files",
    "stoker-conversion": "Stoker",
    "torch-files": "PyTorch DataLoader, loose files",
    "ffcv-rn18": "FFCV, its ResNet-18",
    "ffcv-rn50": "FFCV, its ResNet-50",
    "stoker-rn18": "Stoker, FFCV's ResNet-18",
    "stoker-rn50": "Stoker, FFCV's ResNet-50",
    "spdl-example": "SPDL, its example",
    "stoker-resized": "Stoker, SPDL's example",
}


_LIBRARIES = {
    "torch": ("torch",),
    "tfdata": ("tensorflow",),
    "tfdata-plain": ("tensorflow",),
    "dali": ("nvidia.dali",),
    "ffcv": ("ffcv",),
    "spdl": ("spdl",),
    "webdataset": ("webdataset", "torchvision"),
    "litdata": ("litdata", "torchvision"),
    "mosaic-streaming": ("streaming", "torchvision"),
    "grain": ("grain", "array_record", "torchvision"),
    "hf-datasets": ("datasets", "torchvision"),
    "hf-streaming": ("datasets", "torchvision"),
    "ray-data": ("ray", "torchvision"),
}
"""The libraries that each loader needs; loaders of Stoker and variants are left out."""


def installed_rivals() -> tuple[str, ...]:
    """Names of the loaders of other libraries that are installed."""
    return tuple(name for name, needed in _LIBRARIES.items() if all(map(_is_installed, needed)))


def _is_installed(library: str) -> bool:
    try:
        return importlib.util.find_spec(library) is not None
    except ModuleNotFoundError:
        return False


def load_peer(name: str) -> Peer:
    """Import the library of a peer and return the peer.

    Raises:
        ConfigError: There is no peer of this name.
        ImportError: The library is not installed, or cannot be loaded.
    """
    known = PEERS | TEXT_PEERS
    if name not in known:
        raise ConfigError(f"no loader named {name!r} to compare with", hint=f"known are {', '.join(known)}")
    module, _, attribute = known[name].partition(":")
    peer: Peer = getattr(importlib.import_module(f"stoker.benchmarks.peers.{module}"), attribute)()
    return peer
