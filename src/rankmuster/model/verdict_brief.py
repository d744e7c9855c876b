"""A verdict short enough for a row of a journal: whom it names, how sure it is, who was blind, what would decide.

The whole one lies in its file beside the evidence; a post-mortem is read when that has long gone.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from rankmuster.model.fault import Role
from rankmuster.model.verdict import Verdict
from rankmuster.model.verdict_json import verdict_to_plain

MOST_CHARACTERS = 48 << 10
"""As JSON: what an event of a journal keeps is 64 KiB at most."""

_TRIES = ((64, 8, 1_000), (16, 4, 400), (4, 0, 120))
"""(suspects, findings, characters of a text) that are kept, until it is short enough."""


def brief(verdict: Verdict, most: int = MOST_CHARACTERS) -> dict[str, Any]:
    """As plain values, in the schema's own names: without victims, unread files and findings that led nowhere."""
    accused = tuple(one for one in verdict.suspects if one.role is not Role.VICTIM)
    led = tuple(one for one in verdict.findings if one.led_to_verdict)
    found: dict[str, Any] = {}
    for suspects, findings, length in _TRIES:
        found = verdict_to_plain(
            replace(
                verdict,
                summary=verdict.summary[:length],
                suspects=tuple(replace(one, why=one.why[:length]) for one in accused[:suspects]),
                suspect_hosts=verdict.suspect_hosts[:suspects],
                findings=tuple(
                    replace(one, statement=one.statement[:length], evidence=one.evidence[:findings])
                    for one in led[:findings]
                ),
                planes=tuple(replace(one, note=one.note[:length]) for one in verdict.planes[:32]),
                would_decide=tuple(line[:length] for line in verdict.would_decide[:findings]),
                unread=(),
                problems=(),
                first_divergence=None if findings == 0 else verdict.first_divergence,
                recovery=replace(verdict.recovery, steps=(), do_not=()),
            )
        )
        if len(json.dumps(found)) <= most:
            break
    return found
