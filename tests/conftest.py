"""Fixtures that tests of several folders share: small images, and datasets made of them."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.annotations import write_annotated
from helpers.datasets import build, jpeg, pack
from helpers.images import encode, png
from helpers.loaders import image_arguments
from helpers.warm_python import WarmPython
from hypothesis import HealthCheck, settings
from PIL import Image

from stoker import ImageLoader
from stoker.formats.remote.block_files import BlockFiles
from stoker.log import EventLog

# Examples are the same in every run, and a busy machine fails no test. `make stress` draws others, and more.
EXAMPLES = int(os.environ.get("STOKER_EXAMPLES", "0"))
settings.register_profile(
    "stoker",
    deadline=None,
    derandomize=not EXAMPLES,
    max_examples=EXAMPLES or 50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("stoker")

# Several threads of PyTorch that share two cores with a loader wait for each other, and take twice the time.
os.environ.setdefault("OMP_NUM_THREADS", "1")

PHOTOGRAPHS = Path(__file__).parents[1] / "examples" / "photos"


def pytest_collection_finish() -> None:
    """Spares the garbage collector the objects of imported frameworks, which live as long as the process."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _cache_of_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests write nothing into the cache folder of the user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


STOKER_MODULES = (
    "stoker.pipeline.images.loader",
    "stoker.pipeline.text.loader",
    "stoker.pipeline.commands.app",
    "stoker.formats.conversion.convert",
    "stoker.formats.text.convert",
)
"""The modules of Stoker that programs of the tests import."""


@pytest.fixture(scope="session")
def warm_python(_cache_of_tests: None) -> Iterator[WarmPython]:
    """Runs programs in forks of a process that has imported Stoker, and DALI where it is installed."""
    with WarmPython(*STOKER_MODULES, "nvidia.dali") as python:
        yield python


@pytest.fixture(scope="session")
def warm_torch(_cache_of_tests: None) -> Iterator[WarmPython]:
    """Runs programs in forks of a process that has imported Stoker and PyTorch."""
    with WarmPython(*STOKER_MODULES, "torch", "torch._dynamo", "torch.utils.data") as python:
        yield python  # optimizers import _dynamo


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that fail are tried again at once; no option sets the pause."""
    monkeypatch.setattr("stoker.formats.remote.store._FIRST_PAUSE", 0.001)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches have blocks of 4096 bytes, so that small files have many; users choose no size."""
    monkeypatch.setattr(BlockFiles.__init__, "__defaults__", (4096,))


@pytest.fixture
def every_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events are logged each time, as if eleven seconds passed between them, and earlier tests had none.

    A log keeps the times of its events in its module, where a test cannot replace the clock from outside.
    """
    for name, module in list(sys.modules.items()):
        for attribute, log in list(vars(module).items()) if name.startswith("stoker.") else ():
            if isinstance(log, EventLog):
                fresh = EventLog(log._logger.name.removeprefix("stoker."), count(0, 11).__next__)
                monkeypatch.setattr(module, attribute, fresh)


@pytest.fixture
def without_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conversions sync no files; tests/fault tests what they sync."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


@pytest.fixture
def make_dataset(tmp_path: Path) -> Callable[..., Path]:
    """``make_dataset(container, payloads, shards=2, name="dataset")``: its folder; six JPEGs by default."""

    def make(
        container: str = "tfrecord",
        payloads: Sequence[bytes] | None = None,
        shards: int = 2,
        name: str = "dataset",
    ) -> Path:
        return build(tmp_path / name, container, payloads or [jpeg(i) for i in range(6)], shards)

    return make


@pytest.fixture
def open_loader() -> Iterator[Callable[..., ImageLoader]]:
    """``open_loader(dataset, **options)``: a loader of images, which is closed after the test."""
    with ExitStack() as loaders:
        yield lambda dataset, **options: loaders.enter_context(
            ImageLoader(dataset, **image_arguments(**options))
        )


@pytest.fixture
def make_jpeg() -> Callable[..., bytes]:
    """``make_jpeg(seed, height=12, width=16)`` encodes noise."""
    return jpeg


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Twelve pictures of noise in two classes."""
    root = tmp_path / "photos"
    for i in range(12):
        (root / f"class-{i % 2}").mkdir(parents=True, exist_ok=True)
        (root / f"class-{i % 2}" / f"{i}.jpg").write_bytes(jpeg(i))
    return root


@pytest.fixture(scope="module", params=["native", "dali"])
def engine(request: pytest.FixtureRequest) -> str:
    """Each engine that executes images, DALI's where it is installed."""
    if request.param == "dali":
        pytest.importorskip("nvidia.dali")
    return str(request.param)


@pytest.fixture
def open_files(tmp_path: Path) -> Callable[[], list[Path]]:
    """``open_files()``: the files below the folder of the test that this process has open."""
    return lambda: [
        target
        for link in Path("/proc/self/fd").iterdir()
        if (target := link.resolve()).is_relative_to(tmp_path.resolve())
    ]


@pytest.fixture
def new_threads() -> Callable[[str], list[threading.Thread]]:
    """``new_threads("stoker-fetch")``: running threads that the test has started, by the start of their name.

    Threads of earlier tests do not count, as they can still be ending.
    """
    before = threading.enumerate()
    return lambda name: [
        thread for thread in threading.enumerate() if thread not in before and thread.name.startswith(name)
    ]


@pytest.fixture(scope="session")
def pack_images(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """``pack_images(payloads, **columns)``: the folder of a dataset of any payloads.

    Keys are ``k<row>``, and labels are the rows. Other columns come from the headers of the payloads, unless
    ``columns`` replaces them, with values that may be wrong.
    """
    return lambda payloads, **columns: pack(tmp_path_factory.mktemp("dataset"), payloads, columns)


@pytest.fixture(scope="session")
def photographs() -> list[Path]:
    """The photographs that ship with the project."""
    return sorted(PHOTOGRAPHS.glob("*/*/*.jpg"))


@pytest.fixture(scope="session")
def dataset(pack_images: Callable[..., Path], photographs: list[Path]) -> Path:
    """All photographs as they are, labelled by their folders."""
    names = sorted({file.parent.name for file in photographs})
    labels = np.array([names.index(file.parent.name) for file in photographs])
    return pack_images([file.read_bytes() for file in photographs], label=labels)


@pytest.fixture(scope="session")
def thumbnails(pack_images: Callable[..., Path], photographs: list[Path]) -> Path:
    """A prime number of photographs, 61, at 48 pixels: for tests of order, not of pixels."""
    return pack_images([thumbnail(file) for file in photographs[:61]])


@pytest.fixture(scope="session")
def annotated(pack_images: Callable[..., Path]) -> Path:
    """Small scenes with objects, see :func:`helpers.annotations.write_annotated`."""
    return write_annotated(pack_images)


def thumbnail(file: Path) -> bytes:
    """A photograph as a JPEG of at most 48 pixels."""
    with Image.open(file) as image:
        image.thumbnail((48, 48))
        return encode(image.convert("RGB"), quality=90)


def square(i: int) -> np.ndarray[Any, Any]:
    """A smooth image with a rectangle, without full contrast: (64, 64, 3) uint8."""
    rng = np.random.default_rng(i)
    small = Image.fromarray(rng.integers(0, 256, (9, 9, 3), np.uint8))
    pixels = np.array(small.resize((64, 64), Image.Resampling.BICUBIC))
    pixels[8:20, 30:50] = rng.integers(0, 256, 3)
    return 20 + (pixels * 0.8).astype(np.uint8)


@pytest.fixture(scope="session")
def squares(pack_images: Callable[..., Path]) -> Path:
    """Twelve images of 64 x 64 pixels as PNG, so that every engine decodes the same pixels."""
    return pack_images([png(square(i)) for i in range(12)])
