"""All measurements on a GPU by one command.

    python -m stoker.benchmarks.gpu --work build/gpu [--device cuda:0] [--minutes 9.5] [--scale full]

The most telling steps run first, each in its own process with a deadline: versions, datasets, the first
batches in every way to decode, the rates of these ways, a round of all loaders, ``tests/gpu``, loaders beside
a training step, faults, and further rounds. The first batches decide how later steps decode. The file of
results is valid after every step. The same command goes on where an earlier one ended.

By estimate ``--scale full`` takes 25 minutes, and ``--scale short`` twelve, for a machine that is rented by
the minute. Of these the first five hold what matters most, up to ``tests/gpu``: nine if every step hangs.

``--device cpu --scale rehearsal`` runs all steps on the CPU, in some nine minutes on two cores.
"""

from __future__ import annotations

from pathlib import Path

from stoker.benchmarks.gpu.summary import summary
from stoker.pipeline.engines.registry import visible_gpus

from ..measuring import allowed_cores, describe, make_parser
from .context import SCALES, Context, find_root
from .runner import ResultsFile, run_steps
from .steps import planned_steps

_REHEARSAL = "rehearsal of the measurements on a GPU: the CPU stands in its place, and the rates mean nothing"


def main() -> None:
    """Run from the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--work", type=Path, required=True, help="folder of datasets and logs")
    parser.add_argument("--results", type=Path, help="file of the results; by default WORK/results.json")
    parser.add_argument("--root", type=Path, help="folder of Stoker's sources; by default the current one")
    parser.add_argument("--device", default="cuda:0", help="cuda:N, or cpu for a rehearsal")
    parser.add_argument("--minutes", type=float, default=9.5, help="time for all steps")
    parser.add_argument("--scale", choices=SCALES, default="full")
    parser.add_argument("--steps", default="", help="only steps whose names begin with one of these: a,b,c")
    given = parser.parse_args()
    work: Path = given.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    copy = work / "results.json"
    path: Path = (given.results or copy).resolve()
    context = Context(given.device, given.scale, work, find_root(given.root), path)
    model = visible_gpus()[context.gpu_number].model if context.on_gpu else ""
    about = {
        "kind": "measurements on a GPU" if context.on_gpu else _REHEARSAL,
        "machine": {**describe(allowed_cores()), "gpu": model},
        "device": given.device,
        "scale": given.scale,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    results = ResultsFile(path, about, copy, {"minutes": given.minutes, "steps": given.steps})
    steps = planned_steps(context)
    if given.steps:
        steps = [step for step in steps if step.name.startswith(tuple(given.steps.split(",")))]
    run_steps(steps, results, 60 * given.minutes, work / "steps", report=lambda line: print(line, flush=True))
    print("\n".join([*summary(results.steps), f"results: {results.path}"]))


if __name__ == "__main__":
    main()
