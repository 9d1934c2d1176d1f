"""A plain model of a loader with bad samples, and a dataset whose pixels show the row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from helpers.datasets import pack, publish
from helpers.images import encode
from PIL import Image

import stoker
from stoker import ImageLoader
from stoker._native import crc32c
from stoker.errors import SampleError
from stoker.formats.dataset.index import Index, write_index
from stoker.formats.dataset.manifest import INDEX_NAME

N = 37
GREY = np.arange(N) * 5 + 20
"""Value of all pixels of each image and its mask, by which a test knows the row."""


def grey_image(value: int, kind: str, mode: str = "RGB") -> bytes:
    return encode(Image.new(mode, (16, 12), (value,) * 3 if mode == "RGB" else value), kind)


def build(folder: Path, bad: set[int]) -> Path:
    """Write PNGs and JPEGs with masks; half of the bad samples have a damaged image, half a damaged mask."""
    images = [grey_image(int(GREY[i]), "PNG" if i % 2 else "JPEG") for i in range(N)]
    masks = [grey_image(i, "PNG", "L") for i in range(N)]
    folder.mkdir()
    payloads = [image + mask for image, mask in zip(images, masks, strict=True)]
    headers = {"height": np.full(N, 12), "width": np.full(N, 16), "codec": np.arange(N) % 2 + 1}
    pack(folder, payloads, headers)
    index = Index.open(folder / INDEX_NAME)
    columns = {name: index.column(name).copy() for name in index.types if name != "key"}
    length = np.array([len(image) for image in images])
    columns["mask_offset"], columns["mask_length"] = columns["offset"] + length, columns["length"] - length
    columns["length"] = length
    columns["crc"] = np.array([crc32c(image) ^ (i in bad and i % 2) for i, image in enumerate(images)])
    columns["mask_crc"] = np.array([crc32c(mask) ^ (i in bad and not i % 2) for i, mask in enumerate(masks)])
    manifest = stoker.open(folder).manifest
    write_index(folder / INDEX_NAME, {**columns, "key": [f"k{i}" for i in range(N)]})
    publish(folder, "tfrecord", manifest.shards)
    return folder


@dataclass
class Model:
    """A loader, and a model in plain Python of the epoch and the step at which it must be."""

    loader: ImageLoader
    options: dict[str, Any]
    epochs: Callable[[int], list[list[int]]]
    epoch: int = 0
    step: int = 0
    running: Iterator[Any] | None = None
    running_epoch: int = 0
    first: int = 0  # step at which the running pass began
    received: int = 0
    held: list[Any] = field(default_factory=list)
    others: list[Any] = field(default_factory=list)
    counted: bool = False
    failed: bool = False
    may_look: bool = True  # no pass has gone on yet

    def was_look(self) -> bool:
        """Whether the last pass gave no batch, or was the first one and left after its first batch."""
        left = len(self.epochs(self.running_epoch)) - self.first
        return self.counted and not self.failed and self.received <= (self.may_look and left > 1)

    def begin(self) -> None:
        """Begin the next epoch, or the same one again after a look, or go on after an error."""
        self.others.append(self.running)
        self.running = iter(self.loader)
        if self.counted and self.failed:
            self.epoch, self.step = self.next_step()
        elif self.was_look():
            self.epoch, self.step = self.running_epoch, self.first
        self.may_look = self.may_look and not (self.counted and self.received)
        self.failed = False
        self.running_epoch, self.first, self.received, self.counted = self.epoch, self.step, 0, True
        self.epoch, self.step = self.epoch + 1, 0

    def next_step(self) -> tuple[int, int]:
        """Return epoch and step of the next batch."""
        if not self.counted:
            return self.epoch, self.step
        step = self.first + self.received
        done = step >= len(self.epochs(self.running_epoch))
        return (self.running_epoch + 1, 0) if done else (self.running_epoch, step)

    def set_epoch(self, epoch: int) -> None:
        """Keep a position inside the epoch, move a pass that gave no batch, or begin the epoch."""
        self.loader.set_epoch(epoch)
        stands = None if self.counted else self.epoch
        if self.was_look() and not (self.running and self.received):
            stands = self.running_epoch
        if stands == epoch:
            return
        self.may_look = True
        if self.running and not self.received:
            self.running_epoch, self.first, self.epoch, self.step = epoch, 0, epoch + 1, 0
        else:
            self.running = None
            self.epoch, self.step, self.counted, self.received = epoch, 0, False, 0

    def state(self) -> Any:
        """The loader's state; with it, a batch that was received was no look."""
        self.may_look = self.may_look and not (self.counted and self.received)
        return self.loader.state_dict()

    def load(self, state: Any, following: tuple[int, int]) -> None:
        """Load a state; ``following`` are the epoch and the step of its next batch."""
        self.loader.load_state_dict(state)
        self.running, (self.epoch, self.step), self.counted, self.may_look = None, following, False, True

    def receive(self) -> bool:
        """Receive a batch and compare it; return False at the end and after an expected error."""
        steps = self.epochs(self.running_epoch)
        step = self.first + self.received
        wanted = steps[step] if step < len(steps) else None
        bad = [row for row in wanted or [] if row in self.options["bad"]]
        key = None
        assert self.running is not None
        try:
            batch = next(self.running)
        except StopIteration:
            assert wanted is None, f"ended at step {step} of {len(steps)}"
            self.running = None
            return False
        except SampleError as error:
            self.running, self.failed, key = None, True, error.key
        assert wanted is not None, "a batch after the last one"
        if key is not None:
            assert bad, f"an error of {key}, and nothing is bad"
            assert self.options["on_error"] == "raise" or len(bad) == len(wanted)
            assert key == f"k{bad[0]}"
            return False
        self.received += 1
        self.compare(batch, wanted, bad)
        return True

    def compare(self, batch: Any, wanted: list[int], bad: list[int]) -> None:
        on_error = self.options["on_error"]
        rows = [int(row) for row in batch.row]
        if on_error == "skip":
            assert rows == [row for row in wanted if row not in bad], (rows, wanted)
        elif on_error == "replace":
            good = [row for row in wanted if row not in bad]
            assert [r for r, w in zip(rows, wanted, strict=True) if w not in bad] == good
            assert not set(rows) & set(bad)
        else:
            assert not bad, "a bad sample was handed out"
            assert rows == wanted, (rows, wanted)
        check_pixels(batch, rows)
        if self.options["hold"]:
            self.held = [*self.held[-4:], (batch, rows)]


def check_pixels(batch: Any, rows: list[int]) -> None:
    number = np.array(rows, np.int64)
    assert batch.image.shape == (len(rows), 3, 12, 16)
    difference = np.abs(batch.image - GREY[number][:, None, None, None])
    assert difference.max(initial=0) <= 2, "pixels of another sample"
    if hasattr(batch, "segmentation"):
        assert batch.segmentation.shape == (len(rows), 12, 16)
        assert (batch.segmentation == number[:, None, None]).all(), "the mask of another sample"
