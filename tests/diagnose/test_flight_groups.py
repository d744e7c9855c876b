"""Groups over all dumps, where a dump's own table does not say who is in them (gloo's is broken)."""

from __future__ import annotations

import json

from build_flight import dumps as played
from build_flight import judge, one_group

from rankmuster.evidence.blob import Blob


def _gloo(tops: dict[int, dict[str, object]]) -> dict[int, dict[str, object]]:
    """The same dumps with the table that gloo writes."""
    return {rank: {**top, "pg_config": {"": {"name": "", "desc": "", "ranks": "[]"}}} for rank, top in tops.items()}


def test_a_rank_without_a_dump_is_a_member_of_the_group_that_holds_everybody() -> None:
    tops = _gloo(played(one_group(4)))
    del tops[2]
    facts = {
        "instance": "llm-0",
        "world_size": 4,
        "processes": [{"rank": rank, "pid": 100 + rank, "host": "n0", "exit_code": None} for rank in range(4)],
    }
    diagnosis = judge(tops, Blob("instance.json", json.dumps(facts).encode()))
    (group,) = diagnosis.job.groups
    assert group.members == (0, 1, 2, 3)
