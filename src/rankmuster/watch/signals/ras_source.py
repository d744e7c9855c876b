"""What polls of RAS and its events have in common: the way to it, when it is asked again, and what is said once."""

from __future__ import annotations

from rankmuster.collect.target import Target
from rankmuster.model.fault import Phase, Progress
from rankmuster.model.plane import Plane
from rankmuster.watch.signals.ras_access import RasAccess
from rankmuster.watch.signals.ras_pace import Pace
from rankmuster.watch.signals.signal import Declined, Failed, Said


class RasSource:
    """`first_pause`: seconds after a first failure (`Pace`)."""

    plane = Plane.RAS

    def __init__(self, access: RasAccess, first_pause: float) -> None:
        self.access = access
        self._pace = Pace(first_pause)
        self._declined: str | None = None
        self._incarnation = access.incarnation

    def tell(self, progress: Progress, phase: Phase | None = None, *, reason: str = "", held: bool = False) -> None:
        """The watch's newest judgement, after every look; see `RasAccess.tell`. Until then nothing is asked."""
        self.access.tell(progress, phase, reason=reason, held=held)

    def retarget(self, target: Target) -> None:
        """The instance as it is now."""
        self.access.retarget(target)

    def _begun_anew(self) -> bool:
        """Whether this is another incarnation than at the last call; what failed was the one before then."""
        if self._incarnation == self.access.incarnation:
            return False
        self._incarnation = self.access.incarnation
        self._pace.reset()
        return True

    def _may_ask(self) -> bool:
        return self.access.told and not self.access.held and self._pace.due(self.access.clock())

    def _decline(self, reason: str) -> tuple[Said, ...]:
        if reason == self._declined:
            return ()
        self._declined = reason
        return (Declined(self.access.clock(), self.plane, reason),)

    def _fail(self, reason: str) -> tuple[Said, ...]:
        now = self.access.clock()
        self._declined = None
        self._pace.failed(now)
        return (Failed(now, self.plane, reason),)
