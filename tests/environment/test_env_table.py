"""The table of variables holds together."""

from __future__ import annotations

import pytest
from build_env import NCCLS, TORCHES

from rankmuster.collect.flight.settings import read_settings
from rankmuster.environment.nccl_table import SUBSYSTEM_SINCE
from rankmuster.environment.subsystems import ALWAYS, BY_CLASS, BY_SUBKIND, WIDER, subsystems_for, suspected
from rankmuster.environment.table import TABLE
from rankmuster.environment.values import problem
from rankmuster.environment.variable import Reader, Variable
from rankmuster.environment.version import parse_version
from rankmuster.model.fault import FaultClass, Subkind

ROWS = list(TABLE.values())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_row_says_what_it_is_and_where_it_is_from(row: Variable) -> None:
    assert row.meaning
    assert row.source
    assert row.newer is None or row.newer in TABLE
    assert [since for since, _ in row.defaults] == sorted(since for since, _ in row.defaults)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_defaults_are_values_that_are_taken(row: Variable) -> None:
    assert all(problem(row, value) is None for _, value in row.defaults)


@pytest.mark.parametrize(
    ("name", "version", "value"),
    [
        ("TORCH_FR_BUFFER_SIZE", "2.10", "0"),
        ("TORCH_FR_BUFFER_SIZE", "2.11", "2000"),
        ("TORCH_NCCL_TRACE_BUFFER_SIZE", "2.5", "0"),
        ("TORCH_NCCL_TRACE_BUFFER_SIZE", "2.6.1", "2000"),
        ("TORCH_NCCL_DUMP_ON_TIMEOUT", "2.6", "0"),
        ("TORCH_NCCL_DUMP_ON_TIMEOUT", "2.7", "1"),
        ("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "2.7", "60000"),
        ("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "2.8", "15000"),
        ("TORCH_FR_DUMP_TEMP_FILE", "2.6", "/tmp/nccl_trace_rank_"),
        ("TORCH_FR_DUMP_TEMP_FILE", "2.7", "~/.cache/torch/nccl_trace_rank_"),
        ("TORCH_FR_DUMP_TEMP_FILE", "2.12", "~/.cache/torch/comm_lib_trace_rank_"),
        ("TORCH_DIST_USE_NCCL2", "2.14", "0"),
        ("TORCH_DIST_USE_NCCL2", "2.15", "1"),
        ("NCCL_RAS_ADDR", "2.28.9", "localhost:28028"),
    ],
)
def test_defaults_change_with_the_version(name: str, version: str, value: str) -> None:
    assert TABLE[name].default(parse_version(version)) == value


def test_there_is_something_for_every_class_and_sub_kind() -> None:
    assert set(BY_CLASS) == set(FaultClass)
    for suspect in (*FaultClass, *Subkind):
        for nccl in NCCLS:
            words = subsystems_for(suspect, parse_version(nccl))
            assert {"INIT", "BOOTSTRAP", "ENV"} <= set(words)
            assert ("RAS" in words) == (parse_version(nccl) >= (2, 24))


def test_all_subsystems_are_nccls() -> None:
    for words in (ALWAYS, WIDER, *BY_CLASS.values(), *BY_SUBKIND.values()):
        assert set(words) <= SUBSYSTEM_SINCE.keys()


@pytest.mark.parametrize(
    ("text", "suspect"),
    [
        ("transport_stall", FaultClass.TRANSPORT_STALL),
        ("transport-stall/link-error", Subkind.LINK_ERROR),
        ("LINK_ERROR", Subkind.LINK_ERROR),
    ],
)
def test_a_suspect_is_a_class_or_a_sub_kind(text: str, suspect: FaultClass | Subkind) -> None:
    assert suspected(text) is suspect


def test_an_unknown_suspect_is_answered_with_the_names() -> None:
    with pytest.raises(ValueError, match="link_error"):
        suspected("hung")


def test_every_reader_has_its_versions() -> None:
    assert {row.reader for row in ROWS if row.since} <= {Reader.TORCH, Reader.NCCL}
    assert parse_version(TORCHES[0]) == (2, 2)


@pytest.mark.parametrize("torch", TORCHES)
def test_who_collects_knows_the_same_defaults(torch: str) -> None:
    version = parse_version(torch)
    default = {name: row.default(version) for name, row in TABLE.items()}
    found = read_settings({"HOME": "~"}, (version[0], version[1]))
    assert found.buffer == int(default["TORCH_FR_BUFFER_SIZE"] or 0)
    assert found.group_buffer == int(default["TORCH_NCCL_TRACE_BUFFER_SIZE"] or 0)
    assert found.dump_on_timeout is (default["TORCH_NCCL_DUMP_ON_TIMEOUT"] == "1")
    assert found.prefixes == (default["TORCH_FR_DUMP_TEMP_FILE"],)
    assert found.dump_wait == int(default["TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"] or 0) / 1000
    heartbeat = int(default["TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"] or 0)
    polled = int(default["TORCH_NCCL_COORD_CHECK_MILSEC"] or 0) / 1000
    assert found.pipe_poll == (polled if found.dump_on_timeout else heartbeat)
