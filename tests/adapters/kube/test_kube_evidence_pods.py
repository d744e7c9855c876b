"""Evidence of an instance whose pods are there, are gone, hang or lie: what could be had is one bundle, and the rest is
named. Sidecars and agents are the real ones, over real sockets.
"""

from __future__ import annotations

import hashlib
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "collect"))

from kube_local_api import LocalApi, only
from small_instance import Small, small_instance

from page_server import reply, serving
from rankmuster.adapters.kube.agent_call import AgentCall
from rankmuster.adapters.kube.agent_wire import agent_of
from rankmuster.adapters.kube.api import KubeError
from rankmuster.adapters.kube.pod_evidence import PodEvidence
from rankmuster.adapters.kube.shell_collect import ShellWish, shell_collect
from rankmuster.collect.bundle.verify import verify
from rankmuster.collect.deadline import Deadline
from rankmuster.kube.agents.agent import AgentSettings, NodeAgent
from rankmuster.kube.agents.sidecar import Sidecar, SidecarSettings
from rankmuster.model.incident import Ending
from rankmuster.model.kube import SIDECAR, ContainerView, PodView

ENGINE = ContainerView(name="worker", running=True, gpus=1)
OURS = ContainerView(name=SIDECAR, running=True, init=True)
LITTLE = ("sh", "cat", "sleep", "tail", "timeout", "true", "grep")


def pod(number: int, address: str | None = "127.0.0.1", *, ours: bool = True) -> PodView:
    return PodView(
        namespace="serving",
        name=f"llm-{number}",
        uid=f"{number}" * 8 + "-aaaa-bbbb-cccc-dddddddddddd",
        created=0.0,
        node="n1",
        ip=address,
        host_ip="127.0.0.1",
        phase="Running",
        containers=(ENGINE, OURS) if ours else (ENGINE,),
    )


def soon(seconds: float = 20.0) -> Deadline:
    return Deadline.after(seconds)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def calls(tmp_path: Path) -> AgentCall:
    (tmp_path / "token").write_text("a-token-of-this-test-only")
    return AgentCall(tmp_path / "token")


def evidence(tmp_path: Path, pods: Sequence[PodView], **more: object) -> PodEvidence:
    return PodEvidence(calls(tmp_path), lambda instance, incarnation, deadline: pods, **more)  # type: ignore[arg-type]


@contextmanager
def real(tmp_path: Path, small: Small, one: PodView) -> Iterator[tuple[int, int]]:
    """(port of the pod's sidecar, port of the node's agent)."""
    (tmp_path / "token").write_text("a-token-of-this-test-only")
    (tmp_path / "evidence").mkdir()
    ports = free_port(), free_port()
    agent = NodeAgent(
        AgentSettings(f"127.0.0.1:{ports[1]}", tmp_path / "token", tmp_path / "node", dcgm_url="http://127.0.0.1:9/x"),
        lambda text: None,
    )
    sidecar = Sidecar(
        SidecarSettings(
            f"127.0.0.1:{ports[0]}",
            tmp_path / "token",
            tmp_path / "evidence",
            tmp_path / "work",
            agent=f"http://127.0.0.1:{ports[1]}",
            metrics_url=small.url,
            instance=small.name,
            pod_uid=one.uid,
            grace=4.0,
        ),
        lambda text: None,
    )
    stops = threading.Event(), threading.Event()
    runs = sidecar.run, agent.run
    threads = [threading.Thread(target=run, args=(stop,)) for run, stop in zip(runs, stops, strict=True)]
    for thread in threads:
        thread.start()
    try:
        for port in ports:
            until = soon(10)
            while not until.passed:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    time.sleep(0.02)
        yield ports
    finally:
        for stop, thread in zip(stops, threads, strict=True):
            stop.set()
            thread.join()


def test_sidecar_and_agent_and_a_pod_without_any_are_one_bundle_and_one_that_is_away_is_named(tmp_path: Path) -> None:
    here, bare, away = pod(0), pod(1, ours=False), pod(2, "127.9.9.9")
    with ExitStack() as stack:
        small = stack.enter_context(small_instance(1, moving=False, environ={"POD_UID": here.uid}))
        # The pod without a sidecar has rank 1 of the same instance, and a shell.
        ports = stack.enter_context(real(tmp_path, small, here))
        api = LocalApi(path=only(tmp_path / "bin", *LITTLE), logs={("worker", False): b"a line\n"})
        told: list[Path] = []
        saves = evidence(
            tmp_path,
            (here, bare, away),
            api=api,
            sidecar_port=ports[0],
            agent_port=ports[1],
            collected=told.append,
        )
        answer = saves.collect(small.name, "anchor.r1", (), str(tmp_path / "e"), soon(14.0), stopped=True)
    assert answer.ending is Ending.PARTIAL, answer
    bundle = tmp_path / "e" / "bundle"
    assert answer.data["bundle"] == str(bundle), answer
    assert verify(bundle).ok
    assert told == [bundle]
    assert any("pod serving/llm-2" in one for one in answer.data["missing"]), answer
    names = {one.name for one in (tmp_path / "e" / "nodes").iterdir()}
    assert {f"pod-llm-0-{here.uid[:8]}.tar.zst", f"pod-llm-1-{bare.uid[:8]}.tar.zst", "node-n1.tar.zst"} <= names
    manifest = verify(bundle).manifest
    assert manifest is not None
    assert manifest.document["instance"]["name"] == small.name
    assert manifest.document["instance"]["incarnation"] == "anchor.r1"
    assert answer.data["sha256"] == hashlib.sha256((bundle / "manifest.json").read_bytes()).hexdigest()
    again = saves.collect(small.name, "anchor.r1", (), str(tmp_path / "e"), soon(), stopped=True)
    assert again.ending is Ending.DONE
    assert saves.diagnose(str(bundle), str(tmp_path / "d"), soon()).ending is Ending.DONE


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A small bundle as a pod's sidecar would have made it."""
    place = tmp_path_factory.mktemp("made")
    api = LocalApi(path=only(place / "bin", *LITTLE), logs={("worker", False): b"a line\n"})
    wish = ShellWish(as_instance="serving.llm", as_incarnation="anchor", instance="nobody")
    shell_collect(api, pod(0), None, frozenset(), wish, place / "b.tar.zst", soon(6.0))
    return (place / "b.tar.zst").read_bytes()


def bundle_answer(data: bytes) -> bytes:
    return reply(data, "200 OK", f"X-Rankmuster-Sha256: {hashlib.sha256(data).hexdigest()}")


def test_what_a_deleted_pod_has_left_with_its_node_s_agent_is_taken(tmp_path: Path, made: bytes) -> None:
    (tmp_path / "token").write_text("a-token-of-this-test-only")
    settings = AgentSettings(f"127.0.0.1:{free_port()}", tmp_path / "token", tmp_path / "node")
    agent, stop = NodeAgent(settings, lambda text: None), threading.Event()
    thread = threading.Thread(target=agent.run, args=(stop,))
    thread.start()
    gone = replace(pod(0, "127.9.9.9"), deleting=True)
    port = int(settings.listen.rpartition(":")[2])
    try:
        (tmp_path / "left").write_bytes(made)
        until = soon(10)
        while not until.passed:
            try:
                calls(tmp_path).put(agent_of(gone, port), "x.tar.zst", tmp_path / "left", gone.uid, soon())
                break
            except Exception:
                time.sleep(0.05)
        saves = evidence(tmp_path, (gone,), agent_port=port, sidecar_port=1)
        answer = saves.collect("serving.llm", None, (), str(tmp_path / "e"), soon(12.0), stopped=True)
    finally:
        stop.set()
        thread.join()
    assert (tmp_path / "e" / "nodes" / f"left-llm-0-{gone.uid[:8]}.tar.zst").read_bytes() == made
    assert answer.data["bundle"] == str(tmp_path / "e" / "bundle"), answer


def test_one_garbage_bundle_does_not_cost_the_others(tmp_path: Path, made: bytes) -> None:
    def answer(connection: socket.socket, request: bytes, count: int) -> None:
        garbage = b"\x28\xb5\x2f\xfd" + b"?" * 500
        connection.sendall(bundle_answer(made if b"Pod-Uid: 0" in request else garbage))

    with serving(answer) as url:
        port = int(url.rpartition(":")[2])
        saves = evidence(tmp_path, (pod(0), pod(1)), agents=False, sidecar_port=port)
        answer_ = saves.collect("serving.llm", None, (), str(tmp_path / "e"), soon(15.0), stopped=True)
    assert answer_.ending is Ending.PARTIAL, answer_
    assert answer_.data["bundle"] == str(tmp_path / "e" / "bundle")
    assert any("pod-llm-1" in one and "left out" in one for one in answer_.data["missing"]), answer_


def hang(connection: socket.socket, request: bytes, count: int) -> None:
    while connection.recv(65536):
        pass


def test_those_that_hang_cost_the_deadline_and_no_more(tmp_path: Path) -> None:
    with serving(hang) as url:
        port = int(url.rpartition(":")[2])
        pods = tuple(pod(number) for number in range(3))
        saves = evidence(tmp_path, pods, sidecar_port=port, agent_port=port)
        begun = time.monotonic()
        answer = saves.collect("serving.llm", None, (), str(tmp_path / "e"), soon(2.0), stopped=True)
    assert time.monotonic() - begun < 6.0  # a machine that is busy: the deadline was two seconds
    assert answer.ending is Ending.TIMED_OUT
    for number in range(3):
        assert f"pod serving/llm-{number}" in answer.note
    assert "the agent of node n1" in answer.note


def test_a_run_that_was_killed_is_taken_up_with_what_it_had(tmp_path: Path, made: bytes) -> None:
    nodes = tmp_path / "e" / "nodes"
    nodes.mkdir(parents=True)
    (nodes / "pod-llm-0-00000000.tar.zst").write_bytes(made)
    (nodes / "left-llm-0-00000000.tar.zst").write_bytes(made)  # a copy, which a merge would refuse
    (nodes / ".pod-llm-1-11111111.tar.zst.abc.part").write_bytes(b"half")
    saves = evidence(tmp_path, (), agents=False)
    answer = saves.collect("serving.llm", "anchor", (), str(tmp_path / "e"), soon(10.0), stopped=True)
    assert answer.data["bundle"] == str(tmp_path / "e" / "bundle"), answer
    assert "has no pods of incarnation anchor" in answer.note


def test_which_pods_there_are_is_not_guessed(tmp_path: Path) -> None:
    def ask(instance: str, incarnation: str | None, deadline: Deadline) -> Sequence[PodView]:
        raise KubeError("list pods: no answer in time", late=True)

    saves = PodEvidence(calls(tmp_path), ask)
    answer = saves.collect("serving.llm", None, (), str(tmp_path / "e"), soon(3.0), stopped=True)
    assert answer.ending is Ending.FAILED
    assert "no answer in time" in answer.note


def test_a_pod_without_sidecar_and_without_exec_is_said(tmp_path: Path) -> None:
    saves = evidence(tmp_path, (pod(0, ours=False),), agents=False)
    answer = saves.collect("serving.llm", None, (), str(tmp_path / "e"), soon(3.0), stopped=True)
    assert answer.ending is Ending.FAILED
    assert "by exec is not enabled" in answer.note
    (tmp_path / "file").write_text("")
    answer = saves.collect("serving.llm", None, (), str(tmp_path / "file"), soon(3.0), stopped=True)
    assert "no evidence can be kept" in answer.note
