"""Texts of the token ids of a dataset, for previews and replays."""

from __future__ import annotations

from stoker.formats.dataset.dataset import Dataset
from stoker.formats.tokenization.tokenizers import Decode, make_decoder


def dataset_decoder(dataset: Dataset) -> Decode:
    """Return a function that makes the text of token ids of a dataset, with the dataset's tokenizer."""
    options = dataset.manifest.options
    file = dataset.tokenizer_file() if options.get("tokenizer_digest") else None
    return make_decoder(options, file)
