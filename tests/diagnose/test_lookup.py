"""Who is who, where the evidence is incomplete."""

from __future__ import annotations

import json

from build_evidence import T0, Comm, even, flat_pages, instance, ras_json, steady_pages, verdict_of

from rankmuster.diagnose.run import diagnose
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.bundle import gather

ALL = (0, 1, 2, 3)


def test_a_supervisor_that_lists_only_what_still_runs_does_not_shrink_the_world() -> None:
    facts = json.loads(instance(4).data)
    del facts["world_size"]
    facts["processes"] = facts["processes"][:3]
    polls = [ras_json(T0 + t, [Comm(ALL, even(ALL, 1000), missing=(3,))]) for t in (15, 25, 35)]
    listed = Blob("instance.json", json.dumps(facts).encode())
    assert diagnose(gather([listed, *polls])).job.world_size == 4
    verdict = verdict_of([listed, *steady_pages(T0, 10), *flat_pages(T0 + 11, 40, 1500), *polls])
    assert [s.rank for s in verdict.suspects if s.role.value == "culprit"] == [3]


def test_a_process_number_that_two_hosts_share_is_told_apart_by_its_host() -> None:
    hosts = ["10.0.0.1", "10.0.0.2"]
    facts = json.loads(instance(2, None, hosts).data)
    for process in facts["processes"]:
        process["pid"] = 77
    roster = {
        rank.rank: rank for rank in diagnose(gather([Blob("instance.json", json.dumps(facts).encode())])).job.ranks
    }
    assert [(roster[rank].host, roster[rank].pid) for rank in (0, 1)] == [("10.0.0.1", 77), ("10.0.0.2", 77)]
