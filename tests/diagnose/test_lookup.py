"""Who is who, where the evidence is incomplete."""

from __future__ import annotations

import json
from typing import Any

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


def test_samples_that_name_no_host_belong_to_nobody_where_two_hosts_have_such_a_gpu() -> None:
    facts = json.loads(instance(2, None, ["10.0.0.1", "10.0.0.2"]).data)
    for process in facts["processes"]:
        process["gpu"] = 0
    rows = [{"time": T0 + second, "gpu": 0, "sm_util_percent": 100} for second in range(10)]
    assert _tracked(facts, rows) == []
    assert _tracked(facts, [{**row, "host": "10.0.0.2"} for row in rows]) == [1]


def test_a_gpu_of_another_uuid_is_another_gpu_whatever_its_index() -> None:
    facts = json.loads(instance(1).data)
    facts["processes"][0] |= {"gpu": 0, "gpu_uuid": "GPU-11111111-2222-3333-4444-555555555555"}
    host = facts["processes"][0]["host"]
    row = {"host": host, "gpu": 0, "sm_util_percent": 100}
    for uuid, ranks in (("GPU-11111111-2222-3333-4444-555555555555", [0]), ("GPU-99999999-2222-3333-4444-5555", [])):
        assert _tracked(facts, [{**row, "time": T0 + second, "uuid": uuid} for second in range(10)]) == ranks


def _tracked(facts: dict[str, Any], rows: list[dict[str, object]]) -> list[int]:
    """The ranks that the samples were tied to."""
    samples = Blob("gpu-counters.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode())
    return sorted(diagnose(gather([Blob("instance.json", json.dumps(facts).encode()), samples])).job.tracks)
