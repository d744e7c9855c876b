"""Hooks are told what people have to know, and a hook that fails or hangs holds nothing up."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from rankmuster.incident.notices import Notices
from rankmuster.model.incident import Event, EventKind, Step
from rankmuster.watch.config import CommandHook

KEEP = "import os, sys; open(os.environ['KEPT'], 'a').write(sys.stdin.read() + '\\n')"


def hook(tmp_path: Path, program: str, seconds: float = 20.0) -> CommandHook:
    return CommandHook(command=("env", f"KEPT={tmp_path / 'kept'}", sys.executable, "-c", program), seconds=seconds)


def test_opened_waiting_and_closed_are_told_with_what_was_decided(tmp_path: Path) -> None:
    failed: list[str] = []
    notices = Notices((hook(tmp_path, KEEP),), time.monotonic, failed.append)
    notices.opened("i-1", "llm-0", "8 requests running", 10.0)
    notices.close(30.0)
    told = notices.of("llm-0", {"llm-0": "i-1"})
    told(Event(kind=EventKind.STEP_BEGUN, at=11.0, step=Step.EVIDENCE))
    told(Event(kind=EventKind.DECIDED, at=12.0, data={"class": "inconclusive", "boundary": "none", "held": "why"}))
    told(Event(kind=EventKind.STEP_BEGUN, at=13.0, step=Step.APPROVE, note="waits"))
    notices.close(30.0)
    told(Event(kind=EventKind.CLOSED, at=14.0, note="nobody approved", data={"outcome": "held"}))
    notices.close(30.0)
    documents = [json.loads(line) for line in (tmp_path / "kept").read_text().splitlines()]
    assert [one["event"] for one in documents] == ["opened", "waiting", "closed"]
    assert {one["incident"] for one in documents} == {"i-1"}
    assert documents[0]["note"] == "8 requests running"
    assert (documents[1]["class"], documents[1]["held"]) == ("inconclusive", "why")
    assert documents[2]["outcome"] == "held"
    assert failed == []


def test_what_was_decided_of_one_incident_is_not_said_of_the_next(tmp_path: Path) -> None:
    notices = Notices((hook(tmp_path, KEEP),), time.monotonic, lambda _: None)
    current = {"llm-0": "i-1"}
    told = notices.of("llm-0", current)
    told(Event(kind=EventKind.DECIDED, at=12.0, data={"class": "transport_stall"}))
    current["llm-0"] = "i-2"
    told(Event(kind=EventKind.CLOSED, at=14.0, data={"outcome": "restored"}))
    notices.close(30.0)
    document = json.loads((tmp_path / "kept").read_text())
    assert (document["incident"], document["class"]) == ("i-2", None)


def test_a_hook_that_fails_hangs_or_is_not_there_is_said_and_waited_for_by_nobody(tmp_path: Path) -> None:
    failed: list[str] = []
    hooks = (
        hook(tmp_path, "raise SystemExit(3)"),
        hook(tmp_path, "import time; time.sleep(60)", seconds=0.5),
        CommandHook(command=(str(tmp_path / "nothing"),)),
    )
    notices = Notices(hooks, time.monotonic, failed.append)
    notices.opened("i-1", "llm-0", "why", 10.0)
    notices.close(30.0)
    assert len(failed) == 3
    assert all(one.startswith("opened of i-1 was not told: ") for one in failed)
    assert any("exit status 3" in one for one in failed)
    assert any("had not ended within" in one for one in failed)
