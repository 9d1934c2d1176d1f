"""Text in TensorFlow, JAX and PyTorch: the shards are readable, and all receive the same batches."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest
from helpers.datasets import WORDS
from helpers.loaders import text_arguments

import stoker

COLUMNS = ("input_ids", "attention_mask", "labels", "lengths", "row", "key")
PACKED = ("input_ids", "segment_ids", "position_ids", "cu_seqlens", "max_seqlen", "loss_weights")
FRAMEWORKS = ("torch", "tensorflow", "jax")


@pytest.fixture(scope="module", params=["tfrecord", "lmdb"])
def shards(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    folder = tmp_path_factory.mktemp("text")
    lines = [" ".join(f"w{(i * j) % 11}" for j in range(1 + i % 23)) for i in range(150)]
    (folder / "t.txt").write_text("\n".join(lines))
    stoker.convert_text(
        folder / "t.txt",
        folder / "d",
        seed=2,
        container=request.param,
        tokenizer=WORDS,
        storage=stoker.Storage(shards=2),
    )
    return folder / "d"


def batches(shards: Path, output: str, **options: Any) -> Iterator[Any]:
    with stoker.TextLoader(
        shards, **text_arguments(shuffle=True, seed=3, output=output, dtype="int32", **options)
    ) as loader:
        yield from loader


@pytest.mark.parametrize("output", FRAMEWORKS)
@pytest.mark.parametrize(
    "options",
    [
        {"max_tokens": 200, "pad_to_multiple_of": 8, "columns": COLUMNS},
        {"batch_size": 4, "pack": 32, "columns": PACKED},
    ],
)
def test_every_framework_receives_the_same_batches(
    shards: Path, output: str, options: dict[str, Any]
) -> None:
    framework = pytest.importorskip(output)
    array = {"torch": "Tensor", "tensorflow": "Tensor", "jax": "Array"}[output]
    count = 0
    for expected, found in zip(
        batches(shards, "numpy", **options), batches(shards, output, **options), strict=True
    ):
        count += 1
        for name, values, column in zip(expected._fields, expected, found, strict=True):
            if name == "key":
                keys = [key.decode() for key in column.numpy()] if output == "tensorflow" else column
                assert keys == values
            elif isinstance(values, int):
                assert column == values
            else:
                assert isinstance(column, getattr(framework, array))
                np.testing.assert_array_equal(np.asarray(column), values)
    assert count > 10


def records_of(dataset: stoker.Dataset, tf: Any) -> list[bytes]:
    """The records of all shards, as TensorFlow reads TFRecord, and py-lmdb LMDB."""
    if dataset.manifest.container == "tfrecord":
        return [record.numpy() for record in tf.data.TFRecordDataset([*map(str, dataset.data_files)])]
    records = []
    for file in dataset.data_files:
        with lmdb.open(str(file.parent), readonly=True, lock=False) as env, env.begin() as transaction:
            records += [value for _, value in transaction.cursor()]
    return records


def test_tensorflow_parses_the_records(shards: Path) -> None:
    tf = pytest.importorskip("tensorflow")
    dataset = stoker.open(shards)
    features = {"tokens": tf.io.RaggedFeature(tf.int64), "stoker/ids": tf.io.FixedLenFeature([], tf.string)}
    lengths = []
    for record in records_of(dataset, tf):
        parsed = tf.io.parse_single_example(record, features)
        tokens = parsed["tokens"].numpy().tolist()
        assert tokens == np.frombuffer(parsed["stoker/ids"].numpy(), "<u2").tolist()
        lengths.append(len(tokens))
    assert lengths == dataset.column("tokens_length").tolist()


def test_a_tf_dataset_view_has_the_forms_and_the_rows_of_the_loader(shards: Path) -> None:
    pytest.importorskip("tensorflow")
    from stoker.pipeline.adapters.tensorflow import tf_dataset

    # TensorFlow keeps the loader of a view alive, so that only `with` ends it.
    with stoker.TextLoader(shards, batch_size=16, output="tensorflow", columns=COLUMNS) as loader:
        view = tf_dataset(loader)
        assert [spec.shape.as_list() for spec in view.element_spec] == [[None, None]] * 3 + [[None]] * 3
        seen = [row for batch in view for row in batch[4].numpy()]
    assert sorted(seen) == list(range(150))


def test_torch_trains_on_int64_by_default(shards: Path) -> None:
    torch = pytest.importorskip("torch")
    loader = stoker.TextLoader(shards, batch_size=16, output="torch", columns=("input_ids", "labels"))
    network = torch.nn.Embedding(32, 32)
    for ids, labels in loader:
        assert ids.dtype == labels.dtype == torch.int64
        loss = torch.nn.functional.cross_entropy(network(ids).flatten(0, 1), labels.flatten())
        assert loss.isfinite()


def test_a_tf_dataset_view_has_no_length_where_epochs_differ_in_length(shards: Path) -> None:
    tf = pytest.importorskip("tensorflow")
    from stoker.pipeline.adapters.tensorflow import tf_dataset

    arguments: dict[str, Any] = {"max_tokens": 200, "columns": ("input_ids", "row"), "output": "tensorflow"}
    mixture = stoker.mix([(shards, 1), (shards, 2)], samples=100)
    with stoker.TextLoader(mixture, **text_arguments(shuffle=True, **arguments)) as loader:
        view = tf_dataset(loader)
        assert view.cardinality() == tf.data.UNKNOWN_CARDINALITY
        assert len({sum(1 for _ in view) for _ in range(5)}) > 1
    with stoker.TextLoader(shards, **text_arguments(rank=0, world_size=2, **arguments)) as before:
        next(iter(before))
        state = before.state_dict()
    with stoker.TextLoader(shards, **text_arguments(rank=0, world_size=1, **arguments)) as after:
        after.load_state_dict(state)
        assert sum(1 for _ in tf_dataset(after)) < len(after)
