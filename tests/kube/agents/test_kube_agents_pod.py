"""Sidecar and node agent as processes, with a pod's namespaces between them: what each takes is of the same ranks."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from kube_pod_namespace import HOST, INSTANCE, UID, agent, pod, record, until
from kube_wire_talk import talk, wish

from fake_nvml import compiled
from rankmuster.collect.bundle.merge import merge
from rankmuster.collect.bundle.verify import verify
from rankmuster.diagnose.run import diagnose
from rankmuster.evidence.bundle import load

AGENT_PORT, SIDECAR_PORT = 29466, 29465

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="a pod's namespaces can be made as root alone"
)


def collected(address: tuple[str, int], path: Path, **more: Any) -> dict[str, str]:
    code, headers, body = talk(address, "POST", "/v1/collect", wish(instance=INSTANCE, **more), seconds=60.0)
    assert code == 200, body
    path.write_bytes(body)
    return headers


def files(bundle: Path) -> set[str]:
    """What is in it, by its first folder; it verifies."""
    found = verify(bundle)
    assert found.ok
    assert found.manifest is not None
    return {name.partition("/")[0] for name in found.manifest.files}


def bundles(address: tuple[str, int]) -> list[dict[str, Any]]:
    code, _, body = talk(address, "GET", f"/v1/bundles?pod={UID}")
    assert code == 200
    found = json.loads(body)
    assert isinstance(found, list)
    return found


def test_a_stuck_rank_is_found_across_the_two_and_its_end_leaves_the_pod(tmp_path: Path) -> None:
    driver = compiled(tmp_path)
    (tmp_path / "pod").mkdir()
    (tmp_path / "agent").mkdir()
    with pod(tmp_path / "pod", SIDECAR_PORT, AGENT_PORT) as made:
        first, second = made.ranks
        if second != first + 1:
            pytest.skip("something else was started between the two ranks: the driver here counts them on")
        # the pod has GPUs 2 and 3 of the node; bytes stand still, GPU 2 spins and GPU 3 is idle
        nvml = {"LD_LIBRARY_PATH": str(driver), "FAKE_NVML": "still", "FAKE_NVML_PID": str(first - 2)}
        with agent(tmp_path / "agent", AGENT_PORT, **nvml) as node:
            code, _, page = talk(node, "GET", f"/hardware?pod={UID}", token=None)
            assert code == 200
            shown = [line for line in page.decode().splitlines() if line.startswith("DCGM_FI_DEV_GPU_UTIL{")]
            assert [line[line.index('gpu="') :][:7] for line in shown] == ['gpu="2"', 'gpu="3"']
            assert [f'pids="{pid}"' in line for pid, line in zip(made.inner, shown, strict=True)] == [True, True]
            assert talk(node, "GET", "/hardware?pod=other", token=None)[0] == 503

            # a wish to each at once, as the controller has it; a second one joins the first
            said: dict[str, dict[str, str]] = {}
            more = {"incarnation": f"{UID}.r1", "seconds": 20, "stopped": True}
            tasks = [("side", made.address), ("node", node), ("again", node)]
            threads = [
                threading.Thread(
                    target=lambda n=n, a=a: said.setdefault(n, collected(a, tmp_path / f"{n}.tar.zst", **more))
                )
                for n, a in tasks
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert said["node"]["x-rankmuster-sha256"] == said["again"]["x-rankmuster-sha256"]
            assert {headers["x-rankmuster-ending"] for headers in said.values()} == {"done"}
            of_node, of_pod = files(tmp_path / "node.tar.zst"), files(tmp_path / "side.tar.zst")
            assert of_node & of_pod == {"instance.json"}
            assert {"gpu-counters.jsonl", "topology"} <= of_node
            assert "platform" in of_pod

            merged = merge([tmp_path / "side.tar.zst", tmp_path / "node.tar.zst"], tmp_path / "whole")
            facts = json.loads((tmp_path / "whole" / "instance.json").read_text())
            assert facts["incarnation"] == f"{UID}.r1"
            assert [(p["rank"], p["pid"], p["host"], p["gpu"], p["host_pid"]) for p in facts["processes"]] == [
                (rank, made.inner[rank], HOST, rank + 2, made.ranks[rank]) for rank in (0, 1)
            ]
            assert "contradictions" not in facts
            verdict = diagnose(load(merged.sealed.path)).verdict
            assert [(one.rank, one.host, one.pid, one.gpu) for one in verdict.suspects] == [(1, HOST, made.inner[1], 3)]

            # the watch in the pod sees the same by the page
            def sees() -> bool:
                code, _, body = talk(made.address, "GET", "/v1/state")
                ranks = json.loads(body)["instances"][0]["ranks"] if code == 200 and b'"ranks":[{' in body else []
                return [(one["rank"], one["gpu"], one["doing"]) for one in ranks] == [
                    (0, 2, "spinning"),
                    (1, 3, "idle"),
                ]

            until(sees)

            # one rank is killed: who it was is known although nothing of it is left
            evidence = tmp_path / "pod" / "evidence"
            (evidence / f"nccl_{HOST}_{made.inner[1]}.log").write_text(f"{HOST}:{made.inner[1]}:7 [1] NCCL INFO Init\n")
            (evidence / "vllm.log").write_text("its last words\n")
            os.kill(made.ranks[1], signal.SIGKILL)
            until(lambda: '"gone":null' not in record(made.folder)[record(made.folder).index('"rank":1') :])
            collected(made.address, tmp_path / "lost.tar.zst", stopped=True)
            lost = merge([tmp_path / "lost.tar.zst"], tmp_path / "lost")
            processes = json.loads((lost.sealed.path / "instance.json").read_text())["processes"]
            assert [(one["rank"], one["state"]) for one in processes] == [(0, "S"), (1, "X")]

            # all are gone: what they left is with the agent at once, and nothing twice when the pod ends
            os.kill(made.ranks[0], signal.SIGKILL)
            until(lambda: any(one["name"].endswith("_end.tar.zst") for one in bundles(node)))
            os.kill(made.init, signal.SIGTERM)
            assert made.process.wait(20) == 0
            left = bundles(node)
            assert [one["name"].rpartition("_")[2] for one in left] == ["wish.tar.zst", "wish.tar.zst", "end.tar.zst"]
            code, headers, body = talk(node, "GET", f"/v1/bundles/{left[-1]['name']}")
            assert (code, headers["x-rankmuster-sha256"]) == (200, left[-1]["sha256"])
            (tmp_path / "end.tar.zst").write_bytes(body)
            assert files(tmp_path / "end.tar.zst") == {"instance.json", "logs", "nccl", "platform"}

            # its pod has gone, and the node still speaks
            collected(node, tmp_path / "after.tar.zst")
