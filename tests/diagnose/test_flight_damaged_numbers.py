"""A number that no recorder counts to costs what it stands for, not the verdict."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from rankmuster.diagnose.run import examine
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.bundle import gather

FIELDS = ["record_id", "collective_seq_id", "p2p_seq_id", "op_id", "time_created_ns", "timeout_ms", "pg_id"]


def dump(rank: int, **changed: Any) -> Blob:
    entries = [
        {
            "record_id": number, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": number,
            "p2p_seq_id": 0, "op_id": number, "profiling_name": "nccl:all_reduce", "input_sizes": [[4]],
            "time_created_ns": 1_795_986_477_774_154_874 + number, "time_discovered_started_ns": None,
            "time_discovered_completed_ns": None, "input_dtypes": ["Float"], "output_sizes": [[4]],
            "output_dtypes": ["Float"], "state": "scheduled", "retired": False, "timeout_ms": 600_000, "is_p2p": False,
        }
        for number in range(3, 9)
    ]  # fmt: skip
    entries[-1].update(changed)
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    top = {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": entries}
    return Blob(f"flight/nccl_trace_rank_{rank}", pickle.dumps(top, 2))


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", [2**63 - 1, 2**62, -(2**63)])
def test_the_largest_and_the_smallest_numbers_are_survived(field: str, value: int) -> None:
    evidence = gather([dump(0, **{field: value}), dump(1)])
    assert evidence.problems == ()
    culprits = [one for one in examine(evidence).diagnosis.verdict.suspects if one.role.value == "culprit"]
    assert culprits == []
