"""What the loaders of a comparison share: crops, normalisation, settings and payloads."""

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import stoker
from stoker.benchmarks.comparison.sources import open_source
from stoker.benchmarks.peers import load_peer
from stoker.benchmarks.peers.base import (
    MEAN,
    RATIO,
    SCALE,
    STD,
    PeerPayloads,
    PeerSettings,
    PeerSource,
    shard_counts,
)
from stoker.benchmarks.peers.pixels import normalised, random_resized_crop
from stoker.errors import ConfigError


def test_crops_lie_inside_and_keep_the_ranges_of_scale_and_ratio():
    rng = random.Random(0)
    for _ in range(2000):
        top, left, height, width = random_resized_crop(rng, 300, 400)
        assert 0 <= top <= top + height <= 300
        assert 0 <= left <= left + width <= 400
        # Rounding moves a side by half a pixel.
        assert SCALE[0] * 0.97 <= height * width / (300 * 400) <= SCALE[1]
        assert RATIO[0] * 0.97 <= width / height <= RATIO[1] * 1.03


@pytest.mark.parametrize(("size", "box"), [((10, 1000), (0, 493, 10, 13)), ((1000, 9), (494, 0, 12, 9))])
def test_an_image_of_an_extreme_shape_gives_its_largest_centred_box(size, box):
    assert random_resized_crop(random.Random(0), *size) == box


def test_normalised_is_torchvisions_formula():
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    expected = (pixels / 255 - np.array(MEAN)) / np.array(STD)
    found = normalised(pixels)
    assert found.dtype == np.float32
    assert found.flags.c_contiguous
    np.testing.assert_allclose(found, expected.transpose(2, 0, 1), atol=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: load_peer("petastorm"), "no loader named 'petastorm'"),
        (lambda: PeerSettings(batch_size=0), "batch_size must be at least 1"),
        (lambda: PeerSettings(size=0), "size must be at least 1"),
        (lambda: PeerSettings(num_threads=0), "num_threads must be at least 1"),
    ],
)
def test_wrong_peers_and_settings_are_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


def test_a_source_survives_its_json():
    source = PeerSource(Path("a"), "lmdb", (Path("b"), Path("c")), Path("t.npz"), 3, True, Path("s"))
    assert PeerSource.from_json(source.to_json()) == source


@pytest.mark.parametrize(
    ("records", "threads", "counts"), [(10, 1, [4, 3, 3]), (10, 2, [3, 3, 2, 2]), (2, 4, [1, 1])]
)
def test_every_worker_of_a_peer_has_shards(records, threads, counts):
    source = PeerSource(Path("a"), "tfrecord", (Path("b"),) * 3, Path("t.npz"), records, False, Path("s"))
    assert shard_counts(source, PeerSettings(num_threads=threads)) == counts


def test_payloads_are_the_bytes_of_the_dataset(make_dataset, tmp_path):
    dataset = stoker.open(make_dataset())
    source = open_source(dataset.path, tmp_path)
    payloads = PeerPayloads(source)
    assert source.records == len(payloads) == len(dataset)
    assert not source.raw
    assert [payloads.read(i) for i in range(len(payloads))] == [dataset.read(i) for i in range(len(dataset))]
    np.testing.assert_array_equal(payloads.label, dataset.labels)
    assert payloads.most_pixels == 12 * 16


def test_stoker_is_compared_where_ray_is_not_installed():
    program = "import sys; sys.modules['ray'] = None; from stoker.benchmarks.peers import load_peer as load"
    subprocess.run([sys.executable, "-c", f"{program}; load('stoker')"], check=True)
