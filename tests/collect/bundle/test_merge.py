"""Bundles of several nodes become one that is diagnosed like the whole; what does not belong together is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from making import START, make, members, packed, sealed

from rankmuster.collect.bundle import contents, manifest
from rankmuster.collect.bundle import node as node_module
from rankmuster.collect.bundle.contents import BundleUnreadable
from rankmuster.collect.bundle.merge import MergeRefused, merge
from rankmuster.collect.bundle.verify import verify
from rankmuster.collect.bundle.write import OutputRefused
from rankmuster.diagnose.run import diagnose
from rankmuster.evidence.bundle import load
from rankmuster.model.verdict import Verdict
from rankmuster.model.verdict_json import verdict_to_plain

SPLIT = ("skipped-call", "rank-killed", "healthy-tp2pp2", "wrong-size", "rank-frozen")


def split(case: str, folder: Path, packed_as: str = "") -> list[Path]:
    """A captured case as two nodes would have collected it: the ranks below and from 2 on, each with its own files."""
    files = members(case)
    whole = json.loads(files.pop("instance.json"))
    pids = {process["rank"]: process["pid"] for process in whole["processes"]}
    bundles = []
    for node, ranks in (("a", {0, 1}), ("b", {2, 3})):
        own = {}
        for name, data in files.items():
            rank = next((rank for rank in pids if f"rank_{rank}" in name or f"rank{rank}." in name), None)
            rank = rank if rank is not None else next((r for r, pid in pids.items() if f"_{pid}." in name), None)
            if rank in ranks or (rank is None and node == "a" and "gpu-counters" not in name):
                own[name] = data
        lines = files["gpu-counters.jsonl"].splitlines(keepends=True)
        own["gpu-counters.jsonl"] = b"".join(line for line in lines if json.loads(line)["gpu"] in ranks)
        instance = {**whole, "processes": [p for p in whole["processes"] if p["rank"] in ranks]}
        bundles.append(make(folder / f"{node}{packed_as}", own, host=f"gpu-{node}", instance=instance, timed=False))
    return bundles


def essence(verdict: Verdict) -> dict[str, Any]:
    """A verdict without the paths of its evidence."""
    said = verdict_to_plain(verdict)
    for finding in said["findings"]:
        finding.pop("evidence")
    return {key: said[key] for key in ("class", "subclass", "progress", "confidence", "suspects", "first_divergence",
                                       "recovery", "phase")}  # fmt: skip


@pytest.mark.parametrize("case", SPLIT)
def test_a_case_split_by_rank_and_merged_has_the_verdict_of_the_whole(case: str, tmp_path: Path) -> None:
    bundles = split(case, tmp_path, ".tar.zst" if case == SPLIT[0] else "")
    merged = merge(bundles, tmp_path / "whole")
    assert verify(merged.sealed.path).ok
    assert merged.nodes == ("gpu-a", "gpu-b")
    whole = diagnose(load(Path(__file__).parents[2] / "cases" / case / "input.tar.zst")).verdict
    assert essence(diagnose(load(merged.sealed.path)).verdict) == essence(whole)


def test_the_result_may_be_an_archive_and_is_the_same_whatever_the_order(tmp_path: Path) -> None:
    bundles = split("skipped-call", tmp_path)
    one = merge(bundles, tmp_path / "one.tar.zst").sealed.path
    two = merge(bundles[::-1], tmp_path / "two.tar.zst").sealed.path
    assert one.read_bytes() == two.read_bytes()
    assert verify(one).ok


def node(folder: Path, name: str, rank: int = 0, **more: Any) -> Path:
    """A small bundle of one node with one rank."""
    process = {"rank": rank, "pid": 100 + rank, "host": name, "exit_code": None, **more.pop("process", {})}
    instance = {
        "instance": "llm-0",
        "world_size": 4,
        "last_look": START,
        "processes": [process],
        **more.pop("facts", {}),
    }
    files = more.pop("files", {f"flight/nccl_trace_rank_{rank}": b"\x80dump%d" % rank})
    return make(folder / more.pop("file", name), files, host=name, instance=instance, **more)


def read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    return json.loads((path / "manifest.json").read_bytes()), json.loads((path / "instance.json").read_bytes())


def test_collectors_hosts_clocks_and_ranks_of_all_nodes_are_told(tmp_path: Path) -> None:
    bundles = [
        node(tmp_path, "a", 0, offsets={"a": 0.5}, facts={"last_look": START, "environment": {"NCCL_DEBUG": "INFO"}}),
        node(tmp_path, "b", 1, offsets={"b": -0.25, "a": 9.0}, facts={"last_look": START + 3, "environment": {}}),
    ]
    merged = merge(bundles, tmp_path / "m")
    told, instance = read(merged.sealed.path)
    assert sorted(told["collectors"]) == ["ras@a", "ras@b"]
    assert told["clock_offsets"] == {"a": 0.5, "b": -0.25}
    assert told["files"]["nodes/b/flight/nccl_trace_rank_1"]["host"] == "b"
    assert sorted(told["nodes"]) == ["a", "b"]
    assert [process["rank"] for process in instance["processes"]] == [0, 1]
    assert instance["last_look"] == START + 3
    assert instance["environment_by_node"] == {"a": {"NCCL_DEBUG": "INFO"}, "b": {"NCCL_DEBUG": None}}


def test_a_dump_that_two_nodes_took_from_a_shared_file_system_is_kept_once(tmp_path: Path) -> None:
    dumps = {f"flight/nccl_trace_rank_{rank}": b"\x80dump%d" % rank for rank in range(2)}
    same = {"topology/matrix.txt": b"the same on both", **dumps}
    merged = merge([node(tmp_path, "a", 0, files=same), node(tmp_path, "b", 1, files=same)], tmp_path / "m")
    told, _ = read(merged.sealed.path)
    flights = [path for path in told["files"] if "flight" in path]
    assert merged.shared == 2
    assert flights == ["nodes/a/flight/nccl_trace_rank_0", "nodes/a/flight/nccl_trace_rank_1"]
    assert [told["files"][path]["host"] for path in flights] == ["a", "b"]
    assert told["files"][flights[1]]["also"] == ["nodes/b/flight/nccl_trace_rank_1"]
    assert sum("topology" in path for path in told["files"]) == 2  # each node's own
    assert verify(merged.sealed.path).ok


def test_a_second_look_at_a_node_is_kept_beside_the_first(tmp_path: Path) -> None:
    first = node(tmp_path, "a", 0, process={"exit_code": -9, "exited_at": START})
    later = node(
        tmp_path, "a", 0, file="a2", look=START + 30, facts={"last_look": START + 30}, files={"ras/1.txt": b"x"}
    )
    merged = merge([later, first], tmp_path / "m")
    told, instance = read(merged.sealed.path)
    assert merged.nodes == ("a", "a-look-2")
    assert told["nodes"]["a-look-2"]["started"] == START + 30
    assert instance["processes"][0]["exit_code"] == -9  # what was seen once stays seen
    assert sorted(told["collectors"]) == ["ras@a", "ras@a-look-2"]


def test_what_nodes_disagree_on_is_named(tmp_path: Path) -> None:
    one = node(tmp_path, "a", 0, facts={"deployment": "r1", "environment": {"NCCL_IB_HCA": "mlx5_0"}})
    two = node(tmp_path, "b", 1, facts={"deployment": "r2", "environment": {"NCCL_IB_HCA": "mlx5_1"}})
    merged = merge([one, two], tmp_path / "m")
    assert any("deployment" in note and "'r1'" in note and "'r2'" in note for note in merged.notes)
    assert any("NCCL_IB_HCA is not the same on all nodes" in note for note in merged.notes)
    assert read(merged.sealed.path)[1]["contradictions"]


def test_a_node_without_the_instance_is_merged_too(tmp_path: Path) -> None:
    bare = make(tmp_path / "switch", {"kernel/dmesg.txt": b"[1.0] x\n"}, host="c")
    merged = merge([node(tmp_path, "a"), bare], tmp_path / "m")
    assert verify(merged.sealed.path).ok
    assert merged.nodes == ("a", "c")


@pytest.mark.parametrize(
    ("facts", "process", "told"),
    [
        ({"instance": "llm-1"}, {}, "different instances"),
        ({"world_size": 8}, {}, "different instances"),
        ({"incarnation": "y"}, {}, "different incarnations"),
        ({}, {"rank": 0, "pid": 9}, "different incarnations.*rank 0 is pid 100 on a"),
    ],
)
def test_what_is_of_another_instance_is_refused(
    facts: dict[str, Any], process: dict[str, Any], told: str, tmp_path: Path
) -> None:
    one = node(tmp_path, "a", 0, facts={"incarnation": "x"})
    two = node(tmp_path, "b", 1, facts={"incarnation": "x", **facts}, process=process)
    with pytest.raises(MergeRefused, match=told):
        merge([one, two], tmp_path / "m")
    assert not any("m" in name for name in os.listdir(tmp_path))


def test_what_does_not_verify_is_refused_unless_forced(tmp_path: Path) -> None:
    one, two = node(tmp_path, "a", 0), node(tmp_path, "b", 1)
    dump = two / "flight" / "nccl_trace_rank_1"
    dump.chmod(0o600)
    dump.write_bytes(b"changed")
    (two / "link").symlink_to("/etc/passwd")
    with pytest.raises(MergeRefused, match=r"does not verify.*--force"):
        merge([one, two], tmp_path / "m")
    merged = merge([one, two], tmp_path / "m", force=True)
    assert verify(merged.sealed.path).ok
    assert (merged.sealed.path / "nodes/b/flight/nccl_trace_rank_1").read_bytes() == b"changed"
    assert not (merged.sealed.path / "nodes/b/link").exists()
    assert any("link was left out" in note.replace("'", "") for note in merged.notes)
    assert read(merged.sealed.path)[0]["nodes"]["b"]["verified"] is False


def test_a_copy_of_a_bundle_and_a_merged_one_are_refused(tmp_path: Path) -> None:
    one, two = node(tmp_path, "a", 0), node(tmp_path, "b", 1)
    with pytest.raises(MergeRefused, match="given twice"):
        merge([one, two, one], tmp_path / "m")
    merged = merge([one, two], tmp_path / "m").sealed.path
    with pytest.raises(MergeRefused, match="merged bundle already"):
        merge([merged, one], tmp_path / "n")
    with pytest.raises(MergeRefused, match="nothing to merge"):
        merge([], tmp_path / "n")
    with pytest.raises(OutputRefused, match="exists"):
        merge([one, two], merged)
    with pytest.raises(BundleUnreadable):
        merge([one, tmp_path / "nowhere"], tmp_path / "n")


@pytest.mark.parametrize("host", ["../../evil", "/etc", "", "a/b", ".", "x" * 500, "\x1b[2J", "nodes"])
def test_no_host_name_leads_out_of_the_bundle(host: str, tmp_path: Path) -> None:
    hostile = tmp_path / "in.tar.zst"
    files = {"ras/a": b"x"}
    hostile.write_bytes(packed([("manifest.json", sealed(files, host=host)), *files.items()]))
    merged = merge([hostile, node(tmp_path, "a")], tmp_path / "out" / "m")
    assert verify(merged.sealed.path).ok
    assert os.listdir(tmp_path / "out") == ["m"]
    assert len(os.listdir(merged.sealed.path / "nodes")) == 2


@pytest.mark.parametrize(
    "extra",
    [("../../escape", b"x"), ("/tmp/escape", b"x"), ("ras/A", b"y"), ("ras/a/b", b"y"), ("ras", b"y"), ("ras/a", b"y")],
)
def test_hostile_members_are_refused_and_left_out_by_force(extra: tuple[str, bytes], tmp_path: Path) -> None:
    hostile = tmp_path / "in.tar.zst"
    files = {"ras/a": b"x"}
    hostile.write_bytes(packed([("manifest.json", sealed(files, host="h")), *files.items(), extra]))
    with pytest.raises(MergeRefused):
        merge([hostile], tmp_path / "out" / "m")
    merged = merge([hostile], tmp_path / "out" / "m", force=True)
    assert verify(merged.sealed.path).ok
    assert (merged.sealed.path / "nodes/h/ras/a").read_bytes() == b"x"
    assert sorted(os.listdir(tmp_path)) == ["in.tar.zst", "out"]


def test_too_many_members_and_bombs_are_cut_short_by_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"ras/a": b"x"}
    one = [("manifest.json", sealed(files, host="h")), *files.items()]
    many, bomb = tmp_path / "many.tar.zst", tmp_path / "bomb.tar.zst"
    many.write_bytes(packed([*one, *((f"ras/x{n}", b"") for n in range(50))]))
    bomb.write_bytes(packed([*one, ("ras/bomb", bytes(3 << 20))]))
    monkeypatch.setattr(contents, "MAX_ENTRIES", 20)
    monkeypatch.setattr(node_module, "MAX_UNLISTED_BYTES", 1 << 20)
    for hostile in (many, bomb):
        with pytest.raises(MergeRefused):
            merge([hostile], tmp_path / "m")
        merged = merge([hostile], tmp_path / f"{hostile.name[:4]}", force=True)
        assert (merged.sealed.path / "nodes/h/ras/a").read_bytes() == b"x"
        assert not (merged.sealed.path / "nodes/h/ras/bomb").exists()
        assert any("more than" in note for note in merged.notes)


def test_a_manifest_whose_facts_are_nonsense_is_merged_without_them(tmp_path: Path) -> None:
    files = {"ras/a": b"x", "instance.json": b'{"processes": [1, {"rank": "x"}, {"rank": 1e400}], "environment": 5}'}
    odd = {
        "collectors": [1],
        "clock_offsets": {"h": "x"},
        "left_out": 5,
        "finished": 10**400,
        "instance": [],
        "started": {},
    }
    hostile = tmp_path / "in.tar.zst"
    hostile.write_bytes(packed([("manifest.json", sealed(files, host="h", **odd)), *files.items()]))
    merged = merge([hostile, node(tmp_path, "a")], tmp_path / "m")
    assert verify(merged.sealed.path).ok
    assert load(merged.sealed.path).by_type
    assert manifest.parse((merged.sealed.path / "manifest.json").read_bytes()).sealed


def test_parts_of_an_instance_that_each_know_only_their_own_start_are_of_one_instance(tmp_path: Path) -> None:
    facts = {"incarnation": None, "world_size": 4}
    bundles = [
        node(tmp_path, name, rank, facts={**facts, "incarnation_here": f"2026-01-01T00:00:0{rank}Z"})
        for rank, name in enumerate("ab")
    ]
    for rank, bundle in enumerate(bundles):
        path = bundle / "manifest.json"
        document = json.loads(path.read_text())
        document["instance"] = {**(document.get("instance") or {}), "incarnation": f"2026-01-01T00:00:0{rank}Z"}
        path.chmod(0o600)
        path.write_bytes(manifest.sealed_bytes(document))
    merged = merge(bundles, tmp_path / "m")
    assert read(merged.sealed.path)[0]["instance"]["incarnation"] is None


def test_a_pod_and_its_node_are_one_and_the_node_knows_the_gpus(tmp_path: Path) -> None:
    bundles = [node(tmp_path, "lost", 1, process={"pid": 18, "host": "llm-0", "gpu": 1, "exit_code": -9})]
    document = json.loads((bundles[0] / "manifest.json").read_text()) | {"wishes": {"part": "pod"}}
    (bundles[0] / "manifest.json").chmod(0o600)
    (bundles[0] / "manifest.json").write_bytes(manifest.sealed_bytes(document))
    for part, gpu, state, host_pid in (("pod", 0, "S", None), ("node", 5, "R", 4711)):
        process = {"pid": 17, "host": "llm-0", "gpu": gpu, "state": state, "host_pid": host_pid}
        bundle = node(tmp_path, part, 0, process=process)
        path = bundle / "manifest.json"
        document = json.loads(path.read_text())
        document["wishes"] = {**(document.get("wishes") or {}), "part": part}
        path.chmod(0o600)
        path.write_bytes(manifest.sealed_bytes(document))
        bundles.append(bundle)
    for order in (bundles, bundles[::-1]):
        facts = read(merge(order, tmp_path / f"m{order[0].name}").sealed.path)[1]
        process, lost = facts["processes"]
        assert (process["pid"], process["host"], process["gpu"], process["host_pid"]) == (17, "llm-0", 5, 4711)
        assert ("gpu" in lost, facts["gpu_numbers"]) == (False, "node")  # its pod's GPU 1 is another one of the node
        assert "contradictions" not in facts
