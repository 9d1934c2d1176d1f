"""A small CLIP, two towers and one contrastive loss: python examples/images/clip.py [SHARDS] [EPOCHS]."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

import stoker
from stoker.augment import Normalize, RandomHorizontalFlip, RandomResizedCrop

PHOTOS = Path(__file__).absolute().parents[1] / "photos" / "train"
CAPTIONS = ("a photograph of {}", "this picture shows {}", "{} as a wallpaper")


class Clip(nn.Module):
    """A convolution network and a bag of words, each with an embedding for its image or its caption."""

    def __init__(self, words: int, width: int = 64) -> None:
        super().__init__()
        layers = (nn.Conv2d(3, 32, 5, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten())
        self.image = nn.Sequential(*layers, nn.Linear(512, width))
        self.words, self.scale = nn.Embedding(words, width), nn.Parameter(torch.tensor(2.0))

    def forward(self, images: Tensor, captions: Tensor, mask: Tensor) -> Tensor:
        texts = normalize((self.words(captions) * mask[..., None]).sum(1))
        return self.scale.exp() * normalize(self.image(images)) @ texts.T  # row i: image i, all captions


def main(shards: str = "shards/captioned", epochs: str = "8") -> None:
    named = [(str(path.relative_to(PHOTOS)), path.parent.name) for path in sorted(PHOTOS.rglob("*.jpg"))]
    rows = [{"path": path, "captions": [text.format(name) for text in CAPTIONS]} for path, name in named]
    Path("captions.jsonl").write_text("\n".join(map(json.dumps, rows)))
    captions = stoker.Captions(caption_column="captions", tokenizer="bytes")
    source = stoker.SourceOptions(images=PHOTOS)
    stoker.convert("captions.jsonl", shards, captions=captions, source_options=source)
    loader = stoker.ImageLoader(
        shards, batch_size=27, shuffle=True, seed=0, last_batch="drop", output="torch",
        transforms=[RandomResizedCrop(64, scale=(0.5, 1)), RandomHorizontalFlip(), Normalize()],
        columns=("image", "caption", "caption_mask"), caption=stoker.Tokens(max_length=40),
    )  # fmt: skip
    model = Clip(words=int(loader.dataset.manifest.options["vocab_size"]))
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    for epoch in range(int(epochs)):
        for batch in loader:
            logits, matching = model(*batch), torch.arange(len(batch.image))
            loss = cross_entropy(logits, matching) + cross_entropy(logits.T, matching)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}  loss {loss.item():.3f}  {loader.stats().verdict}")


if __name__ == "__main__":
    main(*sys.argv[1:])
