"""Captions of photographs in packed rows: python examples/images/vision_language.py [SHARDS] [EPOCHS]."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import stoker
from stoker.augment import Normalize


class Captioner(nn.Module):
    """A transformer of patches and then tokens. Tokens see their image, and the tokens before them."""

    def __init__(self, inputs: int, words: int, most: int, width: int = 64) -> None:
        super().__init__()
        self.patch, self.word = nn.Linear(inputs, width), nn.Embedding(words, width)
        self.row, self.column, self.position = (nn.Embedding(most, width) for _ in range(3))
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, batch_first=True)
        self.layers, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(width, words)

    def forward(self, batch: Any) -> Tensor:
        position, first = batch.patch_positions, batch.patches.shape[1]
        patches = self.patch(batch.patches) + self.row(position[..., 0]) + self.column(position[..., 1])
        tokens = self.word(batch.caption) + self.position(batch.caption_position_ids)
        sample = torch.cat([batch.segment_ids, batch.caption_segment_ids], 1)
        hidden = sample[:, :, None] != sample[:, None]
        hidden[:, :, first:] |= torch.ones(hidden.shape[1:]).triu(1).bool()[:, first:]  # later tokens
        x = self.layers(torch.cat([patches, tokens], 1), hidden.repeat_interleave(4, dim=0))
        labels = batch.caption.masked_fill(batch.caption_position_ids == 0, -100)  # padding, first tokens
        return nn.functional.cross_entropy(self.head(x[:, first:-1]).mT, labels[:, 1:])


def main(shards: str = "shards/described", epochs: str = "8") -> None:
    photos = Path(__file__).absolute().parents[1] / "photos" / "train"
    names = sorted(photo.relative_to(photos) for photo in photos.glob("*/*.jpg"))
    lines = ["path,text", *(f"{name},this is {name.parent}" for name in names)]
    Path("described.csv").write_text("\n".join(lines))
    captions = stoker.Captions(caption_column="text", tokenizer="bytes", bos=True, eos=True)
    source = stoker.SourceOptions(images=photos)
    stoker.convert("described.csv", shards, captions=captions, source_options=source)
    sizes, caption = stoker.Patches(size=8, most=64, row=256), stoker.Tokens(40, form="packed", row=80)
    options: Any = {"transforms": [Normalize()], "shuffle": True, "output": "torch"}
    loader = stoker.ImageLoader(shards, batch_size=4, sizes=sizes, caption=caption, **options)
    model = Captioner(3 * 8 * 8, words=int(loader.dataset.manifest.options["vocab_size"]), most=64)
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
    for epoch in range(int(epochs)):
        for batch in loader:
            optimizer.zero_grad()
            (loss := model(batch)).backward()
            optimizer.step()
        print(f"epoch {epoch}  loss {loss.item():.3f}  {loader.stats().verdict}")


if __name__ == "__main__":
    main(*sys.argv[1:])
