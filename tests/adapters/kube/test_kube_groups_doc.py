"""docs/kubernetes-groups.md is held against the program."""

from __future__ import annotations

from pathlib import Path

from rankmuster.adapters.kube.groups.leader_worker_set import COLLECT_SECONDS
from rankmuster.adapters.kube.groups.waiting import KILL_MARGIN
from rankmuster.adapters.kube.naming import profile_config_map
from rankmuster.adapters.kube.pods import GPU_RESOURCES, GRACE
from rankmuster.model.kube import WorkloadKind

TEXT = (Path(__file__).parents[3] / "docs" / "kubernetes-groups.md").read_text(encoding="utf-8")


def test_the_numbers_and_names_are_the_program_s() -> None:
    flat = " ".join(TEXT.split())
    for words in (
        f"told to end after {COLLECT_SECONDS:.0f} s are deleted",
        f"`terminationGracePeriodSeconds` ({GRACE} by default)",
        f"at least {2 * KILL_MARGIN:.0f} s more",
        f"outlives its grace period by {KILL_MARGIN:.0f} s",
        f"`{profile_config_map('WORKLOAD')}`",
        f"`{GPU_RESOURCES}`",
        *(f"| {kind.value} |" for kind in WorkloadKind),
    ):
        assert words in flat, words
