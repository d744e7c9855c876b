"""One stop from its beginning to its end: evidence, verdict, hooks, each written down before it is begun.

What an earlier watch began is never begun again: where it ended, its end stands; where it did not, what it left is
used, and the gap is said.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from rankmuster.collect.deadline import Deadline
from rankmuster.report.inert import plain
from rankmuster.watch.respond import hooks, steps
from rankmuster.watch.respond.journal import Hold, Journal, NotRecorded, hold
from rankmuster.watch.respond.notice import StopNotice
from rankmuster.watch.respond.outcome import ENDING, OFF, RUNNING, WAITING, Ended, HookEnded, StepEnding, StopOutcome
from rankmuster.watch.respond.past import STOP, Entry, Key, Past, Phase
from rankmuster.watch.respond.places import (
    TOLD,
    VERDICT,
    Unreadable,
    collector_endings,
    count_bundles,
    find_bundle,
    folder_name,
    read_verdict,
)
from rankmuster.watch.respond.steps import COLLECT_GRACE, COLLECT_MARGIN, Means
from rankmuster.watch.respond.told import body
from rankmuster.watch.respond.views import as_json, view_of


class Response:
    """One stop's. `tell`: called with what is known so far, whenever that changes. `unwritten`: steps of this program
    that could not be written down, by key; they are not done twice either, as long as it lives."""

    def __init__(
        self,
        means: Means,
        journal: Journal,
        notice: StopNotice,
        tell: Callable[[StopOutcome], None],
        unwritten: set[tuple[Key, str]],
    ) -> None:
        self._means = means
        self._journal = journal
        self._key = Key(notice.host, notice.instance, notice.incarnation)
        self._tell = tell
        self._unwritten = unwritten
        self._past: Past | None = None
        self._did = False
        stop = means.config.on_stop
        self._said = StopOutcome(
            notice,
            number=1,
            folder=None,
            collect=WAITING if stop.collect else OFF,
            diagnose=WAITING if stop.collect and stop.diagnose else OFF,
            hooks=tuple(HookEnded(one.kind, hooks.name_of(one), WAITING) for one in stop.hooks),
        )

    def run(self) -> StopOutcome:
        """Does what there is to do, and returns by the sum of the deadlines."""
        self._say()
        lock: Hold | None = None
        try:
            try:
                lock = self._take()
            except NotRecorded as error:
                self._without_record(str(error))
            else:
                if lock is None:
                    return self._left_to_others()
                self._evidence(lock)
            self._call_hooks()
            self._say(repeated=not self._did)
            self._end()
        finally:
            if lock is not None:
                lock.close()
        return self._said

    def _say(self, **changes: object) -> None:
        self._said = replace(self._said, **changes)  # type: ignore[arg-type]
        self._tell(self._said)

    def _take(self) -> Hold | None:
        """The response that this stop belongs to, with its folder's lock. Raises NotRecorded."""
        now, stop = self._means.unix_now(), self._means.config.on_stop
        past, _ = self._journal.claim(
            self._key, now, stop.again_seconds, lambda number: folder_name(self._key, number, now)
        )
        folder = self._journal.folder / past.folder
        self._say(number=past.number, folder=folder)
        # Whoever is at work there, or a collection that outlived its watch, is waited for as long as that may take.
        patience = stop.deadline + COLLECT_MARGIN + COLLECT_GRACE
        lock = hold(folder, Deadline.after(patience, self._means.clock), self._means.hurry)
        if lock is not None:
            try:
                self._past = self._journal.past(self._key) or past
            except NotRecorded:
                lock.close()
                raise
        return lock

    def _left_to_others(self) -> StopOutcome:
        why = "another watch with the same folder is at it"
        if self._means.hurry():
            why = ENDING
        ended = Ended(StepEnding.NOT_DONE, why)
        self._say(
            collect=ended if self._said.collect is WAITING else self._said.collect,
            diagnose=ended if self._said.diagnose is WAITING else self._said.diagnose,
            hooks=tuple(replace(one, ended=ended) for one in self._said.hooks),
            repeated=True,
        )
        return self._said

    def _without_record(self, why: str) -> None:
        """Nothing can be kept: then no evidence either, but whoever is to be told is told."""
        ended = Ended(StepEnding.FAILED, why)
        told = f"{why}: after a restart of the watch its hooks may be called a second time"
        self._say(
            folder=None,
            collect=ended if self._said.collect is WAITING else self._said.collect,
            diagnose=Ended(StepEnding.NOT_DONE, "there is no bundle")
            if self._said.diagnose is WAITING
            else self._said.diagnose,
            notes=(*self._said.notes, told),
        )
        self._did = (self._key, "evidence") not in self._unwritten
        self._unwritten.add((self._key, "evidence"))

    def _evidence(self, lock: Hold) -> None:
        folder = self._said.folder
        assert folder is not None
        if self._said.collect is WAITING:
            self._say(collect=RUNNING)
            ended = self._once("collect", lambda: self._collect(folder, lock))
            bundle = find_bundle(folder)
            if bundle is not None and ended.ending is StepEnding.FAILED and ended.repeated and ended.status is None:
                ended = replace(ended, ending=StepEnding.DONE, note=f"{ended.note}; the bundle that exists is used")
            self._say(collect=ended, bundle=bundle, collectors=collector_endings(bundle) if bundle is not None else {})
        if self._said.diagnose is WAITING:
            self._diagnose(folder)

    def _collect(self, folder: Path, lock: Hold) -> Ended:
        return steps.collect(self._means, self._said.notice, folder, lock.descriptor)

    def _objection(self) -> Ended | None:
        """Why no bundle is taken."""
        most = self._means.config.on_stop.most_bundles
        try:
            count = count_bundles(self._journal.folder)
        except OSError as error:
            return Ended(StepEnding.FAILED, f"{self._journal.folder} cannot be listed ({error.strerror or error})")
        if count < most:
            return None
        what = f"{self._journal.folder} holds {count} bundles, and most_bundles is {most}: move some elsewhere"
        return Ended(StepEnding.NOT_DONE, what)

    def _diagnose(self, folder: Path) -> None:
        bundle = self._said.bundle
        if bundle is None:
            self._say(diagnose=Ended(StepEnding.NOT_DONE, "there is no bundle"))
            return
        self._say(diagnose=RUNNING)
        ended = self._once("diagnose", lambda: steps.diagnose(self._means, bundle, folder))
        verdict = None
        with contextlib.suppress(Unreadable):
            _, verdict = read_verdict(folder / VERDICT)
        if verdict is not None and ended.ending is StepEnding.FAILED and ended.repeated and ended.status is None:
            ended = replace(ended, ending=StepEnding.DONE, note=f"{ended.note}; the verdict that exists is used")
        self._say(diagnose=ended, verdict=verdict)
        if not ended.repeated and ended.ending is StepEnding.DONE:
            note = steps.write_report(self._means, bundle, folder)
            if note is not None:
                self._say(notes=(*self._said.notes, note))

    def _call_hooks(self) -> None:
        told = False
        for place, hook in enumerate(self._means.config.on_stop.hooks):
            if self._said.folder is not None and not told:
                self._put_told(self._said.folder)
                told = True
            self._hook_is(place, RUNNING)
            said = self._said
            step = hooks.step_of(hook)
            self._hook_is(place, self._once(step, lambda hook=hook, said=said: hooks.call(self._means, hook, said)))  # type: ignore[misc]

    def _hook_is(self, place: int, ended: Ended) -> None:
        changed = list(self._said.hooks)
        changed[place] = replace(changed[place], ended=ended)
        self._say(hooks=tuple(changed))

    def _put_told(self, folder: Path) -> None:
        """What the hooks are given, for whoever wants to see it later. Its absence harms nobody."""
        with contextlib.suppress(OSError):
            descriptor = os.open(
                folder / TOLD, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
            )
            with os.fdopen(descriptor, "wb") as file:
                file.write(body(self._said) + b"\n")

    def _once(self, step: str, do: Callable[[], Ended]) -> Ended:
        """Does it unless it was ever begun, and writes down before that it is, and after that how it ended."""
        seen = self._past.steps.get(step) if self._past is not None else None
        if seen is not None and seen.ending is StepEnding.NOT_DONE:
            seen = None
        if seen is not None and seen.phase is Phase.ENDED and seen.ending is not None:
            return Ended(seen.ending, seen.note, seen.status, seen.seconds, repeated=True)
        if seen is not None:
            note = f"a watch began it at {_clock(seen.time)} and did not see its end; it is not begun again"
            return Ended(StepEnding.FAILED, note, repeated=True)
        if (self._key, step) in self._unwritten:
            return Ended(StepEnding.NOT_DONE, "it was done before for this incarnation", repeated=True)
        if self._means.hurry():
            return Ended(StepEnding.NOT_DONE, ENDING)
        if step == "collect" and (objection := self._objection()) is not None:
            return objection
        try:
            self._record(step, Phase.BEGUN)
        except NotRecorded as error:
            if not step.startswith("hook-"):
                return Ended(StepEnding.FAILED, str(error))
            # Not to be told at all of a stop is worse than to be told twice.
            self._unwritten.add((self._key, step))
        self._did = True
        ended = do()
        try:
            self._record(step, Phase.ENDED, ended)
        except NotRecorded as error:
            self._say(notes=(*self._said.notes, plain(error)))
        return ended

    def _record(self, step: str, phase: Phase, ended: Ended | None = None) -> None:
        if self._said.folder is None:
            raise NotRecorded("there is no folder for a record")
        entry = Entry(self._key, self._said.number, step, phase, self._means.unix_now(), self._said.folder.name)
        if ended is not None:
            entry = replace(
                entry, ending=ended.ending, note=plain(ended.note, 600), status=ended.status, seconds=ended.seconds
            )
        self._journal.write(entry)

    def _end(self) -> None:
        """Writes the whole down, once nothing of it is left to the next watch."""
        past_ended = self._past is not None and self._past.ended
        left = any(one.note == ENDING for one in self._all_ended())
        if self._said.folder is None or left or (past_ended and self._said.repeated):
            return
        entry = Entry(self._key, self._said.number, STOP, Phase.ENDED, self._means.unix_now(), self._said.folder.name)
        try:
            self._journal.write(replace(entry, view=as_json(view_of(self._said))))
        except NotRecorded as error:
            self._say(notes=(*self._said.notes, plain(error)))

    def _all_ended(self) -> tuple[Ended, ...]:
        return (self._said.collect, self._said.diagnose, *(one.ended for one in self._said.hooks))


def _clock(unix: float) -> str:
    try:
        return datetime.fromtimestamp(unix, timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, OSError, ValueError):
        return "an unknown time"
