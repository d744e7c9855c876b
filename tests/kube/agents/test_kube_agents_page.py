"""The node's GPUs as a page: of a DCGM exporter that runs there, with each pod seeing its own alone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from page_server import reply, serving
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.node.pids import BEYOND_PIDS
from rankmuster.collect.target import ProcessOfInstance, Role, Target
from rankmuster.kube.agents.gpu_row import Row, Shown, Whose, text
from rankmuster.kube.agents.hardware_page import HardwarePage
from rankmuster.kube.agents.pods_here import pods_here
from rankmuster.model.hardware import GpuTrack
from rankmuster.watch.finding_known import with_gpus
from rankmuster.watch.signals.dcgm import DcgmSignal
from rankmuster.watch.signals.dcgm_page import Filter, Parser
from rankmuster.watch.signals.gpu_instance import for_instance, share_of
from rankmuster.watch.signals.signal import Heard

UID = "bbbbbbbb-0000-0000-0000-00000000000{}"
UTIL = 'DCGM_FI_DEV_GPU_UTIL{{gpu="{0}",UUID="GPU-{0}",pci_bus_id="00000000:1{0}:00.0",pod="{1}",namespace="ns"}} {2}\n'


@pytest.fixture
def pods() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes of two pods, by what their environment says."""
    made = [
        subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(60)"],
            env={
                **os.environ,
                "POD_UID": UID.format(number),
                "POD_NAME": f"pod-{number}",
                "POD_NAMESPACE": "ns",
                "RANKMUSTER_INSTANCE": "ns.x",
            },
        )
        for number in (1, 2)
    ]
    for one in made:  # between fork and exec it has our own environment
        while b"POD_UID" not in Path(f"/proc/{one.pid}/environ").read_bytes():
            time.sleep(0.01)
    yield made
    for one in made:
        one.kill()
        one.wait()


def test_pods_are_told_by_the_environment_where_no_cgroup_does(pods: list[subprocess.Popen[bytes]]) -> None:
    found = pods_here(Path("/proc"), {UID.format(1), "nobody"})
    assert set(found) == {UID.format(1)}
    (pod,) = found.values()
    assert (pod.namespace, pod.name, pod.engine) == ("ns", "pod-1", (pods[0].pid,))
    assert set(pods_here(Path("/proc"))) >= {UID.format(1), UID.format(2)}


def test_a_pod_sees_its_own_gpus_of_an_exporter(pods: list[subprocess.Popen[bytes]]) -> None:
    page = "".join(UTIL.format(gpu, f"pod-{1 + gpu // 2}", 10 * gpu) for gpu in range(4))
    page += 'DCGM_FI_DEV_GPU_UTIL{gpu="4",UUID="GPU-4"} 5\n'
    with serving(lambda connection, *_: connection.sendall(reply(page))) as url:
        made = HardwarePage(f"{url}/metrics", Path("/proc"), "node-a", time.monotonic)
        whole = parsed(made.answer(None).body)
        assert {index: gpu.pods for index, gpu in whole.items()} == {
            0: {"ns/pod-1"},
            1: {"ns/pod-1"},
            2: {"ns/pod-2"},
            3: {"ns/pod-2"},
            4: set(),
        }
        assert set(parsed(made.answer(UID.format(2)).body)) == {2, 3}
        assert made.answer("nobody").status == 503
        made.close()


@pytest.mark.parametrize(
    "answer", [b"", reply("no metrics"), reply("x", "404 Not Found"), b"HTTP/1.1 200 OK\r\n\r\nDCGM"]
)
def test_an_exporter_that_is_none_is_said_to_be(answer: bytes) -> None:
    with serving(lambda connection, *_: connection.sendall(answer)) as url:
        made = HardwarePage(f"{url}/metrics?token=hidden", Path("/proc"), "node-a", time.monotonic)
        said = made.answer(None)
        assert said.status == 503
        assert b"DCGM" in said.body
        assert b"hidden" not in said.body


def parsed(body: bytes):
    lines = Filter()
    lines.take(body)
    lines.end()
    return Parser().parse(lines.kept).gpus


VALUES = {
    "DCGM_FI_DEV_GPU_UTIL": 100.0,
    "DCGM_FI_PROF_NVLINK_TX_BYTES": 0.0,
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 5e9,
}


def test_what_is_written_is_read_as_it_was_meant() -> None:
    whose = Whose("uid-1", "ns", 'odd "pod"\n\\', "vllm")
    rows = [
        Shown(Row(3, "GPU-3", "0000:9d:00", VALUES), whose, (17, 5 + BEYOND_PIDS)),
        Shown(Row(4, None, None, VALUES), Whose(), ()),
        Shown(Row(5, None, None, VALUES), Whose(), tuple(range(1, 5000))),  # more than a line may hold: not said
    ]
    found = parsed(text(rows, "node-a").encode())
    assert {index: gpu.labels.pids for index, gpu in found.items()} == {3: (17, 5 + BEYOND_PIDS), 4: (), 5: None}
    assert found[3].values == VALUES
    assert (found[3].labels.uuid, found[3].labels.bus) == ("GPU-3", "0000:9d:00")


def worker(rank: int, pid: int, gpu: int) -> ProcessOfInstance:
    return ProcessOfInstance(pid, pid, None, 1, 0.0, Role.WORKER, "python", rank=rank, gpus=(gpu,))


def test_a_watch_in_the_pod_takes_ranks_and_gpus_together_whatever_their_numbers() -> None:
    target = Target("ns.x", "pod-1", (worker(0, 17, 0), worker(1, 18, 1)))  # a pod counts its GPUs from 0
    rows = [
        Shown(Row(1, "GPU-1", None, VALUES), Whose("u", "ns", "pod-1"), (17,)),
        Shown(Row(2, "GPU-2", None, VALUES), Whose("u", "ns", "pod-1"), (17, 18)),
    ]
    page = text(rows, "node-a")
    with serving(lambda connection, *_: connection.sendall(reply(page))) as url:
        signal = DcgmSignal(f"{url}/hardware", "pod-1")
        said = list(signal.poll(Deadline.after(10.0)))
    tracks = [one.observation for one in said if isinstance(one, Heard) and isinstance(one.observation, GpuTrack)]
    assert [(track.gpu, track.pids) for track in tracks] == [(1, ((17,),)), (2, ((17, 18),))]
    known = with_gpus(target, signal.processes)
    assert [(one.rank, one.gpus, one.gpu_uuids) for one in known.processes] == [
        (0, (1,), ("GPU-1",)),
        (1, (2,), ("GPU-2",)),
    ]
    assert with_gpus(target, {}) is target
    own = [for_instance(track, share_of(known, (), sole=True)) for track in tracks]
    assert [(one.host, one.pids) for one in own if one is not None] == [("pod-1", ((17,),)), ("pod-1", ((17, 18),))]
    other = Target("ns.y", "pod-1", (worker(0, 99, 1),))
    assert for_instance(tracks[0], share_of(other, (), sole=False)) is None
