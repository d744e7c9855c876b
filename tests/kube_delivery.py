"""What is delivered to a cluster of processes (`kube_stand`): the acting overlay, a policy, an injected workload."""

from __future__ import annotations

import functools
import subprocess
import sys
import sysconfig
from pathlib import Path

import yaml

from kube_sim.definitions import keep_definitions
from kube_sim.objects import Object
from kube_sim.store import Store
from kube_workloads import leader_worker_set, pod_template

TESTS = Path(__file__).parent
REPOSITORY = TESTS.parent
PROGRAM = str(Path(sysconfig.get_path("scripts")) / "rankmuster")
NAMESPACE = "serving"
METRICS = "http://127.0.0.1:8000/metrics"
TOKEN = "token-of-sidecars"

POLICY: Object = {
    "apiVersion": "rankmuster.dev/v1alpha1",
    "kind": "CommunicationPolicy",
    "metadata": {"name": "llm", "namespace": NAMESPACE},
    "spec": {
        "selector": {"matchLabels": {"app": "llm"}},
        "kinds": ["LeaderWorkerSet"],
        "container": "engine",
        "enable": ["traffic", "group", "node", "retest"],
        "undecided": "rebuild",
        "traffic": {"readinessGate": True, "gateways": ["service"]},
        "recovery": [{"class": "process_or_device_lost", "boundary": "node", "reason": "the node is to be tested"}],
        "probe": {"port": 8000, "path": "/v1/completions", "body": "{}", "expect": '"choices"', "seconds": 5},
        "deadlines": {"total": 240, "steps": {"drain": 1, "evidence": 45}},
    },
}


def deliver(store: Store) -> None:
    """What an installation brings, then the workload."""
    keep_definitions(store)
    for one in overlay():
        if one["kind"] not in ("Deployment", "NetworkPolicy", "PodDisruptionBudget", "PersistentVolumeClaim"):
            store.create(_quick(one), check="")
    for space in ("rankmuster", NAMESPACE):
        store.create(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "rankmuster-token", "namespace": space},
                "stringData": {"token": TOKEN},
            }
        )
    store.create(POLICY)
    store.create(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "llm-serving", "namespace": NAMESPACE, "labels": {"app": "llm"}},
            "spec": {
                "selector": {"app": "llm", "leaderworkerset.sigs.k8s.io/worker-index": "0"},
                "ports": [{"port": 80, "targetPort": 8000}],
            },
        }
    )
    for one in injected():
        store.create(one)


@functools.cache
def _overlay_text() -> str:
    ran = subprocess.run(
        ["kubectl", "kustomize", str(REPOSITORY / "deploy/kubernetes/overlays/acting")],
        capture_output=True,
        check=True,
        text=True,
    )
    return ran.stdout


def overlay() -> list[Object]:
    """The acting overlay's objects, definitions first."""
    found = [one for one in yaml.safe_load_all(_overlay_text()) if one]
    return sorted(found, key=lambda one: one["kind"] not in ("CustomResourceDefinition", "Namespace"))


@functools.cache
def _injected_text() -> str:
    engine = {
        "name": "engine",
        "image": "engine:1",
        "command": [sys.executable, str(TESTS / "kube_fake_engine.py"), "/tmp/engine"],
        "resources": {"limits": {"nvidia.com/gpu": "2"}},
    }
    template = pod_template(containers=[engine], labels={"app": "llm"}, terminationGracePeriodSeconds=20)
    given = yaml.safe_dump(leader_worker_set(template=template))
    words = [PROGRAM, "kube", "inject", "-", "--gate", "--no-metrics", "--metrics-url", METRICS]
    ran = subprocess.run(words, input=given, capture_output=True, check=True, text=True)
    return ran.stdout


def injected() -> list[Object]:
    """The workload as `kube inject` makes it, its sidecars looking once a second so that a test need not wait."""
    found = [one for one in yaml.safe_load_all(_injected_text()) if one]
    for one in found:
        for template in (one["spec"]["leaderWorkerTemplate"]["workerTemplate"],):
            for container in template["spec"]["initContainers"]:
                container["args"] = [*container["args"], "--period", "1"]
    return found


def _quick(obj: Object) -> Object:
    """Probes of the delivered objects look once a second."""
    if obj["kind"] == "DaemonSet":
        for container in obj["spec"]["template"]["spec"]["containers"]:
            for kind in ("readinessProbe", "livenessProbe"):
                container[kind]["periodSeconds"] = 1
    return obj
