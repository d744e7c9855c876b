"""Every pod counts its processes and its GPUs from the same number: what one pod's wrote is not another's."""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path

import pytest
import zstandard

from rankmuster.diagnose.run import diagnose
from rankmuster.evidence.bundle import load
from rankmuster.model.fault import Role, Subkind
from rankmuster.model.verdict import Verdict

CASES = Path(__file__).parents[1] / "cases"
FIRST = 20


def in_pods(case: str, folder: Path, per_pod: int) -> Verdict:
    """The verdict of a case as if `per_pod` ranks each were in a pod of their own: its name, address, pids."""
    packed = (CASES / case / "input.tar.zst").open("rb")
    with (
        packed,
        zstandard.ZstdDecompressor().stream_reader(packed) as plain,
        tarfile.open(fileobj=plain, mode="r|") as t,
    ):
        t.extractall(folder, filter="data")
    facts = json.loads((folder / "instance.json").read_text())
    rank_of = {one["pid"]: one["rank"] for one in facts["processes"]}

    def place(pid: str) -> tuple[str, str, int]:
        pod, place = divmod(rank_of[int(pid)], per_pod)
        return f"llm-{pod}", f"10.0.0.{pod + 10}", FIRST + place

    for one in facts["processes"]:
        one["host"], _, one["pid"] = place(one["pid"])
    (folder / "instance.json").write_text(json.dumps(facts))
    for path in sorted((folder / "nccl").iterdir()):
        host, address, pid = place(path.stem.rpartition("_")[2])
        text = re.sub(r"vm:(\d+):(\d+)", lambda m, h=host, p=pid: f"{h}:{p}:{m[2]}", path.read_text())  # type: ignore[misc]
        path.with_name(f"nccl_{host}_{pid}.log").write_text(text.replace("192.0.2.2", address))
        path.unlink()
    for path in (folder / "ras").iterdir():
        text = re.sub(
            r'"host": "[^"]*",(\s+)"pid": (\d+)',
            lambda m: f'"host": "{place(m[2])[1]}",{m[1]}"pid": {place(m[2])[2]}',
            path.read_text(),
        )
        text = re.sub(
            r"process (\d+) on node [0-9.]+", lambda m: f"process {place(m[1])[2]} on node {place(m[1])[1]}", text
        )
        path.write_text(
            re.sub(
                r"Process (\d+) on node [0-9.]+", lambda m: f"Process {place(m[1])[2]} on node {place(m[1])[1]}", text
            )
        )
    lines = []
    for line in (folder / "gpu-counters.jsonl").read_text().splitlines():
        row = json.loads(line)
        owner = next(one for one in facts["processes"] if one["gpu"] == row["gpu"])
        row |= {"host": owner["host"], "pids": [owner["pid"]] if row["pids"] else []}
        lines.append(json.dumps(row))
    (folder / "gpu-counters.jsonl").write_text("\n".join(lines))
    return diagnose(load(folder)).verdict


@pytest.mark.parametrize("per_pod", [1, 2, 4])
@pytest.mark.parametrize(("case", "culprit"), [("rank-frozen", 2), ("pp-freeze", 1)])
def test_a_frozen_rank_is_found_whatever_others_with_its_pid_write(
    tmp_path: Path, case: str, culprit: int, per_pod: int
) -> None:
    verdict = in_pods(case, tmp_path, per_pod)
    named = [(one.rank, one.host, one.pid) for one in verdict.suspects if one.role is Role.CULPRIT]
    pod, place = divmod(culprit, per_pod)
    assert verdict.subclass is Subkind.UNRESPONSIVE
    assert named == [(culprit, f"10.0.0.{pod + 10}", FIRST + place)]
