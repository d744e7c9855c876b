"""Ranks in a container that has some of the node's GPUs, seen from where all of them are."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_proc import NOW, FakeProc

from rankmuster.collect.find.device_nodes import handed_in
from rankmuster.collect.find.devices import Gpu
from rankmuster.collect.find.search import Request, find
from rankmuster.collect.machine import Machine

NODE = tuple(Gpu(index, f"GPU-{index:08x}") for index in range(4))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    proc = FakeProc(tmp_path / "proc")
    for rank in range(2):
        environ = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "RANKMUSTER_INSTANCE": "llm-0"}
        proc.add(100 + rank, 1, ["python", "serve.py"], environ, links={"root": str(tmp_path / "container")})
    devices(tmp_path / "container" / "dev", 2, 3)
    devices(tmp_path / "dev", 0, 1, 2, 3)
    # the driver's numbers need not be in NVML's order
    for minor, index in enumerate((0, 2, 1, 3)):
        folder = tmp_path / "proc" / "driver" / "nvidia" / "gpus" / f"0000:0{index}:00.0"
        folder.mkdir(parents=True)
        text = f"Model: \t\t NVIDIA H200\nGPU UUID: \t {NODE[index].uuid}\nDevice Minor: \t {minor}\n"
        (folder / "information").write_text(text)
    return Machine(hostname="node0", proc=tmp_path / "proc", dev=tmp_path / "dev")


def devices(folder: Path, *minors: int) -> None:
    folder.mkdir(parents=True)
    for name in (*(f"nvidia{minor}" for minor in minors), "nvidiactl", "nvidia-uvm", "null"):
        (folder / name).touch()


def gpus_of_ranks(machine: Machine, gpus: tuple[Gpu, ...]) -> list[tuple[int, ...]]:
    (target,) = find(machine, Request(), now=NOW, gpus=gpus).targets
    return [worker.gpus for worker in target.workers]


def test_ranks_get_the_gpus_that_their_container_has(machine: Machine) -> None:
    assert handed_in(machine, 100, NODE) == (NODE[1], NODE[3])
    assert gpus_of_ranks(machine, NODE) == [(1,), (3,)]


def test_where_it_is_not_known_which_no_gpu_is_guessed(machine: Machine) -> None:
    assert gpus_of_ranks(machine, ()) == [(), ()]  # so that NVML is asked
    for folder in (machine.proc / "driver" / "nvidia" / "gpus").iterdir():
        (folder / "information").write_text("GPU UUID: \t GPU-????????\nDevice Minor: \t 3\n")
    assert gpus_of_ranks(machine, NODE) == [(), ()]


def test_where_all_have_the_same_files_numbers_are_the_nodes(machine: Machine, tmp_path: Path) -> None:
    for minor in (0, 1):
        (tmp_path / "container" / "dev" / f"nvidia{minor}").touch()
    assert handed_in(machine, 100, NODE) is None
    assert gpus_of_ranks(machine, NODE) == [(0,), (1,)]


def test_a_dev_that_leads_elsewhere_is_not_followed(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "container" / "dev").rename(tmp_path / "elsewhere")
    (tmp_path / "container" / "dev").symlink_to(tmp_path / "elsewhere")
    assert handed_in(machine, 100, NODE) is None
