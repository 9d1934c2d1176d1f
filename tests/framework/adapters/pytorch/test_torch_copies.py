"""Page-locked memory and copies on a side stream, with a PyTorch that only seems to have a GPU.

The device "meta" stands in for the GPU: tensors can be copied there, and hold nothing. tests/gpu tests a
real one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from helpers.datasets import WORDS  # noqa: E402 - after the skip
from helpers.loaders import image_arguments, text_arguments  # noqa: E402 - after the skip

from stoker import ImageLoader, TextLoader, convert_text  # noqa: E402 - after the skip
from stoker.augment import Normalize, Resize  # noqa: E402
from stoker.errors import ConfigError  # noqa: E402
from stoker.pipeline.adapters import FRAMEWORKS, load  # noqa: E402
from stoker.pipeline.adapters import torch as adapter  # noqa: E402
from stoker.pipeline.engines.registry import BatchPlacement  # noqa: E402


class Cuda:
    """A log of the calls of PyTorch, in order."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.pinned: set[int] = set()
        self.kept: list[Any] = []  # memory that is not pinned could get a freed address
        self.streams = ["consumer's"]

    def stream_class(self) -> type:
        cuda = self

        class Stream:
            def __init__(self, device: Any) -> None:
                self.name = "side"

            def record_event(self) -> str:
                cuda.log.append("event recorded")
                return "event"

            def wait_event(self, event: str) -> None:
                cuda.log.append("waited")

        return Stream

    def of_consumer(self) -> list[str]:
        """The calls of the consumer's thread, without those of the producer."""
        return [call for call in self.log if call in ("waited", "kept")]

    def pin(self, tensor: Any) -> Any:
        self.pinned.add(tensor.data_ptr())
        self.kept.append(tensor)
        return tensor


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    cuda = Cuda()
    empty = torch.empty

    class Entered:
        def __init__(self, stream: Any) -> None:
            pass

        def __enter__(self) -> None:
            cuda.log.append("side entered")

        def __exit__(self, *error: object) -> None:
            cuda.log.append("side left")

    def pinned_empty(*shape: Any, pin_memory: bool = False, **options: Any) -> Any:
        return cuda.pin(empty(*shape, **options)) if pin_memory else empty(*shape, **options)

    stream = cuda.stream_class()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "Stream", stream)
    monkeypatch.setattr(torch.cuda, "stream", Entered)
    monkeypatch.setattr(torch.cuda, "current_stream", stream)
    monkeypatch.setattr(torch, "empty", pinned_empty)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: cuda.pin(tensor.clone()))
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda tensor: tensor.data_ptr() in cuda.pinned)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: cuda.log.append("kept"))
    return cuda


@pytest.fixture
def meta_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches go to the device "meta", which no option of a loader can name."""
    init = adapter.Adapter.__init__

    def init_on_meta(self: Any, device: str | None, **options: Any) -> None:
        init(self, "meta", **options)

    monkeypatch.setattr(adapter.Adapter, "__init__", init_on_meta)


def make(thumbnails: Path, **options: Any) -> ImageLoader:
    arguments = {"batch_size": 16, "num_threads": 1, "output": "torch", "pin_memory": True, **options}
    return ImageLoader(thumbnails, **image_arguments(transforms=[Resize((8, 8)), Normalize()], **arguments))


def test_batches_are_in_page_locked_memory(thumbnails: Path, cuda: Cuda) -> None:
    with make(thumbnails, engine="native") as pinned, make(thumbnails, pin_memory=False) as plain:
        for batch, other in zip(pinned, plain, strict=True):
            assert torch.equal(batch.image, other.image)
            assert torch.equal(batch.label, other.label)
            assert batch.image.data_ptr() in cuda.pinned, "written there by the engine"
            assert batch.label.data_ptr() in cuda.pinned
            assert other.image.data_ptr() not in cuda.pinned
    assert cuda.log == [], "nothing is copied to a GPU"


def test_images_of_another_engine_are_copied_to_page_locked_memory(thumbnails: Path, cuda: Cuda) -> None:
    with make(thumbnails, engine="reference") as loader:
        assert next(iter(loader)).image.data_ptr() in cuda.pinned


@pytest.mark.usefixtures("meta_device")
def test_copies_overlap_with_the_consumer_and_its_stream_waits(thumbnails: Path, cuda: Cuda) -> None:
    with make(thumbnails, engine="native", prefetch=1) as loader:
        running = iter(loader)
        batch = next(running)
        assert batch.image.device.type == batch.label.device.type == "meta"
    assert cuda.log[:3] == ["side entered", "side left", "event recorded"]
    assert cuda.of_consumer() == ["waited", "kept", "kept"], "image and label"


def test_the_stream_of_the_consumer_keeps_ragged_columns(cuda: Cuda) -> None:
    loaded = load(FRAMEWORKS["torch"], BatchPlacement("meta", pin_memory=True))
    assert loaded.copy_stream is not None
    values = loaded.ragged(np.zeros((3, 4), np.float32), np.array([1, 2]))
    loaded.copy_stream.ready((values, ["a", "b"], loaded.column(np.zeros(2))))()
    assert cuda.log == ["event recorded", "waited", "kept", "kept", "kept"]


def test_page_locked_memory_without_a_gpu_is_refused(thumbnails: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(ConfigError, match="needs a GPU, and PyTorch sees none"):
        make(thumbnails)


def test_other_frameworks_have_no_page_locked_memory(thumbnails: Path) -> None:
    with pytest.raises(ConfigError, match="goes with output='torch', found output='numpy'"):
        make(thumbnails, output="numpy")


@pytest.fixture
def load_text(tmp_path: Path) -> Callable[[], TextLoader]:
    """``load_text()``: a loader of text in page-locked memory."""
    (tmp_path / "t.txt").write_text("\n".join("word " * (1 + i % 7) for i in range(20)))
    convert_text(tmp_path / "t.txt", tmp_path / "text", tokenizer=WORDS)
    options: dict[str, Any] = {"batch_size": 4, "output": "torch", "pin_memory": True, "prefetch": 1}
    return lambda: TextLoader(tmp_path / "text", **text_arguments(**options))


def test_text_is_in_page_locked_memory(load_text: Callable[[], TextLoader], cuda: Cuda) -> None:
    with load_text() as loader:
        for batch in loader:
            assert {column.data_ptr() for column in batch} <= cuda.pinned
    assert cuda.log == [], "nothing is copied to a GPU"


@pytest.mark.usefixtures("meta_device")
def test_copies_of_text_overlap_with_the_consumer(load_text: Callable[[], TextLoader], cuda: Cuda) -> None:
    with load_text() as loader:
        assert next(iter(loader)).input_ids.device.type == "meta"
    assert cuda.log[:3] == ["side entered", "side left", "event recorded"]
    assert cuda.of_consumer() == ["waited", "kept", "kept"], "token ids and mask"
