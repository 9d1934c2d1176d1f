"""All measurements on a GPU by one command, in about an hour.

    python -m stoker.benchmarks.gpu --work build/gpu [--device cuda:0] [--minutes 9.5] [--scale full]

The most telling steps run first, each in its own process with a deadline: versions, datasets, the first
batches in every way to decode, the rates of these ways, ``tests/gpu``, rates of loaders in interleaved
rounds, loaders beside a training step, and faults. The first batches decide how later steps decode. The file
WORK/results.json is valid after every step. The same command goes on where an earlier one ended.

``--device cpu --scale rehearsal`` runs all steps on the CPU.
"""

from __future__ import annotations

from pathlib import Path

from stoker.benchmarks.arguments import make_parser
from stoker.benchmarks.gpu.runner import ResultsFile, run_steps
from stoker.benchmarks.gpu.steps import SCALES, best_decoding, planned_steps
from stoker.benchmarks.report.machine import allowed_cores, describe
from stoker.pipeline.engines.selection.gpus import gpu_model

__all__ = ["main"]


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--work", type=Path, required=True, help="folder of datasets and results")
    parser.add_argument("--device", default="cuda:0", help="cuda:N, or cpu for a rehearsal")
    parser.add_argument("--minutes", type=float, default=9.5, help="time for all steps")
    parser.add_argument("--scale", choices=SCALES, default="full")
    parser.add_argument("--steps", default="", help="only steps whose names begin with one of these: a,b,c")
    given = parser.parse_args()
    folder: Path = given.work.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    about = {
        "machine": {**describe(allowed_cores()), "gpu": gpu_model()},
        "device": given.device,
        "scale": given.scale,
    }
    results = ResultsFile(folder / "results.json", about)
    steps = planned_steps(given.device, given.scale, folder)
    if given.steps:
        steps = [step for step in steps if step.name.startswith(tuple(given.steps.split(",")))]
    run_steps(steps, results, 60 * given.minutes, lambda line: print(line, flush=True))
    print(f"decodes: {best_decoding(results.steps)}\nresults: {results.path}")


if __name__ == "__main__":
    main()
