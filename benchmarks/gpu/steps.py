"""The steps of a run on a GPU, the most telling first."""

from __future__ import annotations

import sys

from stoker.benchmarks.gpu.context import Context
from stoker.benchmarks.gpu.runner import Step
from stoker.benchmarks.gpu.ways import SMOKE_LOADS, smoke_name

__all__ = ["LOADERS", "planned_steps"]

LOADERS = ("stoker-dali", "stoker-native", "stoker-native-uint8", "dali", "torchvision", "torchvision-cuda")
"""The loaders that are compared, see :mod:`stoker.benchmarks.gpu.loaders`."""
_OWN = tuple(name for name in LOADERS if name.startswith("stoker"))


def planned_steps(context: Context) -> list[Step]:
    """All steps in their order: ways to decode, loaders, tests; then all that needs more time."""
    sizes = context.scale

    def step(name: str, function: str, *arguments: object) -> Step:
        module = ("-X", "faulthandler", "-m", "stoker.benchmarks.gpu.step", context.to_json(), function)
        seconds, expected = sizes.times[function]
        return Step(
            name, seconds, (sys.executable, *module, *map(str, arguments)), expected, again=function == "data"
        )

    def one_round(number: int, dataset: str) -> list[Step]:
        names = LOADERS if dataset == "imagenet" else _OWN
        return [step(f"round {number} {dataset} {name}", "loader", dataset, name) for name in names]

    later_rounds = [
        one
        for number in range(2, sizes.rounds + 1)
        for dataset in ("imagenet", "raw256")
        for one in one_round(number, dataset)
    ]
    return [
        step("machine", "machine"),
        step("data", "data"),
        *(
            step(smoke_name(region, load), "smoke", int(region), load)
            for load in SMOKE_LOADS
            for region in (False, True)
        ),
        *(
            step(f"decode {'region' if region else 'full'} {threads} threads", "decode", int(region), threads)
            for threads in sizes.threads
            for region in (False, True)
        ),
        *one_round(1, "imagenet"),
        step("tests", "tests"),
        *one_round(1, "raw256"),
        *(
            step(f"overlap {network} {name}", "overlap", network, name)
            for network in sizes.networks
            for name in _OWN
        ),
        step("corrupt", "corrupt"),
        step("fork", "fork"),
        step("switch", "switch"),
        *later_rounds,
        step("long run", "long_run"),
    ]
