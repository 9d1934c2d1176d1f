"""Manifests of any values, and any JSON instead of a manifest."""

import json
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from stoker.errors import DatasetError
from stoker.formats.dataset.manifest import IndexFile, Manifest, Shard

DIGESTS = st.integers(0, 2**32 - 1).map("crc32c:{:08x}".format)
NAMES = st.text(st.characters(blacklist_characters="/\\\0", blacklist_categories=["Cs"]), min_size=1).filter(
    lambda name: name not in (".", "..")
)
SIZES = st.integers(0, 2**20).flatmap(
    lambda records: st.tuples(st.integers(records, 2**44), st.just(records))
)
SHARDS = st.builds(
    lambda name, size, digest, path: Shard(name, *size, digest, path),
    NAMES,
    SIZES,
    DIGESTS,
    st.one_of(st.none(), NAMES),
)
TEXT = st.text(st.characters(blacklist_categories=["Cs"]), max_size=10)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXT)
JSON = st.recursive(
    SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4))
)


@given(
    st.lists(SHARDS, max_size=5, unique_by=lambda shard: shard.name),
    st.dictionaries(TEXT, SCALARS, max_size=4),
    st.lists(TEXT, max_size=4),
    DIGESTS,
)
def test_a_manifest_is_read_as_it_was_written(
    shards: list[Shard], options: dict, classes: list[str], digest: str
) -> None:
    rows = sum(shard.records for shard in shards)
    manifest = Manifest(
        container="lmdb",
        sample_type="text",
        columns={"key": "large_string"},
        shards=tuple(shards),
        index=IndexFile(rows, 2**30, digest),
        classes=tuple(classes),
        options=options,
    )
    assert Manifest.from_json(manifest.to_json()) == manifest


@given(st.one_of(TEXT, JSON.map(json.dumps)))
def test_any_json_that_is_no_manifest_is_refused(text: str) -> None:
    try:
        Manifest.from_json(text)
    except DatasetError:
        return
    raise AssertionError("no random JSON is a manifest")


GOOD = Manifest(
    container="tfrecord",
    sample_type="image",
    columns={"key": "large_string"},
    shards=(Shard("a", 1, 1, "crc32c:00000000"),),
    index=IndexFile(1, 5, "crc32c:00000000"),
    options={"quality": 90},
    skipped={"no image": 1},
).to_json()


@given(st.data(), JSON)
def test_any_value_of_any_member_is_taken_or_refused(data: st.DataObject, value: object) -> None:
    document = at = json.loads(GOOD)
    while True:
        key = data.draw(st.sampled_from(sorted(at)) if isinstance(at, dict) else st.integers(0, len(at) - 1))
        if not at[key] or not isinstance(at[key], dict | list) or data.draw(st.booleans()):
            break
        at = at[key]
    at[key] = value
    with suppress(DatasetError):
        manifest = Manifest.from_json(json.dumps(document))
        assert Manifest.from_json(manifest.to_json()) == manifest
