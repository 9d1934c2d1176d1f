"""Stoker's datasets as sources: the payloads of their shards, with everything that their index has.

Shards of TFRecord and LMDB of other programs are indexed first, see ``formats/in_place/shards.py``.
"""

from __future__ import annotations

import hashlib
from functools import partial

import numpy as np
import pyarrow as pa

from stoker.errors import DatasetError, SourceError
from stoker.urls import is_url

from ..codecs.codec import Codec
from ..dataset.annotations import MASK_COLUMNS, is_object_column, to_columns
from ..dataset.columns import number_array, range_columns, take_strings
from ..dataset.dataset import Dataset
from ..dataset.index import KNOWN_COLUMNS, open_index
from ..dataset.versions import load_version, local_folder, split_version
from ..files import temporary_folder
from .listing import FileRanges, ListedArrays, ListedFiles, ListedObjects, Listing
from .source import Source
from .tables import file_status


def list_dataset(source: Source) -> Listing:
    """List the samples of a dataset, or of a selection from one; objects have its last numbers of classes."""
    dataset = _opened(source)
    remote = getattr(dataset, "remote", None)
    files = [shard.url for shard in remote.shards] if remote else [*map(str, dataset.data_files)]
    return list_samples(dataset, files, [file_status(file)[1] for file in files])


def _opened(source: Source) -> Dataset:
    if source.dataset is not None:
        return source.dataset
    path, version = split_version(source.path)
    if is_url(path):
        from ..remote.cached_dataset import open_cached

        with temporary_folder("stoker-index-") as cache:  # the index stays mapped
            return open_cached(path, cache, version=version)
    folder = local_folder(path)
    manifest = load_version(folder, version)
    return Dataset(folder, manifest, open_index(folder, manifest), manifest.data_files(folder, check=True))


def list_samples(dataset: Dataset, files: list[str], modified: list[int]) -> Listing:
    """List the samples of a dataset whose shards have these data files, or URLs, of these times."""
    index, manifest, tasks = dataset.index, dataset.manifest, dataset.tasks
    rows, address = dataset.rows, dataset.address
    _check(dataset)
    everything = np.arange(len(dataset), dtype=np.int64)
    samples = dataset.samples(everything)
    if np.isin(samples.codec, (Codec.RAW, Codec.PLANES)).any():
        raise SourceError(
            "the images are raw pixels, and conversions read encoded images",
            path=address,
            hint="Write them with stoker.Writer: the image of dataset[i] is an array.",
        )
    keys = take_strings(index.arrow("key"), rows)

    times = np.array(modified, np.int64)[samples.shard]

    def stored(offset: str, length: str, crc: str) -> ListedFiles:
        at, sizes, sums = (index.column(name)[rows] for name in (offset, length, crc))
        ranges = FileRanges(tuple(files), tuple(dataset.data_sizes), samples.shard, at, crc=sums)
        return ListedFiles(address, keys, sizes, times, ranges=ranges)

    arrays = {
        name: ListedArrays(stored(*range_columns(name)), column.dtype)
        for name, column in dataset.arrays.items()
    }
    made = {*KNOWN_COLUMNS, "label", *(part for name in arrays for part in range_columns(name))}
    columns = {
        name: index.arrow(name).take(number_array(rows)) for name in manifest.columns if name not in made
    }
    of_objects = {
        name: index.arrow(name).take(number_array(rows))
        for name, kind in manifest.columns.items()
        if is_object_column(name, kind)
    }
    objects = labels = None
    if of_objects:
        if dataset.choice.numbering is not None or dataset.choice.objects is not None:
            of_objects = to_columns(dataset.annotations(everything).split(len(dataset)))
        name = f"object {{}} of {address}"
        objects = ListedObjects(of_objects, False, samples.height, samples.width, name)
    if "label" in manifest.columns:
        several = "labels" in tasks
        labels = dataset.lists("label", everything).to_arrow() if several else pa.array(dataset.labels)
    payloads = stored("offset", "length", "crc")
    return Listing(
        **vars(payloads),
        labels=labels,
        classes=dataset.classes,
        columns={name: column for name, column in columns.items() if name not in of_objects},
        objects=objects,
        masks=stored(*MASK_COLUMNS) if "segmentation" in tasks else None,
        arrays=arrays,
        info=manifest.annotations,
        category_ids=dataset.category_ids,
        manifest=manifest,
        tokenizer=_tokenizer(dataset),
    )


def _tokenizer(dataset: Dataset) -> bytes | None:
    digest = dataset.manifest.options.get("tokenizer_digest")
    file = dataset.tokenizer_file() if digest else None
    if file is not None and hashlib.sha256(file).hexdigest() != digest:
        hint = "Copy the file from where the dataset was made, or convert its source again."
        raise DatasetError("tokenizer.json has changed", path=dataset.address, hint=hint)
    return file


def _check(dataset: Dataset) -> None:
    """Refuse a dataset with samples or labels that a conversion of images does not read."""
    manifest = dataset.manifest
    refused = partial(SourceError, path=dataset.address)
    if manifest.sample_type != "image":
        raise refused(
            "the dataset holds text, and conversions of images were asked for",
            hint="Convert its source again with stoker convert-text.",
        )
    if manifest.container == "listing":
        raise refused(
            "the dataset is an index of image files in place",
            hint="Convert the folder or the list of these images itself.",
        )
    if not len(dataset):
        raise refused("the dataset has no sample")
    if (kind := manifest.columns.get("label", "int64")) not in ("int64", "large_list<item: int64>"):
        raise refused(
            f"the labels of the dataset are numbers of {kind}, and conversions read classes",
            hint="Write it with stoker.Writer, with the labels as a column of another name.",
        )
    if dataset.choice.object_index is not None:
        raise refused(
            "the samples are objects, and a conversion stores images",
            hint="Convert the selection without each='object'.",
        )
