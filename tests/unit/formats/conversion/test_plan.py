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

NUMBERS, NAMES = np.arange(5), pa.array(list("abcde"), pa.large_string())

GOLDEN_VAL = {"c0/0003.jpg", "c5/0002.jpg", "c8/0000.jpg", "c9/0003.jpg"}


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
        for name, val, test in (("a", 10, 5), ("b", 5, (2, 3)), ("c", 2, 1)):
            sizes = {split: sum(key.startswith(name + "/") for key in keys) for split, keys in splits.items()}
            assert sizes["val"] == val
            assert sizes["test"] in (test if isinstance(test, tuple) else (test,))
        assert [len(splits[split]) for split in ("train", "val", "test")] == [144, 17, 9]

    def test_classes_smaller_than_the_share_are_apportioned(self) -> None:
        listing = make_listing({f"c{i:03d}": 4 for i in range(100)})
        splits = split_keys(listing, val=Fraction(1, 10))
        assert len(splits["val"]) == 40
        assert len({key.split("/")[0] for key in splits["val"]}) == 40

    def test_a_class_with_one_sample_stays_in_train(self) -> None:
        splits = split_keys(make_listing({"a": 1, "b": 19}), val=Fraction(9, 10))
        assert any(key.startswith("a/") for key in splits["train"])

    @pytest.mark.parametrize("size", range(3, 8))
    def test_every_class_has_a_training_sample(self, size: int) -> None:
        listing = make_listing({f"c{i}": size for i in range(9)})
        splits = split_keys(listing, val=Fraction(9, 20), test=Fraction(9, 20))
        assert len({key.split("/")[0] for key in splits["train"]}) == 9

    def test_the_samples_of_a_split_never_change(self) -> None:
        listing = make_listing({f"c{i}": 4 for i in range(10)})
        assert split_keys(listing, val=Fraction(1, 10))["val"] == GOLDEN_VAL

    def test_splits_do_not_depend_on_the_shuffle(self) -> None:
        listing = make_listing({"a": 60, "b": 40})
        assert split_keys(listing, val=Fraction(1, 5), seed=1) == split_keys(listing, val=Fraction(1, 5))

    def test_three_new_files_move_at_most_six_samples_to_another_split(self) -> None:
        before = split_keys(make_listing({"a": 200, "b": 300}), val=Fraction(1, 10), test=Fraction(1, 10))
        after = split_keys(make_listing({"a": 203, "b": 300}), val=Fraction(1, 10), test=Fraction(1, 10))
        moved = sum(len(before[split] - after[split]) for split in before)
        assert moved <= 6

    def test_val_does_not_change_when_test_is_added(self) -> None:
        listing = make_listing({"a": 100})
        assert (
            split_keys(listing, val=Fraction(1, 10))["val"]
            == split_keys(listing, val=Fraction(1, 10), test=Fraction(1, 10))["val"]
        )

    def test_a_split_without_samples_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="val would get none of 4"):
            split_keys(make_listing({"a": 4}), val=Fraction(1, 100))

    def test_labels_without_names_are_strata(self) -> None:
        named = make_listing({"a": 10, "b": 10})
        labels = pa.array([-5] * 10 + [7_000_000_000] * 10, pa.int64())
        listing = Listing(named.root, named.keys, named.sizes, named.modified, labels, ())
        splits = split_keys(listing, val=Fraction(1, 5))
        assert sorted(key[0] for key in splits["val"]) == ["a", "a", "b", "b"]

    def test_the_first_of_several_labels_is_the_stratum(self) -> None:
        named = make_listing({"a": 10, "b": 10})
        labels = pa.array([[0, 1]] * 10 + [[1]] * 10, pa.large_list(pa.int64()))
        listing = Listing(named.root, named.keys, named.sizes, named.modified, labels, named.classes)
        assert sorted(key[0] for key in split_keys(listing, val=Fraction(1, 5))["val"]) == [*"aabb"]

    def test_samples_without_a_label_are_a_stratum(self) -> None:
        named = make_listing({"a": 100, "b": 200})
        labels = pa.array([[0]] * 100 + [[]] * 200, pa.large_list(pa.int64()))
        for classes in (named.classes, (*named.classes, "c"), ()):
            listing = dataclasses.replace(named, labels=labels, classes=classes)
            splits = split_keys(listing, val=Fraction(1, 5))
            assert sorted(key[0] for key in splits["val"]) == ["a"] * 20 + ["b"] * 40
        assert len(split_keys(dataclasses.replace(named, labels=None), val=Fraction(1, 5))["val"]) == 60


class TestOrder:
    def test_without_a_seed_the_order_is_kept(self) -> None:
        rows = np.arange(50)
        np.testing.assert_array_equal(shuffled(rows, None), rows)

    def test_the_permutation_of_a_seed_never_changes(self) -> None:
        assert shuffled(np.arange(12), 0).tolist() == GOLDEN_ORDER

    def test_every_seed_has_another_order(self) -> None:
        orders = {tuple(shuffled(np.arange(30), seed).tolist()) for seed in (*range(50), (1 << 64) - 1)}
        assert len(orders) == 51


class TestShards:
    def test_shard_records_is_the_largest_number_of_records(self) -> None:
        parts = shard_rows(np.full(10, 5), ConvertOptions(shard_records=4))
        assert parts == [slice(0, 4), slice(4, 8), slice(8, 10)]

    def test_shards_of_a_number_differ_by_at_most_one_record(self) -> None:
        parts = shard_rows(np.full(10, 5), ConvertOptions(shards=4))
        assert [part.stop - part.start for part in parts] == [2, 3, 2, 3]

    def test_there_are_no_more_shards_than_samples(self) -> None:
        assert len(shard_rows(np.full(3, 5), ConvertOptions(shards=100))) == 3

    def test_shards_by_size_are_about_equal(self) -> None:
        sizes = np.full(1000, 1000)
        parts = shard_rows(sizes, ConvertOptions(shard_bytes=300_000))
        assert [part.stop - part.start for part in parts] == [250] * 4

    def test_a_sample_larger_than_a_shard_makes_no_empty_shard(self) -> None:
        parts = shard_rows(np.array([10, 10, 5000, 10, 10]), ConvertOptions(shard_bytes=100))
        assert all(part.stop > part.start for part in parts)
        assert parts[0].start == 0
        assert parts[-1].stop == 5

    def test_sizes_of_shards_include_masks(self) -> None:
        listing, options = make_listing({"a": 10}), ConvertOptions(shard_bytes=15_000)
        masks = ListedFiles(listing.root, listing.keys, np.full(10, 9_000, np.int64), listing.modified)
        assert len(plan_images(listing, options).shards) == 1
        assert len(plan_images(dataclasses.replace(listing, masks=masks), options).shards) == 7

    def test_the_size_of_raw_pixels_does_not_depend_on_that_of_the_file(self) -> None:
        options = ConvertOptions(shard_bytes=100, encoding="raw", mode="fill", height=10, width=20)
        payload = options.record_bytes(np.array([1, 10**9])) - options.record_bytes(np.array([0, 0]))
        assert payload.tolist() == [0, 0]


class TestFingerprint:
    def test_the_fingerprint_covers_every_option_and_the_source(self) -> None:
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
        listings = [
            make_listing({"a": 5, "b": 5}),
            make_listing({"a": 5, "c": 5}),
            make_listing({"a": 5, "b": 5}, 9),
        ]
        plans = [plan_images(listings[0], ConvertOptions(**options)) for options in variants]
        plans += [plan_images(listing, ConvertOptions(**base)) for listing in listings[1:]]
        assert len({plan.fingerprint for plan in plans}) == len(plans)

    def test_the_fingerprint_covers_the_version(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fingerprints = set()
        for version in ("1.0.0", "1.0.1"):
            monkeypatch.setattr("stoker.version.__version__", version)
            fingerprints.add(plan_images(make_listing({"a": 5}), ConvertOptions(shards=1)).fingerprint)
        assert len(fingerprints) == 2

    @pytest.fixture
    def listing(self) -> Listing:
        """A listing with a column, a skip, masks and objects."""
        base = make_listing({"a": 5})
        masks = ListedFiles(base.root, base.keys, base.sizes, base.modified)
        boxes = {"object_boxes": pa.array([[0.0]] * 5)}
        objects = ListedObjects(boxes, False, np.full(5, 7, np.int32), np.full(5, 9, np.int32), "{}")
        return dataclasses.replace(
            base,
            columns={"x": pa.array(range(5))},
            skipped=(Skip("b", "hidden"),),
            masks=masks,
            objects=objects,
        )

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
        self, listing: Listing, part: str, name: str, value: Any
    ) -> None:
        changes = {name: value}
        if part:
            changes = {part: dataclasses.replace(getattr(listing, part), **changes)}
        assert dataclasses.replace(listing, **changes).fingerprint() != listing.fingerprint()

    def test_equal_plans_have_equal_fingerprints(self) -> None:
        first, second = (
            plan_images(make_listing({"a": 5}), ConvertOptions(shards=1, seed=3)) for _ in range(2)
        )
        assert first.fingerprint == second.fingerprint

    def test_a_time_of_a_file_changes_the_fingerprint_of_the_listing(self) -> None:
        listing = make_listing({"a": 5})
        before = listing.fingerprint()
        listing.modified[2] += 1
        assert listing.fingerprint() != before
