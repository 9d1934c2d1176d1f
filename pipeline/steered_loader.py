"""Loaders that can leave samples out while they run, and resume with other weights of a mixture.

The classes of checkpoints of images and of text derive from :class:`SteeredLoader`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping
from typing import Any, ClassVar

from stoker.arguments import whole_number
from stoker.errors import CheckpointError, ConfigError

from .certificate import make_certificate
from .execution.threads import check_owner
from .order.exclusions import Exclusions, Fitting, fitting_of, positions_of
from .order.orders import Order
from .resumed_weights import check_allowed, resumed_mixture
from .versioned_loader import VersionedLoader

_EXCLUDED = "excluded"


class SteeredLoader(VersionedLoader):
    """A loader with a ledger of samples that are left out, which its states hold.

    Attributes:
        point_numbers: How many numbers a point of the ledger has.
    """

    point_numbers: ClassVar[int]
    _ledger = Exclusions()

    @property
    @abstractmethod
    def _drawn_order(self) -> Order:
        """The order of the draws."""

    @property
    def _fitting(self) -> Fitting:
        """The rule that says which samples may replace an excluded one."""
        return fitting_of(self._drawn_order, len(self.dataset))

    @abstractmethod
    def _point(self, epoch: int, position: int) -> tuple[int, ...]:
        """The point of the ledger at a checkpoint's position."""

    @abstractmethod
    def _first_draw(self, state: Any) -> int:
        """The first draw, over all epochs, that may have other weights after a resume; 0 without a state."""

    @abstractmethod
    def _use_ledger(self, ledger: Exclusions) -> None:
        """Draw by another ledger from now on."""

    @abstractmethod
    def _batches_to_json(self) -> dict[str, Any]:
        """Arguments that decide batches and are not part of the identity, as JSON data for certificates."""

    def exclude(self, keys: str | int | Iterable[str | int], *, from_step: int | None = None) -> int:
        """Leave samples out of all batches to come; all other samples stay where they are.

        A substitute replaces each of these samples: another one of the epoch, of the same dataset of a
        mixture, and with :class:`stoker.ClassBalanced` of the same class. Only the seed and the number of the
        draw decide which. A substitute of text fits into the row of the sequence that it replaces. If the
        sizes of images plan the batches, the substitute has the same shape of ``AspectBuckets`` or group of
        aspect ratios, and with ``Patches`` at most as many patches. Padding and the partners of combined
        images, such as those of ``Mosaic``, get substitutes, too. Batches that were made ahead are
        made anew. Past batches stay as they were, also for :meth:`batch`.

        Call it on all ranks between the same two batches, or agree on ``from_step``. States hold the list of
        these samples, so the same samples are left out after a resume, on any number of ranks.

        Args:
            keys: Keys of samples, as the column "key" has them, or their positions, as "row" has them.
            from_step: Number of the first batch without them, as ``enumerate(loader)`` counts in the running
                pass. None is the batch that comes next. After a resume on another number of ranks, text
                leaves the samples out at once.

        Returns:
            The number of that batch.

        Raises:
            ConfigError: There is no such sample, the batch was received already, no substitute would be left,
                or captions are packed beside patches.
        """
        check_owner(self._owner)
        positions = positions_of(self.dataset, [keys] if isinstance(keys, (str, int)) else keys)
        if not len(positions):
            raise ConfigError("exclude needs the key of a sample, found none")
        self._check_exclusion()
        excluded = self._ledger.after((0,) * self.point_numbers, positions).positions
        self._fitting.check_rest(excluded)
        first = 0

        def change() -> None:
            nonlocal first
            first, epoch, position = self._first_batch(from_step)
            self._use_ledger(self._ledger.after(self._point(epoch, position), positions))

        self._change(change)
        return first

    def certificate(self) -> dict[str, Any]:
        """Return digests of everything that decides the batches of this training, as JSON data.

        Two runs with the same ``digest`` see the same batches. Otherwise the other entries tell what differs:
        ``data``, a tree of SHA-256 over the files of each dataset (RFC 6962); ``order``, the order of samples
        and those excluded; ``transforms``, everything that decides the content of samples; ``batches``, the
        samples of a step on all ranks (or their pixels or tokens, whichever the loader was given) and the
        arguments ``last_batch``, ``on_error``, ``exact``, ``max_pixels`` and ``verify``; the number of ranks;
        the engine; and the versions of libraries, with the decoders of images. ``stoker verify
        --certificate`` compares data with a certificate. Conversions keep the SHA-256 of their files. For
        other datasets the first call reads all bytes, and keeps the SHA-256 in the user's cache folder.

        Raises:
            ConfigError: A dataset without kept SHA-256 is remote.
            DatasetError: ``sha256.json`` of a dataset is damaged.
        """
        return make_certificate(
            self.dataset,
            self._identity,
            self._ledger,
            batches=self._batches_to_json(),
            world_size=self._ranks.world_size,
            engine=self._totals.engine,
        )

    def _check_exclusion(self) -> None:
        """Raise ConfigError if the loader's batches cannot take substitutes."""

    def _first_batch(self, from_step: int | None) -> tuple[int, int, int]:
        """The number of a batch in its pass, its epoch, and the checkpoint's position before it."""
        progress = self._progress
        if progress is None or progress.received == len(progress.steps):
            state = self._state()
            epoch, steps, received = state.epoch, self._schedule(state.epoch, state.position), 0
        else:
            epoch, steps, received = progress.epoch, progress.steps, progress.received
        first = received if from_step is None else whole_number("from_step", from_step, 0)
        if not received <= first < len(steps):
            raise ConfigError(
                f"from_step must be from {received}, the next batch of the pass, to {len(steps) - 1}, "
                f"found {first}"
            )
        return first, epoch, steps.consumed(first)

    def state_dict(self) -> dict[str, Any]:
        """Return the loader's state, with the samples that are left out if there are any."""
        state = super().state_dict()
        return {**state, _EXCLUDED: self._ledger.to_json()} if self._ledger else state

    def _prepared(self, state: Any, allow: Collection[str]) -> tuple[Any, Exclusions]:
        """Go to the version and the weights of a state; return the state without ledger, and its ledger."""
        check_allowed(allow)
        state, ledger = self._without_ledger(self._go_to_version(state))
        first = self._first_draw(state)
        mixture = resumed_mixture(self.dataset, self._drawn_order, state, first, allow)
        if mixture is None:
            return state, ledger
        if not self._knows_arguments:
            raise CheckpointError(
                "a class derived from a loader cannot change the weights of its mixture",
                hint="Use the loader itself.",
            )
        self._given_dataset = mixture
        self._begin_anew(mixture)
        identity = {**state["identity"], "order": repr(self._drawn_order)}
        return {**state, "identity": identity}, ledger

    def _without_ledger(self, state: Any) -> tuple[Any, Exclusions]:
        """Return a state of this dataset without its ledger, and the ledger."""
        if not isinstance(state, Mapping) or _EXCLUDED not in state:
            return state, Exclusions()
        ledger = Exclusions.from_json(state[_EXCLUDED], len(self.dataset), self.point_numbers)
        return {name: value for name, value in state.items() if name != _EXCLUDED}, ledger
