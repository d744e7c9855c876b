"""The roles hold exactly what the code asks for: every right of the table is used, and none that is not in it."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from test_kube_admission_pairs import speeds
from test_kube_admission_roles import nodes_are_tested, pair, served

from kube_rig import Rig, group, policy, rig
from kube_workloads import job_set, pod_template, workload
from rankmuster.adapters.kube.events import Events
from rankmuster.adapters.kube.find import finder
from rankmuster.adapters.kube.node_taint import NodeTaint
from rankmuster.adapters.kube.pool_label import PoolLabel
from rankmuster.collect.deadline import Deadline
from rankmuster.kube.controller.election import Election
from rankmuster.kube.controller.settings import Election as Lease
from rankmuster.kube.rbac import Part, rules
from rankmuster.model.kube import GATE, SIDECAR, WorkloadKind

ALL = tuple(one for one in Part if one is not Part.EXEC_EVIDENCE)

Rights = set[tuple[str, str, str]]

SHORT = {"steps": {"evidence": 2, "diagnose": 4}}


def template() -> dict[str, Any]:
    sidecar = {"name": SIDECAR, "image": "sidecar", "restartPolicy": "Always"}
    made = pod_template(gpus=0, labels={"pool": "a"}, initContainers=[sidecar])
    made["spec"]["readinessGates"] = [{"conditionType": GATE}]
    return made


def of_incidents(folder: Path) -> Rights:
    """Four kinds of workloads stop, and are rebuilt."""
    with rig(folder) as made:
        made.store.create(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "llm", "namespace": "prod"},
                "spec": {"selector": {"app": "llm"}, "ports": [{"port": 80}]},
            }
        )
        made.store.create(group())
        made.store.create(
            workload("StatefulSet", "set", namespace="prod", replicas=2, template=template(), serviceName="set")
        )
        made.store.create(workload("Deployment", "plain", namespace="prod", replicas=1, template=template()))
        made.store.create(job_set("jobs", namespace="prod", template=template()))
        wanted = {"enable": ["traffic", "group", "node", "retest"], "undecided": "rebuild", "incidentProfile": True}
        wanted |= {"deadlines": SHORT, "several": True, "traffic": {"readinessGate": True}}
        wanted["selector"] = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
        made.store.create(policy(**wanted))
        with made.controller(admits=True, namespaces=("prod",)):
            made.until(lambda: made.ready(7), 60)
            first = {one["metadata"]["uid"] for one in made.pods().values()}
            made.sidecars.stop(*first)
            made.until(lambda: _all_closed(made, 4), 90)
            made.until(lambda: made.ready(7), 60)
        last = {one["metadata"]["uid"] for one in made.pods().values()}
        assert not first & last
        _by_hand(made)
        return made.server.recorder.rights(agent="rankmuster") | made.server.recorder.rights(agent="kopf")


def _all_closed(made: Rig, count: int) -> bool:
    found = made.store.list("communicationincidents.rankmuster.dev", "prod")
    closed = [one for one in found if one.get("status", {}).get("phase") == "Closed"]
    return len(closed) == count and all(one["status"]["outcome"] == "recovered" for one in closed)


def _by_hand(made: Rig) -> None:
    """What no verdict of a simulated pod leads to: a fence, a pool's label, the Lease."""
    client = made.client
    deadline = Deadline.after(30)
    events = Events(client, host="test")
    taint = NodeTaint(client, events=events)
    for _ in range(2):  # what is told again is counted in the event that is there
        assert taint.fence("node-0", "20261130-1", "for the test", deadline).ending.good
        assert taint.lift("node-0", "20261130-1", deadline).ending.good
    events.close(deadline)
    for kind, name, index in (
        (WorkloadKind.STATEFUL_SET, "set", None),
        (WorkloadKind.JOB_SET, "jobs", None),
        (WorkloadKind.DEPLOYMENT, "plain", next(one for one in made.pods() if one.startswith("plain"))),
    ):
        label = PoolLabel(client, "pool", "pool", finder(client, "prod", kind, name, index=index))
        assert label.stop_new("for the test", deadline).ending.good
        assert label.restore(deadline).ending.good
    stop = threading.Event()
    one = Election(
        client,
        Lease(),
        "rankmuster",
        "us",
        clock=time.monotonic,
        unix_now=time.time,
        wait=stop.wait,
        say=made.said.append,
    )
    assert one.lead()
    assert one._round()
    client.close()


def of_admission(folder: Path) -> Rights:
    """A new node is tested alone and with a good one; an old admission goes."""
    folder.mkdir()
    parts = (Part.OBSERVE, Part.ADMISSION)
    with served(folder, parts, pods=speeds(pair), pairs="require", pair_floor=20.0, keep=1) as (world, server):  # type: ignore[arg-type]
        nodes_are_tested(world)
        # a fact that comes to be known of a node is remembered with its admission
        label = {"metadata": {"labels": {"nvidia.com/gpu.family": "hopper"}}}
        world.store.patch("nodes", None, "old", label, kind="merge", manager="gfd")
        assert world.turns(lambda: ("rankmuster.dev", "nodeadmissions", "patch") in server.recorder.rights())
        return server.recorder.rights()


def test_the_roles_hold_exactly_what_is_asked_for(tmp_path: Path) -> None:
    used = of_incidents(tmp_path / "incidents") | of_admission(tmp_path / "admission")
    held = rules(ALL)
    assert sorted(used - held) == []
    assert sorted(held - used) == []
