"""Evidence out of containers that have a shell and `cat` and nothing of ours: real processes, read through real
shells."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "collect"))

from kube_local_api import LocalApi, only
from small_instance import small_instance

from rankmuster.adapters.bundle_child import diagnose_bundle
from rankmuster.adapters.kube.api import Forbidden, KubeError
from rankmuster.adapters.kube.exec_collect import ExecWish, How, take_pod
from rankmuster.adapters.kube.shell_collect import ShellWish, shell_collect
from rankmuster.collect.bundle.verify import verify
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Ending
from rankmuster.model.kube import ContainerView, PodView

ENGINE = ContainerView(name="worker", running=True, gpus=2)
POD = PodView(namespace="serving", name="llm-0", uid="u-0", created=0.0, node="n1", containers=(ENGINE,))
LITTLE = ("sh", "cat", "sleep", "tail", "timeout", "true", "grep")
TOKEN = "hf_" + "a1B2c3D4e5" * 3


def soon(seconds: float = 20.0) -> Deadline:
    return Deadline.after(seconds)


def manifest(bundle: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((bundle / "manifest.json").read_text())
    return found


def test_a_shell_is_enough_for_a_bundle_that_verifies_and_is_judged(tmp_path: Path) -> None:
    dump = next((Path(__file__).parents[3] / "tests").glob("**/nccl_trace_rank_0"), None)
    environ = {
        "TORCH_FR_DUMP_TEMP_FILE": str(tmp_path / "fr" / "dump_rank_"),
        "NCCL_DEBUG_FILE": str(tmp_path / "fr" / "nccl.%p.log"),
        "VLLM_API_KEY": "sk-very-secret-value",
        "HF_TOKEN": TOKEN,
        "DATABASE_URL": "postgres://u:pw@db/x",
    }
    (tmp_path / "fr").mkdir()
    api = LocalApi(
        path=only(tmp_path / "bin", *LITTLE),
        logs={("worker", False): f"Watchdog caught collective operation timeout\nHF_TOKEN={TOKEN}\n".encode()},
    )
    with small_instance(moving=False, environ=environ) as small:
        for number, pid in enumerate(small.pids):
            (tmp_path / "fr" / f"nccl.{pid}.log").write_text(f"h:{pid}:{pid} [{number}] NCCL INFO Init COMPLETE\n")
        (tmp_path / "fr" / "dump_rank_0").write_bytes(dump.read_bytes() if dump else b"no dump")
        (tmp_path / "fr" / "dump_rank_1").write_bytes(b"garbage")
        (tmp_path / "fr" / "dump_rank_secret").write_text("not a rank's")
        taken = shell_collect(
            api,
            POD,
            "worker",
            frozenset({"grep"}),
            ShellWish(instance=small.name, look_seconds=0.2),
            tmp_path / "b",
            soon(),
        )
    assert taken.bundle == tmp_path / "b", taken
    assert verify(tmp_path / "b").ok
    facts = json.loads((tmp_path / "b" / "instance.json").read_text())
    assert [one["rank"] for one in facts["processes"]] == [0, 1]
    assert [one["pid"] for one in facts["processes"]] == list(small.pids)
    assert facts["environment"]["VLLM_API_KEY"] == "***"
    assert all(one["gpu_uuid"] is None for one in facts["processes"])  # nothing of this machine is the container's
    assert facts["engine_version"] is None
    node = json.loads((tmp_path / "b" / "platform" / "node.json").read_text())
    assert len(node["looks"]) == 2
    assert {task["looks"][1]["state"] for task in node["tasks"] if "rank" in task} <= {"S", "R"}
    collectors = manifest(tmp_path / "b")["collectors"]
    assert isinstance(collectors, dict)
    assert collectors["ras"]["outcome"] == "declined"
    assert collectors["framework-log"]["outcome"] == "done"
    assert len(list((tmp_path / "b" / "nccl").iterdir())) == 2
    everything = b"".join(one.read_bytes() for one in (tmp_path / "b").rglob("*") if one.is_file())
    for secret in (b"sk-very-secret", TOKEN.encode(), b"u:pw@db", b"not a rank's"):
        assert secret not in everything
    assert diagnose_bundle(str(tmp_path / "b"), str(tmp_path / "d"), soon()).ending is Ending.DONE


def test_a_pod_without_a_shell_still_gives_its_logs(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    api = LocalApi(path=str(tmp_path / "bin"), logs={("worker", False): b"CUDA error: device-side assert\n"})
    taken = take_pod(api, POD, ExecWish(), tmp_path / "b.tar.zst", soon(8.0))
    assert taken.bundle is not None
    assert "executable file not found" in taken.note
    assert "--ephemeral --image" in taken.note
    assert verify(taken.bundle).ok


@pytest.mark.parametrize("what", ["sh", "log", "both"])
def test_a_missing_right_is_named_with_its_verb(tmp_path: Path, what: str) -> None:
    api = LocalApi(path=only(tmp_path / "bin", *LITTLE), logs={("worker", False): b"line\n"})
    if what != "log":
        api.refuse["exec"] = Forbidden("exec in pod serving/llm-0: status 403", status=403)
    if what != "sh":
        api.refuse["log"] = Forbidden("log of pod serving/llm-0: status 403", status=403)
    taken = take_pod(api, POD, ExecWish(instance="nobody"), tmp_path / "b.tar.zst", soon(8.0))
    assert ("get and create pods/exec" in taken.note) == (what != "log")
    assert ("get pods/log" in taken.note) == (what != "sh")


def test_an_ended_pod_gives_what_the_api_server_has_of_it(tmp_path: Path) -> None:
    gone = ContainerView(name="worker", exit_code=137, signal=9, reason="OOMKilled", restarts=1, gpus=1)
    pod = PodView(namespace="s", name="p", uid="u", created=0.0, phase="Failed", containers=(gone,))
    api = LocalApi(logs={("worker", False): b"now\n", ("worker", True): b"before\n"})
    taken = take_pod(api, pod, ExecWish(), tmp_path / "b", soon(8.0))
    assert taken.bundle == tmp_path / "b"
    assert api.ran == []
    assert (tmp_path / "b" / "logs" / "worker.previous.log").read_bytes() == b"before\n"
    state = json.loads((tmp_path / "b" / "platform" / "pod.json").read_text())
    assert state["containers"][0]["reason"] == "OOMKilled"


def test_a_shell_that_hangs_costs_its_time_and_what_came_before_is_kept(tmp_path: Path) -> None:
    with small_instance(moving=False) as small:
        path = Path(only(tmp_path / "bin", *(one for one in LITTLE if one != "sleep")))
        (path / "sleep").write_text("#!/bin/sh\nwhile :; do read -t 1 x < /dev/zero; done\n")
        (path / "sleep").chmod(0o755)
        taken = shell_collect(
            LocalApi(path=str(path)),
            POD,
            "worker",
            frozenset(),
            ShellWish(instance=small.name, look_seconds=0.2),
            tmp_path / "b",
            soon(9.0),
        )
    assert taken.bundle is not None, taken
    assert "did not end in time" in taken.note
    facts = json.loads((tmp_path / "b" / "instance.json").read_text())
    assert [one["rank"] for one in facts["processes"]] == [0, 1]


@pytest.mark.parametrize("garbage", ["printf 'no records at all'", "cat /dev/urandom | head -c 200000", "kill -9 $$"])
def test_garbage_is_no_evidence_and_no_error(tmp_path: Path, garbage: str) -> None:
    path = Path(only(tmp_path / "bin", "cat", "head"))
    (path / "sh").write_text(f"#!/bin/sh\n{garbage}\n")
    (path / "sh").chmod(0o755)
    taken = shell_collect(LocalApi(path=str(path)), POD, "worker", frozenset(), ShellWish(), tmp_path / "b", soon(6.0))
    assert "did not come to its end" in taken.note


RAS_ANSWERS = b"""SERVER PROTOCOL 2
OK
NCCL version 2.28.9 compiled with CUDA 12.8
CUDA runtime version 12080, driver version 12080

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      1          2            1          2        2

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         1         2         2         2   RUNNING      OK

"""


@pytest.mark.parametrize("tool", ["python3", "bash"])
def test_ras_is_asked_once_a_stop_is_known_by_whatever_opens_a_connection(tmp_path: Path, tool: str) -> None:
    import socket

    said: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.settimeout(10)
                lines = RAS_ANSWERS.split(b"\n", 2)
                for answer in (lines[0] + b"\n", lines[1] + b"\n", lines[2]):
                    said.append(connection.recv(1000))
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        environ = {"NCCL_RAS_ADDR": f"127.0.0.1:{server.getsockname()[1]}"}
        with small_instance(moving=False, environ=environ) as small:
            taken = shell_collect(
                LocalApi(),
                POD,
                "worker",
                frozenset({tool}),
                ShellWish(stopped=True, instance=small.name, look_seconds=0.2),
                tmp_path / "b",
                soon(),
            )
        thread.join()
    assert taken.bundle is not None
    assert said[0] == b"CLIENT PROTOCOL 2\n"
    assert said[2] == b"VERBOSE STATUS\n"
    (reply,) = (tmp_path / "b" / "ras").iterdir()
    assert reply.read_bytes().startswith(b"NCCL version 2.28.9")


def test_an_ephemeral_container_is_run_in_the_engine_s_namespace_and_its_bundle_fetched(tmp_path: Path) -> None:
    running = {"state": {"running": {}}}
    raw = {"metadata": {"uid": "u-0"}, "status": {"ephemeralContainerStatuses": []}}
    program = tmp_path / "bin" / "rankmuster"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m rankmuster.cli.main "$@" --look 0.5 --no-stacks\n')
    program.chmod(0o755)
    api = LocalApi(path=f"{program.parent}:/usr/bin:/bin", objects={"llm-0": raw})
    refusals = [Forbidden("pods llm-0 is forbidden: violates PodSecurity restricted: capabilities", status=403)]

    class Cluster(LocalApi):
        def patch(self, *args: object, **how: object) -> object:
            if refusals:
                super().patch(*args, **how)  # type: ignore[arg-type]
                raise refusals.pop()
            body = args[3]
            assert isinstance(body, dict)
            name = body["spec"]["ephemeralContainers"][0]["name"]
            self.objects["llm-0"]["status"]["ephemeralContainerStatuses"] = [{"name": name, **running}]
            return super().patch(*args, **how)  # type: ignore[arg-type]

    cluster = Cluster(path=api.path, objects=api.objects)
    with small_instance(moving=False) as small:
        wish = ExecWish(how=How.EPHEMERAL, image="registry.example/rankmuster", instance=small.name)
        taken = take_pod(cluster, POD, wish, tmp_path / "b.tar.zst", soon(25.0))
    assert taken.bundle == tmp_path / "b.tar.zst", taken
    assert verify(taken.bundle).ok
    wide, narrow = (one["body"]["spec"]["ephemeralContainers"][0] for one in cluster.patched)
    assert narrow["targetContainerName"] == "worker"
    assert wide["securityContext"]["capabilities"] == {"add": ["SYS_PTRACE"]}
    assert narrow["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert cluster.patched[0]["subresource"] == "ephemeralcontainers"
    assert cluster.patched[0]["body"]["metadata"] == {"uid": "u-0"}
    assert cluster.ran[0][0] == narrow["name"]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}, "ImagePullBackOff: no such image"),
        ({"terminated": {"reason": "Error", "exitCode": 127}}, "has ended: Error: 127"),
        ({"waiting": {"reason": "ContainerCreating"}}, "did not start in time"),
        (None, "did not start in time"),
    ],
)
def test_an_ephemeral_container_that_does_not_run_is_said(
    tmp_path: Path, state: dict[str, object] | None, words: str
) -> None:
    class Cluster(LocalApi):
        def patch(self, *args: object, **how: object) -> object:
            body = args[3]
            assert isinstance(body, dict)
            name = body["spec"]["ephemeralContainers"][0]["name"]
            found = [{"name": name, "state": state}] if state is not None else None
            self.objects["llm-0"]["status"] = {"ephemeralContainerStatuses": found}
            return {}

    api = Cluster(objects={"llm-0": {"metadata": {"uid": "u-0"}}})
    wish = ExecWish(how=How.EPHEMERAL, image="registry.example/rankmuster")
    taken = take_pod(api, POD, wish, tmp_path / "b.tar.zst", soon(0.6))
    assert taken.bundle is None
    assert words in taken.note


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Forbidden("status 403", status=403), "patch pods/ephemeralcontainers"),
        (KubeError("status 500", status=500), "status 500"),
    ],
)
def test_an_ephemeral_container_that_is_refused_is_said(tmp_path: Path, error: KubeError, words: str) -> None:
    api = LocalApi(refuse={"patch": error})
    wish = ExecWish(how=How.EPHEMERAL, image="registry.example/rankmuster")
    assert words in take_pod(api, POD, wish, tmp_path / "b.tar.zst", soon(2.0)).note
    nameless = ExecWish(how=How.EPHEMERAL)
    assert "--image IMAGE" in take_pod(api, POD, nameless, tmp_path / "b.tar.zst", soon(2.0)).note
