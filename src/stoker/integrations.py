"""What training libraries need to take a loader, each in a function of its own, which imports the library.

Tested with transformers 5.24 and accelerate 1.15. Only documented names of theirs are used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stoker.errors import CheckpointError, ConfigError
from stoker.pipeline.loader import Loader

__all__ = ["with_loaders"]

_STATE = "stoker_loader.json"


def with_loaders(trainer_class: Any) -> Any:
    """Return a subclass of transformers' ``Trainer`` that takes loaders as train_dataset and eval_dataset.

    A loader knows its rank, so its batches go to the model as they are; give it ``batch_as="transformers"``,
    or names of its own. Checkpoints hold the loader's state, from which ``train(resume_from_checkpoint=...)``
    goes on at once, with the same batches. Evaluation counts each sample once on any number of ranks, with
    ``last_batch="pad"``.

        Trainer = stoker.integrations.with_loaders(transformers.Trainer)
        Trainer(model, arguments, train_dataset=train_loader, eval_dataset=eval_loader).train()

    Args:
        trainer_class: ``Trainer``, or a subclass such as TRL's.

    Raises:
        ConfigError: A loader of an evaluation on several ranks has no padded batches.
        CheckpointError: A checkpoint holds no state of the loader, or that of another one, or the loader
            stands elsewhere than the trainer.
    """
    return type(
        trainer_class.__name__, (_WithLoaders, trainer_class), {"__module__": trainer_class.__module__}
    )


class _WithLoaders:
    """A trainer whose datasets may be loaders; its other base is a Trainer."""

    _mask: Any = None  # of the padded batch that is evaluated
    accelerator: Any
    args: Any
    eval_dataset: Any
    train_dataset: Any

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if isinstance(self.train_dataset, Loader):
            self.add_callback(_saving(self.train_dataset))  # type: ignore[attr-defined]

    def train(self, resume_from_checkpoint: Any = None, *arguments: Any, **options: Any) -> Any:
        path = resume_from_checkpoint
        if path is True:
            from transformers.trainer_utils import get_last_checkpoint

            path = get_last_checkpoint(self.args.output_dir)
        if path and isinstance(self.train_dataset, Loader):
            self.train_dataset.load_state_dict(_saved_state(Path(path, _STATE)))
        return super().train(resume_from_checkpoint, *arguments, **options)  # type: ignore[misc]

    def get_train_dataloader(self) -> Any:
        if not isinstance(self.train_dataset, Loader):
            return super().get_train_dataloader()  # type: ignore[misc]
        return _data_loader(self.train_dataset, skipped=not self.args.ignore_data_skip)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        chosen = self.eval_dataset if eval_dataset is None else eval_dataset
        chosen = self.eval_dataset[chosen] if isinstance(chosen, str) else chosen
        if isinstance(chosen, Loader):
            return _evaluated(chosen)
        return super().get_eval_dataloader(eval_dataset)  # type: ignore[misc]

    def get_test_dataloader(self, test_dataset: Any) -> Any:
        if isinstance(test_dataset, Loader):
            return _evaluated(test_dataset)
        return super().get_test_dataloader(test_dataset)  # type: ignore[misc]

    def num_examples(self, dataloader: Any) -> int:
        loader = getattr(dataloader.dataset, "loader", None)
        return len(loader.dataset) if loader else super().num_examples(dataloader)  # type: ignore[misc]

    def evaluation_loop(self, *arguments: Any, **options: Any) -> Any:
        self._mask, self.gather_function = None, self._gather_real
        return super().evaluation_loop(*arguments, **options)  # type: ignore[misc]

    def prediction_step(self, model: Any, inputs: Any, *arguments: Any, **options: Any) -> Any:
        inputs = dict(inputs)
        mask, labels = inputs.pop("mask", None), inputs.get("labels")
        self._mask = None if mask is None else mask.to(self.args.device)
        if mask is not None and labels is not None and not labels.is_floating_point():
            inputs["labels"] = labels.clone()
            inputs["labels"][~mask] = -100  # no part of the loss
        return super().prediction_step(model, inputs, *arguments, **options)  # type: ignore[misc]

    def training_step(self, model: Any, inputs: Any, *arguments: Any, **options: Any) -> Any:
        return super().training_step(model, dict(inputs), *arguments, **options)  # type: ignore[misc]

    def _gather_real(self, values: Any) -> Any:
        """Gather one tensor or several of all ranks, without the repeated samples of padded batches."""
        if isinstance(values, (list, tuple)):
            return type(values)(self._gather_real(one) for one in values)
        if self._mask is None:
            return self.accelerator.gather(values)
        if len(values) != len(self._mask):  # the loss of the batch, as often as the arguments say
            values = values[:1].repeat(len(self._mask))
        return self.accelerator.gather(values)[self.accelerator.gather(self._mask)]


def _saving(loader: Loader) -> Any:
    """A callback that writes the loader's state into each checkpoint, and checks where a training resumes."""
    from transformers import TrainerCallback

    from stoker.pipeline.adapters.torch import check_resume

    class SaveLoader(TrainerCallback):  # type: ignore[misc]  # transformers is optional
        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            check_resume(loader, state.global_step, accumulated=args.gradient_accumulation_steps)

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            folder = Path(args.output_dir, f"checkpoint-{state.global_step}")
            if loader.process.rank == 0 and folder.is_dir():
                (folder / _STATE).write_text(json.dumps(loader.state_dict()))

    return SaveLoader()


def _evaluated(loader: Loader) -> Any:
    if loader.process.world_size > 1 and loader.arguments.get("last_batch", "partial") == "partial":
        raise ConfigError(
            "a loader of an evaluation on several ranks must have batches of one size, found "
            "last_batch='partial'",
            hint="Make it with last_batch='pad': the repeated samples are left out of the metrics.",
        )
    return _data_loader(loader, skipped=False)


def _data_loader(loader: Loader, *, skipped: bool) -> Any:
    """A DataLoader of a loader's batches; those that a resumed trainer skips are empty."""
    from torch.utils.data import DataLoader, IterableDataset

    class Batches(IterableDataset):  # type: ignore[misc]  # torch is optional
        def __init__(self) -> None:
            self.loader = loader

        def __len__(self) -> int:
            return len(loader)

        def set_epoch(self, epoch: int) -> None:
            loader.set_epoch(epoch)

        def __iter__(self) -> Iterator[Any]:
            if skipped and loader.state_dict()["position"]:
                yield from [{}] * (len(loader) - loader.steps_left)
            yield from loader

    return DataLoader(Batches(), batch_size=None, collate_fn=_as_it_is)


def _as_it_is(batch: Any) -> Any:
    return batch


def _saved_state(file: Path) -> Any:
    try:
        return json.loads(file.read_text())
    except FileNotFoundError as error:
        raise CheckpointError(
            f"the checkpoint has no state of the loader: {file.name} is missing in {file.parent}",
            hint="It was saved by another trainer. Resume with that one, or load the weights alone.",
        ) from error
