"""The cost of augmentation: the rates of loaders with one more transform.

    python -m stoker.benchmarks.images.augmentation_cost [--source DIR] [--rounds 5] [--json FILE]

Random resized crop, flip and normalisation are the base, to which ColorJitter(0.4, 0.4, 0.4, 0.1),
RandAugment(2, 9), ElasticTransform(), GaussianNoise() or JPEG((50, 90)) is added. All loaders take turns in
one run, each with as many threads or worker processes as cores. Figures are medians, printed with their
goals. DALI has no pipeline by hand for the last three.
"""

from __future__ import annotations

from rich.console import Console

from stoker.benchmarks.comparison.bench import run_bench
from stoker.benchmarks.peers import PEERS

from ..comparison.results import Comparison, show, to_json
from ..comparison.sources import WORKLOADS, make_dataset
from ..measuring import Goal, make_parser, report, show_goals, write_json

_LOADERS = ("stoker", "torch", "dali")
_AIMED = {"jitter": ("ColorJitter", 0.85), "randaugment": ("RandAugment", 0.6)}
"""Name of the added transform, and goal for the share of the base rate, by suffix of a peer's name."""
_ADDED = (*_AIMED, "elastic", "noise", "jpeg")
_TIMES_OTHERS = 2.0


def goals(comparison: Comparison) -> list[Goal]:
    """Return the goals of the loaders that were measured."""
    goals = []
    base = comparison.rate_of("stoker")
    for name, (words, share) in _AIMED.items():
        rate_with = comparison.rate_of(f"stoker-{name}")
        if rate_with is None:
            continue
        if base is not None:
            goals.append(Goal(f"{words}: share of the rate without it", share, rate_with / base))
        for other in _LOADERS[1:]:
            rate = comparison.rate_of(f"{other}-{name}")
            if rate is not None:
                goals.append(Goal(f"{words}: times {other}", _TIMES_OTHERS, rate_with / rate))
    return goals


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__, "source", "work", "threads", "json", rounds=5)
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=["photographs", "short256"])
    args = parser.parse_args()
    console = Console()
    documents = []
    for workload in (WORKLOADS[name] for name in args.workloads):
        comparison = run_bench(
            make_dataset(workload, args.source, args.work),
            [
                name
                for end in ("", *(f"-{added}" for added in _ADDED))
                for loader in _LOADERS
                if (name := f"{loader}{end}") in PEERS
            ],
            engines=(),
            rounds=args.rounds,
            num_threads=args.threads,
            workload=workload.title,
            report=report,
        )
        show(comparison, console)
        aimed = goals(comparison)
        show_goals(aimed, console)
        documents.append({**to_json(comparison), "goals": [goal.to_json() for goal in aimed]})
    write_json(args.json, documents)


if __name__ == "__main__":
    main()
