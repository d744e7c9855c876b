"""Openings from what people and hooks have, and what is said of what is none."""

from __future__ import annotations

import pytest

from rankmuster.incident.openings import NoOpening, by_hand, from_stop
from rankmuster.incident.seen import Seen
from rankmuster.model.fault import Progress
from rankmuster.model.incident import OpenedBy

NOW = 1030.0

STOP = {
    "schema": "rankmuster.stop/1",
    "instance": "llm-0",
    "incarnation": "i1",
    "host": "node7",
    "pids": [11, 12, "13", True, -4],
    "detected_at": 1000.5,
    "since": 990,
    "deployment": None,
    "watch": {"progress": "stopped", "reason": "8 requests running"},
    "bundle": "/var/lib/rankmuster/stops/x/bundle",
    "verdict": {"class": "collective_desync"},
}


def test_a_stop_of_a_hook_is_an_opening() -> None:
    opening = from_stop(STOP, "here", NOW)
    assert (opening.instance, opening.incarnation, opening.by) == ("llm-0", "i1", OpenedBy.STOPPED)
    assert (opening.at, opening.since, opening.host, opening.pids) == (1000.5, 990.0, "node7", (11, 12))
    assert opening.bundle == "/var/lib/rankmuster/stops/x/bundle"
    assert opening.verdict == {"class": "collective_desync"}


def test_a_stop_that_is_told_late_has_all_the_time_of_the_runbook() -> None:
    """Counted from its detection, the total deadline would have passed before anything was done."""
    late = from_stop(STOP, "here", 1000.5 + 900)
    assert (late.at, late.since) == (1900.5, 990.0)
    unknown = from_stop({**STOP, "since": None}, "here", 1000.5 + 900)
    assert (unknown.at, unknown.since) == (1900.5, 1000.5)


def test_a_slow_one_is_opened_as_slow() -> None:
    raw = {**STOP, "watch": {"progress": "slow", "reason": ""}}
    assert from_stop(raw, "here", NOW).by is OpenedBy.SLOW


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ([], "its schema is 'list'"),
        ({}, "its schema is 'None'"),
        ({**STOP, "schema": "rankmuster.stop/2"}, "wanted is 'rankmuster.stop/1'"),
        ({**STOP, "instance": 7}, "names no instance"),
        ({**STOP, "watch": None}, "names no instance"),
        ({**STOP, "watch": {"progress": "hung"}}, "progress is 'hung'"),
        ({**STOP, "watch": {"progress": "advancing"}}, "progress is advancing"),
        ({**STOP, "watch": {"progress": ["stopped"]}}, "which is none"),
        ({**STOP, "detected_at": 1_000_500.0}, "after now: it is unix seconds"),
        ({**STOP, "detected_at": 1e308}, "after now"),
        ({**STOP, "detected_at": 1000.5 - 90_000}, "leave --stop out"),
        ({**STOP, "detected_at": None}, "when it was detected"),
        ({**STOP, "detected_at": True}, "when it was detected"),
        ({**STOP, "detected_at": float("nan")}, "when it was detected"),
    ],
)
def test_what_is_no_stop_is_refused(raw: object, said: str) -> None:
    with pytest.raises(NoOpening) as refused:
        from_stop(raw, "here", NOW)
    assert said in str(refused.value)


def test_by_hand_the_watch_counts_before_the_verdict() -> None:
    seen = Seen(Progress.STOPPED, "i3", 995.0, 990.0)
    opening = by_hand("llm-0", now=1000.0, host="h", seen=seen, verdict={"progress": "advancing"})
    assert (opening.progress, opening.incarnation, opening.since) == (Progress.STOPPED, "i3", 990.0)
    assert opening.by is OpenedBy.OPERATOR
    assert by_hand("llm-0", now=1.0, host="h", seen=None, verdict={"progress": "slow"}).progress is Progress.SLOW
    assert by_hand("llm-0", now=1.0, host="h", seen=None).progress is Progress.UNKNOWN
    with pytest.raises(NoOpening):
        by_hand("llm-0", now=1.0, host="h", seen=None, verdict={"progress": 4})
