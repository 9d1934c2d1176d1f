"""Train a small vision transformer on patches of photographs at their own aspect ratios (NaFlex).

python examples/images/patches.py [SHARDS] [EPOCHS]
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip

PHOTOS = Path(__file__).parents[1] / "photos" / "train"


class Transformer(nn.Module):
    """Classifies the images of packed rows: patches see only patches of their own image."""

    def __init__(self, classes: int, inputs: int, most: int, width: int = 64, layers: int = 2) -> None:
        super().__init__()
        self.embed = nn.Linear(inputs, width)
        self.row, self.column = nn.Embedding(most, width), nn.Embedding(most, width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(width, classes)

    def forward(self, patches: Tensor, segment: Tensor, position: Tensor, images: int) -> Tensor:
        x = self.embed(patches) + self.row(position[..., 0]) + self.column(position[..., 1])
        hidden = (segment[:, :, None] != segment[:, None]).repeat_interleave(4, dim=0)  # one for each head
        x = self.layers(x, hidden)
        members = one_hot(segment.long(), images + 1)[..., 1:].to(x.dtype)  # padding is segment 0
        return self.head(members.mT @ x / members.sum(1)[..., None].clamp(min=1))  # (rows, images, classes)


def main(shards: str = "shards/photos", epochs: str = "8") -> None:
    stoker.convert(PHOTOS, shards, seed=0)  # leaves a finished dataset as it is
    sizes = stoker.Patches(size=8, most=64, row=256)
    loader = stoker.ImageLoader(
        shards, batch_size=4, shuffle=True, seed=0, output="torch", sizes=sizes,
        transforms=[RandomHorizontalFlip(), Normalize(mean=(0.5,) * 3, std=(0.5,) * 3)],
    )  # fmt: skip
    model = Transformer(loader.dataset.num_classes, 3 * sizes.size**2, sizes.most)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for epoch in range(int(epochs)):
        for batch in loader:
            logits = model(batch.patches, batch.segment_ids, batch.patch_positions, batch.label.shape[1])
            loss = cross_entropy(logits.flatten(0, 1), batch.label.flatten(), ignore_index=-1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}  loss {loss.item():.3f}  {loader.stats().verdict}")


if __name__ == "__main__":
    main(*sys.argv[1:])
