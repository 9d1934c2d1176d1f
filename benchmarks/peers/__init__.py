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
    "stoker": ("Stoker, C++ engine", "stoker_loaders.native:StokerNative"),
    "stoker-no-read-ahead": ("Stoker, no read-ahead", "stoker_loaders.native:StokerWithoutReadAhead"),
    "stoker-ray": ("Stoker, workers on Ray", "stoker_loaders.ray:StokerRay"),
    "stoker-dali": ("Stoker, DALI engine", "stoker_loaders.dali:StokerDali"),
    "torch": ("PyTorch DataLoader", "torch_loader:TorchLoader"),
    "tfdata": ("tf.data, antialiased", "tfdata:TFData"),
    "tfdata-plain": ("tf.data, not antialiased", "tfdata:TFDataPlain"),
    "tfdata-service": ("tf.data service", "tfdata:TFDataService"),
    "dali": ("DALI pipeline written by hand", "dali_pipeline:DaliPipeline"),
    "ffcv": ("FFCV", "own_format.ffcv:FFCV"),
    "spdl": ("SPDL", "spdl:SPDL"),
    "webdataset": ("WebDataset", "own_format.webdataset:WebDataset"),
    "litdata": ("LitData", "own_format.litdata:LitData"),
    "mosaic-streaming": ("Mosaic Streaming", "own_format.mosaic_streaming:MosaicStreaming"),
    "grain": ("Grain", "own_format.grain:Grain"),
    "hf-datasets": ("Hugging Face datasets", "own_format.hugging_face:HuggingFaceDatasets"),
    "hf-streaming": ("Hugging Face datasets, streamed", "own_format.hugging_face:HuggingFaceStreaming"),
    "ray-data": ("Ray Data", "own_format.ray_data:RayData"),
    "stoker-jitter": ("Stoker, ColorJitter", "stoker_loaders.native:StokerJitter"),
    "stoker-randaugment": ("Stoker, RandAugment", "stoker_loaders.native:StokerRandAugment"),
    "torch-jitter": ("PyTorch DataLoader, ColorJitter", "torch_loader:TorchJitter"),
    "torch-randaugment": ("PyTorch DataLoader, RandAugment", "torch_loader:TorchRandAugment"),
    "dali-jitter": ("DALI by hand, color_twist", "dali_pipeline:DaliJitter"),
    "dali-randaugment": ("DALI by hand, its rand_augment", "dali_pipeline:DaliRandAugment"),
    "stoker-elastic": ("Stoker, ElasticTransform", "stoker_loaders.native:StokerElastic"),
    "stoker-noise": ("Stoker, GaussianNoise", "stoker_loaders.native:StokerNoise"),
    "stoker-jpeg": ("Stoker, JPEG", "stoker_loaders.native:StokerJPEG"),
    "torch-elastic": ("PyTorch DataLoader, ElasticTransform", "torch_loader:TorchElastic"),
    "torch-noise": ("PyTorch DataLoader, GaussianNoise", "torch_loader:TorchNoise"),
    "torch-jpeg": ("PyTorch DataLoader, JPEG", "torch_loader:TorchJPEG"),
    "stoker-blocks": ("Stoker, blocks shuffled", "stoker_loaders.native:StokerBlocks"),
    "stoker-files": ("Stoker, loose files", "loose_files:StokerFiles"),
    "stoker-conversion": ("Stoker", "loose_files:StokerConversion"),
    "torch-files": ("PyTorch DataLoader, loose files", "torch_loader:TorchFiles"),
    "ffcv-rn18": ("FFCV, its ResNet-18", "own_format.ffcv:FFCVResNet18"),
    "ffcv-rn50": ("FFCV, its ResNet-50", "own_format.ffcv:FFCVResNet50"),
    "stoker-rn18": ("Stoker, FFCV's ResNet-18", "stoker_loaders.published:StokerResNet18"),
    "stoker-rn50": ("Stoker, FFCV's ResNet-50", "stoker_loaders.published:StokerResNet50"),
    "spdl-example": ("SPDL, its example", "spdl:SPDLExample"),
    "stoker-resized": ("Stoker, SPDL's example", "stoker_loaders.published:StokerResized"),
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
