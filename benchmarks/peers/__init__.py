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

_LOADERS = {
    "stoker": ("Stoker, C++ engine", "stoker:StokerNative"),
    "stoker-no-read-ahead": ("Stoker, no read-ahead", "stoker:StokerWithoutReadAhead"),
    "stoker-ray": ("Stoker, workers on Ray", "stoker:StokerRay"),
    "stoker-dali": ("Stoker, DALI engine", "stoker:StokerDali"),
    "torch": ("PyTorch DataLoader", "torch:TorchLoader"),
    "tfdata": ("tf.data, antialiased", "tfdata:TFData"),
    "tfdata-plain": ("tf.data, not antialiased", "tfdata:TFDataPlain"),
    "tfdata-service": ("tf.data service", "tfdata:TFDataService"),
    "dali": ("DALI pipeline written by hand", "dali:DaliPipeline"),
    "ffcv": ("FFCV", "ffcv:FFCV"),
    "spdl": ("SPDL", "spdl:SPDL"),
    "webdataset": ("WebDataset", "webdataset:WebDataset"),
    "litdata": ("LitData", "litdata:LitData"),
    "mosaic-streaming": ("Mosaic Streaming", "mosaic_streaming:MosaicStreaming"),
    "grain": ("Grain", "grain:Grain"),
    "hf-datasets": ("Hugging Face datasets", "hugging_face:HuggingFaceDatasets"),
    "hf-streaming": ("Hugging Face datasets, streamed", "hugging_face:HuggingFaceStreaming"),
    "ray-data": ("Ray Data", "ray_data:RayData"),
    "stoker-jitter": ("Stoker, ColorJitter", "stoker:StokerJitter"),
    "stoker-randaugment": ("Stoker, RandAugment", "stoker:StokerRandAugment"),
    "torch-jitter": ("PyTorch DataLoader, ColorJitter", "torch:TorchJitter"),
    "torch-randaugment": ("PyTorch DataLoader, RandAugment", "torch:TorchRandAugment"),
    "dali-jitter": ("DALI by hand, color_twist", "dali:DaliJitter"),
    "dali-randaugment": ("DALI by hand, its rand_augment", "dali:DaliRandAugment"),
    "stoker-elastic": ("Stoker, ElasticTransform", "stoker:StokerElastic"),
    "stoker-noise": ("Stoker, GaussianNoise", "stoker:StokerNoise"),
    "stoker-jpeg": ("Stoker, JPEG", "stoker:StokerJPEG"),
    "torch-elastic": ("PyTorch DataLoader, ElasticTransform", "torch:TorchElastic"),
    "torch-noise": ("PyTorch DataLoader, GaussianNoise", "torch:TorchNoise"),
    "torch-jpeg": ("PyTorch DataLoader, JPEG", "torch:TorchJPEG"),
    "stoker-blocks": ("Stoker, blocks shuffled", "stoker:StokerBlocks"),
    "stoker-files": ("Stoker, loose files", "stoker:StokerFiles"),
    "stoker-conversion": ("Stoker", "stoker:StokerConversion"),
    "torch-files": ("PyTorch DataLoader, loose files", "torch:TorchFiles"),
    "ffcv-rn18": ("FFCV, its ResNet-18", "ffcv:FFCVResNet18"),
    "ffcv-rn50": ("FFCV, its ResNet-50", "ffcv:FFCVResNet50"),
    "stoker-rn18": ("Stoker, FFCV's ResNet-18", "stoker:StokerResNet18"),
    "stoker-rn50": ("Stoker, FFCV's ResNet-50", "stoker:StokerResNet50"),
    "spdl-example": ("SPDL, its example", "spdl:SPDLExample"),
    "stoker-resized": ("Stoker, SPDL's example", "stoker:StokerResized"),
}
"""Title, and module and class, of each loader by its name for ``--against``."""
TITLES = {name: title for name, (title, _) in _LOADERS.items()}
PEERS = {name: module_and_class for name, (_, module_and_class) in _LOADERS.items()}
"""Module and class of each peer, by its name."""
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
    """Import the library of a peer and return the peer."""
    known = PEERS | TEXT_PEERS
    if name not in known:
        raise ConfigError(f"no loader named {name!r} to compare with", hint=f"known are {', '.join(known)}")
    module, _, attribute = known[name].partition(":")
    peer: Peer = getattr(importlib.import_module(f"stoker.benchmarks.peers.{module}"), attribute)()
    return peer
