"""A gateway behind the operator's own HTTP server: verbs by POST (`rankmuster.traffic/1`), the state by GET."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rankmuster.adapters.http_call import server_of
from rankmuster.adapters.webhook_call import NotSeen, ask, post, text_of
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Answer, Ending, TrafficLook, TrafficState

SCHEMA = "rankmuster.traffic/1"

POLL_SECONDS = 0.1

SLACK_PERCENT = 5.0
"""That a weight may differ from what was asked for: gateways keep whole numbers."""

STOPPED = (TrafficState.STOPPED, TrafficState.CUT, TrafficState.ABSENT)

NO_LOOK = "there is no look_url: nobody can look"


class WebhookTraffic:
    """A Traffic. `instance`: whose, for the server.

    `unique`: for the Idempotency-Key; a new one for each call, since each verb may be wanted again.
    """

    def __init__(
        self,
        name: str,
        url: str,
        look_url: str | None = None,
        header_file: Path | None = None,
        *,
        instance: str,
        pause: Callable[[float], None] = time.sleep,
        unique: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        self._name, self._instance, self._url, self._look_url = name, instance, url, look_url
        self._headers, self._pause, self._unique = header_file, pause, unique

    @property
    def name(self) -> str:
        """As the journal calls it."""
        return self._name

    def look(self, deadline: Deadline) -> TrafficLook:
        """As the server says it; what it does not say is None, and a state that nobody knows UNKNOWN."""
        if self._look_url is None:
            return TrafficLook(state=TrafficState.UNKNOWN, note=NO_LOOK)
        try:
            found = ask(self._look_url, self._headers, deadline)
            state = TrafficState(found.get("state"))
        except NotSeen as error:
            return TrafficLook(state=TrafficState.UNKNOWN, note=str(error))
        except ValueError:
            note = f"{server_of(self._look_url)} answered with no state that is known ({text_of(found, 'state')})"
            return TrafficLook(state=TrafficState.UNKNOWN, note=note)
        return TrafficLook(
            state=state,
            running=_count(found, "running"),
            queued=_count(found, "queued"),
            percent=_number(found, "percent"),
            note=text_of(found, "note"),
        )

    def stop_new(self, reason: str, deadline: Deadline) -> Answer:
        """Verb `stop_new`."""
        return self._do("stop_new", lambda seen: seen.state in STOPPED, deadline, reason=reason)

    def cut(self, reason: str, deadline: Deadline) -> Answer:
        """Verb `cut`. The server may answer with `requests`: how many were hit."""
        return self._do("cut", lambda seen: seen.state in STOPPED[1:], deadline, reason=reason)

    def set_weight(self, percent: float, deadline: Deadline) -> Answer:
        """Verb `set_weight`, with `percent`. A gateway without weights answers 501."""

        def holds(seen: TrafficLook) -> bool:
            return seen.percent is not None and abs(seen.percent - percent) <= SLACK_PERCENT

        return self._do("set_weight", holds, deadline, percent=percent)

    def restore(self, deadline: Deadline) -> Answer:
        """Verb `restore`: at full weight."""

        def holds(seen: TrafficLook) -> bool:
            return seen.state is TrafficState.READY and (seen.percent is None or seen.percent >= 100 - SLACK_PERCENT)

        return self._do("restore", holds, deadline)

    def would(self, verb: str, *, percent: float | None = None) -> tuple[str, ...]:
        """The POST of `verb` (a Verb), without what may be secret in its address."""
        value = self._value(str(getattr(verb, "value", verb)), percent=percent)
        return (f"POST {server_of(self._url)}/... {json.dumps(value)}",)

    def _value(self, verb: str, *, reason: str = "", percent: float | None = None) -> dict[str, Any]:
        return {"schema": SCHEMA, "verb": verb, "instance": self._instance, "percent": percent, "reason": reason}

    def _do(self, verb: str, holds: Callable[[TrafficLook], bool], deadline: Deadline, **more: Any) -> Answer:
        """Posts it, and looks until it holds where one can look."""
        answer = post(self._url, self._headers, f"{verb}-{self._unique()}", self._value(verb, **more), deadline)
        if self._look_url is None or answer.ending not in (Ending.DONE, Ending.PARTIAL):
            note = f"{answer.note}; {NO_LOOK}" if self._look_url is None else answer.note
            return replace(answer, note=note)
        while not holds(seen := self.look(deadline)):
            if deadline.remaining() <= POLL_SECONDS:
                shown = f"{seen.state.value}" + (f": {seen.note}" if seen.note else "")
                return replace(answer, ending=Ending.TIMED_OUT, note=f"{answer.note}; and it does not show ({shown})")
            self._pause(POLL_SECONDS)
        return replace(answer, ending=Ending.DONE)


def _number(value: Mapping[str, Any], key: str) -> float | None:
    found = value.get(key)
    good = isinstance(found, (int, float)) and not isinstance(found, bool) and 0 <= found < 1e12
    return float(found) if good and found is not None else None


def _count(value: Mapping[str, Any], key: str) -> int | None:
    found = _number(value, key)
    return int(found) if found is not None else None
