"""The operator's own commands as a process group. They are somebody else's programs: they may hang, fail, print
megabytes or garbage, and none of that reaches the runbook.

Each gets the call as JSON on its standard input and in `RANKMUSTER_INCIDENT_*`. Exit status 0 says that it did what it
was asked; what is believed is what `look` says afterwards. One that is late is ended with what it has started; what has
made itself a session of its own lives on.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rankmuster.adapters.child import environment
from rankmuster.adapters.command_answers import read_answer, read_look
from rankmuster.adapters.into_file import last_words, read_most, run_into
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Answer, Ending, GroupLook, GroupState, StartWish
from rankmuster.report.inert import plain

SCHEMA = "rankmuster.group/1"

PREFIX = "RANKMUSTER_INCIDENT_"

MOST_BYTES = 1 << 20
"""Of an answer: a look at a thousand nodes has some ten KiB."""

GRACE = 0.3
"""Between SIGTERM and SIGKILL, of a call's own time."""

MARGIN = 0.2
"""Of the deadline, kept for reading the answer."""

LOOK_SECONDS = 2.0
"""Of one look, at most: it changes nothing and may be asked again."""

POLL_SECONDS = 0.3

LIVING = (GroupState.STARTING, GroupState.RUNNING)


class CommandGroup:
    """A `Group` of `incident.actuators`. Without `look` nobody can tell what runs, and what a command says stands."""

    def __init__(
        self,
        instance: str,
        terminate: Sequence[str],
        start: Sequence[str],
        look: Sequence[str] = (),
        *,
        elsewhere: bool = False,
        name: str = "command",
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name = name
        self.elsewhere = elsewhere
        self._instance = instance
        self._terminate, self._start, self._look = tuple(terminate), tuple(start), tuple(look)
        self._pause = pause

    def look(self, deadline: Deadline) -> GroupLook:
        if not self._look:
            return GroupLook(state=GroupState.UNKNOWN, note="no command is configured that looks")
        said = self._run(self._look, {"verb": "look"}, {}, deadline.within(LOOK_SECONDS))
        if isinstance(said, Answer):
            return GroupLook(state=GroupState.UNKNOWN, note=said.note)
        try:
            return read_look(json.loads(said))
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
            note = f"{self._look[0]} printed what is no look at a group ({plain(error, 200)})"
            return GroupLook(state=GroupState.UNKNOWN, note=note)

    def terminate(self, incarnation: str | None, operation: str, deadline: Deadline) -> Answer:
        if self._look:
            before = self.look(deadline)
            if before.state is GroupState.UNKNOWN:
                return Answer(ending=Ending.FAILED, note=f"nothing was ended, since nobody can look: {before.note}")
            gone = _gone(before, incarnation)
            if gone:
                return Answer(ending=Ending.DONE, note=f"{gone}; nothing was ended")
        call = {"verb": "terminate", "incarnation": incarnation, "operation": operation}
        said = self._said(self._run(self._terminate, call, {}, deadline), "terminate")
        if said.ending is not Ending.DONE or not self._look:
            return said
        return self._until(lambda seen: _gone(seen, incarnation), said, deadline)

    def start(self, after: str | None, operation: str, wish: StartWish, deadline: Deadline) -> Answer:
        if self._look:
            before = self.look(deadline)
            if before.state is GroupState.UNKNOWN:
                return Answer(ending=Ending.FAILED, note=f"nothing was started, since nobody can look: {before.note}")
            if before.state is not GroupState.ENDED:
                if before.incarnation == after and after is not None:
                    note = f"nothing was started: incarnation {after} is still {before.state.value}"
                    return Answer(ending=Ending.FAILED, note=note)
                note = f"incarnation {before.incarnation} is {before.state.value} already; no second one was started"
                data = {"incarnation": before.incarnation, "by_others": before.operation != operation}
                return Answer(ending=Ending.DONE, note=note, data=data)
        call = {
            "verb": "start",
            "after": after,
            "operation": operation,
            "environment": dict(wish.environment),
            "avoid": list(wish.avoid),
            "suspect": wish.suspect,
        }
        said = self._said(self._run(self._start, call, wish.environment, deadline), "start")
        if said.ending is not Ending.DONE or not self._look:
            return said
        return self._until(lambda seen: _came(seen, after, operation), said, deadline)

    def would(self, verb: str, *, incarnation: str | None = None, wish: StartWish | None = None) -> tuple[str, ...]:
        """The program; its arguments may be secrets."""
        command = self._terminate if verb == "terminate" else self._start
        what = f"for incarnation {incarnation}" if incarnation is not None else ""
        avoid = f"avoiding {', '.join(wish.avoid)}" if wish is not None and wish.avoid else ""
        more = f" and {len(command) - 1} arguments" if len(command) > 1 else ""
        return (" ".join(one for one in (f"run {command[0]}{more}, {verb}", what, avoid) if one),)

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _run(
        self, command: tuple[str, ...], call: Mapping[str, Any], extra: Mapping[str, str], deadline: Deadline
    ) -> bytes | Answer:
        """What it printed; an answer where that is nothing to read."""
        seconds = deadline.remaining() - GRACE - MARGIN
        verb, who = call["verb"], plain(Path(command[0]).name, 60)
        if seconds <= 0:
            return Answer(ending=Ending.TIMED_OUT, note=f"{who} was not run for {verb}: no time was left")
        body = {"schema": SCHEMA, "instance": self._instance, **call, "seconds": round(seconds, 3)}
        given = {
            f"{PREFIX}{key.upper()}": ",".join(value) if isinstance(value, list) else str(value)
            for key, value in body.items()
            if value is not None and key not in ("schema", "environment")
        }
        with tempfile.TemporaryDirectory(prefix="rankmuster-") as folder:
            path = Path(folder) / "answer"
            ran = run_into(
                path,
                command,
                seconds=seconds,
                grace=GRACE,
                clock=deadline.clock,
                most_bytes=MOST_BYTES,
                stdin=json.dumps(body).encode() + b"\n",
                environ=environment({**extra, **given}),
            )
            data = read_most(path, MOST_BYTES)
        if ran.hurried or (data is None and not ran.problem):
            return Answer(ending=Ending.FAILED, note=f"{who} printed more than {MOST_BYTES >> 20} MiB for {verb}")
        if ran.problem:
            return Answer(ending=Ending.FAILED, note=f"{who} for {verb}: {ran.problem}")
        if ran.late:
            note = f"{who} had not ended {verb} after {ran.seconds:.1f} s, and was ended with what it had started"
            return Answer(ending=Ending.TIMED_OUT, note=note)
        answer = read_answer(data or b"", who, verb)
        if ran.status != 0 and (answer is None or answer.ending is Ending.DONE):
            how = f"exit status {ran.status}"
            words = last_words(ran)
            note = f"{who} failed to {verb}: {how}{f' ({words})' if words != how else ''}"
            return Answer(ending=Ending.FAILED, note=note)
        if answer is not None and call["verb"] != "look":
            return answer
        return data or b""

    def _said(self, said: bytes | Answer, verb: str) -> Answer:
        if isinstance(said, Answer):
            return said
        return Answer(
            ending=Ending.DONE, note=f"the command to {verb} ended well{'' if self._look else '; as it says'}"
        )

    def _until(self, holds: Callable[[GroupLook], str], said: Answer, deadline: Deadline) -> Answer:
        """Looks until it holds."""
        while True:
            seen = self.look(deadline)
            words = holds(seen)
            if words:
                data = {**said.data, **({"incarnation": seen.incarnation} if seen.state in LIVING else {})}
                return Answer(ending=Ending.DONE, note=words, data=data)
            if deadline.remaining() <= POLL_SECONDS + GRACE + MARGIN:
                note = f"{said.note}, and the group is {seen.state.value}, {seen.incarnation or 'of no incarnation'}"
                return Answer(ending=Ending.TIMED_OUT, note=f"{note}{f' ({seen.note})' if seen.note else ''}")
            self._pause(POLL_SECONDS)


def _gone(seen: GroupLook, incarnation: str | None) -> str:
    if seen.state is GroupState.ENDED:
        return "the group has ended"
    other = None not in (incarnation, seen.incarnation) and seen.incarnation != incarnation
    if other and seen.state is not GroupState.UNKNOWN:
        return f"{incarnation} is gone; {seen.incarnation} is {seen.state.value}"
    return ""


def _came(seen: GroupLook, after: str | None, operation: str) -> str:
    if seen.state not in LIVING or (seen.incarnation == after and seen.operation != operation):
        return ""
    return f"incarnation {seen.incarnation} is {seen.state.value}"
