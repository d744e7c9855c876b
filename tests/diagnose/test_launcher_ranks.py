"""A launcher's local ranks are the job's ranks on one node, and nobody's where anything says that there are more."""

from __future__ import annotations

import json
from typing import Any

import pytest
from build_evidence import HOST, T0, culprits, flat_pages, verdict_of

from rankmuster.evidence.blob import Blob
from rankmuster.model.fault import Confidence, Role, Subkind
from rankmuster.model.verdict import Verdict

KILLED_SECOND = (("18.637463", -9, 2), ("19.311408", 1, 3), ("19.409857", 1, 1), ("19.685450", 1, 0))
ABORTED_FIRST = (("18.637463", -6, 2), ("19.211408", 1, 3), ("19.309857", 1, 1), ("19.385450", 1, 0))


def launcher(deaths: tuple[tuple[str, int, int], ...], pids: int = 32_000, name: str = "logs/launcher.log") -> Blob:
    """What torchrun's monitor writes of each failed process: (seconds, exit code, local rank)."""
    lines = [
        f"E1129 21:07:{at} 28425 api.py:1] failed (exitcode: {code}) local_rank: {local} (pid: {pids + local}) of x"
        for at, code, local in deaths
    ]
    return Blob(name, "\n".join(lines).encode())


def facts(**more: Any) -> Blob:
    """The front end alone is left."""
    left = [{"rank": None, "pid": 32501, "host": HOST, "role": "helper", "state": "S"}]
    document = {"instance": "llm-0", "last_look": T0 + 60, "processes": [], "without_rank": left, **more}
    return Blob("instance.json", json.dumps(document).encode())


def verdict(*blobs: Blob) -> Verdict:
    return verdict_of([*blobs, *flat_pages(T0 + 30, 20, 500.0)])


def suspects(found: Verdict) -> list[int]:
    return sorted(s.rank for s in found.suspects if s.role is Role.SUSPECT and s.rank is not None)


def test_the_first_to_die_is_named_though_only_the_front_end_lives() -> None:
    found = verdict(facts(), launcher(KILLED_SECOND))
    assert (found.subclass, culprits(found)) == (Subkind.KILLED, [2])
    assert found.confidence in (Confidence.LIKELY, Confidence.CONFIRMED)
    assert [s.pid for s in found.suspects if s.rank == 2] == [32_002]


def test_a_living_rank_whose_two_numbers_agree_supports_it() -> None:
    alive = {"rank": 0, "local_rank": 0, "pid": 32_000, "host": HOST, "state": "S"}
    found = verdict(facts(world_size=4, processes=[alive]), launcher(KILLED_SECOND[:1]))
    assert culprits(found) == [2]


@pytest.mark.parametrize(
    "more",
    [
        {"environment": {"NNODES": "2"}},
        {"environment": {"GROUP_RANK": "1"}},
        {"environment": {"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}},
        {"world_size": 8},
        {"processes": [{"rank": 4, "local_rank": 0, "pid": 32_000, "host": HOST, "state": "S"}]},
        {"processes": [{"rank": 6, "pid": 31_000, "host": HOST, "state": "S"}]},
    ],
)
def test_what_speaks_of_more_nodes_leaves_them_without_a_rank(more: dict[str, Any]) -> None:
    found = verdict(facts(**more), launcher(KILLED_SECOND))
    assert [s for s in found.suspects if s.rank == 2 and s.role is not Role.VICTIM] == []


def test_two_launchers_are_two_nodes_or_two_attempts() -> None:
    found = verdict(facts(), launcher(KILLED_SECOND), launcher(KILLED_SECOND, 41_000, "logs/other.log"))
    assert culprits(found) == []


def test_an_abort_before_all_others_is_among_the_suspects() -> None:
    found = verdict(facts(), launcher(ABORTED_FIRST))
    assert culprits(found) == []
    assert suspects(found) == [0, 1, 2, 3]
