"""Hugging Face: datasets, ``DataCollatorWithPadding`` and the sampler of ``group_by_length``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import datasets
import torch
from torch.utils.data import DataLoader
from transformers import DataCollatorWithPadding, PreTrainedTokenizerFast
from transformers.trainer_pt_utils import LengthGroupedSampler

from stoker.benchmarks.peers.base import PeerSettings, PeerSource
from stoker.benchmarks.peers.text.sequences import PAD, Sequences


class TransformersText:
    """The loader that ``Trainer`` makes with ``group_by_length``."""

    packages: tuple[str, ...] = ("transformers", "datasets", "torch")
    lead = 0

    def write(self, source: PeerSource, settings: PeerSettings) -> None:
        """Write Arrow files with columns of ids and of masks, as a tokenizer returns them."""
        del settings
        sequences = Sequences(source)
        rows = [sequences.ids(i).tolist() for i in range(len(sequences))]
        columns = {"input_ids": rows, "attention_mask": [[1] * len(row) for row in rows]}
        datasets.Dataset.from_dict(columns).save_to_disk(source.scratch / "hf")

    def prepare(self, source: PeerSource, settings: PeerSettings) -> tuple[str, ...]:
        """Open the files; the workers start with the first epoch."""
        opened = datasets.load_from_disk(source.scratch / "hf")
        torch.manual_seed(settings.seed)
        sampler = LengthGroupedSampler(settings.batch_size, lengths=Sequences(source).lengths.tolist())
        self._loader: DataLoader[Any] = DataLoader(
            opened,
            batch_size=settings.batch_size,
            sampler=sampler,
            drop_last=True,
            num_workers=settings.num_threads,
            persistent_workers=True,
            collate_fn=DataCollatorWithPadding(_tokenizer()),
        )
        return ("sorts windows of 50 batches by length",)

    def epoch(self) -> Iterator[Any]:
        """Yield the batches of one pass over the loader."""
        for batch in self._loader:
            yield batch["input_ids"].numpy(), batch["attention_mask"].numpy()


def _tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer that pads; it sees no text."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    words = {str(number): number for number in range(PAD)} | {"[PAD]": PAD}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel(words)),
        pad_token="[PAD]",  # noqa: S106 - a token
    )
