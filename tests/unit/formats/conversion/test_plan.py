"""Planning: splits, order, shards, fingerprints."""

import dataclasses
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers.datasets import plan_images

from stoker.errors import ConfigError
from stoker.formats.conversion.options import ConvertOptions
from stoker.formats.conversion.plan import shard_rows, shuffled
from stoker.formats.dataset.annotations import AnnotationInfo
from stoker.formats.sources.listing import ListedFiles, ListedObjects, Listing, Skip

# Conversions of a source keep their bytes only if this order stays; NumPy 2 made it.
GOLDEN_ORDER = [0, 2, 11, 9, 1, 8, 5, 4, 3, 10, 6, 7]
GOLDEN_VAL = {"c0/0003.jpg", "c5/0002.jpg", "c8/0000.jpg", "c9/0003.jpg"}
NUMBERS, NAMES = np.arange(5), pa.array(list("abcde"), pa.large_string())


def make_listing(counts: dict[str, int], size: int = 1000) -> Listing:
    keys = [(f"{name}/{i:04d}.jpg", label) for label, name in enumerate(counts) for i in range(counts[name])]
    n = len(keys)
    return Listing(
        root=Path("/photos"),
        keys=pa.array([key for key, _ in keys], pa.large_string()),
        sizes=np.full(n, size, np.int64),
        modified=np.zeros(n, np.int64),
        labels=pa.array([label for _, label in keys], pa.int64()),
        classes=tuple(counts),
    )


def split_keys(listing: Listing, **options: Any) -> dict[str, set[str]]:
    plan = plan_images(listing, ConvertOptions(shards=1, **options))
    return {shard.split: set(listing.keys.take(shard.rows).to_pylist()) for shard in plan.shards}


class TestSplits:
    def test_a_share_is_taken_of_every_class(self) -> None:
        listing = make_listing({"a": 100, "b": 50, "c": 20})
        splits = split_keys(listing, val=Fraction(1, 10), test=Fraction(1, 20))
        sizes = {name: [sum(key[0] == name for key in splits[split]) for split in splits] for name in "abc"}
        assert (sizes["a"], sizes["c"]) == ([85, 10, 5], [17, 2, 1])
        assert sizes["b"] in ([43, 5, 2], [42, 5, 3])
        assert [len(splits[split]) for split in ("train", "val", "test")] == [144, 17, 9]

    def test_classes_smaller_than_the_share_are_apportioned(self) -> None:
        splits = split_keys(make_listing({f"c{i:03d}": 4 for i in range(100)}), val=Fraction(1, 10))
        assert len(splits["val"]) == len({key.split("/")[0] for key in splits["val"]}) == 40

    @pytest.mark.parametrize("sizes", [*([size] * 9 for size in range(3, 8)), [1, 19]])
    def test_every_class_has_a_training_sample(self, sizes: list[int]) -> None:
        listing = make_listing({f"c{i}": size for i, size in enumerate(sizes)})
        splits = split_keys(listing, val=Fraction(9, 20), test=Fraction(9, 20))
        assert len({key.split("/")[0] for key in splits["train"]}) == len(sizes)

    def test_the_samples_of_a_split_depend_on_no_seed_and_never_change(self) -> None:
        listing = make_listing({f"c{i}": 4 for i in range(10)})
        for options in ({}, {"seed": 1}):
            assert split_keys(listing, val=Fraction(1, 10), **options)["val"] == GOLDEN_VAL
        listing = make_listing({"a": 100})
        alone, both = (split_keys(listing, val=Fraction(1, 10), test=Fraction(n, 10)) for n in (0, 1))
        assert alone["val"] == both["val"]

    def test_three_new_files_move_at_most_six_samples_to_another_split(self) -> None:
        before, after = (
            split_keys(make_listing({"a": n, "b": 300}), val=Fraction(1, 10), test=Fraction(1, 10))
            for n in (200, 203)
        )
        assert sum(len(before[split] - after[split]) for split in before) <= 6

    def test_a_split_without_samples_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="val would get none of 4"):
            split_keys(make_listing({"a": 4}), val=Fraction(1, 100))

    @pytest.mark.parametrize(
        ("labels", "classes"),
        [
            (pa.array([-5] * 100 + [7_000_000_000] * 200, pa.int64()), ()),
            (pa.array([[0, 1]] * 100 + [[1]] * 200, pa.large_list(pa.int64())), ("a", "b")),
            (pa.array([[0]] * 100 + [[]] * 200, pa.large_list(pa.int64())), ("a", "b")),
            (pa.array([[0]] * 100 + [[]] * 200, pa.large_list(pa.int64())), ("a", "b", "c")),
            (pa.array([[0]] * 100 + [[]] * 200, pa.large_list(pa.int64())), ()),
        ],
        ids=["no names", "the first of several", "without a label", "a class without samples", "neither"],
    )
    def test_shares_are_taken_of_each_label(self, labels: pa.Array, classes: tuple[str, ...]) -> None:
        named = make_listing({"a": 100, "b": 200})
        splits = split_keys(dataclasses.replace(named, labels=labels, classes=classes), val=Fraction(1, 5))
        assert sorted(key[0] for key in splits["val"]) == ["a"] * 20 + ["b"] * 40
        assert len(split_keys(dataclasses.replace(named, labels=None), val=Fraction(1, 5))["val"]) == 60


def test_the_permutation_of_a_seed_never_changes() -> None:
    assert shuffled(np.arange(12), 0).tolist() == GOLDEN_ORDER
    assert shuffled(np.arange(12), None).tolist() == list(range(12))
    orders = {tuple(shuffled(np.arange(30), seed).tolist()) for seed in (*range(50), (1 << 64) - 1)}
    assert len(orders) == 51


@pytest.mark.parametrize(
    ("sizes", "options", "expected"),
    [
        ([5] * 10, {"shard_records": 4}, [4, 4, 2]),
        ([5] * 10, {"shards": 4}, [2, 3, 2, 3]),
        ([5] * 3, {"shards": 100}, [1, 1, 1]),
        ([1000] * 1000, {"shard_bytes": 300_000}, [250] * 4),
        ([10, 10, 5000, 10, 10], {"shard_bytes": 100}, [3, 2]),
    ],
)
def test_shards_follow_the_option(sizes: list[int], options: dict[str, int], expected: list[int]) -> None:
    parts = shard_rows(np.array(sizes), ConvertOptions(**options))
    assert [part.stop - part.start for part in parts] == expected


def test_sizes_of_shards_include_masks_and_raw_pixels() -> None:
    listing, options = make_listing({"a": 10}), ConvertOptions(shard_bytes=15_000)
    masks = ListedFiles(listing.root, listing.keys, np.full(10, 9_000, np.int64), listing.modified)
    assert len(plan_images(listing, options).shards) == 1
    assert len(plan_images(dataclasses.replace(listing, masks=masks), options).shards) == 7
    raw = ConvertOptions(shard_bytes=100, encoding="raw", mode="fill", height=10, width=20)
    assert len(set(raw.record_bytes(np.array([1, 10**9])).tolist())) == 1, "whatever the size of the file"


class TestFingerprint:
    def test_the_fingerprint_covers_every_option_the_source_and_the_version(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        base = {"shards": 2}
        variants: list[dict[str, Any]] = [
            base,
            {**base, "seed": 0},
            {**base, "encoding": "jpeg", "quality": 91},
            {**base, "container": "lmdb"},
            {**base, "strict": True},
            {**base, "val": Fraction(1, 3)},
            {"shard_records": 2},
        ]
        listing = make_listing({"a": 5, "b": 5})
        others = make_listing({"a": 5, "c": 5}), make_listing({"a": 5, "b": 5}, 9)
        plans = [plan_images(listing, ConvertOptions(**options)) for options in variants]
        plans += [plan_images(other, ConvertOptions(**base)) for other in others]
        again = plan_images(make_listing({"a": 5, "b": 5}), ConvertOptions(**base))
        assert again.fingerprint == plans[0].fingerprint
        monkeypatch.setattr("stoker.version.__version__", "1.0.1")
        plans.append(plan_images(listing, ConvertOptions(**base)))
        assert len({plan.fingerprint for plan in plans}) == len(plans)

    @pytest.mark.parametrize(
        ("part", "name", "value"),
        [
            ("", "keys", NAMES),
            ("", "sizes", NUMBERS),
            ("", "modified", NUMBERS),
            ("", "classes", ("b",)),
            ("", "skipped", ()),
            ("", "labels", pa.array([1] * 5)),
            ("", "info", AnnotationInfo(ignore=255)),
            ("", "objects", None),
            ("", "masks", None),
            ("", "columns", {"y": pa.array(range(5))}),
            ("", "columns", {"x": pa.array(range(1, 6))}),
            ("masks", "keys", NAMES),
            ("masks", "sizes", NUMBERS),
            ("masks", "modified", NUMBERS),
            ("objects", "columns", {"object_boxes": pa.array([[1.0]] * 5)}),
            ("objects", "relative", True),
            ("objects", "heights", NUMBERS.astype(np.int32)),
            ("objects", "widths", NUMBERS.astype(np.int32)),
        ],
    )
    def test_every_change_of_the_listing_changes_its_fingerprint(
        self, part: str, name: str, value: Any
    ) -> None:
        base = make_listing({"a": 5})
        boxes = {"object_boxes": pa.array([[0.0]] * 5)}
        listing = dataclasses.replace(
            base,
            columns={"x": pa.array(range(5))},
            skipped=(Skip("b", "hidden"),),
            masks=ListedFiles(base.root, base.keys, base.sizes, base.modified),
            objects=ListedObjects(boxes, False, np.full(5, 7, np.int32), np.full(5, 9, np.int32), "{}"),
        )
        changes = {name: value}
        if part:
            changes = {part: dataclasses.replace(getattr(listing, part), **changes)}
        assert dataclasses.replace(listing, **changes).fingerprint() != listing.fingerprint()
