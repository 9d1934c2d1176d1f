"""The whole comparison with other loaders, which ``make bench`` runs: one JSON file for each part.

    python -m stoker.benchmarks.comparison [--parts imagenet,text,...] [--results DIR] [--quick]

``python -m stoker.benchmarks.comparison.page`` makes docs/comparison.md from these.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from stoker.errors import ConfigError

from ..measuring import make_parser, report
from .page import RESULTS, print_tables
from .parts import PARTS, Run


def main() -> None:
    """Run from the command line."""
    listed = "\n".join(f"  {name:<12} {part.title}, {part.minutes:g} minutes" for name, part in PARTS.items())
    help_text = f"{__doc__}\nParts, with their times on two cores:\n{listed}\n"
    parser = make_parser(help_text, "source", "work", rounds=3)
    parser.add_argument("--parts", default=",".join(PARTS), help="names of parts, with commas between")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON files")
    parser.add_argument("--quick", action="store_true", help="show in some minutes that all parts work")
    args = parser.parse_args()
    names = args.parts.split(",")
    if unknown := [name for name in names if name not in PARTS]:
        parser.error(f"no part named {', '.join(unknown)}; there are {', '.join(PARTS)}")
    args.results.mkdir(parents=True, exist_ok=True)
    run = Run(args.source, args.work, args.rounds, args.quick)
    for number, name in enumerate(names, 1):
        part, start, path = PARTS[name], time.monotonic(), args.results / f"{name}.json"
        report(f"part {number} of {len(names)}, {name}: {part.title}, about {part.minutes:g} minutes")
        try:
            part.run(run, path)
            print_tables(name, json.loads(path.read_text()))
        except ConfigError as error:  # such as a disk that this process may not limit
            report(f"{name}: not measured. {error}")
        report(f"{name}: took {(time.monotonic() - start) / 60:.1f} minutes")


if __name__ == "__main__":
    main()
