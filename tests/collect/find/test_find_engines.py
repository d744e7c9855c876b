"""The engines' own layouts: who has which rank and which GPU, and which processes are one instance."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_proc import NOW, FakeProc, vllm

from rankmuster.collect.find.devices import Gpu
from rankmuster.collect.find.search import Found
from rankmuster.collect.target import Role, Target

GPUS = tuple(Gpu(index, f"GPU-{index}{index}{index}{index}-aa") for index in range(8))
POD = "0::/kubepods.slice/kubepods-pod{}.slice/cri-containerd-{}.scope\n"
UID = "11111111_2222_3333_4444_555555555555"


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path / "proc")


def only(found: Found) -> Target:
    (target,) = found.targets
    return target


def ranks(target: Target) -> dict[int | None, int]:
    return {process.rank: process.pid for process in target.processes if process.rank is not None}


def test_vllm_tensor_parallel(fake: FakeProc) -> None:
    vllm(fake, 100, "-tp", "4", workers=[f"VLLM::Worker_TP{n}" for n in range(4)], CUDA_VISIBLE_DEVICES="4,5,6,7")
    found = fake.find(gpus=GPUS)
    target = only(found)
    assert (target.name, target.engine, target.world_size, target.nccl_loaded) == ("vllm-8000", "vllm", 4, True)
    assert ranks(target) == {0: 103, 1: 104, 2: 105, 3: 106}
    assert [process.gpus for process in target.workers] == [(4,), (5,), (6,), (7,)]
    assert target.workers[1].gpu_uuids == ("GPU-5555-aa",)
    roles = {process.pid: process.role for process in target.processes}
    assert roles[100] is Role.SERVER
    assert roles[101] is Role.HELPER
    assert roles[102] is Role.ENGINE
    assert target.metrics_urls == ("http://127.0.0.1:8000/metrics",)
    assert target.found_by == ("name",)
    assert found.notes == ()


def test_variables_that_a_title_has_overwritten_are_the_servers(fake: FakeProc) -> None:
    vllm(
        fake, 100, "-tp=2", workers=["VLLM::Worker_TP0", "VLLM::Worker_TP1"], NCCL_DEBUG_FILE="/l/%h", SLURM_PROCID="0"
    )
    target = only(fake.find())
    assert target.workers[1].environ["NCCL_DEBUG_FILE"] == "/l/%h"
    assert "SLURM_PROCID" not in target.workers[1].environ


@pytest.mark.parametrize("pid", [100, 102, 105, 104])
def test_any_pid_stands_for_the_whole_instance_and_for_no_other(fake: FakeProc, pid: int) -> None:
    titles = ["VLLM::Worker_TP0", "VLLM::Worker_TP1", "VLLM::Worker_TP2"]
    vllm(fake, 100, "-tp", "3", workers=titles)
    vllm(fake, 200, "-tp", "3", workers=titles, port=8001)
    target = only(fake.find(pid))
    assert target.name == "vllm-8000"
    assert {process.pid for process in target.processes} == set(range(100, 106))
    assert "pid" in target.found_by


def test_two_instances_on_one_node_are_told_apart(fake: FakeProc) -> None:
    vllm(fake, 100, "-tp", "2", workers=["VLLM::Worker_TP0", "VLLM::Worker_TP1"], CUDA_VISIBLE_DEVICES="0,1")
    vllm(fake, 200, "-tp", "2", workers=["VLLM::Worker_TP0", "VLLM::Worker_TP1"], port=8001, CUDA_VISIBLE_DEVICES="2,3")
    first, second = fake.find().targets
    assert (first.name, second.name) == ("vllm-8000", "vllm-8001")
    assert [process.gpus for process in second.workers] == [(2,), (3,)]
    assert only(fake.find(instance="vllm-8001")) == second


def test_an_unknown_name_says_which_there_are(fake: FakeProc) -> None:
    vllm(fake, 100, workers=[])
    found = fake.find(instance="llm-7")
    assert found.targets == ()
    assert any("'llm-7'" in note and "vllm-8000" in note for note in found.notes)


def test_two_instances_of_one_port_in_two_pods_get_different_names(fake: FakeProc) -> None:
    for base, network in ((100, "net:[1]"), (200, "net:[2]")):
        fake.add(base, 1, ["python3", "-m", "vllm.entrypoints.openai.api_server"], network=network)
        fake.add(base + 1, base, ["VLLM::EngineCore"], titled=True)
    names = [target.name for target in fake.find().targets]
    assert names == ["vllm-8000-pid100", "vllm-8000-pid200"]


def test_vllm_data_and_tensor_parallel_with_several_api_servers(fake: FakeProc) -> None:
    fake.add(100, 1, ["/usr/bin/python3", "/usr/bin/vllm", "serve", "m", "-tp", "2", "--data-parallel-size=2"])
    for index in range(2):
        fake.add(110 + index, 100, [f"VLLM::APIServer_{index}"], titled=True)
    fake.add(120, 100, ["VLLM::DPCoordinator"], titled=True)
    for dp in range(2):
        fake.add(130 + 10 * dp, 100, [f"VLLM::EngineCore_DP{dp}"], titled=True)
        for tp in range(2):
            fake.add(131 + 10 * dp + tp, 130 + 10 * dp, [f"VLLM::Worker_DP{dp}_TP{tp}_EP{2 * dp + tp}"], titled=True)
    target = only(fake.find())
    assert target.world_size == 4
    assert ranks(target) == {0: 131, 1: 132, 2: 141, 3: 142}
    assert [process.gpus for process in target.workers] == [(0,), (1,), (2,), (3,)]
    assert target.metrics_urls == ("http://127.0.0.1:8000/metrics",)


def test_vllm_pipeline_on_a_headless_node(fake: FakeProc) -> None:
    options = ["--headless", "-tp", "2", "-pp", "2", "--nnodes", "2", "--node-rank", "1", "--master-addr", "10.0.0.1"]
    fake.add(100, 1, ["python3", "/usr/local/bin/vllm", "serve", "m", *options])
    for tp in range(2):
        fake.add(101 + tp, 100, [f"VLLM::Worker_PP1_TP{tp}"], titled=True)
    target = only(fake.find())
    assert ranks(target) == {2: 101, 3: 102}
    assert [process.gpus for process in target.workers] == [(0,), (1,)]
    assert (target.world_size, target.metrics_urls, target.name) == (4, (), "vllm-10.0.0.1:29501")


def test_both_nodes_of_an_instance_give_it_the_same_name(tmp_path: Path) -> None:
    names = set()
    for node, extra in ((0, []), (1, ["--headless"])):
        fake = FakeProc(tmp_path / f"proc{node}")
        shared = ["-tp", "8", "--nnodes", "2", "--node-rank", str(node), "--master-addr", "10.0.0.1"]
        fake.add(100, 1, ["python3", "/usr/local/bin/vllm", "serve", "m", *shared, *extra])
        names.add(only(fake.find()).name)
    assert len(names) == 1


def test_vllm_with_one_gpu_computes_in_its_engine_core(fake: FakeProc) -> None:
    vllm(fake, 100, workers=[])
    target = only(fake.find())
    assert ranks(target) == {0: 102}
    assert target.workers[0].role is Role.ENGINE
    assert target.world_size == 1


def test_vllm_inside_a_program_of_ones_own(fake: FakeProc) -> None:
    fake.add(100, 1, ["python3", "/app/serve_my_model.py"])
    fake.add(101, 100, ["VLLM::EngineCore"], titled=True)
    for rank in range(4):
        fake.add(102 + rank, 101, [f"VLLM::Worker_PP{rank // 2}_TP{rank % 2}"], titled=True)
    target = only(fake.find(100))
    assert ranks(target) == {0: 102, 1: 103, 2: 104, 3: 105}
    assert target.world_size == 4
    assert 100 in {process.pid for process in target.processes}


def test_old_vllm_workers_without_title_go_by_the_order_of_their_gpus(fake: FakeProc) -> None:
    fake.add(100, 1, ["python3", "-m", "vllm.entrypoints.openai.api_server", "--tensor-parallel-size", "2"])
    for pid in (101, 102):
        fake.add(pid, 100, ["python3", "-c", "from multiprocessing.spawn import spawn_main; spawn_main()"])
    target = only(fake.find(gpu_processes={101: (GPUS[3],), 102: (GPUS[2],)}))
    assert ranks(target) == {0: 102, 1: 101}
    assert "nvml" in target.found_by


def test_sglang_tensor_parallel_with_a_base_gpu(fake: FakeProc) -> None:
    fake.add(100, 1, ["python3", "-m", "sglang.launch_server", "--tp", "8", "--base-gpu-id", "0"])
    for tp in range(8):
        fake.add(101 + tp, 100, [f"sglang::scheduler_TP{tp}"], titled=True)
    fake.add(120, 100, ["sglang::detokenizer"], titled=True)
    target = only(fake.find())
    assert ranks(target) == {tp: 101 + tp for tp in range(8)}
    assert [process.gpus for process in target.workers] == [(tp,) for tp in range(8)]
    assert target.metrics_urls == ("http://127.0.0.1:30000/metrics",)
    assert (target.engine, target.world_size) == ("sglang", 8)


def test_sglang_data_parallel_attention_shares_the_tensor_ranks(fake: FakeProc) -> None:
    fake.add(
        100, 1, ["python3", "-m", "sglang.launch_server", "--tp-size=4", "--dp-size", "2", "--enable-dp-attention"]
    )
    fake.add(101, 100, ["sglang::data_parallel_controller"], titled=True)
    for tp in range(4):
        fake.add(102 + tp, 101, [f"sglang::scheduler_DP{tp // 2}_TP{tp}_EP{tp}"], titled=True)
    target = only(fake.find())
    assert (target.world_size, ranks(target)) == (4, {tp: 102 + tp for tp in range(4)})


def test_tensorrt_llm_under_mpirun(fake: FakeProc) -> None:
    fake.add(90, 1, ["/usr/bin/mpirun", "-n", "2", "trtllm-llmapi-launch", "trtllm-serve", "m"])
    for rank in range(2):
        mpi = {
            "OMPI_COMM_WORLD_RANK": str(rank),
            "OMPI_COMM_WORLD_SIZE": "2",
            "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
            "PMIX_NAMESPACE": "prterun-n0-90@1",
        }
        base = 100 + 10 * rank
        fake.add(base, 90, ["/bin/bash", "/usr/bin/trtllm-llmapi-launch", "trtllm-serve", "m"], mpi)
        part = "leader" if rank == 0 else "worker"
        module = f"tensorrt_llm.llmapi.mgmn_{part}_node"
        fake.add(base + 1, base, ["python3", "-m", module], mpi, mapped=["/usr/lib/libnccl.so.2.28.9"])
        if rank == 0:
            fake.add(base + 2, base, ["/usr/bin/python3", "/usr/bin/trtllm-serve", "m"], mpi)
    target = only(fake.find())
    assert ranks(target) == {0: 101, 1: 111}
    assert [process.gpus for process in target.workers] == [(0,), (1,)]
    assert (target.engine, target.world_size, target.nccl_loaded) == ("tensorrt-llm", 2, True)
    # The JSON page at /metrics is emptied by whoever reads it.
    assert target.metrics_urls == ("http://127.0.0.1:8000/prometheus/metrics",)
    assert {process.pid for process in target.processes if process.role is Role.LAUNCHER} >= {90}


def test_tensorrt_llm_that_spawns_its_workers(fake: FakeProc) -> None:
    proxy = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1", "PMIX_NAMESPACE": "a@1"}
    fake.add(100, 1, ["python3", "/usr/local/bin/trtllm-serve", "m", "--tp_size", "2", "--port", "8100"], proxy)
    fake.add(101, 100, ["orted"])
    for rank in range(2):
        mpi = {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "2", "PMIX_NAMESPACE": "a@2"}
        fake.add(102 + rank, 101, ["python3", "-m", "mpi4py.futures.server"], mpi)
    target = only(fake.find())
    assert (ranks(target), target.world_size, target.name) == ({0: 102, 1: 103}, 2, "tensorrt-llm-8100")


def torchrun(fake: FakeProc, base: int, world: int, *, run: str = "none", port: str = "29500", parent: int = 1) -> None:
    fake.add(base, parent, ["/opt/venv/bin/python", "/opt/venv/bin/torchrun", "--nproc-per-node", str(world), "t.py"])
    for rank in range(world):
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1"}
        own |= {"MASTER_PORT": port, "TORCHELASTIC_RUN_ID": run}
        fake.add(base + 1 + rank, base, ["/opt/venv/bin/python", "-u", "t.py"], own, mapped=["/x/libnccl.so.2"])
        # What a rank starts has its variables, and is not the rank.
        fake.add(base + 50 + rank, base + 1 + rank, ["/opt/venv/bin/python", "-c", "loader()"], own)


def test_torchrun(fake: FakeProc) -> None:
    torchrun(fake, 100, 4)
    target = only(fake.find(152))
    assert ranks(target) == {0: 101, 1: 102, 2: 103, 3: 104}
    assert (target.engine, target.world_size, target.name) == ("torch", 4, "torch-29500")
    assert {p.pid: p.role for p in target.processes}[100] is Role.LAUNCHER
    assert {p.pid: p.role for p in target.processes}[151] is Role.HELPER
    assert "environment" in target.found_by


def test_torchrun_runs_are_told_apart_by_their_id(fake: FakeProc) -> None:
    torchrun(fake, 100, 2, run="a")
    torchrun(fake, 300, 2, run="b")
    assert [target.name for target in fake.find().targets] == ["torchrun-a", "torchrun-b"]


def test_two_jobs_that_use_the_same_words_are_cut_by_their_launcher(fake: FakeProc) -> None:
    torchrun(fake, 100, 2)
    torchrun(fake, 300, 2)
    first, second = fake.find().targets
    assert (ranks(first), ranks(second)) == ({0: 101, 1: 102}, {0: 301, 1: 302})
    assert first.name != second.name


def test_a_rank_that_two_unrelated_processes_claim_is_named(fake: FakeProc) -> None:
    own = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "h", "MASTER_PORT": "1"}
    fake.add(100, 1, ["python", "launch.py"], own | {"RANK": "1"})
    fake.add(101, 100, ["python", "a.py"], own)
    fake.add(102, 100, ["python", "b.py"], own)
    found = fake.find()
    assert any("rank 0" in note and "101 and 102" in note for note in found.notes)
    assert sum(process.rank == 0 for target in found.targets for process in target.processes) == 2


def test_ranks_in_two_pods_of_one_instance_are_one(fake: FakeProc) -> None:
    for rank in range(2):
        own = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "llm-0.llm.default", "MASTER_PORT": "29500"}
        cgroup = POD.format(UID.replace("1111", f"{rank}111"), f"{rank}" * 64)
        own["LWS_LEADER_ADDRESS"] = "llm-0.llm.default"
        fake.add(100 + rank, 1, ["python", "t.py"], own, network=f"net:[{rank}]", cgroup=cgroup, inner=[1])
    target = only(fake.find())
    assert (target.name, ranks(target)) == ("llm-0", {0: 100, 1: 101})
    assert [process.inner_pid for process in target.workers] == [1, 1]
    assert [process.host_pid for process in target.workers] == [100, 101]
    assert target.incarnation is not None
    assert "0111" in target.incarnation


def test_the_same_loopback_address_in_two_pods_is_two_jobs(fake: FakeProc) -> None:
    for base, network in ((100, "net:[7]"), (200, "net:[8]")):
        for rank in range(2):
            own = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
            fake.add(base + rank, 1, ["python", "t.py"], own, network=network)
    assert [ranks(target) for target in fake.find().targets] == [{0: 100, 1: 101}, {0: 200, 1: 201}]


def test_slurm_ranks_without_torchrun(fake: FakeProc) -> None:
    fake.add(50, 1, ["slurmstepd: [77.0]"], comm="slurmstepd")
    for rank in range(2):
        own = {"SLURM_PROCID": str(rank + 2), "SLURM_NTASKS": "4", "SLURM_LOCALID": str(rank)}
        own |= {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0"}
        fake.add(100 + rank, 50, ["/apps/all_reduce_perf", "-b", "8"], own)
    target = only(fake.find())
    assert (target.name, ranks(target), target.world_size) == ("slurm-77.0", {2: 100, 3: 101}, 4)


def test_ray_workers_belong_to_the_driver_of_their_job(fake: FakeProc) -> None:
    logs = "/tmp/ray/session_2026-11-29_20-00-00_1_1/logs"
    fake.add(
        40, 1, ["/ray/raylet", f"--session-dir={logs.removesuffix('/logs')}"], {"NCCL_DEBUG": "INFO"}, comm="raylet"
    )
    driver = f"{logs}/python-core-driver-01000000{'f' * 48}_100.log"
    fake.add(100, 1, ["python", "/usr/bin/vllm", "serve", "m", "-tp", "2"], links={"fd/9": driver, "fd/1": "pipe:[1]"})
    fake.add(101, 100, ["VLLM::EngineCore"], titled=True)
    for number in range(2):
        out = f"{logs}/worker-{'ab' * 28}-01000000-{60 + number}.out"
        title = "ray::RayWorkerWrapper.execute_method"
        fake.add(60 + number, 40, [title], titled=True, links={"fd/1": out})
    fake.add(70, 40, ["ray::IDLE"], titled=True)
    target = only(fake.find(gpu_processes={60: (GPUS[0],), 61: (GPUS[1],)}))
    assert {process.pid for process in target.processes} == {60, 61, 100, 101}
    assert ranks(target) == {0: 60, 1: 61}
    assert target.log_folders == (Path(logs),)
    assert "ray" in target.found_by


def test_a_ray_node_without_the_driver(fake: FakeProc) -> None:
    fake.add(40, 1, ["/ray/raylet", "--log_dir=/data/ray/session_x/logs"], {"NCCL_DEBUG": "INFO"}, comm="raylet")
    fake.add(60, 40, ["ray::RayWorkerProc"], titled=True)
    target = only(fake.find())
    assert target.log_folders == (Path("/data/ray/session_x/logs"),)
    assert target.setting("NCCL_DEBUG") == "INFO"  # from the raylet: its own is overwritten


def test_our_own_marker_outranks_everything(fake: FakeProc) -> None:
    marks = {"RANKMUSTER_INSTANCE": "llm-0", "RANKMUSTER_DEPLOYMENT": "r7", "RANKMUSTER_INCARNATION": "i-1"}
    vllm(fake, 100, "-tp", "2", workers=["VLLM::Worker_TP0", "VLLM::Worker_TP1"], **marks)
    vllm(fake, 200, workers=[], port=9000, RANKMUSTER_INSTANCE="llm-1")
    first, second = fake.find().targets
    assert (first.name, first.deployment, first.incarnation) == ("llm-0", "r7", "i-1")
    assert second.name == "llm-1"


def test_markers_keep_apart_what_a_shared_parent_would_join(fake: FakeProc) -> None:
    fake.add(90, 1, ["/usr/bin/mpirun", "-n", "2", "x"])
    for number in range(2):
        fake.add(100 + number, 90, ["python", "t.py"], {"RANKMUSTER_INSTANCE": f"llm-{number}"})
    assert [target.name for target in fake.find().targets] == ["llm-0", "llm-1"]


def test_a_pid_means_its_own_instance_of_two_with_one_marker(fake: FakeProc) -> None:
    for base in (100, 200):
        for rank in range(2):
            own = {"RANKMUSTER_INSTANCE": "llm-0", "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank)}
            fake.add(base + rank, 1 if rank == 0 else base, ["python", "t.py"], own)
    assert len(fake.find().targets) == 2
    assert {process.pid for process in only(fake.find(201)).processes} == {200, 201}


def test_a_worker_that_died_and_was_not_reaped_is_a_fact(fake: FakeProc) -> None:
    vllm(fake, 100, "-tp", "3", workers=["VLLM::Worker_TP0", "VLLM::Worker_TP2"])
    fake.add(105, 102, comm="VLLM::Worker_TP", state="Z", exit_status=9)
    found = fake.find()
    target = only(found)
    dead = target.workers[1]
    assert (dead.pid, dead.rank, dead.state, dead.exit_status) == (105, 1, "Z", -9)
    assert any("pid 105" in note and "rank 1" in note for note in found.notes)


def test_two_dead_workers_are_not_guessed_at(fake: FakeProc) -> None:
    vllm(fake, 100, "-tp", "3", workers=["VLLM::Worker_TP0"])
    fake.add(105, 102, comm="VLLM::Worker_TP", state="Z", exit_status=9)
    fake.add(106, 102, comm="VLLM::Worker_TP", state="Z", exit_status=6)
    target = only(fake.find())
    assert ranks(target) == {0: 103}
    assert {p.exit_status for p in target.processes if p.state == "Z"} == {-9, -6}


def test_nvml_finds_what_says_nothing_of_itself(fake: FakeProc) -> None:
    fake.add(100, 1, ["./my_server"])
    fake.add(101, 1, ["/usr/lib/xorg/Xorg"], comm="Xorg")
    target = only(fake.find(gpu_processes={100: (GPUS[1],), 101: (GPUS[0],), 999: (GPUS[0],)}))
    assert (target.processes[0].pid, target.processes[0].gpus, target.found_by) == (100, (1,), ("nvml",))


def test_in_another_pid_namespace_nvmls_pids_mean_somebody_else(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path / "proc", initial=False)
    fake.add(100, 1, ["python", "-m", "http.server"])
    found = fake.find(gpu_processes={100: (GPUS[1],)})
    assert found.targets == ()
    assert any("namespace" in note for note in found.notes)


def test_a_program_in_any_language_has_its_launchers_variables(fake: FakeProc) -> None:
    for rank in range(2):
        own = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "h", "MASTER_PORT": "1"}
        fake.add(100 + rank, 1, ["/app/engine"], own)
    assert ranks(only(fake.find())) == {0: 100, 1: 101}


def test_a_node_on_which_nothing_runs(fake: FakeProc) -> None:
    fake.add(100, 1, ["/usr/sbin/sshd"])
    assert fake.find().targets == ()


def test_a_launcher_whose_ranks_are_elsewhere_is_no_instance(fake: FakeProc) -> None:
    fake.add(100, 1, ["/usr/bin/srun", "-N4", "x"])
    assert fake.find().targets == ()


def test_the_start_is_the_oldest_processes(fake: FakeProc) -> None:
    vllm(fake, 100, workers=[])
    target = only(fake.find())
    assert target.incarnation is not None
    assert target.incarnation.startswith("2026-11-18T")
    assert min(process.started_at for process in target.processes) < NOW
