"""``stoker.torch``: datasets and a DataLoader with the contracts of torch's."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.utils.data as of_torch
from helpers.annotations import write_annotated
from helpers.images import encode

from stoker import BadSamples
from stoker.augment import Normalize, RandomResizedCrop, Resize
from stoker.errors import CheckpointError, ConfigError, CorruptRecordError, StorageError
from stoker.torch import BatchMaker, DataLoader, Dataset, ImageFolder

Epoch = list[tuple[float, list[int]]]

NAMES = ("a/10.png", "a/9.png", "a/b/1.png", "b/x.png", "c c/0.png", "c c/1.png", "c c/2.png")
CROP = [RandomResizedCrop(8)]


def own() -> torch.Generator:
    return torch.Generator().manual_seed(9)


SAMPLERS = {
    "random": lambda: of_torch.RandomSampler(range(7), generator=own()),
    "weighted": lambda: of_torch.WeightedRandomSampler([1.0] * 7, 7, generator=own()),
    "distributed": lambda: of_torch.DistributedSampler(range(7), 1, 0),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven images of three classes, each of another size."""
    folder = tmp_path_factory.mktemp("images")
    generator = torch.Generator().manual_seed(0)
    for number, name in enumerate(NAMES):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = torch.randint(0, 256, (12 + number, 16, 3), generator=generator, dtype=torch.uint8)
        path.write_bytes(encode(pixels.numpy()))
    return folder


def contents(loader: Any) -> Epoch:
    return [(images.double().sum().item(), labels.tolist()) for images, labels in loader]


def epochs(loader: Any, number: int = 3) -> list[Epoch]:
    torch.manual_seed(5)
    return [contents(loader) for _ in range(number)]


class TestImageFolder:
    def test_it_is_torchvisions(self, root: Path) -> None:
        data = ImageFolder(str(root))
        assert (data.classes, data.class_to_idx) == (("a", "b", "c c"), {"a": 0, "b": 1, "c c": 2})
        assert [path for path, _ in data.samples] == [str(root / name) for name in NAMES]
        assert list(data.targets) == [label for _, label in data.imgs] == [0, 0, 0, 1, 2, 2, 2]
        image, label = data[3]
        assert (image.shape, image.dtype, label) == ((3, 15, 16), torch.uint8, 1)
        with pytest.raises(IndexError, match="found 7"):
            data[7]
        assert torch.equal(data[-1][0], data[6][0])

    def test_a_list_of_indices_is_one_batch(self, root: Path) -> None:
        assert ImageFolder(root).__getitems__([]) == []
        data = ImageFolder(root, [Resize((8, 8))], target_transform=lambda label: 10 + label)
        samples = data.__getitems__([6, 0])
        assert [label for _, label in samples] == [12, 10] == samples.batch.label.tolist()
        assert samples.batch.image.shape == (2, 3, 8, 8)

    def test_it_has_no_attribute_that_its_samples_lack(self, pack_images: Any) -> None:
        data = Dataset(write_annotated(pack_images))
        assert not hasattr(data, "targets")
        assert not hasattr(data, "nothing")
        assert len(data) == len(data.data)

    def test_parameters_follow_from_seed_epoch_and_index(self, root: Path) -> None:
        data = ImageFolder(root, CROP)
        first, second = ([data[i][0] for i in range(7)] for _ in range(2))
        assert not any(map(torch.equal, first, second))
        data.set_epoch(1)
        assert all(map(torch.equal, second, [image for image, _ in data.__getitems__(range(7))]))
        data.set_epoch(0)
        data[6]
        mixed = data.__getitems__([6, 0])  # of two epochs
        assert torch.equal(mixed[0][0], second[6])
        assert torch.equal(mixed[1][0], first[0])
        again = pickle.loads(pickle.dumps(data))
        assert torch.equal(again[5][0], first[5])

    @pytest.mark.parametrize("kind", [DataLoader, of_torch.DataLoader])
    def test_a_transform_can_be_set_later(self, root: Path, kind: Any) -> None:
        data = ImageFolder(root, [Resize((8, 8))])
        loader = kind(of_torch.Subset(data, [0, 1]), 2)
        assert [images.shape[2:] for images, _ in loader] == [(8, 8)]
        data.transform = [Resize((4, 4))]
        assert [images.shape[2:] for images, _ in loader] == [(4, 4)]
        assert pickle.loads(pickle.dumps(data))[0][0].shape[1:] == (4, 4)

    def test_ranks_that_are_told_no_epoch_draw_other_parameters(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A rank does not see what the other has drawn, which may be its own samples in the next epoch."""
        whole = [ImageFolder(root, CROP)[2][0]]
        for rank in range(2):
            monkeypatch.setattr("stoker.torch._process", lambda rank=rank: (rank, 2))
            data = ImageFolder(root, CROP)
            whole += [data[2][0] for _ in range(2)]
        assert torch.equal(whole[0], whole[1])
        assert len({image.numpy().tobytes() for image in whole}) == 4
        data.set_epoch(0)
        assert torch.equal(data[2][0], whole[0])

    def test_its_sampler_tells_it_the_epoch(self, root: Path) -> None:
        """As Accelerate does, which makes a DataLoader of its own with this sampler."""
        data = ImageFolder(root, CROP)
        second = [data[0][0] for _ in range(2)][1]
        DataLoader(of_torch.Subset(data, [0]), shuffle=True, sampler=None).sampler.set_epoch(1)
        assert torch.equal(data[0][0], second)

    @pytest.mark.parametrize("index", [2.7, "3", slice(2), True])
    def test_an_index_is_an_integer(self, root: Path, index: Any) -> None:
        with pytest.raises(TypeError, match="an index must be an integer, found"):
            ImageFolder(root)[index]

    def test_options_of_loaders_are_refused(self, root: Path) -> None:
        with pytest.raises(ConfigError, match="batch_size must be given to the DataLoader"):
            ImageFolder(root, batch_size=4)

    @pytest.mark.parametrize("name", ["transforms", "loader", "is_valid_file"])
    def test_arguments_that_it_lacks_are_refused_at_once(self, root: Path, name: str) -> None:
        with pytest.raises(ConfigError, match=f"ImageFolder has no argument {name}"):
            ImageFolder(root, **{name: list})

    def test_a_root_that_is_none_is_named(self, root: Path, pack_images: Any) -> None:
        with pytest.raises(FileNotFoundError, match="nothing"):
            ImageFolder(root / "nothing")
        with pytest.raises(ConfigError, match=r"stoker\.torch\.Dataset takes datasets"):
            ImageFolder(write_annotated(pack_images))

    def test_functions_of_batches_end_a_list(self, root: Path) -> None:
        data = ImageFolder(root, [Resize((8, 8)), lambda images: images * 0])
        assert not data[0][0].any()


class TestDataLoader:
    @pytest.mark.parametrize(
        "options",
        [
            {"shuffle": True},
            {"shuffle": True, "num_workers": 2},
            {"shuffle": True, "num_workers": 2, "persistent_workers": True},
            {"drop_last": True},
        ],
    )
    def test_its_batches_are_those_of_torchs(self, root: Path, options: dict[str, Any]) -> None:
        fast = epochs(DataLoader(ImageFolder(root, CROP), 2, **options))
        assert epochs(of_torch.DataLoader(ImageFolder(root, CROP), 2, **options)) == fast
        assert fast[0] != fast[1]

    @pytest.mark.parametrize("workers", [0, 1])
    def test_batches_of_a_loader_that_is_made_of_it(self, root: Path, workers: int) -> None:
        """As Accelerate's prepare does: a DataLoader of torch with its dataset, sampler and collate_fn."""
        own = DataLoader(of_torch.Subset(ImageFolder(root, CROP), range(5)), 2)
        made = of_torch.DataLoader(
            own.dataset, batch_sampler=own.batch_sampler, collate_fn=own.collate_fn, num_workers=workers
        )
        for mine, theirs in zip(own, made, strict=True):
            assert mine.keys() == theirs.keys() == ("image", "label")
            assert torch.equal(mine["image"], theirs["image"])
        assert not hasattr(next(iter(DataLoader(ImageFolder(root), batch_size=None)))[0], "keys")

    def test_samplers_subsets_and_concatenations(self, root: Path) -> None:
        def of(kind: Any) -> Any:
            data = ImageFolder(root, CROP)
            subset = of_torch.Subset(of_torch.Subset(data, [6, 5, 4, 1, 0]), [0, 2, 4])
            weighted = of_torch.WeightedRandomSampler([1.0, 2.0, 1.0], 7, generator=torch.Generator())
            batches = of_torch.BatchSampler(of_torch.SequentialSampler(data), 3, drop_last=False)
            loaders = (kind(subset, 2), kind(subset, 2, sampler=weighted), kind(data, batch_sampler=batches))
            return [epochs(one, 1) for one in (*loaders, kind(of_torch.ConcatDataset([data, data]), 4))]

        assert of(DataLoader)[0][0][0][1] == [2, 2]
        for ours, theirs in zip(of(DataLoader), of(of_torch.DataLoader), strict=True):
            assert [labels for _, labels in ours[0]] == [labels for _, labels in theirs[0]]

    def test_ranks_draw_by_the_sampler_of_torch(self, root: Path) -> None:
        data = ImageFolder(root, CROP)
        drawn = []
        for rank in range(2):
            sampler = of_torch.DistributedSampler(data, 2, rank)
            loader = DataLoader(data, 2, sampler=sampler, drop_last=False)
            loader.set_epoch(3)
            assert sampler.epoch == 3
            drawn += [label for _, labels in contents(loader) for label in labels]
        assert len(drawn) == 8
        assert set(drawn) == {0, 1, 2}

    @pytest.mark.parametrize("kind", [*SAMPLERS, None])
    @pytest.mark.parametrize("received", [4, 5, 6, 7, 8])
    def test_its_state_goes_on_with_the_next_batch(self, root: Path, kind: str | None, received: int) -> None:
        """With generators of their own, also at the end of an epoch, before and after its last batch."""

        def make() -> DataLoader:
            sampler = SAMPLERS[kind]() if kind else None
            return DataLoader(ImageFolder(root, CROP), 2, shuffle=None if kind else True, sampler=sampler)

        whole = epochs(make(), 4)
        per_epoch = len(whole[0])
        torch.manual_seed(5)
        loader = make()
        for _ in range(received // per_epoch):
            contents(loader)
        running = iter(loader)
        for _ in range(received % per_epoch):
            next(running)
        state, numbers = pickle.loads(pickle.dumps(loader.state_dict())), torch.get_rng_state()
        torch.manual_seed(1)
        resumed = make()
        resumed.load_state_dict(state)
        assert resumed.state_dict() is state
        torch.set_rng_state(numbers)
        rest = contents(resumed) + contents(resumed)
        assert rest == [*chain(*whole)][received : received + len(rest)]
        with pytest.raises(CheckpointError, match="not a state"):
            loader.load_state_dict({"epoch": 1})

    def test_the_state_of_a_last_batch_is_that_of_the_next_epoch(self, root: Path) -> None:
        loader = DataLoader(ImageFolder(root, CROP), 2)
        running = iter(loader)
        for _ in range(4):
            next(running)
        state = loader.state_dict()
        assert (state["epoch"], state["step"]) == (1, 0)

    def test_an_epoch_that_is_told_keeps_a_position_in_it(self, root: Path) -> None:
        def make() -> tuple[Any, DataLoader]:
            sampler = of_torch.DistributedSampler(range(7), 2, 1)
            return sampler, DataLoader(ImageFolder(root, CROP), 2, sampler=sampler)

        sampler, loader = make()
        whole = []
        for epoch in range(3):
            sampler.set_epoch(epoch)
            whole.append(contents(loader))
        loader.set_epoch(1)
        next(iter(loader))
        state = loader.state_dict()
        for told, wanted in ((None, whole[1][1:]), (1, whole[1][1:]), (2, whole[2])):
            for tell in (0, 1):
                both = make()
                both[1].load_state_dict(state)
                if told is not None:
                    both[tell].set_epoch(told)
                assert contents(both[1]) == wanted

    def test_a_state_of_other_batches_is_refused(self, root: Path) -> None:
        loader = DataLoader(ImageFolder(root, CROP), 2)
        next(iter(loader))
        for other in (DataLoader(ImageFolder(root), 3), DataLoader(ImageFolder(root), 2, sampler=range(6))):
            other.load_state_dict(loader.state_dict())
            with pytest.raises(CheckpointError, match="draws other batches"):
                list(other)

    def test_two_passes_at_once_are_whole(self, root: Path) -> None:
        loader = DataLoader(ImageFolder(root, CROP), 2)
        assert [
            (one.label.tolist(), two.label.tolist()) for one, two in zip(loader, loader, strict=True)
        ] == [2 * (labels,) for labels in ([0, 0], [0, 1], [2, 2], [2])]
        assert loader.state_dict()["epoch"] == 2

    def test_a_bad_sample_is_named_and_the_next_batch_follows(self, root: Path, tmp_path: Path) -> None:
        folder = tmp_path / "images"
        shutil.copytree(root, folder)
        for kind in (DataLoader, of_torch.DataLoader):
            loader = kind(ImageFolder(folder, CROP), 2)
            os.utime(folder / "b/x.png", (1, 1 + (kind is DataLoader)))
            running = iter(loader)
            assert next(running)[1].tolist() == [0, 0]
            with pytest.raises(CorruptRecordError, match=r"b/x\.png"):
                next(running)
            assert [labels.tolist() for _, labels in running] == [[2, 2], [2]]
        skipping = ImageFolder(folder, CROP, errors=BadSamples("skip"))
        os.utime(folder / "b/x.png", (1, 3))
        with pytest.raises(ConfigError, match=r"b/x\.png.* is bad"):
            list(skipping)

    def test_a_storage_that_fails_loses_no_batch(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        whole, fails, made = epochs(DataLoader(ImageFolder(root, CROP), 2), 1)[0], [True], BatchMaker.batches

        def batches(maker: BatchMaker, *arguments: Any) -> Iterator[Any]:
            for number, batch in enumerate(made(maker, *arguments)):
                if number == 1 and fails:
                    fails.clear()
                    raise StorageError("the share is gone")
                yield batch

        monkeypatch.setattr(BatchMaker, "batches", batches)
        loader = DataLoader(ImageFolder(root, CROP), 2)
        running = iter(loader)
        first = contents([next(running)])
        with pytest.raises(StorageError):
            next(running)
        assert loader.state_dict()["step"] == 1
        assert first + contents(running) == whole

    def test_it_needs_no_shared_memory(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(tensor: torch.Tensor) -> None:
            raise RuntimeError("unable to open shared memory object")

        monkeypatch.setattr(torch.Tensor, "share_memory_", fail)
        assert len(ImageFolder(root, CROP)[0]) == 2

    def test_an_epoch_can_be_told_before_the_first_batch(self, root: Path) -> None:
        """A loader that is made anew, or resumed, with the seed of the first goes on with its order."""

        def make() -> DataLoader:
            return DataLoader(ImageFolder(root, CROP), 2, shuffle=True, generator=own())

        whole = epochs(make())
        for told in (lambda loader: loader.sampler, lambda loader: loader):
            loader = make()
            running = iter(loader)
            told(loader).set_epoch(2)
            assert contents(running) == whole[2]

    def test_a_pass_that_is_left_ends_its_epoch(self, root: Path) -> None:
        loader = DataLoader(ImageFolder(root, CROP), 2)
        whole = epochs(DataLoader(ImageFolder(root, CROP), 2))
        next(iter(loader))
        assert contents(pickle.loads(pickle.dumps(loader))) == contents(loader) == whole[1]

    def test_a_function_of_samples_collates(self, root: Path) -> None:
        loader = DataLoader(ImageFolder(root), 3, collate_fn=list)
        assert [len(samples) for samples in loader] == [3, 3, 1]
        image, label = next(iter(loader))[0]
        assert (tuple(image.shape), label) == ((3, 12, 16), 0)

    def test_more_threads_than_cores_are_no_worker_processes(self, root: Path) -> None:
        assert len(list(DataLoader(ImageFolder(root, CROP), batch_size=4, num_workers=999))) == 2

    def test_a_batch_has_names_and_other_datasets_are_torchs(self, root: Path) -> None:
        batch = next(iter(DataLoader(ImageFolder(root, [Resize((8, 8)), Normalize()]), 3)))
        assert batch["image"].dtype == torch.float32
        assert batch.label.tolist() == [0, 0, 0]
        assert isinstance(DataLoader(range(4)), of_torch.DataLoader)
        assert [one.tolist() for one in DataLoader(range(4), 2)] == [[0, 1], [2, 3]]

    def test_refusals(self, root: Path) -> None:
        from stoker import ImageLoader

        with pytest.raises(ConfigError, match="a loader makes whole batches"):
            DataLoader(ImageLoader(root, batch_size=2, transforms=CROP))

        class Endless(of_torch.Sampler[list[int]]):
            def __iter__(self) -> Any:
                while True:
                    yield [0]

        with pytest.raises(ConfigError, match="the sampler must have a length"):
            list(DataLoader(ImageFolder(root), batch_sampler=Endless()))
        with pytest.raises(ConfigError, match="the sampler must have a length"):
            list(DataLoader(ImageFolder(root), 2, sampler=Endless()))
        assert not hasattr(DataLoader(of_torch.ConcatDataset([ImageFolder(root)])), "state_dict")
