"""What an admission asks of the history of a fleet; the store answers it, and a test's own list of runs can too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rankmuster.model.history import ClassHistory


@dataclass(frozen=True, slots=True)
class Kin:
    """A class of the same hardware and software with other settings. `runs`: complete ones of the profile."""

    class_hash: str
    settings: Mapping[str, str]
    runs: int


class Past(Protocol):
    """The history as an admission reads it. Every method may raise what the store documents; nothing is caught."""

    def history(self, class_hash: str, profile: str) -> ClassHistory | None:
        """Complete runs of one class and profile, None where there are none."""
        ...

    def kin(self, kin_hash: str, profile: str) -> Sequence[Kin]:
        """The classes of this kin that have runs of the profile, the one with most runs first."""
        ...

    def topologies(self, gpu_model: str, gpu_count: int) -> Mapping[str, int]:
        """topology hash -> how many nodes of this GPU model and count have it."""
        ...


class NoPast:
    """No history was given: a `Past` that has nothing."""

    def history(self, class_hash: str, profile: str) -> ClassHistory | None:  # noqa: ARG002  # the protocol's
        """None."""
        return None

    def kin(self, kin_hash: str, profile: str) -> Sequence[Kin]:  # noqa: ARG002  # the protocol's
        """Nobody."""
        return ()

    def topologies(self, gpu_model: str, gpu_count: int) -> Mapping[str, int]:  # noqa: ARG002  # the protocol's
        """None known."""
        return {}
