"""A profile while it is being put together: what was asked for, and what one version does not read is left out."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from rankmuster.environment.place import Place
from rankmuster.environment.table import TABLE
from rankmuster.environment.variable import Engine, Reader
from rankmuster.environment.version import Version, written
from rankmuster.model.fault import FaultClass, Subkind


class ProfileName(str, Enum):
    """STEADY: always on, cheap. PREPROD: more, where load is not paid for. INCIDENT: most, for a while."""

    STEADY = "steady"
    PREPROD = "preprod"
    INCIDENT = "incident"


@dataclass(frozen=True, slots=True)
class Request:
    """What the operator asked for. `buffer` in entries, `window` in seconds; at most one of the two is given."""

    profile: ProfileName
    torch: Version
    nccl: Version
    place: Place
    engine: Engine | None = None
    suspect: FaultClass | Subkind | None = None
    buffer: int | None = None
    window: float | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """One variable to set. `cost`: what it costs, in words; empty where it costs nothing worth a word."""

    name: str
    value: str
    reason: str
    cost: str = ""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A variable that this profile would set, and why it does not."""

    name: str
    why: str


@dataclass
class Draft:
    """Settings in the order in which they were made."""

    request: Request
    settings: list[Setting] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)

    def set(self, name: str, value: str | int, reason: str, cost: str = "") -> None:
        """Sets a variable, or says that this version does not read it."""
        row = TABLE[name]
        version = self.version_of(row.reader)
        if version is not None and not row.read_by(version):
            since = f"it is read from {row.reader.value} {written(row.since)} on" if row.since else "no longer read"
            self.left_out.append(LeftOut(name, f"{row.reader.value} {written(version)} does not read it; {since}"))
            return
        self.settings.append(Setting(name, str(value), reason, cost))

    def set_newest(self, name: str, older: str, value: str | int, reason: str, cost: str = "") -> None:
        """Sets the newer name where it is read, else the older one."""
        if TABLE[name].read_by(self.request.torch):
            self.set(name, value, reason, cost)
        else:
            self.set(older, value, reason, cost)

    def version_of(self, reader: Reader) -> Version | None:
        """The version asked for; None for readers of which none was."""
        return {Reader.TORCH: self.request.torch, Reader.NCCL: self.request.nccl}.get(reader)
