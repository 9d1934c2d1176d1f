"""Training of subwords by ``tokenizers``: byte pair encoding of bytes (Sennrich et al., 2016; GPT-2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.errors import MissingDependencyError, install_hint

from .tokenizers import SPECIAL_TOKENS, File

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["train_bpe"]


def train_bpe(texts: Iterator[str], size: int, min_count: int) -> File:
    """Return a tokenizer whose pieces of words are made of the texts; it knows every byte, so no text.

    Args:
        texts: All texts.
        size: Largest number of token ids; at least 256 bytes and the special tokens are among them.
        min_count: Pairs of pieces that occur less often are not joined.

    Raises:
        MissingDependencyError: The package ``tokenizers`` is not installed.
    """
    try:
        import tokenizers
        from tokenizers import decoders, models, pre_tokenizers, trainers
    except ImportError as error:
        raise MissingDependencyError(
            "training subwords needs the package tokenizers", hint=install_hint("tokenizers")
        ) from error
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=min_count,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    made.train_from_iterator(texts, trainer)
    return File.from_content(made.to_str().encode(), "bpe")
