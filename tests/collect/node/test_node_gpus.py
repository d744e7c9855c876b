"""GPUs through the real binding and a driver of our own making: what is taken, and what a broken driver costs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from node_bench import HOST, Bench, target, worker

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.find.search import Request
from rankmuster.collect.look_for import look_for
from rankmuster.collect.machine import Machine
from rankmuster.collect.node import gpus as module
from rankmuster.collect.node import proc_tasks
from rankmuster.collect.node.children import run
from rankmuster.collect.node.gpus import Gpus
from rankmuster.collect.node.nvml_session import listed
from rankmuster.collect.node.smi_topology import SmiTopology
from rankmuster.collect.outcome import Ending
from rankmuster.evidence.bundle import load
from rankmuster.model.hardware import GpuTrack
from rankmuster.model.topology import GpuFacts, NvlinkStatus, TopologyMatrix


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two looks are enough to see that the series grows."""
    monkeypatch.setattr(module, "LEAST_SECONDS", 0.4)


def rows(bench: Bench) -> list[dict[str, object]]:
    return [json.loads(line) for line in bench.text("gpu-counters.jsonl").splitlines()]


def test_samples_and_facts_of_every_gpu_are_read_by_diagnose(bench, nvml):
    nvml()
    outcome = bench.collect(Gpus(interval=0.1))
    assert outcome.ending is Ending.DONE, outcome
    evidence = load(bench.folder)
    assert not evidence.problems
    tracks = evidence.of(GpuTrack)
    assert [track.gpu for track in tracks] == [0, 1, 2, 3]
    for track in tracks:
        assert track.host == HOST
        assert track.bus_id == f"0000:{0x9A + track.gpu:02x}:00"
        assert track.uuid == f"GPU-00000000-0000-0000-0000-00000000000{track.gpu}"
        assert len(track.time) >= 3
        assert (track.nvlink_tx_kib[1:] > track.nvlink_tx_kib[:-1]).all()
        assert track.power_w[0] == pytest.approx(210.4 + track.gpu / 1000)
        assert track.pids[0] == (4242 + track.gpu,)
    facts = evidence.of(GpuFacts)
    assert [fact.index for fact in facts] == [0, 1, 2, 3]
    assert facts[1].facts["GPU Recovery Action"] == "GPU Reset Required"
    assert facts[1].facts["Remapped Rows / Remapping Failure Occurred"] == "Yes"
    assert facts[0].facts["Driver Version"] == "580.159.04"
    assert facts[0].facts["PCI / GPU Link Info / Link Width / Current"] == "8x"
    assert facts[0].facts["NVLink / Link 1 / dl_replay"] == "1"
    assert [status.links for status in evidence.of(NvlinkStatus)] == [(26.562, 26.562, None)] * 4


def test_the_traffic_of_looking_at_a_gpu_is_not_taken_for_that_of_the_instance(bench, nvml):
    nvml()
    bench.collect(Gpus(interval=0.1))
    assert rows(bench)[0]["pcie_tx_wrapping_counter"] == 77
    track = load(bench.folder).of(GpuTrack)[0]
    assert not (track.pcie_tx_kib >= 0).any()


def test_bytes_that_are_counted_per_link_only_are_added_up(bench, nvml):
    nvml("blackwell")
    assert bench.collect(Gpus(interval=0.1)).ending is Ending.DONE
    track = load(bench.folder).of(GpuTrack)[0]
    assert track.nvlink_tx_kib[0] > 3000
    assert (track.nvlink_tx_kib[1:] > track.nvlink_tx_kib[:-1]).all()


def test_a_gpu_that_never_answers_costs_only_its_own_samples(bench, nvml):
    nvml("block")
    began = time.monotonic()
    outcome = bench.collect(Gpus(interval=0.1), look=1.3)
    assert time.monotonic() - began < 9
    assert outcome.ending is Ending.PARTIAL
    assert "GPU 2 has not answered" in " ".join(outcome.warnings)
    assert "nvmlDeviceGetFieldValues" in " ".join(outcome.warnings)
    assert {row["gpu"] for row in rows(bench)} == {0, 1, 3}
    assert len(rows(bench)) >= 9


def test_a_lost_gpu_is_said_and_leads_diagnose_to_it(bench, nvml):
    nvml("lost")
    outcome = bench.collect(Gpus(interval=0.1))
    assert outcome.ending is Ending.PARTIAL
    assert "GPU 2: GPU is lost" in " ".join(outcome.warnings)
    lost = [facts for facts in load(bench.folder).of(GpuFacts) if "error" in facts.facts]
    assert [(facts.index, facts.bus_id, facts.facts["error"]) for facts in lost] == [(2, "0000:9c:00", "GPU is lost")]


def test_what_was_said_before_a_crash_of_the_library_is_kept(bench, nvml):
    nvml("crash")
    outcome = bench.collect(Gpus(interval=0.02))
    assert outcome.ending is Ending.PARTIAL
    assert "killed by signal 11" in " ".join(outcome.warnings)
    assert rows(bench)


def test_a_gpu_that_gives_nothing_away_has_no_samples_and_its_name(bench, nvml):
    nvml("bare")
    outcome = bench.collect(Gpus(interval=0.1))
    assert "no GPU gave one" in outcome.note
    assert bench.files == ["topology/gpus.json"]
    evidence = load(bench.folder)
    assert not evidence.problems
    assert {facts.name for facts in evidence.of(GpuFacts)} == {"Fake H200"}


def test_a_driver_that_blocks_at_once_is_left_behind_at_the_deadline(bench, nvml):
    nvml("init-blocks")
    began = time.monotonic()
    outcome = bench.collect(Gpus(start_seconds=0.1), seconds=1.5)
    assert time.monotonic() - began < 5
    assert outcome.ending is Ending.FAILED
    assert "gave no answer" in outcome.note
    assert bench.files == []


def test_a_short_deadline_is_not_taken_for_a_driver_that_blocks(bench, nvml):
    nvml("init-blocks")
    outcome = bench.collect(Gpus(), seconds=1.0)
    assert outcome.ending is Ending.TIMED_OUT
    assert "longer --deadline" in outcome.note
    assert "GPU fault" not in outcome.note


def test_a_machine_without_a_driver_says_so_quickly(bench, nvml):
    nvml("no-driver")
    outcome = bench.collect(Gpus())
    assert (outcome.ending, outcome.note[:21]) == (Ending.NOTHING, "no NVIDIA driver here")


def test_ranks_are_listed_by_their_own_numbers(bench, nvml):
    nvml(first_pid=7000)
    instance = target(*(worker(rank, pid=7000 + rank, inner=100 + rank, host=7000 + rank) for rank in range(4)))
    assert bench.collect(Gpus(interval=0.1), target=instance).warnings == ()
    assert {(row["gpu"], *row["pids"]) for row in rows(bench)} == {(0, 100), (1, 101), (2, 102), (3, 103)}  # type: ignore[misc]


def test_without_the_hosts_numbers_nothing_is_said_of_processes(bench, nvml):
    nvml(first_pid=7000)
    instance = target(*(worker(rank, pid=30 + rank, inner=30 + rank) for rank in range(4)))
    outcome = bench.collect(Gpus(interval=0.1), target=instance)
    assert "another pid namespace" in outcome.warnings[0]
    assert {row["pids"] for row in rows(bench)} == {None}


def test_processes_that_a_container_cannot_see_have_not_left_their_gpus(bench, nvml):
    nvml("hidden")
    outcome = bench.collect(Gpus(interval=0.1), target=target(worker(0)))
    assert "NVML lists no process" in outcome.warnings[0]
    assert {row["pids"] for row in rows(bench)} == {None}


def test_sampling_goes_on_until_the_others_have_ended(bench, nvml):
    nvml()
    began = time.monotonic()
    bench.collect(Gpus(interval=0.1), ending=False, seconds=1.6)
    assert time.monotonic() - began > 0.7


def test_the_processes_of_all_gpus_for_whoever_looks_for_an_instance(nvml):
    nvml(first_pid=7000)
    said = listed(5.0)
    assert said is not None
    assert said.gpus == tuple((gpu, f"GPU-00000000-0000-0000-0000-00000000000{gpu}") for gpu in range(4))
    assert said.processes == {7000 + gpu: (said.gpus[gpu],) for gpu in range(4)}


def test_a_worker_that_knows_its_gpu_by_uuid_is_given_the_index(nvml):
    nvml()
    uuid = "GPU-00000000-0000-0000-0000-000000000002"
    place = {"RANKMUSTER_INSTANCE": "llm-by-uuid", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
    code = "import sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**place, "CUDA_VISIBLE_DEVICES": uuid},
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        sought = look_for(Machine(), Request((child.pid,)), now=time.time(), deadline=Deadline.after(25))
        child.communicate(b"")
    assert sought.target is not None
    assert [(one.rank, one.gpus, one.gpu_uuids) for one in sought.target.workers] == [(0, (2,), (uuid,))]


@pytest.mark.parametrize("mode", ["no-driver", "init-blocks"])
def test_no_answer_is_no_list_of_processes(nvml, mode):
    nvml(mode)
    assert listed(0.8) is None


def test_topology_tables_are_read_with_their_kind_time_and_host(bench, tmp_path, monkeypatch):
    table = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \t{0}\t0-9\nGPU1\t{0}\t X \t0-9\n"
    tool = tmp_path / "nvidia-smi"
    tool.write_text(
        "#!/bin/sh\n"
        f"if [ \"$2\" = -m ]; then printf '{table.format('NV18')}'; else printf '{table.format('OK')}'; fi\n".replace(
            "\t", "\\t"
        )
        .replace("9\n", "9\\n")
        .replace("Affinity\n", "Affinity\\n")
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert bench.collect(SmiTopology()).ending is Ending.DONE
    found = load(bench.folder).of(TopologyMatrix)
    assert [(matrix.kind, matrix.host) for matrix in found] == [("m", HOST), ("r", HOST), ("w", HOST), ("n", HOST)]
    assert found[0].cells["GPU0", "GPU1"] == "NV18"


def test_a_tool_that_hangs_is_asked_once(bench, tmp_path, monkeypatch):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nexec sleep 100\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    began = time.monotonic()
    outcome = bench.collect(SmiTopology(), seconds=0.5)
    assert time.monotonic() - began < 4
    assert outcome.ending is Ending.FAILED
    assert outcome.note.count("did not end in time") == 1


def test_the_child_ends_with_whoever_started_it(nvml):
    nvml("block")
    code = (
        "import os\n"
        "from rankmuster.collect.deadline import Deadline\n"
        "from rankmuster.collect.node.nvml_session import NvmlSession\n"
        "session = NvmlSession(seconds=60)\n"
        "assert session.lines(Deadline.after(20))\n"
        "print(session._process.pid, flush=True)\n"
        "os._exit(0)\n"
    )
    ran = run((sys.executable, "-c", code), Deadline.after(30))
    child = Path("/proc") / ran.output.decode().strip()
    deadline = Deadline.after(20)
    while not deadline.passed:
        found = proc_tasks.stat(child)
        if found is None or found.state in "ZX":
            return
    raise AssertionError("it lives on")


@pytest.mark.parametrize(
    ("complaint", "kept"),
    [
        ("Unable to determine the device handle for GPU0000:9B:00.0: GPU is lost.  Reboot the system", True),
        ("No devices were found", False),
        ("Failed to initialize NVML: Driver/library version mismatch", False),
    ],
)
def test_of_its_complaints_only_those_of_a_gpu_are_evidence(bench, tmp_path, monkeypatch, nvml, complaint, kept):
    nvml("no-driver")
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\necho '{complaint}'\nexit 15\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    bench.collect(SmiTopology())
    bench.collect(Gpus())
    assert bool(bench.files) is kept
    if kept:
        facts = load(bench.folder).of(GpuFacts)
        assert {fact.bus_id for fact in facts} == {"0000:9b:00"}


def test_the_tool_stands_in_for_the_library(bench, tmp_path, monkeypatch, nvml):
    nvml("no-driver")
    tool = tmp_path / "nvidia-smi"
    tool.write_text(
        "#!/bin/sh\ncase $1 in *utilization*) echo '0, GPU-1, 00000000:9B:00.0, 100, 2, 210.5, 1980, [N/A]';;\n"
        "*) echo 'index, name, uuid, pci.bus_id'; echo '0, NVIDIA H200, GPU-1, 00000000:9B:00.0';; esac\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert bench.collect(Gpus()).ending is Ending.PARTIAL
    evidence = load(bench.folder)
    assert not evidence.problems
    (track,) = evidence.of(GpuTrack)
    assert (track.sm_percent[0], track.uuid, track.bus_id) == (100, "GPU-1", "0000:9b:00")
    assert evidence.of(GpuFacts)[0].name == "NVIDIA H200"
