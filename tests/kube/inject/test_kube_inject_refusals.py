"""What cannot be done safely is refused with what to do, and nothing is printed."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest
from kube_inject_manifests import DEPLOYMENT, INFERENCE_SERVICE, KINDS, LWS, documents, injected

from rankmuster.kube.inject.templates import NotInjectable


def with_spec(line: str) -> str:
    return DEPLOYMENT.replace("    spec:\n", f"    spec:\n        {line}\n", 1)


def with_container(line: str) -> str:
    return DEPLOYMENT.replace("          args", f"          {line}\n          args", 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (with_spec("hostPID: true"), "hostPID"),
        (with_spec("shareProcessNamespace: false"), "shareProcessNamespace"),
        (with_spec("initContainers: [{name: rankmuster, image: other}]"), "rename"),
        (DEPLOYMENT.replace("name: vllm", "name: rankmuster"), "rename"),
        (with_spec("initContainers: 5"), "initContainers"),
        (with_spec("volumes: {a: b}"), "volumes"),
        (with_spec("os: {name: windows}"), "Windows"),
        (with_container("env: {A: b}"), "env is no list"),
        (with_container("env: [{name: POD_NAME, value: fixed}]"), "POD_NAME"),
        (with_container("volumeMounts: [{name: x, mountPath: /rankmuster/evidence/}]"), "mounted already"),
        (with_container("volumeMounts: no"), "volumeMounts"),
        (with_container("ports: [{containerPort: 9465}]"), "port 9465, which is the sidecar's"),
        (with_container("ports: [{containerPort: 9464}]"), "--no-metrics"),
        (DEPLOYMENT.replace("name: llm, namespace", "namespace"), "metadata.name"),
        (DEPLOYMENT[: DEPLOYMENT.index("  template:")], "spec.template"),
        (DEPLOYMENT[: DEPLOYMENT.index("    spec:")], "no spec"),
        (with_spec("x: y").replace("containers:", "contained:"), "no container"),
        (
            "kind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: a}, {name: b}]}\n",
            r"several \(a, b\).*--container",
        ),
        (INFERENCE_SERVICE.replace("    minReplicas: 1\n", "    workerSpec: {}\n"), "LeaderWorkerSet"),
        (LWS.replace("workerTemplate", "other"), "workerTemplate"),
        ("kind: Pod\nspec: [1]\n", "spec"),
        ("kind: JobSet\nmetadata: {name: x}\nspec: {replicatedJobs: [1]}\n", r"replicatedJobs\[0\]"),
    ],
)
def test_it_is_refused_with_what_to_do(text: str, said: str) -> None:
    with pytest.raises(NotInjectable, match=said):
        injected(text)


def test_the_engine_may_be_named() -> None:
    text = "kind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: a}, {name: b}]}\n"
    (value,) = documents(injected(text, containers=("b",)).text)
    first, second = value["spec"]["containers"]
    assert "env" not in first
    assert "env" in second
    with pytest.raises(NotInjectable, match="there is a, b"):
        injected(text, containers=("c",))


@pytest.mark.parametrize("value", ["[]", "5", "a string", "null", "{kind: [x]}", "{kind: Deployment, metadata: 5}"])
def test_odd_documents_are_no_crash(value: str) -> None:
    with contextlib.suppress(NotInjectable):
        assert injected(value).done == ()


def command(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rankmuster.cli.main", "kube", "inject", *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_command_reads_and_prints_and_says_how_it_went(tmp_path: Path) -> None:
    done = command("-", stdin="---\n".join(KINDS.values()))
    assert done.returncode == 0, done.stderr
    assert len(documents(done.stdout)) == len(KINDS)
    assert "--image names yours" in done.stderr, "a sidecar that cannot be pulled keeps its engine from starting"
    nothing = command("-", stdin="kind: Service\n")
    assert (nothing.returncode, nothing.stdout) == (2, "kind: Service\n")
    refused = command("-", stdin=with_spec("hostPID: true"))
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "hostPID" in refused.stderr
    assert command(str(tmp_path / "none.yaml")).returncode == 3
    assert "is no address of a page" in command("-", "--metrics-url", "127.0.0.1:8000/metrics").stderr
