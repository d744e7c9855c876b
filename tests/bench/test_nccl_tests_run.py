"""nccl-tests is found, proven, run and believed only as far as it deserves; each program here is a real process."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fake_nccl_tests import install, starts
from rankmuster.bench.nccl_tests import NcclTestsMissing, run_nccl_tests
from rankmuster.bench.nccl_tests_series import series_of
from rankmuster.model.benchmark import BenchmarkRun, Operation, Profile, RunState, Step

KIB, MIB = 1 << 10, 1 << 20
ALL_REDUCE = Profile("one", "", (Step(Operation.ALL_REDUCE, (MIB, 4 * MIB, 16 * MIB), iterations=7, warmup=2),))
NOW = 1_795_986_000.0


def run(
    folder: Path, profile: Profile = ALL_REDUCE, environ: Mapping[str, str] | None = None, **more: Any
) -> BenchmarkRun:
    settings: dict[str, Any] = {"choices": False, "contention": False, "time_limit_s": 60.0} | more
    return run_nccl_tests(
        profile,
        environ=environ if environ is not None else {"PATH": os.environ["PATH"]},
        now=lambda: NOW,
        folder=folder,
        **settings,
    )


def test_a_run_gives_the_cells_of_its_profile(tmp_path: Path) -> None:
    found = run(install(tmp_path / "bin"))
    assert (found.state, found.reason) == (RunState.COMPLETE, "")
    assert [(one.cell.size_bytes, one.cell.dtype, one.cell.in_place) for one in found.measurements] == [
        (size, "bfloat16", False) for size in (MIB, 4 * MIB, 16 * MIB)
    ]
    first = found.measurements[0]
    assert first.time_us == pytest.approx(10 + MIB / 300_000, rel=1e-9)  # the digits of the JSON
    assert first.iterations_us == (9.0, 10.0, 15.0)
    assert len(found.ranks) == 4  # of the text: the JSON names one GPU a process
    assert (found.started_at, found.nccl_version, found.tool_version) == (NOW, "2.28.9", "2.19.6")
    assert (found.transports, found.channels) == (("P2P/CUMEM",), 24)


def test_what_was_asked_for_is_what_the_tool_is_asked_for(tmp_path: Path) -> None:
    folder = install(tmp_path / "bin")
    run(folder, gpus=3)
    ((name, given, _),) = starts(folder)
    options = dict(zip(given[::2], given[1::2], strict=True))
    assert name == "all_reduce"
    assert options.pop("-J").endswith(".json")
    assert int(options.pop("-T")) > 60  # later than the limit, for a hang that nobody is left to end
    assert options == {
        "-b": "1048576",
        "-e": "16777216",
        "-f": "4",
        "-g": "3",
        "-w": "2",
        "-n": "7",
        "-d": "bfloat16",
        "-c": "1",
        "-I": "1",
    }


def test_multicast_that_is_off_here_stays_off_and_nothing_else_of_nccl_is_passed_on(tmp_path: Path) -> None:
    here = {"PATH": os.environ["PATH"], "NCCL_NVLS_ENABLE": "0", "NCCL_PROTO": "LL"}
    folder = install(tmp_path / "bin")
    run(folder, environ=here)
    ((_, _, environment),) = starts(folder)
    assert environment["NCCL_NVLS_ENABLE"] == "0"
    assert "NCCL_PROTO" not in environment


def test_without_a_number_all_gpus_that_the_tool_sees_are_used(tmp_path: Path) -> None:
    assert len(run(install(tmp_path / "bin", gpus=6)).ranks) == 6
    with pytest.raises(NcclTestsMissing, match="sees 1 GPU"):
        run(install(tmp_path / "one", gpus=1))


def test_only_what_is_needed_and_given_reaches_the_program(tmp_path: Path) -> None:
    folder = install(tmp_path / "bin")
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": "/root",
        "LD_LIBRARY_PATH": "/x",
        "CUDA_VISIBLE_DEVICES": "0,1,2,3",
        "NCCL_ALGO": "Tree",
        "HF_TOKEN": "secret",
        "PYTHONPATH": "/y",
        "LANG": "de_DE.UTF-8",
    }
    found = run(folder, environ=environ, given={"NCCL_PROTO": "LL", "MY_API_KEY": "secret"})
    ((_, _, seen),) = starts(folder)
    debug = {name for name in seen if name.startswith(("NCCL_DEBUG", "NCCL_TOPO_DUMP"))}
    wanted = {"PATH", "HOME", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "LC_ALL", "NCCL_PROTO", "MY_API_KEY"}
    assert set(seen) - debug - {"LC_CTYPE"} == wanted
    assert seen["LC_ALL"] == "C"
    assert "TUNING" not in seen["NCCL_DEBUG_SUBSYS"]  # a line for each operation would be measured too
    assert found.environment == (("CUDA_VISIBLE_DEVICES", "0,1,2,3"), ("NCCL_PROTO", "LL"))


def test_choices_come_from_a_process_of_their_own(tmp_path: Path) -> None:
    folder = install(tmp_path / "bin")
    found = run(folder, choices=True)
    measured, asked = starts(folder)
    assert "TUNING" in asked[2]["NCCL_DEBUG_SUBSYS"]
    assert asked[1][asked[1].index("-n") + 1] == "1"
    assert measured[1][measured[1].index("-n") + 1] == "7"
    assert [(one.operation, one.size_bytes, one.algorithm, one.protocol, one.channels) for one in found.choices] == [
        ("all_reduce", size, "RING", "SIMPLE", 16) for size in (MIB, 4 * MIB, 16 * MIB)
    ]


def test_a_profile_of_several_operations_is_one_run_of_several_processes(tmp_path: Path) -> None:
    folder = install(tmp_path / "bin")
    profile = Profile(
        "two",
        "",
        (
            Step(Operation.ALL_REDUCE, (16 * KIB, 64 * KIB), graph=True, iterations=100),
            Step(Operation.ALL_TO_ALL, (MIB, 3 * MIB, 5 * MIB, 40 * MIB), in_place=True),
        ),
    )
    found = run(folder, profile)
    assert found.state is RunState.COMPLETE, found.reason
    graph, first, second = (dict(zip(given[::2], given[1::2], strict=True)) for _, given, _ in starts(folder))
    assert (graph["-n"], graph["-G"], "-I" in graph) == ("20", "5", False)
    assert (first["-b"], first["-e"], first["-i"]) == (str(MIB), str(5 * MIB), str(2 * MIB))
    assert (second["-b"], second["-e"]) == (str(40 * MIB), str(40 * MIB))
    assert [
        (one.cell.operation, one.cell.size_bytes, one.cell.graph, one.cell.in_place) for one in found.measurements
    ] == [
        (Operation.ALL_REDUCE, 16 * KIB, True, False),
        (Operation.ALL_REDUCE, 64 * KIB, True, False),
        *((Operation.ALL_TO_ALL, size * MIB, False, True) for size in (1, 3, 5, 40)),
    ]


def test_sizes_that_ranks_cannot_share_keep_the_profiles_cells(tmp_path: Path) -> None:
    profile = Profile("odd", "", (Step(Operation.ALL_GATHER, (100_000, 200_000)),))
    found = run(install(tmp_path / "bin", gpus=3), profile)
    assert found.state is RunState.COMPLETE, found.reason
    assert [one.cell.size_bytes for one in found.measurements] == [100_000, 200_000]


@pytest.mark.parametrize(
    ("sizes", "wanted"),
    [
        ((8,), [(8,)]),
        ((8, 16, 32, 64), [(8, 16, 32, 64)]),
        ((8, 24), [(8, 24)]),
        ((10, 15), [(10, 15)]),
        ((1, 2, 3, 4, 8, 16), [(1, 2, 3, 4), (8, 16)]),
        ((16, 64, 256, 300, 301, 302), [(16, 64, 256), (300, 301, 302)]),
    ],
)
def test_sizes_become_as_few_series_as_the_tool_can_be_asked_for(
    sizes: tuple[int, ...], wanted: list[tuple[int, ...]]
) -> None:
    assert [one.sizes for one in series_of(sizes)] == wanted


def test_a_hang_is_killed_with_all_its_group_and_is_a_result(tmp_path: Path) -> None:
    began = time.monotonic()
    found = run(install(tmp_path / "bin", kind="hang"), time_limit_s=2.0)
    assert time.monotonic() - began < 10
    assert found.state is RunState.HUNG
    assert "did not end in time" in found.reason
    child = int(found.reason.rpartition("child ")[2].strip("'"))
    end = time.monotonic() + 10
    while _alive(child):  # killed, but its last moments are the kernel's
        assert time.monotonic() < end, "the group's other process still runs"
        time.sleep(0.02)


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_after_a_hang_nothing_further_is_started_and_what_was_measured_stays(tmp_path: Path) -> None:
    folder = install(tmp_path / "bin", all_gather="hang")
    steps = tuple(
        Step(operation, (MIB,)) for operation in (Operation.ALL_REDUCE, Operation.ALL_GATHER, Operation.ALL_TO_ALL)
    )
    found = run(folder, Profile("three", "", steps), time_limit_s=4.0)
    assert found.state is RunState.HUNG
    assert [name for name, _, _ in starts(folder)] == ["all_reduce", "all_gather"]
    assert {one.cell.operation for one in found.measurements} == {Operation.ALL_REDUCE}


def test_a_version_without_the_newer_options_is_not_asked_for_them(tmp_path: Path) -> None:
    folder = install(tmp_path / "bin", options=[])
    found = run(folder)
    assert found.state is RunState.COMPLETE, found.reason
    ((_, given, _),) = starts(folder)
    assert not {"-J", "-I", "-G"} & set(given)
    assert found.measurements[0].time_us == pytest.approx(10 + MIB / 300_000, abs=0.005)  # the digits of the text


@pytest.mark.parametrize(
    ("kind", "state", "words", "measured"),
    [
        ("ignores -J", RunState.COMPLETE, "", 3),
        ("cut json", RunState.COMPLETE, "its JSON file is not whole", 3),
        ("cut mid-row", RunState.INCOMPLETE, "is cut", 2),
        ("dies", RunState.ERROR, "died of SIGSEGV", 3),
        ("dies after", RunState.ERROR, "printed all its results and died of SIGABRT", 3),
    ],
)
def test_what_a_program_leaves_is_used_and_how_it_ended_is_said(
    tmp_path: Path, kind: str, state: RunState, words: str, measured: int
) -> None:
    options = ["-J", "-I"] if kind != "cut mid-row" else []
    found = run(install(tmp_path / "bin", kind=kind, options=options))
    assert found.state is state, found.reason
    assert words in found.reason
    assert len(found.measurements) >= measured


def test_wrong_values_and_a_bad_status_are_believed(tmp_path: Path) -> None:
    assert run(install(tmp_path / "wrong", wrong="3", status=7)).state is RunState.WRONG
    found = run(install(tmp_path / "status", status=3))
    assert found.state is RunState.ERROR
    assert "ended with status 3" in found.reason


def test_what_was_asked_for_and_not_measured_is_no_complete_run(tmp_path: Path) -> None:
    found = run(install(tmp_path / "memory", memory=4 * MIB))
    assert found.state is RunState.INCOMPLETE
    assert "did not measure 16 MiB" in found.reason
    assert "left room for 4194304 bytes" in found.reason
    assert len(found.measurements) == 2
    found = run(install(tmp_path / "type", dtype="float"))
    assert found.state is RunState.ERROR
    assert "measured float where bfloat16 was asked for" in found.reason
    assert found.measurements == ()


def test_programs_are_found_where_they_may_be(tmp_path: Path) -> None:
    build = install(tmp_path / "nccl-tests" / "build")
    path = os.environ["PATH"]
    assert run(build.parent).state is RunState.COMPLETE
    for environ in ({"PATH": path, "NCCL_TESTS_HOME": str(build.parent)}, {"PATH": f"{build}:{path}"}):
        found = run_nccl_tests(
            ALL_REDUCE, environ=environ, now=lambda: NOW, choices=False, contention=False, time_limit_s=60.0
        )
        assert found.state is RunState.COMPLETE
        assert str(build) in found.source


def test_what_is_no_nccl_tests_is_refused_with_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(NcclTestsMissing, match=r"all_reduce_perf of nccl-tests was not found in .*--nccl-tests"):
        run(tmp_path)
    program = tmp_path / "all_reduce_perf"
    program.write_text("#!/bin/sh\necho all is well\nexit 0\n")
    program.chmod(0o755)
    with pytest.raises(NcclTestsMissing, match=r"printed no usage of all_reduce_perf \(all is well\)"):
        run(tmp_path)
    program.write_text(
        "#!/bin/sh\necho 'x: error while loading shared libraries: libnccl.so.2: cannot open' >&2\nexit 127\n"
    )
    with pytest.raises(NcclTestsMissing, match=r"libnccl\.so\.2"):
        run(tmp_path)


def test_what_was_written_is_kept_where_asked(tmp_path: Path) -> None:
    run(install(tmp_path / "bin"), keep=tmp_path / "kept", choices=True)
    names = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert "00-all_reduce.txt" in names
    assert "00-all_reduce.json" in names
    assert any(name.startswith("00-all_reduce.nccl.") for name in names)
    assert any(name.startswith("00-all_reduce-choices.nccl.") for name in names)


def test_where_nobody_can_look_for_foreign_work_this_is_said(tmp_path: Path) -> None:
    found = run(install(tmp_path / "bin"), contention=True)
    assert found.state in (RunState.COMPLETE, RunState.CONTENDED)
    if not Path("/dev/nvidia0").exists():
        assert "whether anything else used the GPUs is unknown" in found.reason


def test_under_a_launcher_each_process_has_one_gpu(tmp_path: Path) -> None:
    folder = install(tmp_path / "bin")
    run(folder, gpus=2, launcher=("env", "MARK=1"))
    ((_, given, seen),) = starts(folder)
    assert given[given.index("-g") + 1] == "1"
    assert seen["MARK"] == "1"
