"""The engine of an image loader: chosen, made, and measured where several would do."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from stoker.version import __version__

from .. import adapters
from ..engines.base import Engine, EngineSettings
from ..engines.registry import make_engine
from ..engines.selection.devices import device_name, this_machine
from ..engines.selection.execution import ExecutionPlan, plan_execution
from ..engines.selection.gpus import gpu_model
from ..engines.selection.kept_rates import KeptRates
from ..engines.selection.measured_choice import choose_by_rate
from ..execution.stats import StatsTotals
from ..order.rank_draws import Schedule
from .engine_trial import images_per_second
from .producer import ImageBatchProducer
from .typical_samples import largest_size, typical_work

if TYPE_CHECKING:
    from ..adapters import Adapter, Framework
    from ..engines.dali import DaliOptions
    from ..execution.ranks import Ranks
    from .config import ImageLoaderConfig

__all__ = ["EngineSetup"]


@dataclass(frozen=True)
class EngineSetup:
    """What the engine of an image loader depends on; the attributes are arguments of :class:`ImageLoader`.

    Attributes:
        config: What the loader does with samples.
        framework: Framework of the arrays.
        ranks: This process among those that train together.
        is_local: Whether all bytes of the dataset are on this machine, so that an engine can be measured.
    """

    config: ImageLoaderConfig
    framework: Framework
    ranks: Ranks
    engine: str
    device: Any
    dali: DaliOptions | None
    batch_size: int
    num_threads: int | None
    prefetch: int
    pin_memory: bool
    max_pixels: int
    exact: bool
    verify: bool
    mapped: bool
    is_local: bool = True

    def plan(self) -> ExecutionPlan:
        """Decide what the loader runs on; measures engines where "auto" has a choice on a GPU.

        Raises:
            ConfigError: There is no such engine or device, or the engine does not execute the transforms.
        """
        device = device_name(self.device)
        return plan_execution(
            self.engine,
            device,
            needs=self.config.plan.needs,
            last_custom=self.config.plan.last_custom_steps,
            machine=this_machine(device),
            ranks=self.ranks,
            framework_sees_gpu=lambda: adapters.sees_gpu(self.framework),
            copies_from_pinned=self.framework.pins_memory,
            pin_memory=self.pin_memory,
            num_threads=self.num_threads,
            batch_size=self.batch_size,
            prefetch=self.prefetch,
            fastest=self._fastest,
        )

    def make_engine(self, plan: ExecutionPlan, adapter: Adapter) -> Engine:
        """Make the engine of a plan; the caller closes it."""
        prepares = plan.engine == "dali" and len(self.config.dataset) > 0
        settings = EngineSettings(
            [str(path) for path in self.config.dataset.data_files],
            self.config.dataset.data_sizes,
            self.config.image_format,
            device=plan.engine_device,
            num_threads=plan.num_threads,
            depth=plan.depth,
            batch_size=self.batch_size,
            max_pixels=self.max_pixels,
            verify=self.verify,
            mapped=self.mapped,
            exact=self.exact,
            allocate=adapter.allocate,
            dali=self.dali,
            largest=largest_size(self.config.dataset) if prepares else None,
            typical=typical_work(self.config) if prepares else None,
        )
        return make_engine(plan.engine, settings)

    def _fastest(self, engines: tuple[str, ...], device: str) -> str:
        if not self.is_local or not len(self.config.dataset):
            return engines[0]
        threads = replace(self, engine=engines[0], device=device).plan().num_threads
        gpu = gpu_model()
        config = self.config
        batch_transforms = config.batch_transform_plan.to_json()
        work = json.dumps([config.plan.to_json(), batch_transforms, config.columns], sort_keys=True)
        return choose_by_rate(
            engines,
            lambda name, seconds: self._rate(name, device, seconds),
            conditions={
                "stoker": __version__,
                "dataset": config.dataset.fingerprint,
                "gpu": gpu,
                "threads": threads,
                "batch_size": self.batch_size,
                "format": [config.image_format.dtype, config.image_format.layout],
                "dali": repr(self.dali),
                "work": hashlib.blake2b(work.encode(), digest_size=16).hexdigest(),
            },
            dataset=str(config.dataset.path),
            machine=f"{gpu}, {threads} threads",
            kept=KeptRates(),
        )

    def _rate(self, name: str, device: str, seconds: float) -> float:
        """Images per second of an engine, its batches handed out on the device."""
        plan = replace(self, engine=name, device=device).plan()
        adapter = adapters.load(self.framework, plan.placement)
        annotations = self.config.annotations.processor(
            self.config.dataset, plan.num_threads, mapped=self.mapped, verify=self.verify
        )
        engine = self.make_engine(plan, adapter)
        schedule = Schedule(
            self.config.order.n, self.batch_size, self.ranks.rank, self.ranks.world_size, "partial", 0
        )
        try:
            return images_per_second(
                lambda epoch: ImageBatchProducer(
                    self.config,
                    schedule,
                    epoch,
                    engine=engine,
                    annotations=annotations,
                    adapter=adapter,
                    totals=StatsTotals(),
                    read_ahead=0,
                ),
                seconds,
            )
        finally:
            engine.close()
            if annotations:
                annotations.close()
