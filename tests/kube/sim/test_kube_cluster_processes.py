"""Pods whose containers are processes: namespaces, volumes, order of start and end, restarts, exec."""

from __future__ import annotations

import functools
import json
import signal
import subprocess
from pathlib import Path

import pytest

from kube_sim.clock import RealClock
from kube_sim.cluster import Cluster
from kube_sim.kubelet_process import ProcessKubelet
from kube_sim.objects import is_true, uid
from kube_sim.pod_process import may_isolate
from kube_sim.store import Store

pytestmark = pytest.mark.skipif(bool(may_isolate()), reason=f"no namespaces here: {may_isolate()}")


@pytest.fixture
def cluster(tmp_path):
    clock = RealClock()
    store = Store(clock)
    with Cluster(store, clock, kubelet=functools.partial(ProcessKubelet, folder=tmp_path)) as made:
        made.node("node-0")
        made.start()
        yield made
    assert made.problems == []


def pod(*containers: dict, **spec) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "serving", "labels": {"app": "x"}},
        "spec": {"containers": list(containers), "terminationGracePeriodSeconds": 5, **spec},
    }


def shell(text: str, its_name: str = "main", **more) -> dict:
    return {"name": its_name, "image": "any", "command": ["sh", "-c", text], **more}


def status(cluster: Cluster) -> dict:
    return cluster.store.get("pods", "serving", "p").get("status") or {}


def ready(cluster: Cluster) -> bool:
    return is_true(cluster.store.get("pods", "serving", "p"), "Ready")


def run(cluster: Cluster, command: list[str], container: str = "main") -> str:
    words = cluster.kubelet.worker("serving", "p").command(container, command)
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def gone(cluster: Cluster) -> bool:
    return cluster.store.list("pods", "serving") == []


def test_containers_see_their_volumes_environment_and_each_other_and_nothing_else(cluster, tmp_path):
    shared = [{"name": "work", "mountPath": "/shared/deep"}]
    field = {"valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    env = [{"name": "POD_IP", **field}, {"name": "URL", "value": "http://$(POD_IP):$(PORT)"}]
    downward = {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}
    cluster.store.create(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "serving"},
         "stringData": {"token": "abc"}}
    )  # fmt: skip
    cluster.store.create(
        pod(
            shell(
                "echo $URL >/shared/deep/url; cat /info/labels /secret/token >/shared/deep/read; exec sleep 600",
                env=env,
                volumeMounts=[
                    *shared,
                    {"name": "info", "mountPath": "/info"},
                    {"name": "s", "mountPath": "/secret"},
                    {"name": "disk", "mountPath": "/var/lib/ours"},
                ],
            ),
            shell("exec sleep 601", "other", volumeMounts=shared),
            shareProcessNamespace=True,
            volumes=[
                {"name": "work", "emptyDir": {}},
                {"name": "info", "downwardAPI": downward},
                {"name": "s", "secret": {"secretName": "s"}},
                {"name": "disk", "hostPath": {"path": "/var/lib/ours", "type": "DirectoryOrCreate"}},
            ],
        )
    )
    assert cluster.wait_until(lambda: ready(cluster))
    address = status(cluster)["podIP"]
    assert address.startswith("10.244.1.")
    assert run(cluster, ["cat", "/shared/deep/url"], "other") == f"http://{address}:$(PORT)\n"
    assert run(cluster, ["cat", "/shared/deep/read"], "other") == 'app="x"abc'
    assert run(cluster, ["hostname"]) == "p\n"
    commands = run(cluster, ["sh", "-c", "cat /proc/[0-9]*/comm"]).split()
    assert set(commands) - {"sh", "cat"} == {"pause", "sleep"}
    assert commands.count("sleep") == 2, "the pod's processes, and no others of the machine"
    run(cluster, ["touch", "/var/lib/ours/kept", "/tmp/private"])
    assert (cluster.kubelet.host("node-0") / "var/lib/ours/kept").exists()
    assert not Path("/tmp/private").exists()
    assert "private" not in run(cluster, ["sh", "-c", "ls /tmp"], "other")
    cluster.store.delete("pods", "serving", "p", grace=0)
    assert cluster.wait_until(lambda: gone(cluster))


def test_sidecars_start_first_and_end_last_within_the_grace(cluster):
    say = "trap 'echo end $0 >>/told/order; exit 0' TERM; echo start $0 >>/told/order; while :; do sleep 0.05; done"
    mount = {"volumeMounts": [{"name": "work", "mountPath": "/told"}]}
    side = {"name": "side", "image": "any", "command": ["sh", "-c", say, "side"], "restartPolicy": "Always", **mount}
    main = {"name": "main", "image": "any", "command": ["sh", "-c", say, "main"], **mount}
    disk = {"name": "work", "hostPath": {"path": "/work-of-test"}}
    cluster.store.create(pod(main, initContainers=[side], volumes=[disk]))
    told = cluster.kubelet.host("node-0") / "work-of-test" / "order"
    assert cluster.wait_until(lambda: told.exists() and told.read_text() == "start side\nstart main\n")
    cluster.store.delete("pods", "serving", "p")
    assert cluster.wait_until(lambda: gone(cluster))
    assert told.read_text().splitlines() == ["start side", "start main", "end main", "end side"]


def test_a_container_that_heeds_no_signal_is_killed_when_its_grace_is_over(cluster):
    cluster.store.create(pod(shell("trap '' TERM; echo >/tmp/told; sleep 600"), terminationGracePeriodSeconds=1))
    assert cluster.wait_until(lambda: ready(cluster) and "told" in run(cluster, ["ls", "/tmp"]))
    ended = []
    cluster.store.subscribe("pods", lambda type_, obj: ended.append((type_, json.dumps(obj.get("status")))))
    cluster.store.delete("pods", "serving", "p")
    assert cluster.wait_until(lambda: gone(cluster))
    assert '"exitCode": 137' in ended[-1][1]


def test_a_killed_process_restarts_its_container_in_the_same_pod(cluster):
    cluster.store.create(pod(shell("echo here; echo words >/dev/termination-log; echo >/tmp/told; exec sleep 600")))
    assert cluster.wait_until(lambda: ready(cluster) and "told" in run(cluster, ["ls", "/tmp"]))
    its_uid = uid(cluster.store.get("pods", "serving", "p"))
    cluster.kubelet.worker("serving", "p").running["main"].signal(signal.SIGKILL)
    assert cluster.wait_until(lambda: status(cluster)["containerStatuses"][0]["restartCount"] == 1 and ready(cluster))
    last = status(cluster)["containerStatuses"][0]["lastState"]["terminated"]
    assert (last["exitCode"], last["message"].strip()) == (137, "words")
    assert uid(cluster.store.get("pods", "serving", "p")) == its_uid


def test_a_pod_that_is_not_restarted_succeeds_and_its_sidecar_ends(cluster):
    side = shell("trap 'exit 0' TERM; while :; do sleep 0.05; done", "side", restartPolicy="Always")
    cluster.store.create(pod(shell("exit 0"), initContainers=[side], restartPolicy="Never"))
    assert cluster.wait_until(lambda: status(cluster).get("phase") == "Succeeded")
    assert "terminated" in status(cluster)["initContainerStatuses"][0]["state"]


def test_a_lost_node_takes_its_processes_with_it(cluster):
    cluster.store.create(pod(shell("exec sleep 600")))
    assert cluster.wait_until(lambda: ready(cluster))
    running = cluster.kubelet.worker("serving", "p").running["main"]
    cluster.fail_node("node-0")
    assert running.over.wait(10)
    assert not Path(f"/proc/{running.pid}").exists()
    assert status(cluster)["phase"] == "Running", "nobody is there to tell"
