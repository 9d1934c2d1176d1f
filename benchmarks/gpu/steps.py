"""The steps of a run on a GPU, the most telling first."""

from __future__ import annotations

import sys
from functools import partial

from .context import SMOKE_LOADS, Context, smoke_name
from .runner import Step

LOADERS = ("stoker-dali", "stoker-native", "stoker-native-uint8", "dali", "torchvision", "torchvision-cuda")
"""The loaders that are compared, see :mod:`stoker.benchmarks.gpu.loaders`."""
_REGIONS = (False, True)
_OWN = tuple(name for name in LOADERS if name.startswith("stoker"))


def planned_steps(context: Context) -> list[Step]:
    """All steps in their order: ways to decode, loaders, tests; then all that needs more time."""
    sizes, step = context.scale, partial(_step, context)
    return [
        step("machine", "machine"),
        step("data", "data"),
        *(
            step(smoke_name(region, load), "smoke", int(region), load)
            for load in SMOKE_LOADS
            for region in _REGIONS
        ),
        *(
            step(f"decode {'region' if region else 'full'} {threads} threads", "decode", int(region), threads)
            for threads in sizes.threads
            for region in _REGIONS
        ),
        *_round(context, 1, "imagenet"),
        step("tests", "tests"),
        *_round(context, 1, "raw256"),
        *(
            step(f"overlap {network} {name}", "overlap", network, name)
            for network in sizes.networks
            for name in _OWN
        ),
        *(step(name, name) for name in ("corrupt", "fork", "switch")),
        *(
            one
            for number in range(2, sizes.rounds + 1)
            for dataset in ("imagenet", "raw256")
            for one in _round(context, number, dataset)
        ),
        step("long run", "long_run"),
    ]


def _round(context: Context, number: int, dataset: str) -> list[Step]:
    """One measurement of each loader; raw pixels are for Stoker's alone."""
    names = LOADERS if dataset == "imagenet" else _OWN
    return [_step(context, f"round {number} {dataset} {name}", "loader", dataset, name) for name in names]


def _step(context: Context, name: str, function: str, *arguments: object) -> Step:
    module = ("-X", "faulthandler", "-m", "stoker.benchmarks.gpu.step", context.to_json(), function)
    command = (sys.executable, *module, *map(str, arguments))
    seconds, expected = context.scale.times[function]
    return Step(name, seconds, command, expected, again=function == "data")
