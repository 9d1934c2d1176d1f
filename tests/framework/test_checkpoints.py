"""Checkpoints of each framework with the state of the loader: training resumes inside an epoch exactly."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from helpers.loaders import image_arguments

from stoker import ImageLoader
from stoker.augment import Normalize, RandomResizedCrop
from stoker.errors import CheckpointError, ConfigError

torch = pytest.importorskip("torch")

from stoker.integrations import with_loaders  # noqa: E402 - only where the package is installed
from stoker.pipeline.adapters.torch import check_resume  # noqa: E402
from stoker.torch import DataLoader, Dataset  # noqa: E402

Step = tuple[list[int], float]
STOP = 6  # of 12 steps in three epochs of four: in the middle of the second
STOPS = (4, STOP, 8)  # and at the ends of two epochs


@pytest.fixture
def make(thumbnails: Path) -> Callable[..., ImageLoader]:
    def make(**options: Any) -> ImageLoader:
        arguments = {"batch_size": 16, "shuffle": True, "output": "torch", "num_threads": 2, **options}
        transforms = [RandomResizedCrop(8), Normalize()]
        return ImageLoader(
            thumbnails,
            **image_arguments(columns=("image", "label", "row"), transforms=transforms, **arguments),
        )

    return make


class Network(torch.nn.Module):  # type: ignore[misc]  # torch is optional
    """A linear classifier that records the rows and the loss of each step."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(3 * 8 * 8, 61)
        self.steps: list[Step] = []

    def forward(self, image: Any, label: Any, row: Any) -> dict[str, Any]:
        loss = torch.nn.functional.cross_entropy(self.linear(image.flatten(1)), label)
        self.steps.append((row.tolist(), loss.item()))
        return {"loss": loss}


def check(steps: list[Step], undisturbed: list[Step], stop: int, loader: ImageLoader) -> None:
    assert steps == undisturbed[stop:]
    # No look of the framework at the loader has used up an epoch or repeated one.
    assert [rows for rows, _ in undisturbed] == [batch.row.tolist() for _ in range(3) for batch in loader]


def fit_with_lightning(
    loader: Any, folder: Path, stop: int | None = None, *, estimates: bool = False
) -> list[Step]:
    """Train with Lightning, from the checkpoint of step ``stop`` on, and return the steps."""
    lightning = pytest.importorskip("lightning")

    class Module(lightning.LightningModule):  # type: ignore[misc]  # lightning is optional
        def __init__(self) -> None:
            super().__init__()
            self.network = Network()

        def on_train_start(self) -> None:
            check_resume(self.trainer.train_dataloader, self.trainer.global_step)

        def training_step(self, batch: Any) -> Any:
            return self.network(*batch)["loss"]

        def configure_optimizers(self) -> Any:
            assert not estimates or self.trainer.estimated_stepping_batches == 12
            return torch.optim.SGD(self.parameters(), lr=0.01, momentum=0.9)

    module = Module()
    save = lightning.pytorch.callbacks.ModelCheckpoint(
        folder, every_n_train_steps=2, save_top_k=-1, filename="{step}"
    )
    trainer = lightning.Trainer(
        max_epochs=3,
        callbacks=[save],
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    resume = None if stop is None else folder / f"step={stop}.ckpt"
    with loader if isinstance(loader, ImageLoader) else nullcontext():
        trainer.fit(module, loader, ckpt_path=resume, weights_only=False)
    return module.network.steps


@pytest.mark.filterwarnings("ignore:.*isinstance.treespec, LeafSpec.*:FutureWarning")  # Lightning's own
@pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists")  # the one that is resumed from
def test_lightning_resumes_at_any_step(make: Callable[[], ImageLoader], tmp_path: Path) -> None:
    undisturbed = fit_with_lightning(make(), tmp_path)
    for stop in STOPS:
        check(fit_with_lightning(make(), tmp_path, stop), undisturbed, stop, make())
    with pytest.raises(CheckpointError, match="samples would be left out"):  # Lightning drops the state
        fit_with_lightning(make(), tmp_path, STOP, estimates=True)


@pytest.mark.filterwarnings("ignore:.*isinstance.treespec, LeafSpec.*:FutureWarning")  # Lightning's own
@pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists")  # the one that is resumed from
@pytest.mark.parametrize("shuffle", [True, False])
def test_lightning_resumes_a_dataloader_at_any_step(thumbnails: Path, tmp_path: Path, shuffle: bool) -> None:
    """Also at the end of an epoch, where Lightning tells the sampler the epoch and loads no state."""
    columns = {"columns": ("image", "label", "row")}

    def make() -> DataLoader:
        data = Dataset(thumbnails, [RandomResizedCrop(8), Normalize()], **columns)
        return DataLoader(data, 16, shuffle, generator=torch.Generator().manual_seed(3))

    undisturbed = fit_with_lightning(make(), tmp_path)
    for stop in STOPS:
        assert fit_with_lightning(make(), tmp_path, stop) == undisturbed[stop:]
    with pytest.raises(CheckpointError, match="samples would be left out"):
        fit_with_lightning(make(), tmp_path, STOP, estimates=True)


@pytest.mark.filterwarnings("ignore:.*isinstance.treespec, LeafSpec.*:FutureWarning")  # Lightning's own
@pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists")  # the one that is resumed from
@pytest.mark.parametrize("options", [{"batch_size": 8}, {"batch_size": 32}, {"rank": 0, "world_size": 2}])
def test_lightning_refuses_to_resume_with_steps_of_another_size(
    make: Callable[..., ImageLoader], tmp_path: Path, options: dict[str, Any]
) -> None:
    """Lightning restores a number of steps, and would leave out as many of another size."""
    fit_with_lightning(make(), tmp_path)
    for stop in STOPS:  # at the end of an epoch, too, as Lightning takes a longer one for unfinished
        with pytest.raises(CheckpointError, match="samples would be left out"):
            fit_with_lightning(make(**options), tmp_path, stop)
    # In another loop the rest of the epoch is whole.
    saved = torch.load(tmp_path / "step=6.ckpt", weights_only=False)["loops"]["fit_loop"]["state_dict"]
    (state,) = saved["combined_loader"]
    received = []
    for rank in range(options.get("world_size", 1)):
        with make(**{**options, "rank": rank} if "rank" in options else options) as loader:
            loader.load_state_dict(state)
            received += [row for batch in loader for row in batch.row.tolist()]
    with make() as loader:
        loader.set_epoch(1)
        assert sorted(received) == sorted(row for batch in list(loader)[2:] for row in batch.row.tolist())


@pytest.mark.parametrize("batch_size", [16, 8, 32])
def test_accelerate_resumes_inside_an_epoch(
    make: Callable[..., ImageLoader], tmp_path: Path, batch_size: int
) -> None:
    accelerate = pytest.importorskip("accelerate")

    def train(stop: int = 12, resume: bool = False) -> list[Step]:
        accelerator = accelerate.Accelerator(cpu=True)
        network = Network()
        model, optimizer = accelerator.prepare(network, torch.optim.SGD(network.parameters(), lr=0.01))
        with make(batch_size=batch_size if resume else 16) as loader:
            accelerator.register_for_checkpointing(loader)
            if resume:
                accelerator.load_state(str(tmp_path / "state"))
            while loader.state_dict()["epoch"] < 3:
                for batch in loader:
                    optimizer.zero_grad()
                    accelerator.backward(model(*batch)["loss"])
                    optimizer.step()
                    if len(network.steps) == stop:
                        accelerator.save_state(str(tmp_path / "state"))
                        return network.steps
        return network.steps

    undisturbed = train()
    train(stop=STOP)
    rest = train(resume=True)
    if batch_size == 16:
        check(rest, undisturbed, STOP, make())
    trained, expected = (
        sorted(row for rows, _ in steps for row in rows) for steps in (rest, undisturbed[STOP:])
    )
    assert trained == expected


def train_with_transformers(
    loader: ImageLoader, folder: Path, resume: Path | bool | None = None, accumulated: int = 1
) -> list[Step]:
    """Train with the Trainer of transformers, from a checkpoint on if there is one, and return the steps."""
    transformers = pytest.importorskip("transformers")
    network = Network()
    arguments = transformers.TrainingArguments(
        str(folder),
        num_train_epochs=3,
        save_steps=2 if accumulated > 1 else STOP,
        gradient_accumulation_steps=accumulated,
        remove_unused_columns=False,
        lr_scheduler_type="constant",
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    with loader:
        trainer = with_loaders(transformers.Trainer)(network, arguments, train_dataset=loader)
        trainer.train(resume_from_checkpoint=str(resume) if isinstance(resume, Path) else resume)
        assert trainer.num_examples(trainer.get_train_dataloader()) == 61
        network.updates = trainer.state.global_step
    return network.steps


def test_the_trainer_of_transformers_takes_a_loader_that_has_run(
    make: Callable[..., ImageLoader], tmp_path: Path
) -> None:
    loader = make()
    first = [batch.row.tolist() for batch in loader]
    trained = [rows for rows, _ in train_with_transformers(loader, tmp_path)]
    assert len(trained) == 12
    assert trained[:4] != first


def test_the_trainer_of_transformers_resumes_inside_an_epoch_or_not_at_all(
    make: Callable[..., ImageLoader], tmp_path: Path
) -> None:
    """With larger steps the Trainer would take the training for finished."""
    undisturbed = train_with_transformers(make(), tmp_path)
    checkpoint = tmp_path / f"checkpoint-{STOP}"
    check(train_with_transformers(make(), tmp_path, checkpoint), undisturbed, STOP, make())
    for options in ({"batch_size": 8}, {"batch_size": 32}, {"rank": 0, "world_size": 2}):
        with pytest.raises(CheckpointError, match="samples would be left out"):
            train_with_transformers(make(**options), tmp_path, checkpoint)
    (checkpoint / "stoker_loader.json").unlink()
    with pytest.raises(CheckpointError, match="the checkpoint has no state of the loader"):
        train_with_transformers(make(), tmp_path, checkpoint)


def test_the_trainer_of_transformers_accumulates_to_the_end_of_an_epoch_after_a_resume(
    make: Callable[..., ImageLoader], tmp_path: Path
) -> None:
    """Four batches an epoch are two steps of three; each checkpoint but the last lies at the end of one."""
    undisturbed = train_with_transformers(make(), tmp_path, accumulated=3)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"checkpoint-{n}" for n in (2, 4, 6)]
    resumed = train_with_transformers(make(), tmp_path, tmp_path / "checkpoint-2", accumulated=3)
    assert resumed == undisturbed[4:]


def test_accelerate_applies_the_gradients_of_the_last_batches(make: Callable[..., ImageLoader]) -> None:
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=3)
    network = Network()
    model, optimizer = accelerator.prepare(network, torch.optim.SGD(network.parameters(), lr=0.01))
    applied = []
    with make() as loader:
        for _ in range(2):
            for batch in loader:
                with accelerator.accumulate(model):
                    accelerator.backward(model(*batch)["loss"])
                    optimizer.step()
                    applied.append(accelerator.sync_gradients)
                    optimizer.zero_grad()
    assert applied == 2 * [False, False, True, True]
    with pytest.raises(ConfigError, match="skip_first_batches"):
        next(iter(accelerate.skip_first_batches(make(), 2)))


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")  # one process is meant here
def test_the_distributed_checkpoint_of_torch_holds_the_loader_itself(
    make: Callable[[], ImageLoader], tmp_path: Path
) -> None:
    from torch.distributed import checkpoint

    with make() as loader, make() as other:
        batches = iter(loader)
        next(batches)
        checkpoint.save({"loader": loader}, checkpoint_id=tmp_path, no_dist=True)
        checkpoint.load({"loader": other}, checkpoint_id=tmp_path, no_dist=True)
        assert other.state_dict() == loader.state_dict()
        assert torch.equal(next(iter(other)).row, next(batches).row)


def test_orbax_saves_and_restores_the_loader(make: Callable[[], ImageLoader], tmp_path: Path) -> None:
    orbax = pytest.importorskip("orbax.checkpoint")
    with make() as loader, make() as other:
        batches = iter(loader)
        next(batches)
        with orbax.CheckpointManager(tmp_path) as manager:
            state = orbax.args.JsonSave(loader.state_dict())
            manager.save(1, args=orbax.args.Composite(loader=state))
            manager.wait_until_finished()
            restored = manager.restore(1, args=orbax.args.Composite(loader=orbax.args.JsonRestore()))
        other.load_state_dict(restored["loader"])
        assert torch.equal(next(iter(other)).row, next(batches).row)
