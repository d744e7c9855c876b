"""The three clients that matter here work against the simulated server for real: kubectl, kubernetes, kopf."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kube_sim.made import definition, pod, thing
from kube_sim.remote import Execution, LogWish
from kube_sim.running import serving, write_kubeconfig
from kube_sim.server import Server
from kube_sim.store import Store

POD = """
apiVersion: v1
kind: Pod
metadata: {name: a, labels: {x: "1"}}
spec: {nodeName: n1, containers: [{name: engine, image: x}]}
"""


class Echo:
    """A kubelet that says what it was asked."""

    def execute(self, call: Execution) -> int:
        call.write(f"{call.container}: {' '.join(call.command)}\n".encode())
        while call.stdin and (data := call.read()):
            call.write(data.upper())
        call.write_error(b"done\n")
        return 3 if call.command == ["fail"] else 0

    def log(self, wish: LogWish) -> Iterable[bytes]:
        yield b"one\n"
        yield f"two of {wish.container}\n".encode()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Store(), kubelet=Echo()) as made:
        yield made


Kubectl = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def kubectl(server: Server, tmp_path: Path) -> Kubectl:
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("no kubectl to test with")
    config = write_kubeconfig(tmp_path / "config", server.url)
    environment = {**os.environ, "KUBECONFIG": str(config), "HOME": str(tmp_path)}

    def call(*words: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, *words], input=given, env=environment, capture_output=True, text=True, timeout=60
        )

    return call


def test_kubectl_applies_reads_patches_and_deletes(server: Server, kubectl: Kubectl) -> None:
    assert kubectl("apply", "--server-side", "-f", "-", given=POD).stdout == "pod/a serverside-applied\n"
    told = kubectl("apply", "--server-side", "--field-manager=other", "-f", "-", given=POD.replace('"1"', '"2"'))
    assert 'conflict with "kubectl": .metadata.labels.x' in told.stderr
    assert kubectl("apply", "-f", "-", given=POD.replace("name: a,", "name: b,")).stdout == "pod/b created\n"
    strict = kubectl("apply", "-f", "-", given=POD.replace("image", "imagg"))
    assert 'unknown field "spec.containers[0].imagg"' in strict.stderr
    assert kubectl("patch", "pod", "a", "-p", '{"metadata":{"labels":{"y":"2"}}}').returncode == 0
    assert kubectl("get", "pods", "-l", "y=2", "-o", "name").stdout == "pod/a\n"
    server.store.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    assert kubectl("taint", "node", "n1", "a=b:NoSchedule").returncode == 0
    assert kubectl("cordon", "n1").returncode == 0
    assert server.store.get("nodes", None, "n1")["spec"] == {
        "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}],
        "unschedulable": True,
    }
    assert kubectl("delete", "pod", "b", "--force", "--grace-period=0").returncode == 0
    assert [one["metadata"]["name"] for one in server.store.list("pods")] == ["a"]


def test_kubectl_runs_commands_and_reads_logs(server: Server, kubectl: Kubectl) -> None:
    server.store.create(pod())
    told = kubectl("exec", "-i", "a", "--", "cat", "-", given="hello\n")
    assert (told.returncode, told.stdout, told.stderr) == (0, "engine: cat -\nHELLO\n", "done\n")
    assert kubectl("exec", "a", "--", "fail").returncode == 3
    assert kubectl("logs", "a").stdout == "one\ntwo of engine\n"


def test_the_python_client_lists_watches_and_runs_commands(server: Server) -> None:
    from kubernetes import client, watch
    from kubernetes.stream import stream

    with client.ApiClient(client.Configuration(host=server.url)) as api:
        core = client.CoreV1Api(api)
        made = core.create_namespaced_pod("default", pod("", generateName="p-"))
        version = core.list_namespaced_pod("default").metadata.resource_version
        core.patch_namespaced_pod_status(
            made.metadata.name, "default", {"status": {"conditions": [{"type": "X", "status": "True"}]}}
        )
        watching = watch.Watch()
        for event in watching.stream(core.list_namespaced_pod, "default", resource_version=version, timeout_seconds=9):
            assert (event["type"], event["object"].status.conditions[0].type) == ("MODIFIED", "X")
            watching.stop()
        options = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="other"))
        with pytest.raises(client.ApiException) as told:
            core.delete_namespaced_pod(made.metadata.name, "default", body=options)
        assert told.value.status == 409
        call = stream(
            core.connect_get_namespaced_pod_exec,
            made.metadata.name,
            "default",
            command=["fail"],
            stdout=True,
            stderr=True,
            _preload_content=False,
        )
        call.run_forever(timeout=9)
        assert (call.read_stdout(), call.read_stderr(), call.returncode) == ("engine: fail\n", "done\n", 3)
        call.sock.shutdown()  # its `close` does nothing once the server has ended the connection
        api.rest_client.pool_manager.clear()  # it leaves its connections to the collector


OPERATOR = """
import kopf

@kopf.on.create("example.dev", "v1", "things")
def created(name, body, **_):
    kopf.info(body, reason="Seen", message="made by kopf")
    return {"seen": name}

@kopf.on.delete("example.dev", "v1", "things")
def deleted(**_):
    pass
"""


def eventually(condition: Callable[[], Any], what: str, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not come about within {seconds} s"
        time.sleep(0.02)


def test_kopf_runs_an_operator_through_lost_watches(server: Server, tmp_path: Path) -> None:
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    server.store.create(definition({"type": "object", "properties": {"status": status}}))
    (tmp_path / "operator.py").write_text(OPERATOR)
    config = write_kubeconfig(tmp_path / "config", server.url)
    key = "things.example.dev"
    with (tmp_path / "log").open("wb") as log:
        kopf = subprocess.Popen(
            [sys.executable, "-m", "kopf", "run", "-A", str(tmp_path / "operator.py")],
            env={**os.environ, "KUBECONFIG": str(config)},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        eventually(lambda: server.recorder.asked(resource="things", verb="watch"), "a watch")
        server.watching.drop("things", cut=True)
        server.store.create(thing())
        eventually(lambda: server.store.get(key, "default", "t").get("status"), "the handler's result")
        assert server.store.get(key, "default", "t")["status"] == {"created": {"seen": "t"}}
        eventually(lambda: server.store.list("events"), "an event")
        server.store.delete(key, "default", "t")
        eventually(lambda: not server.store.list(key), "the end of its finalizer")
    finally:
        kopf.send_signal(signal.SIGTERM)
        kopf.wait(30)
    assert ("example.dev", "things/status", "patch") in server.recorder.rights(agent="kopf/")
    assert [one for one in server.recorder.asked() if one.status >= 400] == []
