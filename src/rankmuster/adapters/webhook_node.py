"""Nodes that the operator's own HTTP server keeps from new work: by POST (`rankmuster.node/1`), the state by GET."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rankmuster.adapters.http_call import server_of
from rankmuster.adapters.webhook_call import NotSeen, ask, post, text_of
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Answer, Ending, Fenced, NodeLook

SCHEMA = "rankmuster.node/1"

POLL_SECONDS = 0.1

NO_LOOK = "there is no look_url: nobody can look"


class WebhookNode:
    """A Node. The Idempotency-Key is `INCIDENT/VERB/NODE`: the same after a crash."""

    def __init__(
        self,
        name: str,
        url: str,
        look_url: str | None = None,
        header_file: Path | None = None,
        *,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._name, self._url, self._look_url = name, url, look_url
        self._headers, self._pause = header_file, pause

    @property
    def name(self) -> str:
        """As the journal calls it."""
        return self._name

    def look(self, node: str, deadline: Deadline) -> NodeLook:
        """`fenced` true with an `incident` is ours, without one somebody else's."""
        if self._look_url is None:
            return NodeLook(fenced=Fenced.UNKNOWN, note=NO_LOOK)
        try:
            found = ask(self._look_url.replace("{node}", quote(node, safe="")), self._headers, deadline)
        except NotSeen as error:
            return NodeLook(fenced=Fenced.UNKNOWN, note=str(error))
        fenced, incident, reason = found.get("fenced"), text_of(found, "incident"), text_of(found, "reason")
        if not isinstance(fenced, bool):
            note = f"{server_of(self._look_url)} does not say of {node} whether it is fenced (`fenced`: true or false)"
            return NodeLook(fenced=Fenced.UNKNOWN, note=note)
        if not fenced:
            return NodeLook(fenced=Fenced.NO)
        if incident:
            return NodeLook(fenced=Fenced.OURS, incident=incident, reason=reason)
        return NodeLook(fenced=Fenced.OTHERS, reason=reason)

    def fence(self, node: str, incident: str, reason: str, deadline: Deadline) -> Answer:
        """Verb `fence`. What is fenced already stays as it is."""
        seen = self.look(node, deadline)
        if seen.fenced in (Fenced.OURS, Fenced.OTHERS):
            others = seen.fenced is Fenced.OTHERS
            who = "others" if others else f"incident {seen.incident}"
            note = f"{node} was fenced already by {who} ({seen.reason or 'without a reason'})"
            return Answer(ending=Ending.DONE, note=note, data={"others": others})
        return self._do("fence", node, incident, reason, Fenced.OURS, deadline)

    def lift(self, node: str, incident: str, deadline: Deadline) -> Answer:
        """Verb `lift`. Where nobody can look the server has to refuse, with 409, what is not of this incident."""
        seen = self.look(node, deadline)
        if seen.fenced is Fenced.NO:
            return Answer(ending=Ending.DONE, note=f"{node} is not fenced")
        if seen.fenced is Fenced.OTHERS or (seen.fenced is Fenced.OURS and seen.incident != incident):
            who = f"incident {seen.incident}" if seen.incident else "others"
            note = f"{node} is fenced by {who} ({seen.reason or 'without a reason'}), not by incident {incident}"
            return Answer(ending=Ending.REFUSED, note=note)
        if self._look_url is not None and seen.fenced is Fenced.UNKNOWN:
            note = f"whose fence is on {node} could not be seen, so it is not lifted: {seen.note}"
            return Answer(ending=Ending.FAILED, note=note)
        return self._do("lift", node, incident, "", Fenced.NO, deadline)

    def would(self, verb: str, node: str, incident: str, reason: str = "") -> tuple[str, ...]:
        """The POST of `verb` (a Verb), without what may be secret in its address."""
        value = self._value(str(getattr(verb, "value", verb)), node, incident, reason)
        return (f"POST {server_of(self._url)}/... {json.dumps(value)}",)

    def _value(self, verb: str, node: str, incident: str, reason: str) -> dict[str, Any]:
        return {"schema": SCHEMA, "verb": verb, "node": node, "incident": incident, "reason": reason}

    def _do(self, verb: str, node: str, incident: str, reason: str, wanted: Fenced, deadline: Deadline) -> Answer:
        key = f"{quote(incident, safe='')}/{verb}/{quote(node, safe='')}"
        answer = post(self._url, self._headers, key, self._value(verb, node, incident, reason), deadline)
        if self._look_url is None or answer.ending not in (Ending.DONE, Ending.PARTIAL):
            note = f"{answer.note}; {NO_LOOK}" if self._look_url is None else answer.note
            return replace(answer, note=note)
        while (seen := self.look(node, deadline)).fenced is not wanted:
            if seen.fenced is Fenced.OTHERS and wanted is Fenced.OURS:
                return replace(answer, ending=Ending.DONE, note=f"{node} was fenced by others", data={"others": True})
            if deadline.remaining() <= POLL_SECONDS:
                shown = f"{seen.fenced.value}" + (f": {seen.note}" if seen.note else "")
                return replace(answer, ending=Ending.TIMED_OUT, note=f"{answer.note}; and it does not show ({shown})")
            self._pause(POLL_SECONDS)
        return replace(answer, ending=Ending.DONE)
