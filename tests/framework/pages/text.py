import json
from pathlib import Path

import pyarrow
from helpers.chats import FOLDER, make_chats
from helpers.datasets import write_words
from pyarrow import parquet

for name, count in (("questions", 60), ("more", 20)):
    topics = [("age", "area", "sum")[i % 3] for i in range(count)]
    lines = [
        {"question": f"how many {i}", "answer": "word " * (1 + i * 7 % 30), "topic": topic}
        for i, topic in enumerate(topics)
    ]
    Path(f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
for name in ("tokenizer.json", "tokenizer_config.json"):
    Path(name).write_bytes((FOLDER / name).read_bytes())
write_words(Path("words.json"), ("how", "many", "word"))
Path("chats.jsonl").write_text("\n".join(map(json.dumps, make_chats())))
for name in ("part-1.txt", "part-2.txt", "train.en", "train.de"):
    Path(name).write_text("to be or not to be\n" * 9)
preferences = [{"prompt": "say it", "chosen": "yes " * (1 + i % 3), "rejected": "no"} for i in range(20)]
Path("preferences.jsonl").write_text("\n".join(map(json.dumps, preferences)))
Path("data").mkdir()
parquet.write_table(pyarrow.table({"text": ["to be", "or not to be"]}), "data/train-0.parquet")
# [the page]
assert loader.dataset is mixture
assert areas.classes == ("age", "area", "sum")
assert len(areas) == 20
assert set(next(iter(loader)).dataset.tolist()) <= {0, 1}
assert max(segments.max() for _, segments, _ in packed) <= 32
assert len({shape[1:] for shape in compiled.shapes()}) <= 8
