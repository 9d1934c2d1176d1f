"""A small transformer that :mod:`stoker.benchmarks.text.training` trains."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Transformer(nn.Module):
    """A decoder with norms before its layers: token ids (B, T) int64 to logits (B, T, vocabulary) float32."""

    def __init__(
        self, vocabulary: int, positions: int, width: int = 64, layers: int = 2, heads: int = 4
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(positions, width)
        self.blocks = nn.ModuleList([_Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, vocabulary)

    def forward(self, ids: Any, position_ids: Any, cu_seqlens: Any = None) -> Any:
        """Return logits; with ``cu_seqlens`` a token sees only earlier tokens of its own sequence."""
        lengths = None if cu_seqlens is None else [n for n in cu_seqlens.diff().tolist() if n]
        hidden = self.tokens(ids) + self.positions(position_ids)
        for block in self.blocks:
            hidden = block(hidden, lengths)
        return self.output(self.norm(hidden))


class _Block(nn.Module):
    """Attention and a feed-forward network, each with a norm before it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.inputs = nn.Linear(width, 3 * width)
        self.merge = nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, hidden: Any, lengths: list[int] | None) -> Any:
        batch, length, width = hidden.shape
        parts = self.inputs(self.before[0](hidden)).view(batch, length, 3, self.heads, -1)
        if lengths is None:
            # Padding is on the right, so a causal mask hides it from all tokens.
            seen = _attention(parts)
        else:
            # As kernels of variable-length attention do, this computes no pair of tokens across sequences.
            flat = parts.flatten(0, 1)[None].split(lengths, dim=1)
            seen = torch.cat([_attention(sequence) for sequence in flat], dim=1)
        hidden = hidden + self.merge(seen.reshape(batch, length, width))
        return hidden + self.feed(self.before[1](hidden))


def _attention(parts: Any) -> Any:
    """Return causal attention: (B, T, 3, heads, C) queries, keys and values to (B, T, heads, C)."""
    query, key, value = parts.permute(2, 0, 3, 1, 4)
    seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    return seen.transpose(1, 2)
