"""Contradictions: each is found, with its fix, and none is found where nothing is wrong."""

from __future__ import annotations

import pytest
from build_env import SOUND, checked, codes, notes
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.environment.check import check
from rankmuster.environment.contradiction import Severity
from rankmuster.environment.given import FolderState, Given, sifted
from rankmuster.environment.table import TABLE
from rankmuster.environment.variable import Engine

NOTHING: dict[str, str] = {}


def changed(**more: str) -> dict[str, str]:
    return {**SOUND, **more}


def test_a_sound_environment_is_left_alone() -> None:
    assert codes(SOUND) == set()
    assert checked(SOUND).defaults == ()


@pytest.mark.parametrize("torch", ["2.7", "2.8", "2.10.1"])
def test_dump_by_default_with_no_ring_by_default(torch: str) -> None:
    """torch 2.7 to 2.10 say "dumping" and dump nothing."""
    assert "dump_without_buffer" in codes(NOTHING, torch=torch)


def test_torch_of_today_needs_nothing_for_a_dump() -> None:
    answer = checked(NOTHING, torch="2.11")
    assert "dump_without_buffer" not in {one.code for one in answer.contradictions}
    assert answer.nothing_set
    assert dict(answer.defaults)["TORCH_FR_BUFFER_SIZE"] == "2000"
    assert dict(answer.defaults)["NCCL_RAS_ADDR"] == "localhost:28028"
    assert "last 2000 collectives" in answer.dump
    assert "comm_lib_trace_rank_" in answer.dump


def test_old_torch_without_anything_leaves_nothing() -> None:
    answer = checked(NOTHING, torch="2.5")
    assert "dump on time-out is off" in answer.dump
    assert dict(answer.defaults)["TORCH_NCCL_TRACE_BUFFER_SIZE"] == "0"
    assert "TORCH_FR_BUFFER_SIZE" not in dict(answer.defaults)
    assert "recorder_off" in {one.code for one in answer.contradictions}


@pytest.mark.parametrize(
    ("values", "code"),
    [
        (changed(TORCH_FR_BUFFER_SIZE="0", TORCH_NCCL_TRACE_BUFFER_SIZE="0"), "dump_without_buffer"),
        (changed(TORCH_NCCL_TRACE_BUFFER_SIZE="0"), "records_without_dump"),
        (changed(TORCH_NCCL_TRACE_BUFFER_SIZE="500"), "two_names_differ"),
        (changed(TORCH_NCCL_DUMP_ON_TIMEOUT="0"), "no_dump_on_timeout"),
        (changed(TORCH_NCCL_ENABLE_MONITORING="0"), "dump_without_monitoring"),
        (changed(TORCH_NCCL_ENABLE_MONITORING="0", TORCH_NCCL_DUMP_ON_TIMEOUT="0"), "monitoring_off"),
        (changed(TORCH_NCCL_BLOCKING_WAIT="1"), "blocking_wait"),
        (changed(NCCL_BLOCKING_WAIT="1"), "blocking_wait"),
        (changed(TORCH_NCCL_ASYNC_ERROR_HANDLING="0"), "errors_ignored"),
        (changed(TORCH_NCCL_DESYNC_DEBUG="1", TORCH_NCCL_ENABLE_TIMING="0"), "desync_without_timing"),
        (changed(TORCH_DISTRIBUTED_DEBUG="DETAIL", TORCH_NCCL_ENABLE_TIMING="0"), "desync_without_timing"),
        (changed(TORCH_DISTRIBUTED_DEBUG="detail"), "debug_detail"),
        (changed(TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC="20"), "heartbeat_ends_dump"),
        (changed(TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC="45"), "heartbeat_near_dump"),
        (changed(TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC="500000"), "heartbeat_ends_dump"),
        (changed(TORCH_NCCL_TRACE_BUFFER_SIZE="200000", TORCH_FR_BUFFER_SIZE="200000"), "wait_too_short"),
        (changed(TORCH_INCLUDE_ONLY_ACTIVE="1"), "only_active"),
        (changed(TORCH_NCCL_DUMP_ON_TIMOUT="1"), "misspelt"),
        (changed(TORCH_FR_TRACE_BUFFER_SIZE="2000"), "misspelt"),
        (changed(TORCH_FR_DUMP_ON_TIMEOUT="1"), "misspelt"),
        (changed(NCCL_TRACE_BUFFER_SIZE="2000"), "misspelt"),
        (changed(TORCH_NCCL_FLIGHT_RECORDER_ENABLED="1"), "unknown_name"),
        (changed(NCCL_DEBUG_SUBSYSTEM="ALL"), "misspelt"),
        (changed(TORCH_DIST_USE_NCCL2="1"), "not_read"),
        (changed(NCCL_PROGRESS_COUNTERS="1"), "not_read"),
        (changed(TORCH_FR_BUFFER_SIZE="many"), "bad_value"),
        (changed(TORCH_NCCL_DUMP_ON_TIMEOUT="sure"), "bad_value"),
        (changed(TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC="-5"), "bad_value"),
        (changed(TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC="480s"), "bad_value"),
        (changed(NCCL_DEBUG="VERBOSE"), "bad_value"),
        (changed(NCCL_RAS_ADDR="28028"), "bad_value"),
        (changed(NCCL_DEBUG="TRACE", NCCL_DEBUG_FILE="/e/%h_%p"), "trace_left_on"),
        (changed(NCCL_DEBUG="trace", NCCL_DEBUG_FILE="/e/%h_%p"), "trace_left_on"),
        (changed(NCCL_DEBUG="INFO"), "log_without_file"),
        (changed(NCCL_DEBUG="INFO", NCCL_DEBUG_FILE="/e/nccl.log"), "shared_log_file"),
        (changed(NCCL_DEBUG="INFO", NCCL_DEBUG_FILE="/e/nccl_%h.log"), "shared_log_file"),
        (changed(NCCL_DEBUG="INFO", NCCL_DEBUG_FILE="/e/nccl_%%p.log"), "shared_log_file"),
        (changed(NCCL_DEBUG_FILE="/e/nccl_%h_%p.log"), "log_file_without_level"),
        (changed(NCCL_DEBUG_SUBSYS="INIT,NETWORK", NCCL_DEBUG="WARN"), "unknown_subsystem"),
        (changed(NCCL_DEBUG_SUBSYS="DESTROY", NCCL_DEBUG="WARN"), "unknown_subsystem"),
        (changed(NCCL_DEBUG_TIMESTAMP_FORMAT=""), "no_stamps"),
        (changed(NCCL_RAS_ADDR="0.0.0.0:28028"), "ras_open"),
        (changed(NCCL_RAS_ADDR="[::]:28028"), "ras_open"),
        (changed(NCCL_RAS_ADDR="node7:28028"), "ras_open"),
        (changed(NCCL_P2P_DISABLE="1"), "left_from_debugging"),
        (changed(NCCL_SHM_DISABLE="1"), "left_from_debugging"),
        (changed(NCCL_IB_DISABLE="1"), "left_from_debugging"),
        (changed(NCCL_SOCKET_IFNAME="lo"), "interface_without_peers"),
        (changed(NCCL_SOCKET_IFNAME="=docker0"), "interface_without_peers"),
        (changed(TORCH_FR_DUMP_TEMP_FILE="/tmp/nccl_trace_rank_"), "shared_prefix"),
        (changed(TORCH_FR_DUMP_TEMP_FILE="/dev/shm/x_"), "shared_prefix"),
        (changed(TORCH_FR_DUMP_TEMP_FILE="dumps/rank_"), "relative_path"),
        (changed(TORCH_FR_DUMP_TEMP_FILE="/e/llm/rank_0"), "prefix_ends_in_digit"),
        ({k: v for k, v in SOUND.items() if k != "TORCH_FR_DUMP_TEMP_FILE"}, "default_prefix"),
        (changed(TORCH_NCCL_DEBUG_INFO_PIPE_FILE="/e/p_", TORCH_NCCL_DUMP_ON_TIMEOUT="0"), "pipe_polled_rarely"),
        (changed(TORCH_NCCL_DEBUG_INFO_PIPE_FILE="/e/p_", TORCH_NCCL_ENABLE_MONITORING="0"), "pipe_without_monitoring"),
        (changed(TORCH_NCCL_DEBUG_INFO_PIPE_FILE="/e/p_", TORCH_NCCL_TRACE_BUFFER_SIZE="0"), "pipe_without_buffer"),
    ],
)  # fmt: skip
def test_a_contradiction_is_named(values: dict[str, str], code: str) -> None:
    found = [one for one in checked(values).contradictions if one.code == code]
    assert len(found) == 1
    assert found[0].severity is not Severity.NOTE
    assert found[0].fix
    assert found[0].statement


@pytest.mark.parametrize(
    "values",
    [
        changed(NCCL_SOCKET_IFNAME="^lo,docker0"),
        changed(NCCL_RAS_ADDR="127.0.0.1:28100"),
        changed(NCCL_RAS_ADDR="[::1]:28100"),
        changed(NCCL_DEBUG="INFO", NCCL_DEBUG_FILE="/e/%h_%p"),
        changed(NCCL_DEBUG="INFO", NCCL_DEBUG_FILE="/dev/stderr"),
        changed(NCCL_P2P_LEVEL="SYS", NCCL_IB_HCA="mlx5", NCCL_MAX_CTAS="4", NCCL_P2P_DISABLE="0"),
        changed(TORCH_NCCL_AVOID_RECORD_STREAMS="1", TORCH_NCCL_HIGH_PRIORITY="1"),
        changed(TORCH_NCCL_DUMP_ON_TIMEOUT="true", TORCH_NCCL_ENABLE_TIMING="Y"),
        changed(TORCH_NCCL_DESYNC_DEBUG="1", TORCH_NCCL_ENABLE_TIMING="1"),
        changed(TORCH_NCCL_DESYNC_DEBUG="1", TORCH_NCCL_ASYNC_ERROR_HANDLING="0"),  # torch turns the latter on then
    ],
)
def test_what_is_meant_is_not_complained_of(values: dict[str, str]) -> None:
    assert codes(values) == set()


def test_the_new_name_is_not_read_yet() -> None:
    assert "not_read" in codes({"TORCH_FR_BUFFER_SIZE": "2000"}, torch="2.7")
    assert "dump_without_buffer" in codes({"TORCH_FR_BUFFER_SIZE": "2000"}, torch="2.7")


def test_until_2_10_the_pipe_needs_the_old_name_to_be_set() -> None:
    values = {"TORCH_FR_BUFFER_SIZE": "2000", "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": "/e/p_"}
    assert "pipe_without_buffer" in codes(values, torch="2.10")
    assert "pipe_without_buffer" not in codes(values, torch="2.11")


def test_the_newer_backend_ignores_the_dump_settings() -> None:
    assert "nccl2_backend" in codes(SOUND, torch="2.15")
    assert "nccl2_backend" not in codes(changed(TORCH_DIST_USE_NCCL2="0"), torch="2.15")
    assert "nccl2_backend" in codes(changed(TORCH_DIST_USE_NCCL2="1"), torch="2.14")


def test_ras_switched_off_is_a_note_where_its_thread_is_known_to_crash() -> None:
    assert "ras_off" in codes(changed(NCCL_RAS_ENABLE="0"), nccl="2.25.1")
    assert "ras_off" in notes(changed(NCCL_RAS_ENABLE="0"), nccl="2.28.9")


@pytest.mark.parametrize(
    ("values", "engine", "code"),
    [
        ({"NCCL_ASYNC_ERROR_HANDLING": "1"}, Engine.VLLM, "engine_removes"),
        ({"VLLM_BATCH_INVARIANT": "1", "NCCL_ALGO": "Ring"}, Engine.VLLM, "engine_overrides"),
    ],
)
def test_what_the_engine_takes_away_is_named(values: dict[str, str], engine: Engine, code: str) -> None:
    assert code in codes(changed(**values), engine=engine)
    assert code not in codes(changed(**values), engine=Engine.SGLANG)


def test_sglang_sets_what_is_not_set() -> None:
    assert "engine_sets" in notes(SOUND, engine=Engine.SGLANG)
    assert "engine_sets" not in notes(changed(NCCL_CUMEM_ENABLE="0", NCCL_NVLS_ENABLE="1"), engine=Engine.SGLANG)


def test_vllms_ray_workers_do_not_get_torchs_variables() -> None:
    assert "not_handed_to_ray" in codes(SOUND, engine=Engine.VLLM, ray=True)
    copied = changed(VLLM_RAY_EXTRA_ENV_VAR_PREFIXES_TO_COPY="TORCH_NCCL_,TORCH_FR_")
    assert "not_handed_to_ray" not in codes(copied, engine=Engine.VLLM, ray=True)
    named = changed(VLLM_RAY_EXTRA_ENV_VARS_TO_COPY=",".join(SOUND))
    assert "not_handed_to_ray" not in codes(named, engine=Engine.VLLM, ray=True)
    assert "not_handed_to_ray" not in codes(SOUND, engine=Engine.VLLM, ray=False)


def test_an_engine_that_gives_up_first_leaves_no_dump() -> None:
    assert "engine_first" in notes(SOUND, engine=Engine.VLLM)
    assert "engine_first" not in notes(changed(VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS="900"), engine=Engine.VLLM)


@pytest.mark.parametrize("state", [FolderState.MISSING, FolderState.NO_FOLDER, FolderState.NOT_WRITABLE])
def test_folders_that_cannot_be_written_to(state: FolderState) -> None:
    values = changed(TORCH_NCCL_DEBUG_INFO_PIPE_FILE="/e/p_", NCCL_DEBUG="WARN", NCCL_DEBUG_FILE="/e/%h_%p")
    found = [one for one in checked(values, look=lambda _: state).contradictions if one.code == "folder_unusable"]
    assert [one.severity for one in found] == [Severity.ERROR, Severity.ERROR, Severity.WARNING]
    assert "folder_unusable" not in codes(values, look=lambda _: FolderState.FINE)


def test_what_is_only_known_where_it_runs_is_not_guessed() -> None:
    given = Given("x", sifted({}), frozenset({"TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"}))
    (answer,) = check([given], (2, 10), (2, 28, 9)).checked
    assert "dump_without_buffer" not in {one.code for one in answer.contradictions}
    assert "cannot be said" in answer.dump
    assert dict(answer.settings)["TORCH_FR_BUFFER_SIZE"] is None


def test_versions_that_nobody_told_are_said_to_be_assumed() -> None:
    assert len(checked(SOUND, torch=None, nccl=None).assumed) == 2
    assert checked(SOUND).assumed == ()


NAMES = st.sampled_from(sorted(TABLE))
ODD = st.one_of(
    st.text(max_size=30), st.integers().map(str), st.sampled_from(["", "1", "0", "TRACE", "a:b", "[::1]:9"])
)


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(NAMES, ODD, max_size=12),
    st.sets(NAMES, max_size=4),
    st.sampled_from([(2, 2), (2, 7), (2, 10), (2, 13), (2, 15), (1, 0), (9, 9)]),
    st.sampled_from([(2, 18), (2, 26, 2), (2, 32), (1, 0)]),
    st.sampled_from([None, *Engine]),
    st.booleans(),
)
def test_no_value_breaks_the_check(
    values: dict[str, str],
    unknown: set[str],
    torch: tuple[int, ...],
    nccl: tuple[int, ...],
    engine: Engine | None,
    ray: bool,
) -> None:
    given = Given("x", {k: v for k, v in values.items() if k not in unknown}, frozenset(unknown), ray=ray)
    report = check([given, given], torch, nccl, engine)
    for one in report.all:
        assert one.statement
        assert one.fix
        assert one.where


def test_a_heartbeat_ends_nothing_where_monitoring_is_off() -> None:
    """torch logs then, and ends nothing."""
    found = codes(changed(TORCH_NCCL_ENABLE_MONITORING="0", TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC="5"))
    assert "heartbeat_ends_dump" not in found
    assert "dump_without_monitoring" in found


def test_a_ring_that_hangs_on_the_version_is_noted_where_nobody_said_it() -> None:
    def noted(values: dict[str, str], torch: str | None) -> bool:
        return "ring_by_version" in {one.code for one in checked(values, torch=torch).contradictions}

    assert noted(NOTHING, None)
    assert not noted(NOTHING, "2.8")
    assert not noted({"TORCH_FR_BUFFER_SIZE": "2000", "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000"}, None)


@pytest.mark.parametrize("off", ["0", "False", "NO", "n", " f"])
def test_timing_that_is_off_is_seen_however_it_is_written(off: str) -> None:
    """torch takes a no in any case (getCvarBool)."""
    assert "desync_without_timing" in codes(
        changed(TORCH_NCCL_DESYNC_DEBUG="1", TORCH_NCCL_ENABLE_TIMING=off), torch="2.11"
    )


def test_an_empty_log_file_is_no_file() -> None:
    """NCCL cannot open it and stays at standard output: nothing is emptied, and lines run into each other."""
    found = codes(changed(NCCL_DEBUG="INFO", NCCL_DEBUG_FILE=""))
    assert "shared_log_file" not in found
    assert {"log_without_file", "bad_value"} <= found
