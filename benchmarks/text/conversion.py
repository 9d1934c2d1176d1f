"""Memory and times of conversions of text, each in its own process.

    python -m stoker.benchmarks.text.conversion --json benchmarks/results/text_conversion.json
    python -m stoker.benchmarks.text.conversion --lines 480000 --only chats

The lines, 2 million by default, have 19.5 words on average, drawn by Zipf's law. A tenth of the lines make
chats, of four messages each. Chats are encoded by pieces of words, in turns, with two threads and with two
processes, and all other texts with two threads. Memory is the peak of a conversion, less that of the same
conversion of few lines, which loads the same modules and starts the same threads. With several processes it
is that of the first one.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import stoker
from stoker.benchmarks.comparison.usage import peak_rss
from stoker.formats.options import gather_options
from stoker.formats.text.options import TextArguments

from ..measuring import make_parser, run_module, write_json

LINES = 2_000_000
PART_OF_CHATS = 10
WORDS = 20_000
SMALL = 1000
CHATS = {"messages": "messages", "chat_template": "chatml", "tokenizer": "pieces.json"}
CASES: dict[str, dict[str, Any]] = {
    "words": {"tokenizer": "words.json"},
    "words, shuffled": {"tokenizer": "words.json", "seed": 0},
    "bytes": {"tokenizer": "bytes"},
    "chats, in turns": {**CHATS, "processes": 0, "num_threads": 1},
    "chats, threads": {**CHATS, "processes": 0},
    "chats, processes": {**CHATS, "processes": 2},
}


def write_lines(path: Path, lines: int) -> None:
    """Write a text of so many lines of 1 to 38 words, the same in each call."""
    draw = np.random.default_rng(0)
    letters = draw.integers(97, 123, (WORDS, 12), np.uint8)
    words = np.array([bytes(row[: 2 + n % 9]).decode() for n, row in enumerate(letters)])
    with path.open("w") as file:
        for start in range(0, lines, 10_000):
            counts = draw.integers(1, 39, min(10_000, lines - start))
            text = words[(draw.zipf(1.3, counts.sum()) - 1) % WORDS]
            for line in np.split(text, np.cumsum(counts)[:-1]):
                file.write(" ".join(line) + "\n")


def write_chats(lines: Path, path: Path) -> None:
    """Write chats of four messages each; the messages are the first tenth of the lines of a text."""
    texts = lines.read_text().splitlines()
    with path.open("w") as file:
        for at in range(0, len(texts) // PART_OF_CHATS - 3, 4):
            chat = [
                {"role": ("user", "assistant")[i % 2], "content": text}
                for i, text in enumerate(texts[at : at + 4])
            ]
            file.write(json.dumps({"messages": chat}) + "\n")


def train_tokenizers(folder: Path) -> None:
    """Write a tokenizer of words and one of pieces of words, trained on few.txt."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    special, few = ["[UNK]", "[PAD]", "[BOS]", "[EOS]"], [str(folder / "few.txt")]
    words = Tokenizer(models.WordLevel(unk_token="[UNK]"))  # noqa: S106 - a token
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.train(few, trainers.WordLevelTrainer(special_tokens=special, show_progress=False))
    words.save(str(folder / "words.json"))
    pieces = Tokenizer(models.BPE())
    pieces.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    pieces.train(few, trainers.BpeTrainer(vocab_size=8000, special_tokens=special, initial_alphabet=alphabet))
    pieces.save(str(folder / "pieces.json"))


def convert(case: str, source: Path, target: str) -> None:
    """Convert in this process, and print its peak memory in MB and its times in seconds."""
    options = dict(CASES[case])
    if options["tokenizer"] != "bytes":
        options["tokenizer"] = source.parent / options["tokenizer"]
    began, before, own_before = time.monotonic(), processor_time(), time.process_time()
    stoker.convert_text(source, target, **gather_options(TextArguments, {"num_threads": 2, **options}))
    peak = peak_rss(os.getpid()) / 1e6  # getrusage would count the memory of the parent process
    wall, seconds = time.monotonic() - began, processor_time() - before
    own = time.process_time() - own_before
    print(json.dumps({"peak": peak, "wall": wall, "seconds": seconds, "own": own}))


def processor_time() -> float:
    """Seconds of processor time of this process and of the child processes that have ended."""
    return sum(os.times()[:4])


def measure_case(case: str, folder: Path) -> dict[str, float]:
    """Measure a case in separate processes, and print its line of the table."""
    suffix, prefix = ("jsonl", "messages") if "messages" in CASES[case] else ("txt", "tokens")
    few, everything = (
        run_module(__spec__.name, "--case", case, folder / f"{name}.{suffix}", folder / f"{case}-{name}")
        for name in ("few", "all")
    )
    tokens = int(stoker.open(folder / f"{case}-all").column(f"{prefix}_length").sum())
    ids, memory = 2 * tokens / 1e6, everything.pop("peak") - few["peak"]
    found = {"ids": ids, "memory": memory, **everything}
    speed = tokens / everything["seconds"] / 1e6
    print(f"{case:<18}", *(f"{value:>11.1f}" for value in (*found.values(), speed)), flush=True)
    return found


def main() -> None:
    """Print the memory and the times of all cases."""
    parser = make_parser(__doc__, "json")
    parser.add_argument("--lines", type=int, default=LINES)
    parser.add_argument("--only", default="", help="measure the cases whose names begin with this")
    parser.add_argument("--case", choices=CASES, help="convert in this process, one case alone")
    parser.add_argument("files", nargs="*", help="with --case: source and target")
    arguments = parser.parse_args()
    if arguments.case:
        convert(arguments.case, Path(arguments.files[0]), arguments.files[1])
        return
    print(f"{arguments.lines:,} lines, {os.cpu_count()} cores: MB; seconds by the clock, of processor time")
    titles = ("token ids", "memory", "clock", "processor", "its own", "M tokens/s")
    print(f"{'':<18}", *(f"{title:>11}" for title in titles), flush=True)
    found = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_lines(folder / "all.txt", arguments.lines)
        write_lines(folder / "few.txt", SMALL)
        for name in ("all", "few"):
            write_chats(folder / f"{name}.txt", folder / f"{name}.jsonl")
        train_tokenizers(folder)
        for case in (name for name in CASES if name.startswith(arguments.only)):
            found[case] = measure_case(case, folder)
    write_json(arguments.json, {"lines": arguments.lines, "MB and s": found})


if __name__ == "__main__":
    main()
