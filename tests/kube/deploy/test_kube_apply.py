"""`kubectl apply` of what is delivered, at a simulated API server: whole, and a second time without change."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kube_manifests import PLACE

from kube_sim.running import serving, write_kubeconfig
from kube_sim.store import Store

LEAST_MINOR = 27
"""Older kubectl ask for OpenAPI of version 2, which the simulated server has not."""


def minor() -> int:
    if shutil.which("kubectl") is None:
        return 0
    done = subprocess.run(["kubectl", "version", "--client", "-o", "json"], capture_output=True, text=True)
    return int(re.sub(r"\D", "", json.loads(done.stdout)["clientVersion"]["minor"]))


pytestmark = pytest.mark.skipif(minor() < LEAST_MINOR, reason=f"no kubectl of 1.{LEAST_MINOR} or later is installed")

NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: inference}\n"

OFTEN = "poddisruptionbudget.policy"
"""kubectl says "configured" of each apply of one: its selector is replaced, never merged."""


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    with serving(Store()) as server:
        config = tmp_path / "kubeconfig"
        write_kubeconfig(config, server.url)
        yield os.environ | {"KUBECONFIG": str(config), "HOME": str(tmp_path)}


def kubectl(environment: dict[str, str], *words: str, given: str = "") -> str:
    command = ["kubectl", *words]
    done = subprocess.run(command, input=given, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_installation_is_applied_twice_and_takes_its_objects(environment: dict[str, str]) -> None:
    overlay = str(PLACE / "overlays" / "acting")
    first = kubectl(environment, "apply", "-k", overlay)
    assert "deployment.apps/rankmuster-controller created" in first
    again = [line for line in kubectl(environment, "apply", "-k", overlay).splitlines() if OFTEN not in line]
    assert again
    assert [line for line in again if not line.endswith(" unchanged")] == []
    kubectl(environment, "apply", "-f", "-", given=NAMESPACE)
    for file in ("examples/policy-acting.yaml", "examples/incident.yaml", "examples/node-admission.yaml"):
        assert kubectl(environment, "apply", "-f", str(PLACE / file)).endswith(" created\n")
    abort = '{"spec": {"abort": {"by": "me"}}}'
    kubectl(environment, "-n", "inference", "patch", "cinc", "llm-0-3f9c1d", "--type", "merge", "-p", abort)
    assert kubectl(environment, "get", "cpol,cinc,nadm", "-A", "-o", "name").count("rankmuster.dev/") == 3


def test_the_drill_is_injected_and_applied(environment: dict[str, str]) -> None:
    """The controller of LeaderWorkerSets is somebody else's; what is applied has to be whole all the same."""
    program = [sys.executable, "-m", "rankmuster.cli.main", "kube", "inject", str(PLACE / "drill" / "lws.yaml")]
    page = "http://127.0.0.1:8000/metrics"
    done = subprocess.run(
        [*program, "--container", "engine", "--metrics-url", page, "--gate"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    kubectl(environment, "apply", "-k", str(PLACE / "definitions"))
    drill = [word for name in ("service", "policy") for word in ("-f", str(PLACE / "drill" / f"{name}.yaml"))]
    assert "communicationpolicy.rankmuster.dev/llm created" in kubectl(environment, "apply", *drill)
    assert "leaderworkerset.x-k8s.io/llm created" in kubectl(environment, "apply", "-f", "-", given=done.stdout)
