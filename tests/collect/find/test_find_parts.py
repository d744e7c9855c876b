"""The pure parts: options, devices, ranks and titles; and work that does not return."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from fake_proc import FakeProc

from rankmuster.collect.bounded import MAX_LEFT_BEHIND, each
from rankmuster.collect.find import devices, options, ranks, titles
from rankmuster.collect.find.devices import Gpu
from rankmuster.collect.find.options import Shape
from rankmuster.collect.target import Role

GPUS = (Gpu(0, "GPU-aaaa-1"), Gpu(1, "GPU-aabb-2"), Gpu(2, "GPU-cccc-3"))
FOUR = (*GPUS, Gpu(3, "GPU-dddd-4"))


@pytest.mark.parametrize(
    ("setting", "seen"),
    [
        ("2,0", (GPUS[2], GPUS[0])),
        (" 1 , 2", (GPUS[1], GPUS[2])),
        ("GPU-cccc-3,GPU-aabb", (GPUS[2], GPUS[1])),
        ("GPU-aa", (Gpu(None, "GPU-aa"),)),  # begins like two of them
        ("GPU-dddd", (Gpu(None, "GPU-dddd"),)),
        ("MIG-GPU-aabb-2/3/0", (Gpu(1, "MIG-GPU-aabb-2/3/0"),)),
        ("MIG-1234", (Gpu(None, "MIG-1234"),)),
        ("1,-1,2", (GPUS[1],)),
        ("1,x,2", (GPUS[1],)),
        ("1,1", (GPUS[1],)),
        ("7", (Gpu(7, None),)),
        ("", ()),
        ("-1", ()),
        ("99999999999", ()),
        ("NoDevFiles", ()),
    ],
)
def test_visible_devices(setting: str, seen: tuple[Gpu, ...]) -> None:
    assert devices.visible({"CUDA_VISIBLE_DEVICES": setting}, GPUS) == seen


def test_the_container_runtimes_list_counts_where_it_names_gpus() -> None:
    assert devices.visible({"NVIDIA_VISIBLE_DEVICES": "GPU-cccc-3"}, GPUS) == (GPUS[2],)
    assert devices.visible({"NVIDIA_VISIBLE_DEVICES": "all"}, GPUS) is None
    assert devices.visible({}, GPUS) is None


@pytest.mark.parametrize(
    ("inside", "setting", "seen"),
    [
        ("GPU-dddd-4,GPU-cccc-3", None, (2, 3)),  # whatever the order in which they are listed
        ("GPU-dddd-4,GPU-cccc-3", "0,1", (2, 3)),
        ("GPU-dddd-4,GPU-cccc-3", "1", (3,)),
        ("2,3", None, (2, 3)),
        ("3,2", "1,0", (3, 2)),
        ("2,3", "3,2", (3, 2)),  # no container: nothing in it has such numbers
        ("2,3", "GPU-dddd", (3,)),
        ("0,1,2,3", "3", (3,)),
        ("GPU-aaaa-1,GPU-cccc-3", "0,1", (0, 2)),
        ("all", "1", (1,)),
        ("void", "1", (1,)),
        ("", "1", (1,)),
        ("GPU-ffff,GPU-eeee", "0", ()),  # GPUs that are not to be seen from here: their order is not known
    ],
)
def test_a_containers_gpus_have_numbers_of_its_own(inside: str, setting: str | None, seen: tuple[int, ...]) -> None:
    environ = {"NVIDIA_VISIBLE_DEVICES": inside} | ({"CUDA_VISIBLE_DEVICES": setting} if setting is not None else {})
    assert devices.visible(environ, FOUR) == tuple(FOUR[index] for index in seen)


def test_from_inside_the_container_its_numbers_are_nvmls() -> None:
    here = (Gpu(0, "GPU-cccc-3"), Gpu(1, "GPU-dddd-4"))
    for inside in ("2,3", "GPU-dddd-4,GPU-cccc-3"):
        assert devices.visible({"NVIDIA_VISIBLE_DEVICES": inside}, here) == here
        assert devices.visible({"NVIDIA_VISIBLE_DEVICES": inside, "CUDA_VISIBLE_DEVICES": "1"}, here) == here[1:]


def test_without_the_nodes_gpus_a_containers_numbers_are_not_taken_for_the_nodes() -> None:
    for inside in ("2,3", "GPU-dddd-4,GPU-cccc-3"):
        assert devices.visible({"NVIDIA_VISIBLE_DEVICES": inside, "CUDA_VISIBLE_DEVICES": "0,1"}) == ()
        assert devices.visible({"NVIDIA_VISIBLE_DEVICES": inside}) == ()
        named = {"NVIDIA_VISIBLE_DEVICES": inside, "CUDA_VISIBLE_DEVICES": "GPU-cccc-3"}
        assert devices.visible(named) == (Gpu(None, "GPU-cccc-3"),)
    assert devices.visible({"NVIDIA_VISIBLE_DEVICES": "GPU-cccc-3"}) == (Gpu(None, "GPU-cccc-3"),)


def test_the_gpu_of_a_local_rank() -> None:
    assert devices.of_local_rank(1, None, GPUS) == (GPUS[1],)
    assert devices.of_local_rank(1, (GPUS[2],), GPUS) == (GPUS[2],)  # each rank sees its own alone
    assert devices.of_local_rank(1, (GPUS[2], GPUS[0]), GPUS) == (GPUS[0],)
    assert devices.of_local_rank(5, (GPUS[2], GPUS[0]), GPUS) == ()
    assert devices.of_local_rank(None, (GPUS[2], GPUS[0]), GPUS) == ()


@pytest.mark.parametrize(
    ("command", "engine", "expected"),
    [
        (("-tp", "4", "-pp=2"), titles.VLLM, Shape(tp=4, pp=2, given=True)),
        (("--tensor_parallel_size", "8"), titles.VLLM, Shape(tp=8, given=True)),
        (("--tp", "4", "--tp", "2"), titles.SGLANG, Shape(tp=2, given=True)),
        (("--tp", "--dp", "2"), titles.SGLANG, Shape(dp=2, given=True)),
        (("-tp", "x", "--dp=-3", "--pp", "0"), titles.VLLM, Shape()),
        (("--data-parallel-size", "4", "--data-parallel-rank", "0"), titles.VLLM, Shape(dp=4, dp_rank=0, given=True)),
        (("-tp", "1000000", "-pp", "1000"), titles.VLLM, Shape()),
        (("--tp", "8", "--base-gpu-id", "0"), titles.SGLANG, Shape(tp=8, given=True)),
        (("--tp",), titles.SGLANG, Shape()),
    ],
)
def test_sizes(command: tuple[str, ...], engine: str, expected: Shape) -> None:
    assert options.shape(command, engine) == expected


def test_addresses() -> None:
    assert options.address(("--port=81",), titles.VLLM) == (None, 81)
    assert options.address(("--host", "::1", "--port", "0"), titles.SGLANG) == ("::1", 30000)
    assert options.address((), titles.TRITON) == (None, 8002)
    assert options.address((), titles.TORCH) is None
    assert options.rendezvous(("--dist-init-addr", "10.0.0.1:20000")) == "10.0.0.1:20000"
    assert options.rendezvous(("--master-addr=h",)) == "h:29501"
    assert options.rendezvous(()) is None


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}, (3, 1, 8, "torch")),
        ({"RANK": "3"}, None),
        ({"RANK": "8", "WORLD_SIZE": "8"}, None),
        ({"RANK": "", "WORLD_SIZE": "8"}, None),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1"}, (1, 1, 2, "pmi")),
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0"}, (1, None, 2, "slurm")),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "batch"}, None),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_STEP_ID": "0"}, None),
        # torchrun within a Slurm step: the innermost launcher gives the rank.
        (
            {"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0", "RANK": "5", "WORLD_SIZE": "8"},
            (5, None, 8, "torch"),
        ),
    ],
)
def test_places_from_variables(environ: dict[str, str], place: tuple[object, ...] | None) -> None:
    found = ranks.from_environ(environ)
    assert (None if found is None else (found.rank, found.local_rank, found.world, found.source)) == place


@pytest.mark.parametrize(
    ("command", "engine", "role", "parts"),
    [
        (("VLLM::Worker_DP1_PP0_TP3_EP7",), "vllm", Role.WORKER, {"DP": 1, "PP": 0, "TP": 3, "EP": 7}),
        (("my-prefix::EngineCore_DP2",), "vllm", Role.ENGINE, {"DP": 2}),
        (("sglang::scheduler_DP0_PP1_ATTN_CP0_MOE_DP1_TP2",), "sglang", Role.WORKER, None),
        (("sglang::tokenizer_worker:77",), "sglang", Role.SERVER, {}),
        (("sglang::http_server/tokenizer_manager",), "sglang", Role.SERVER, {}),
        (("python3", "-u", "-X", "dev", "-m", "sglang.launch_server", "--tp", "2"), "sglang", Role.SERVER, {}),
        (("/usr/bin/python3.12", "/usr/local/bin/vllm", "serve", "m"), "vllm", Role.SERVER, {}),
        (("text-generation-server", "serve"), "tgi", Role.WORKER, {}),
        (("text-generation-router",), "tgi", Role.SERVER, {}),
        (("lmdeploy", "serve", "api_server"), "lmdeploy", Role.SERVER, {}),
        (("python", "-m", "torch.distributed.run", "x.py"), "torch", Role.LAUNCHER, {}),
        (("mpirun", "-n", "2", "python", "x.py"), "mpi", Role.LAUNCHER, {}),
    ],
)
def test_titles(command: tuple[str, ...], engine: str, role: Role, parts: dict[str, int] | None) -> None:
    known = titles.recognise(command, "x")
    assert known is not None
    assert (known.engine, known.role) == (engine, role)
    assert parts is None or known.parts == parts


@pytest.mark.parametrize(
    "command",
    [
        ("vim", "vllm"), ("grep", "vllm", "serve"), ("python", "vllm_notes.py"), ("bash", "-c", "vllm serve m"),
        ("python", "-c", "import vllm"), ("tail", "-f", "/var/log/sglang::scheduler"), ("vllm", "--help"), ("python",),
    ],
)  # fmt: skip
def test_what_only_mentions_an_engine_is_none(command: tuple[str, ...]) -> None:
    assert titles.recognise(command, "x") is None


def test_a_server_that_computes_by_itself_is_the_worker(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path / "proc")
    fake.add(100, 1, ["/usr/bin/python", "/usr/bin/lmdeploy", "serve", "api_server", "m"], mapped=["/x/libnccl.so.2"])
    (target,) = fake.find().targets
    assert [process.pid for process in target.workers] == [100]
    assert target.metrics_urls == ("http://127.0.0.1:23333/metrics",)


def test_a_server_that_has_not_started_its_workers_has_no_rank(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path / "proc")
    slurm = {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0", "SLURM_JOB_ID": "7"}
    fake.add(100, 1, ["vllm", "serve", "m", "-tp", "16", "--nnodes", "2", "--master-addr", "h"], slurm)
    (target,) = fake.find().targets
    assert [process.rank for process in target.processes] == [None]
    assert target.world_size == 16


def test_torchrun_says_how_many_ranks_it_starts() -> None:
    command = ("torchrun", "--nproc_per_node=4", "--nnodes", "2", "train.py")
    assert options.launched(command, titles.TORCH) == 8
    assert options.launched(("torchrun", "--nproc-per-node", "4"), titles.TORCH) == 4
    assert options.launched(("torchrun", "--nproc-per-node", "gpu"), titles.TORCH) is None
    assert options.launched(("torchrun", "--nproc-per-node", "4", "--nnodes=1:4"), titles.TORCH) is None
    assert options.launched(command, titles.VLLM) is None


class TestPatience:
    """What does not return costs its own patience and nothing else."""

    def test_results_in_order(self) -> None:
        done = each([3, 1, 2], lambda item: item * 10, patience=5, total=5)
        assert done.results == ((3, 30), (1, 10), (2, 20))
        assert (done.stuck, done.skipped) == ((), ())
        assert each([], lambda item: item, patience=1, total=1).results == ()

    def test_one_that_is_stuck(self) -> None:
        release = threading.Event()
        try:
            done = each([0, 1, 2], lambda item: release.wait(60) if item == 1 else True, patience=0.1, total=10)
        finally:
            release.set()
        assert [item for item, _ in done.results] == [0, 2]
        assert done.stuck == (1,)

    def test_many_that_are_stuck(self) -> None:
        release = threading.Event()
        try:
            done = each(list(range(50)), lambda item: release.wait(60), patience=0.02, total=20)
        finally:
            release.set()
        assert len(done.stuck) == MAX_LEFT_BEHIND + 1
        assert len(done.stuck) + len(done.skipped) == 50

    def test_the_whole_has_an_end(self) -> None:
        release = threading.Event()
        started = time.monotonic()
        try:
            done = each([0, 1], lambda item: release.wait(60), patience=60, total=0.1)
        finally:
            release.set()
        assert time.monotonic() - started < 10
        assert (done.stuck, done.skipped) == ((0,), (1,))

    def test_an_error_is_the_callers(self) -> None:
        with pytest.raises(ZeroDivisionError):
            each([1, 0, 2], lambda item: 1 // item, patience=5, total=5)
