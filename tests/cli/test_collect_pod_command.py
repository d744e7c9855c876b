"""`rankmuster collect --pod` against a simulated API server whose containers are this machine: one command, real exec
streams, real shells, and what can go wrong on the way.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "collect"))

from small_instance import small_instance

from kube_sim.faults import Fault, Harm
from kube_sim.problems import ApiProblem
from kube_sim.remote import Execution, LogWish
from kube_sim.running import serving, write_kubeconfig
from kube_sim.server import Server
from kube_sim.store import Store
from rankmuster.cli.collect_pods import PodsAsked, collect_pods
from rankmuster.cli.status import CommandError
from rankmuster.collect.bundle.verify import verify
from rankmuster.collect.wishes import AddressMode, RasRisk

LITTLE = ("sh", "cat", "sleep", "tail", "timeout", "true", "grep")


@dataclass
class Here:
    """A kubelet whose containers are this machine. `paths`: $PATH of a pod's container."""

    paths: dict[str, str] = field(default_factory=dict)

    def execute(self, call: Execution) -> int:
        name = call.pod["metadata"]["name"]
        program = next(
            (f"{one}/{call.command[0]}" for one in self.paths.get(name, os.defpath).split(":")
             if os.access(f"{one}/{call.command[0]}", os.X_OK)),
            None,
        )  # fmt: skip
        if program is None:
            raise ApiProblem(500, "InternalError", f'exec: "{call.command[0]}": executable file not found in $PATH')
        done = subprocess.run(
            [program, *call.command[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={"PATH": self.paths.get(name, os.defpath), "PYTHONPATH": os.pathsep.join(sys.path)},
            cwd="/",
            timeout=60,
            check=False,
        )
        call.write(done.stdout)
        call.write_error(done.stderr)
        return done.returncode

    def log(self, wish: LogWish) -> Iterable[bytes]:
        return [b"before\n" if wish.previous else b"RuntimeError: NCCL communicator was aborted\n"]


def pod(name: str, *containers: str, restarts: int = 0) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "serving", "name": name},
        "spec": {"nodeName": "n1", "containers": [{"name": one, "image": "i"} for one in containers or ("worker",)]},
        "status": {
            "phase": "Running",
            "containerStatuses": [
                {
                    "name": one,
                    "ready": True,
                    "restartCount": restarts,
                    "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                }
                for one in containers or ("worker",)
            ],
        },
    }


@contextmanager
def cluster(tmp_path: Path, kubelet: Here, *pods: dict[str, Any]) -> Iterator[Server]:
    store = Store()
    for namespace in ("serving",):
        store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}, check="")
    for one in pods:
        store.create(one, check="")
    with serving(store, kubelet=kubelet) as server:
        write_kubeconfig(tmp_path / "kubeconfig", server.url, namespace="serving")
        yield server


def only(folder: Path, *programs: str) -> str:
    folder.mkdir()
    for name in programs:
        there = next(f"{one}/{name}" for one in os.defpath.split(":") if os.access(f"{one}/{name}", os.X_OK))
        (folder / name).symlink_to(there)
    return str(folder)


def run(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rankmuster.cli.main", "collect", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "KUBECONFIG": str(tmp_path / "kubeconfig")},
        timeout=120,
        check=False,
    )


def test_two_pods_of_an_instance_one_with_rankmuster_and_one_with_a_shell_are_one_bundle(tmp_path: Path) -> None:
    program = tmp_path / "with" / "rankmuster"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m rankmuster.cli.main "$@"\n')
    program.chmod(0o755)
    kubelet = Here({"llm-0": f"{program.parent}:{os.defpath}", "llm-1": only(tmp_path / "little", *LITTLE)})
    with small_instance(moving=False) as small, cluster(tmp_path, kubelet, pod("llm-0"), pod("llm-1")) as server:
        ran = run(
            tmp_path,
            *("--pod", "pod/llm-0", "--pod", "serving/llm-1", "--instance", small.name, "--as-incarnation", "x"),
            *("--look", "0.5", "--no-stacks", "--dumps", "never", "--deadline", "25"),
            *("--output", str(tmp_path / "b")),
        )
        rights = server.recorder.rights()
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == f"{tmp_path / 'b'}\n"
    assert verify(tmp_path / "b").ok
    manifest = json.loads((tmp_path / "b" / "manifest.json").read_text())
    assert len(manifest["nodes"]) == 2
    assert rights == {
        ("", "pods", "get"),
        ("", "pods/log", "get"),
        ("", "pods/exec", "get"),
        ("", "pods/exec", "create"),
    }
    assert not [one for one in tmp_path.iterdir() if one.name.endswith(".part")]


def test_a_pod_that_is_not_there_and_rights_that_are_missing_are_said(tmp_path: Path) -> None:
    with cluster(tmp_path, Here(), pod("llm-0", restarts=1)) as server:
        nobody = run(tmp_path, "--pod", "llm-9", "--output", str(tmp_path / "a"), "--deadline", "8")
        assert nobody.returncode == 3
        assert "llm-9" in nobody.stderr
        assert not (tmp_path / "a").exists()
        server.faults.switch_on(Fault(Harm.REFUSE, resource="pods/exec", status=403, times=None))
        refused = run(tmp_path, "--pod", "llm-0", "--output", str(tmp_path / "b.tar.zst"), "--deadline", "10")
    assert refused.returncode in (0, 2), refused.stderr
    assert "pods/exec" in refused.stderr
    assert verify(tmp_path / "b.tar.zst").ok


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"pods": ("UPPER_case",)}, "names no pod"),
        ({"ephemeral": True}, "--image"),
        ({"image": "i"}, "--ephemeral"),
        ({"image": "i", "ephemeral": True, "by_exec": True}, "exclude each other"),
        ({"context": "none-such"}, "none-such"),
        ({"pods": tuple(f"p{n}" for n in range(300))}, "256"),
    ],
)
def test_bad_usage_says_what_would_be_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], words: str
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:9")))
    asked = PodsAsked(
        pods=("a",),
        namespace=None,
        container=None,
        context=None,
        image=None,
        ephemeral=False,
        by_exec=False,
        output=tmp_path / "b",
        seconds=5.0,
        stopped=False,
        instance=None,
        as_instance=None,
        as_incarnation=None,
        ras_risk=RasRisk.NEVER,
        addresses=AddressMode.FOREIGN,
        look_seconds=1.0,
        options=(),
    )
    with pytest.raises(CommandError, match=words):
        collect_pods(replace(asked, **given))
    assert [one.name for one in tmp_path.iterdir()] == ["kubeconfig"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("--pod", "a", "--pid", "1"), "means this machine"), (("--namespace", "x"), "name --pod")],
)
def test_options_of_this_machine_and_of_pods_are_not_mixed(
    tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    ran = run(tmp_path, *arguments, "--output", str(tmp_path / "b"))
    assert ran.returncode == 3
    assert words in ran.stderr
