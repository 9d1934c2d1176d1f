"""Bad samples: a warning of the first, an error if they exceed ``max_bad``, and a count in the verdict."""

from __future__ import annotations

import errno
import os
import resource
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from helpers.images import encode
from helpers.loaders import image_arguments

from stoker import ImageLoader
from stoker.augment import Resize
from stoker.errors import SampleError, StorageError
from stoker.formats.open import open as open_dataset

FIRST = "a bad sample was {}, 'k{}'"


@pytest.fixture
def damaged(pack_images: Callable[..., Path], make_jpeg: Callable[..., bytes]) -> Callable[..., Path]:
    """``damaged(n, bad)``: a dataset of ``n`` images, of which those at ``bad`` have another checksum."""

    def make(n: int, bad: list[int]) -> Path:
        payloads = [make_jpeg(0)] * n
        crc = open_dataset(pack_images(payloads)).index.column("crc").copy()
        crc[bad] ^= 1
        return pack_images(payloads, crc=crc)

    return make


def load(folder: Path, **options: Any) -> ImageLoader:
    arguments = {"batch_size": 10, "columns": ("row",), "num_threads": 1, "on_error": "skip", **options}
    return ImageLoader(folder, **image_arguments(transforms=[Resize((8, 8))], **arguments))


def receive(loader: ImageLoader) -> list[int]:
    """The rows of an epoch."""
    return [int(row) for batch in loader for row in batch.row]


@pytest.mark.usefixtures("every_event")
def test_bad_samples_after_the_first_one_are_logged(
    damaged: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    with load(damaged(40, [3, 12, 17, 30]), max_bad=1.0) as loader, pytest.warns(UserWarning, match="'k3'"):
        receive(loader)
    assert caplog.messages == ["a bad sample was skipped: 'k12', 'k17'", "a bad sample was skipped: 'k30'"]
    assert {record.name for record in caplog.records} == {"stoker.samples"}


def test_a_dataset_of_bad_samples_alone_is_an_error(damaged: Callable[..., Path]) -> None:
    with load(damaged(300, list(range(300)))) as loader:
        with (
            pytest.warns(UserWarning, match=FIRST.format("skipped", 0)),
            pytest.raises(SampleError) as caught,
        ):
            receive(loader)
        assert loader.state_dict()["position"] == 90, "not before a hundred samples were seen"
        assert "100 samples of this epoch are bad, the last one: the payload does not match" in str(
            caught.value
        )
        assert "max_bad=0.01 allows fewer" in str(caught.value)
        assert caught.value.key == "k99"


@pytest.mark.parametrize(
    ("options", "bad", "position"),
    [
        ({}, [150, 151, 152], None),
        ({}, [150, 151, 152, 299], 290),
        ({"on_error": "replace"}, [150, 151, 152, 155], 150),
        ({"max_bad": 0.02}, [*range(1, 61, 10)], None),
        ({"max_bad": 0.02}, [*range(1, 71, 10)], 90),
        ({"max_bad": 2}, [1, 11, 21], 20),
        ({"max_bad": np.int64(0)}, [1], 0),
        ({"max_bad": np.float32(0)}, [1], 90),
        ({"max_bad": 1.0, "on_error": "replace"}, [*range(1, 300, 2)], None),
        ({"rank": 1, "world_size": 2}, [101, 281], 280),
    ],
)
@pytest.mark.filterwarnings("ignore:a bad sample was")
def test_max_bad_is_a_number_or_a_share_of_an_epoch(
    damaged: Callable[..., Path], options: dict[str, Any], bad: list[int], position: int | None
) -> None:
    """``position`` is that of the batch with one bad sample too many."""
    with load(damaged(300, bad), **options) as loader:
        if position is None:
            for _ in range(3):  # each epoch is counted anew
                receive(loader)
        else:
            with pytest.raises(SampleError, match="of this epoch are bad"):
                receive(loader)
            assert loader.state_dict()["position"] == position


def test_the_share_of_a_small_epoch_counts_from_the_hundredth_sample_on(damaged: Callable[..., Path]) -> None:
    with load(damaged(40, [3])) as loader:
        with pytest.warns(UserWarning, match=FIRST.format("skipped", 3)):
            receive(loader)
        assert [len(receive(loader)), loader.state_dict()["epoch"]] == [39, 2]
        with pytest.raises(SampleError, match="1 samples of this epoch"):
            receive(loader)


def test_only_the_first_bad_sample_is_a_warning_and_the_verdict_counts_all(
    damaged: Callable[..., Path],
) -> None:
    with load(damaged(20, [3, 15]), on_error="replace") as loader:
        assert "bad" not in loader.stats().verdict
        with pytest.warns(UserWarning, match=FIRST.format("replaced", 3)) as caught:
            receive(loader)
        assert [warning.filename for warning in caught] == [__file__]
        assert loader.stats().verdict.endswith(" 2 bad samples were replaced.")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            receive(loader)


@pytest.mark.filterwarnings("ignore:a bad sample was")
def test_a_state_does_not_depend_on_max_bad(damaged: Callable[..., Path]) -> None:
    folder = damaged(20, [3])
    with load(folder) as saved, load(folder, max_bad=5) as other:
        next(iter(saved))
        other.load_state_dict(saved.state_dict())
        assert receive(other) == list(range(10, 20))


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_a_process_without_free_descriptors_skips_no_sample(
    pack_images: Callable[..., Path], make_jpeg: Callable[..., bytes], engine: str
) -> None:
    folder, limits = pack_images([make_jpeg(0)] * 20), resource.getrlimit(resource.RLIMIT_NOFILE)
    with load(folder, engine=engine, mapped=False, max_bad=1.0) as loader:
        free = os.open(os.devnull, os.O_RDONLY)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
            with pytest.raises(StorageError, match=os.strerror(errno.EMFILE)) as caught:
                receive(loader)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            os.close(free)
        assert "ulimit -n" in str(caught.value)
        assert receive(loader) == list(range(20))


def test_a_machine_without_memory_skips_no_sample(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "images" / "a").mkdir(parents=True)
    (tmp_path / "images" / "a" / "0.bmp").write_bytes(encode(np.zeros((9, 9, 3), np.uint8), "BMP"))
    with load(tmp_path / "images", max_bad=1.0) as loader:
        with monkeypatch.context() as patch:
            patch.setattr("stoker.formats.codecs.decode.decode_rgb", Mock(side_effect=MemoryError))
            with pytest.raises(StorageError, match="no memory"):
                receive(loader)
        assert receive(loader) == [0]
