"""The option objects of the loaders: frozen, checked when they are made, and exported from ``stoker``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, SupportsIndex, TypeVar, get_args

from stoker.arguments import NamedArguments, one_of, optional_number, whole_number
from stoker.augment.geometry.boxes import BoxFormat, box_format
from stoker.errors import ConfigError
from stoker.formats.codecs.codec import MAX_PIXELS

from .cluster.ray_workers import RayWorkers

SliceForm = Literal["contiguous", "balanced"]
ArrayForm = Literal["ragged", "padded"]
OnError = Literal["raise", "skip", "replace"]
TooLong = Literal["error", "truncate", "split"]
Balance = Literal["tokens", "attention"]

T = TypeVar("T")

_SHARE = 0.01  # of an epoch, the most bad samples by default
_LEAST_SEEN = 100  # samples that a loader has seen before a share counts: one bad of ten says little


@dataclass(frozen=True)
class Ranks(NamedArguments):
    """How the processes of a training share its batches.

    Attributes:
        rank: Rank of this process. None finds it with torch.distributed, JAX, or the launcher's environment
            variables. Give both ``rank`` and ``world_size``, or neither.
        world_size: Number of ranks.
        mesh: DeviceMesh of PyTorch that gives the rank, in place of ``rank`` and ``world_size``: the
            dimensions along which batches differ, such as ``mesh["dp"]``.
        replicate: Processes in a row that receive the same batches, such as those of tensor parallelism.
        context: Of text: rank and size of a context-parallel group, such as (0, 4), or a DeviceMesh of one
            dimension, such as ``mesh["cp"]``: this process receives its slice of each row. The processes of a
            group have one ``rank``. See the guide to text.
        context_slices: "balanced" gives rank r of n the parts r and 2 n - 1 - r of 2 n, so that causal
            attention costs all ranks the same; "contiguous" gives it the r-th of n parts.
        balance: Of text: how the samples of a step are dealt to the ranks, for models that do not compute
            padding. "tokens" gives all ranks about as many tokens, "attention" about the same sum of squared
            lengths. None deals them in order.

    Raises:
        ConfigError: An attribute is wrong, or two do not fit each other.
    """

    rank: int | None = None
    world_size: int | None = None
    mesh: Any = None
    replicate: int = 1
    context: Any = None
    context_slices: SliceForm = "balanced"
    balance: Balance | None = None

    def __post_init__(self) -> None:
        _check_number(self, "replicate", 1)
        if self.mesh is not None and (
            self.rank is not None or self.world_size is not None or self.replicate > 1
        ):
            raise ConfigError("mesh gives the rank", hint="Leave out rank, world_size and replicate.")
        if (self.rank is None) != (self.world_size is None):
            raise ConfigError("only one of rank and world_size is given", hint="Give both, or neither.")
        if self.rank is not None and self.world_size is not None:
            _check_number(self, "rank")
            _check_number(self, "world_size")
            if not 0 <= self.rank < self.world_size:
                raise ConfigError(
                    f"rank must be in 0..world_size-1, found rank {self.rank} of {self.world_size}"
                )
        one_of("context_slices", self.context_slices, get_args(SliceForm))
        one_of("balance", self.balance, (None, *get_args(Balance)))


@dataclass(frozen=True)
class Cache(NamedArguments):
    """The folder on a local disk that keeps what a loader fetches of a remote dataset.

    The loader fetches in the order of its batches, and first evicts what this epoch and the next one need
    last. In a few cases that the guide "Beyond one machine" names, it first evicts what was used least
    recently. Ranks of one machine share a cache.

    Attributes:
        folder: The folder.
        size: Largest size in bytes, or as text such as "200GB". None sets no limit.
    """

    folder: str | os.PathLike[str]
    size: str | int | None = None


@dataclass(frozen=True)
class Reading(NamedArguments):
    """How a loader reads and decodes payloads.

    Attributes:
        read_ahead: Batches of images whose bytes the operating system is asked to read before the engine
            needs them; 0 for none. The default covers half a second at a thousand images a second.
        verify: Whether every payload is compared with its checksum. Text with ``too_long="split"`` compares
            it once, and then reads each piece alone.
        mapped: Whether shards of images are mapped into memory. False reads each payload instead, which suits
            network file systems: a file that shrinks while it is mapped ends the process. Shards are then
            opened when they are needed, and at most 256 of them stay open.
        exact: Whether JPEGs are decoded at their full size. Otherwise the native engine decodes an image at a
            reduced size if it becomes at least four times smaller along both axes. That is faster and changes
            pixels a little; see the guide to augmentation. Use True for evaluations that you publish.
        max_pixels: An image with more pixels is a bad sample. Its header is checked before it is decoded.
        cache: Cache of a remote dataset.
        workers: Processes on other machines that also make batches, a :class:`stoker.RayWorkers`. They do not
            change the batches; see the guide to clusters.

    Raises:
        ConfigError: An attribute is wrong.
    """

    read_ahead: int = 8
    verify: bool = True
    mapped: bool = True
    exact: bool = False
    max_pixels: int = MAX_PIXELS
    cache: Cache | None = None
    workers: RayWorkers | None = None

    def __post_init__(self) -> None:
        _check_number(self, "read_ahead", 0)
        _check_number(self, "max_pixels", 1)
        check_option("cache", self.cache, Cache)
        check_option("workers", self.workers, RayWorkers)


@dataclass(frozen=True)
class BadSamples(NamedArguments):
    """What happens to bad samples, and how many of them an epoch may have.

    Attributes:
        on_error: "raise" raises an error that names the sample, "skip" leaves it out of its batch, and
            "replace" replaces it by the next good sample of the batch. The first bad sample is a warning, and
            ``stats()`` counts all.
        max_bad: Largest number of bad samples of an epoch on one rank that are skipped or replaced; one more
            is an error. A float is a share of the epoch, which counts from the hundredth sample on. None is
            0.01.

    Raises:
        ConfigError: An attribute is wrong, or ``max_bad`` is given with "raise".
    """

    on_error: OnError = "raise"
    max_bad: int | float | None = None

    def __post_init__(self) -> None:
        one_of("on_error", self.on_error, get_args(OnError))
        if self.max_bad is None:
            return
        if self.on_error == "raise":
            raise ConfigError(
                "max_bad limits the bad samples that are skipped or replaced, and on_error='raise' does "
                "neither",
                hint="Give on_error='skip' or 'replace', too, or leave out max_bad.",
            )
        if isinstance(self.max_bad, SupportsIndex):
            _check_number(self, "max_bad", 0)
            return
        try:
            share = float(self.max_bad)
        except (TypeError, ValueError):
            raise ConfigError(f"max_bad must be a number or a share, found {self.max_bad!r}") from None
        if not 0 <= share <= 1:
            raise ConfigError(f"max_bad as a float is a share, 0 to 1, found {self.max_bad!r}")
        _set(self, "max_bad", share)

    @property
    def most(self) -> int | float:
        """The limit: ``max_bad``, or its default."""
        return _SHARE if self.max_bad is None else self.max_bad

    def is_exceeded(self, bad: int, *, samples: float, seen: int) -> bool:
        """Whether ``bad`` of the ``seen`` samples of an epoch of ``samples`` are too many."""
        if isinstance(self.most, int):
            return bad > self.most
        return seen >= _LEAST_SEEN and bad > self.most * samples


@dataclass(frozen=True)
class Objects(NamedArguments):
    """The form of the columns of objects and of arrays, whose lengths differ between samples.

    Attributes:
        form: "ragged" returns a list of N arrays, "padded" one array, (N, largest M, ...), padded
            with zeros, and adds a column ``count``, (N,) int64.
        box_format: "XYXY" (left, top, right, bottom), "XYWH" (left, top, width, height) or "CXCYWH" (center,
            width, height), in pixels of the output.
        min_visible: Share of an object's box, 0 to 1, that must be visible; other objects are dropped from
            all columns. An object that is not visible at all is always dropped.
        min_size: Least width and height of an object's box, pixels of the output; other objects are dropped.
        swap: For each of the K keypoints the one that it becomes in a mirrored image, from 0, in place of the
            dataset's own: [1, 0] of two eyes, [0, 1] of points on a middle line.
        arrays: Form of array columns whose shapes differ between samples. "ragged" returns a list of N
            arrays, "padded" one array, padded with zeros at the ends of its sides, and adds a
            column ``<name>_shape``, (N, sides) int64.

    Raises:
        ConfigError: An attribute is wrong.
    """

    form: ArrayForm = "ragged"
    box_format: BoxFormat = "XYXY"
    min_visible: float = 0.0
    min_size: float = 0.0
    arrays: ArrayForm = "ragged"
    swap: Sequence[int] = ()

    def __post_init__(self) -> None:
        one_of("objects", self.form, get_args(ArrayForm))
        one_of("arrays", self.arrays, get_args(ArrayForm))
        _set(self, "box_format", box_format("box_format", self.box_format))
        if not 0 <= self.min_visible <= 1:
            raise ConfigError(f"min_visible must be a share from 0 to 1, found {self.min_visible!r}")
        if not 0 <= self.min_size < float("inf"):
            raise ConfigError(f"min_size must be pixels from 0, found {self.min_size!r}")
        _set(self, "swap", tuple(self.swap))


@dataclass(frozen=True)
class Seeds(NamedArguments):
    """The seed of the order, and another one of the random parameters.

    Loaders that differ only in ``augmentation`` show different crops of the same samples in the same order.

    Attributes:
        order: Integer that decides the order.
        augmentation: Integer that decides the random parameters.
    """

    order: int
    augmentation: int

    def __post_init__(self) -> None:
        _check_number(self, "order", what="Seeds: order")
        _check_number(self, "augmentation", what="Seeds: augmentation")


@dataclass(frozen=True)
class Pixels(NamedArguments):
    """A ``batch_size`` in pixels: a batch of images has the samples that fit at its size.

    So the number of steps of an epoch depends on ``sizes``.

    Attributes:
        number: Pixels of a batch on one rank.
    """

    number: int

    def __post_init__(self) -> None:
        _check_number(self, "number", 1, what="pixels of a batch")


@dataclass(frozen=True)
class MaxTokens(NamedArguments):
    """A ``batch_size`` in tokens, padding included: short samples make larger batches.

    Attributes:
        number: Most tokens of a batch on one rank.
    """

    number: int

    def __post_init__(self) -> None:
        _check_number(self, "number", 1, what="max_tokens")


@dataclass(frozen=True)
class Samples(NamedArguments):
    """``steps_per_epoch`` in samples, for batches of text without a fixed number of samples.

    Attributes:
        number: Samples of an epoch over all ranks.
    """

    number: int

    def __post_init__(self) -> None:
        _check_number(self, "number", 1, what="samples of an epoch")


@dataclass(frozen=True)
class Padded(NamedArguments):
    """Image batches that are padded with zeros to their largest image; ``sizes="padded"`` is short for it.

    Attributes:
        pad_to_multiple_of: Height and width of a batch are multiples of this, pixels.
        aspect_ratio_group_factor: Groups of aspect ratios from which batches are drawn, as in torchvision's
            references for detection: 0 separates upright images from the others, and k makes 2k + 2 groups.
            None draws batches from all images.
    """

    pad_to_multiple_of: int = 1
    aspect_ratio_group_factor: int | None = None

    def __post_init__(self) -> None:
        _check_number(self, "pad_to_multiple_of", 1)
        _check_factor(self)


@dataclass(frozen=True)
class Ragged(NamedArguments):
    """Image batches that are lists of images of different sizes; ``sizes="ragged"`` is short for it.

    Attributes:
        aspect_ratio_group_factor: As of :class:`stoker.Padded`.
    """

    aspect_ratio_group_factor: int | None = None

    def __post_init__(self) -> None:
        _check_factor(self)


@dataclass(frozen=True)
class Buckets(NamedArguments):
    """The padded lengths of text.

    Attributes:
        boundaries: Number of padded lengths, with the boundaries that pad least; or the boundaries, (K,) or
            (K, D) integers; or "auto" or None, see :class:`stoker.TextLoader`.
        pad_to_multiple_of: Padded lengths are multiples of this; 8 or 16 suits tensor cores. Boundaries and
            the tokens of packed rows must be such multiples.
    """

    boundaries: Any = "auto"
    pad_to_multiple_of: int = 1


@dataclass(frozen=True)
class Packing(NamedArguments):
    """Rows of text that hold several sequences; ``pack=2048`` is short for ``pack=Packing(2048)``.

    Attributes:
        tokens: Tokens of a row: one number for all fields, or one for each.
        max_sequences: Largest number of sequences in a row, which decides the length of ``cu_seqlens``. None
            sets no limit.
    """

    tokens: int | Sequence[int]
    max_sequences: int | None = None


@dataclass(frozen=True)
class Streams(NamedArguments):
    """Rows of text that go on in the same row of the next batch, for models with a state.

    The documents of an epoch are cut into one stream for each row of all ranks. Columns are "input_ids";
    "targets", the token that follows each; and "begins", True where a document or a stream begins: (N,
    tokens). With ``last_batch="partial"`` an epoch ends with a shorter step.

    Attributes:
        tokens: Tokens that each row takes of its stream at each step.
    """

    tokens: int


@dataclass(frozen=True)
class MaxLength(NamedArguments):
    """The limit of the length of sequences; ``max_length=512`` is short for ``MaxLength(512, "error")``.

    Attributes:
        tokens: Largest number of tokens of a sequence. None sets no limit; packed rows and boundaries do.
        too_long: What happens to a longer sequence: "error" refuses the dataset, "truncate" keeps its
            beginning and the special tokens that the tokenizer puts at its end, and "split" fills packed rows
            with its pieces. Of samples that state which tokens are trained, "truncate" leaves out those
            whose labels would all be cut.
        keep_end: Whether truncation keeps these special tokens. False cuts them off with the rest, so that a
            model does not learn to stop in the middle of a text.
    """

    tokens: int | None = None
    too_long: TooLong = "truncate"
    keep_end: bool = True


@dataclass(frozen=True)
class DaliOptions(NamedArguments):
    """How DALI decodes JPEGs.

    Attributes:
        region_decode: Whether DALI decodes only the region of a JPEG that its crop needs. None decodes
            regions on a CPU, and whole images on a GPU: there nvImageCodec 0.9 may end the process when it
            decodes a region (https://github.com/NVIDIA/nvImageCodec/issues/55).
        hw_decoder_load: Share of a batch, 0 to 1, that the JPEG engines of a GPU decode; CUDA decodes the
            rest, and what the engines refuse. The two differ by rounding. With 0 or 1 the pixels of an image
            depend on the image alone. Any other share takes ``round(share * N)`` images of a batch of N, by
            their chroma subsampling and area, so that the rounding of an image depends on the others of its
            batch. DALI's own default is 0.65.

    Raises:
        ConfigError: The share is not a number between 0 and 1.
    """

    region_decode: bool | None = None
    hw_decoder_load: float = 1.0

    def __post_init__(self) -> None:
        load = self.hw_decoder_load
        if isinstance(load, bool) or not isinstance(load, (int, float)) or not 0 <= load <= 1:
            raise ConfigError(f"hw_decoder_load must be a number between 0 and 1, found {load!r}")
        one_of("region_decode", self.region_decode, (True, False, None))

    def decodes_regions(self, device: str) -> bool:
        """Whether regions are decoded on this device, "cpu" or "gpu"."""
        return device == "cpu" if self.region_decode is None else self.region_decode


def as_seeds(seed: int | Seeds) -> Seeds:
    """The argument ``seed`` of a loader as two seeds."""
    if isinstance(seed, Seeds):
        return seed
    number = whole_number("seed", seed)
    return Seeds(number, number)


def check_option(name: str, value: T | None, *classes: type) -> T | None:
    """Return an argument that is an option object or None; raise ConfigError for anything else."""
    if value is not None and not isinstance(value, classes):
        known = " or ".join(f"stoker.{cls.__name__}" for cls in classes)
        raise ConfigError(f"{name} must be a {known}, found {value!r}")
    return value


def check_unused(options: Any, names: Sequence[str], loader: str) -> None:
    """Raise ConfigError if a field of an option object has no effect on a loader, and is not its default."""
    defaults = {field.name: field.default for field in fields(options)}
    for name in names:
        if getattr(options, name) != defaults[name]:
            raise ConfigError(
                f"{type(options).__name__}({name}=...) has no effect in {loader}", hint=f"Leave out {name}."
            )


def _set(options: object, name: str, value: object) -> None:
    object.__setattr__(options, name, value)


def _check_number(options: object, name: str, least: int | None = None, what: str = "") -> None:
    _set(options, name, whole_number(what or name, getattr(options, name), least))


def _check_factor(sizes: Padded | Ragged) -> None:
    factor = optional_number("aspect_ratio_group_factor", sizes.aspect_ratio_group_factor, 0)
    _set(sizes, "aspect_ratio_group_factor", factor)
