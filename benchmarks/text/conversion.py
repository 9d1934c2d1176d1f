"""The memory and the processor time of conversions of text, each in a process of its own.

    python -m stoker.benchmarks.text.conversion                     # 2 million lines, about five minutes
    python -m stoker.benchmarks.text.conversion --lines 200000 --json benchmarks/results/text_conversion.json

The lines have 19.5 words on average, drawn by their ranks (Zipf). Memory is the peak of a conversion, less
that of the same conversion of a thousand lines, which has all modules and threads.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import stoker
from stoker.benchmarks.arguments import make_parser

LINES = 2_000_000
WORDS = 20_000
SMALL = 1000
CASES: dict[str, dict[str, Any]] = {
    "words": {"tokenizer": "whitespace"},
    "words, shuffled": {"tokenizer": "whitespace", "seed": 0},
    "bytes": {"tokenizer": "bytes"},
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


def convert(case: str, source: str, target: str) -> None:
    """Convert in this process, and print its peak of memory in MB and its seconds of processor time."""
    began = time.process_time()
    stoker.convert_text(source, target, num_threads=2, **CASES[case])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(json.dumps({"peak": peak, "seconds": time.process_time() - began}))


def measure(case: str, source: Path, folder: Path) -> dict[str, float]:
    """Run a conversion in a process of its own."""
    command = [sys.executable, "-m", "stoker.benchmarks.text.conversion", "--case", case]
    done = subprocess.run(
        [*command, str(source), str(folder / "shards")], check=True, capture_output=True, text=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Print the memory and the times of all cases."""
    parser = make_parser(__doc__)
    parser.add_argument("--lines", type=int, default=LINES)
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    parser.add_argument("--case", choices=CASES, help="convert in this process, one case alone")
    parser.add_argument("files", nargs="*", help="with --case: source and target")
    arguments = parser.parse_args()
    if arguments.case:
        convert(arguments.case, *arguments.files)
        return
    print(f"{arguments.lines:,} lines, {os.cpu_count()} cores: MB, and seconds of processor time")
    print(
        f"{'':<18}{'token ids':>10}{'memory':>8}{'times':>7}{'seconds':>9}{'M tokens a second':>19}",
        flush=True,
    )
    figures = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_lines(folder / "all.txt", arguments.lines)
        write_lines(folder / "few.txt", SMALL)
        for case in CASES:
            few, all_lines = (
                measure(case, folder / f"{name}.txt", folder / f"{case}-{name}") for name in ("few", "all")
            )
            tokens = int(stoker.open(folder / f"{case}-all" / "shards").column("tokens_length").sum())
            ids, held = 2 * tokens / 1e6, all_lines["peak"] - few["peak"]
            figures[case] = {"ids": ids, "memory": held, "seconds": all_lines["seconds"]}
            rate = tokens / all_lines["seconds"] / 1e6
            seconds = all_lines["seconds"]
            print(
                f"{case:<18}{ids:>10.0f}{held:>8.0f}{held / ids:>7.1f}{seconds:>9.1f}{rate:>19.1f}",
                flush=True,
            )
    if arguments.json:
        arguments.json.write_text(
            json.dumps({"lines": arguments.lines, "MB and s": figures}, indent=2) + "\n"
        )


if __name__ == "__main__":
    main()
