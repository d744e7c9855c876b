"""What opens an incident: the watch's state file, and supervisors whose process group has ended by itself.

The watch judges, this only reads it. A stop that was handled once is not handled again: not while it lasts, and not by
another runner, for the journal is asked. A watch that does not look any more says nothing, and nothing is concluded
from its silence.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rankmuster.collect.deadline import Clock, Deadline
from rankmuster.incident.actuators import Group
from rankmuster.incident.handled import handled
from rankmuster.incident.looking import Looking
from rankmuster.incident.seen import Seen
from rankmuster.model.fault import Progress
from rankmuster.model.incident import GroupLook, GroupState, IncidentHead, OpenedBy, Opening
from rankmuster.watch.export.state_file import NAME, NoState, StateRefused, freshness, read_state
from rankmuster.watch.snapshot import InstanceView, Snapshot

POLL_PATIENCE = 0.3
"""Of one poll for the answers of all supervisors: what is not there by then is taken up by the next poll."""

GROUP_SECONDS = 1.0
"""Between two questions whether a group has ended by itself."""


@dataclass(frozen=True, slots=True)
class Followed:
    """One instance that is followed. `group`: None where nothing knows its processes."""

    group: Group | None = None
    metrics_url: str | None = None


class Follower:
    """`folder`: of the watch's state file; None: nothing is followed but groups. `newest`: the newest incident of an
    instance, from the journal. Everything returns within seconds; nothing raises for expected trouble."""

    def __init__(
        self,
        folder: Path | None,
        instances: Mapping[str, Followed],
        newest: Callable[[str], IncidentHead | None],
        *,
        clock: Clock,
        unix_now: Callable[[], float],
        host: str,
    ) -> None:
        self._folder, self._instances, self._newest = folder, instances, newest
        self._clock, self._unix_now, self._host = clock, unix_now, host
        self._snapshot: Snapshot | None = None
        self._stamp: tuple[int, int, int] | None = None
        self._looking = {name: Looking(one.group, clock) for name, one in instances.items() if one.group is not None}
        self._until = Deadline.after(0.0, clock)
        self.problem: str | None = None

    def seen(self, instance: str) -> Seen | None:
        """What the watch says of it now; None where it says nothing, or does not look any more."""
        view = self._view(instance)
        if view is None or self._snapshot is None:
            return None
        return Seen(view.state, view.incarnation, self._snapshot.time, view.since, view.reason)

    def refresh(self) -> None:
        """Reads the state file where it has changed."""
        self._read()

    def poll(self) -> tuple[Opening, ...]:
        """What an incident has to be opened for, each once."""
        self._read()
        self._until = Deadline.after(POLL_PATIENCE, self._clock)
        found = []
        for name, followed in self._instances.items():
            opening = self._by_watch(name, followed) or self._by_group(name, followed)
            if opening is not None:
                found.append(opening)
        return tuple(found)

    def _read(self) -> None:
        if self._folder is None:
            return
        try:
            now = os.stat(self._folder / NAME)
            stamp = (now.st_ino, now.st_mtime_ns, now.st_size)
        except OSError:
            stamp = None
        if stamp is None or stamp != self._stamp:
            self._stamp = stamp
            try:
                self._snapshot, self.problem = read_state(self._folder), None
            except (NoState, StateRefused) as error:
                self._snapshot, self.problem = None, str(error)
        if self._snapshot is not None:
            fresh = freshness(self._snapshot, self._unix_now())
            self.problem = (
                f"the watch has not looked for {fresh.age:.0f} s: nothing is known of any instance; is it running?"
                if fresh.stale
                else None
            )

    def _view(self, instance: str) -> InstanceView | None:
        if self._snapshot is None or self.problem is not None:
            return None
        return next((one for one in self._snapshot.instances if one.name == instance), None)

    def _by_watch(self, name: str, followed: Followed) -> Opening | None:
        view = self._view(name)
        if view is None or view.state not in (Progress.STOPPED, Progress.SLOW):
            return None
        stopped = view.state is Progress.STOPPED
        looking = self._looking.get(name)
        look = looking.fresh(self._until.remaining()) if looking is not None else None
        if looking is not None and look is None:
            return None  # it has not answered yet
        if look is not None and look.state is GroupState.ENDED and look.ended_by_itself:
            return self._ended(name, followed, look)
        incarnation = view.incarnation
        if look is not None and look.incarnation is not None:
            if look.at is not None and self._snapshot is not None and look.at > self._snapshot.time:
                return None  # started anew since the watch looked
            incarnation = look.incarnation
        if self._handled(name, view.since, OpenedBy.STOPPED if stopped else OpenedBy.SLOW):
            return None
        return Opening(
            instance=name,
            incarnation=incarnation,
            by=OpenedBy.STOPPED if stopped else OpenedBy.SLOW,
            progress=view.state,
            at=self._snapshot.time if self._snapshot is not None else self._unix_now(),
            since=view.since,
            reason=view.reason,
            host=self._host,
            deployment=view.deployment,
            pids=tuple(one.pid for one in view.ranks),
            metrics_url=followed.metrics_url,
        )

    def _by_group(self, name: str, followed: Followed) -> Opening | None:
        looking = self._looking.get(name)
        look = looking.newest(GROUP_SECONDS, self._until.remaining()) if looking is not None else None
        if look is None or look.state is not GroupState.ENDED or not look.ended_by_itself:
            return None
        return self._ended(name, followed, look)

    def _ended(self, name: str, followed: Followed, look: GroupLook) -> Opening | None:
        at = look.at if look.at is not None else self._unix_now()
        if self._handled(name, at, OpenedBy.ENDED):
            return None
        status = "" if look.exit_status is None else f" with exit status {look.exit_status}"
        return Opening(
            instance=name,
            incarnation=look.incarnation,
            by=OpenedBy.ENDED,
            progress=Progress.STOPPED,
            at=self._unix_now(),
            since=at,
            reason=f"its process group ended by itself{status}: {look.note}"
            if look.note
            else f"its process group ended by itself{status}",
            host=self._host,
            pids=look.pids,
            metrics_url=followed.metrics_url,
        )

    def _handled(self, name: str, since: float, by: OpenedBy) -> bool:
        return handled(self._newest(name), since, by)
