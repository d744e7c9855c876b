"""The history of a fleet as an admission asks it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rankmuster.admission.past import Kin
from rankmuster.model.history import ClassHistory
from rankmuster.store.history import History


class StorePast:
    """A `Past` over an open history. Raises store.errors.HistoryError from every method."""

    def __init__(self, history: History) -> None:
        self._history = history

    def history(self, class_hash: str, profile: str) -> ClassHistory | None:
        """The baseline of the class: what nobody has accepted as a new level is not in it."""
        found = self._history.class_history(class_hash, profile)
        return found if found.total else None

    def kin(self, kin_hash: str, profile: str) -> Sequence[Kin]:
        """The classes of this kin, most runs first."""
        found = self._history.kin_classes(kin_hash, profile)
        return [Kin(kin.class_hash, dict(kin.settings), kin.runs) for kin in found]

    def topologies(self, gpu_model: str, gpu_count: int) -> Mapping[str, int]:
        """By the fingerprints that are stored."""
        return self._history.topologies(gpu_model, gpu_count)
