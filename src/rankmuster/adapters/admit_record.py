"""The record of an admission that was run for an incident: read only after `rankmuster admit verify` has found it
unchanged.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from rankmuster.adapters.child import run_child
from rankmuster.adapters.into_file import ROOT, last_words, read_most
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import RetestEnding
from rankmuster.report.inert import plain

OWN = (sys.executable, "-m", "rankmuster.cli.main")
"""This program, by the interpreter that runs it."""

MOST_BYTES = 64 << 20
"""Of a record, as `rankmuster admit verify` takes it."""

_ENDINGS = {
    "pass": RetestEnding.PASS,
    "fail": RetestEnding.FAIL,
    "provisional": RetestEnding.PROVISIONAL,
    "error": RetestEnding.ERROR,
}


class NoRecord(Exception):
    """There is none that could be believed; the message says why."""


@dataclass(frozen=True, slots=True)
class Read:
    """`nodes`: as the record names them. `reason`: its first."""

    ending: RetestEnding
    nodes: tuple[str, ...]
    reason: str


def read_record(path: Path, deadline: Deadline) -> Read:
    """Raises NoRecord."""
    data = read_most(path, MOST_BYTES)
    if not data:
        raise NoRecord("it wrote no record")
    ran = run_child(
        [*OWN, "admit", "verify", str(path)],
        seconds=max(deadline.remaining() - 0.5, 0.1),
        grace=0.2,
        clock=deadline.clock,
        cwd=ROOT,
        step_back=False,
    )
    if ran.status != 0 or ran.late:
        why = "verifying it took too long" if ran.late else last_words(ran).removeprefix(f"{path}: ")
        raise NoRecord(f"its record is not believed: {why}")
    try:
        document = json.loads(data)
        ending, reasons = _ENDINGS[document["decision"]], document["reasons"]
        nodes = tuple(str(one) for one in document["nodes"])
    except (ValueError, KeyError, TypeError) as error:
        raise NoRecord(f"its record is of another form ({plain(error, 100)})") from error
    first = reasons[0] if isinstance(reasons, list) and reasons else ""
    words = first if isinstance(first, str) else first.get("statement", "") if isinstance(first, dict) else ""
    return Read(ending, nodes, plain(words, 400))
