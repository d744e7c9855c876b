"""systemd units: what a service of a node sets for the ranks that it starts."""

from __future__ import annotations

import pytest

from rankmuster.environment.check import check
from rankmuster.environment.read_file import read_bytes
from rankmuster.environment.variable import Engine

UNIT = """[Unit]
Description=llm-0

[Service]
Environment=NCCL_DEBUG=TRACE "NCCL_DEBUG_FILE=/var/log/nccl.log" API_KEY=sk-secret
Environment=TORCH_NCCL_DUMP_ON_TIMEOUT=1 \\
    TORCH_NCCL_TRACE_BUFFER_SIZE=0
Environment=TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/run/%n/pipe_
PassEnvironment=NCCL_IB_HCA
EnvironmentFile=/etc/default/llm
ExecStart=/opt/venv/bin/vllm serve model
"""


def test_its_environment_lines_count() -> None:
    (given,) = read_bytes(UNIT.encode(), "llm-0.service")
    assert given.values["NCCL_DEBUG"] == "TRACE"
    assert given.values["NCCL_DEBUG_FILE"] == "/var/log/nccl.log"
    assert given.values["TORCH_NCCL_TRACE_BUFFER_SIZE"] == "0"
    assert {"TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "NCCL_IB_HCA"} <= given.unknown
    assert given.engine is Engine.VLLM
    assert "EnvironmentFile" in given.odd[0]
    assert "sk-secret" not in repr(given)


def test_its_contradictions_are_named() -> None:
    report = check(read_bytes(UNIT.encode(), "llm-0.service"), None, None, None)
    assert "trace_left_on" in " ".join(one.code for one in report.all)


def test_an_empty_line_takes_back_what_came_before() -> None:
    unit = "[Service]\nEnvironment=NCCL_DEBUG=TRACE\nEnvironment=\nEnvironment=NCCL_P2P_DISABLE=1\n"
    (given,) = read_bytes(unit.encode(), "x.service")
    assert dict(given.values) == {"NCCL_P2P_DISABLE": "1"}


@pytest.mark.parametrize(
    "line", ['Environment="NCCL_DEBUG=INFO', "Environment=novalue", "Environment", "=", "Environment=\\"]
)
def test_a_damaged_line_costs_itself_alone(line: str) -> None:
    (given,) = read_bytes(f"[Service]\n{line}\nEnvironment=NCCL_P2P_DISABLE=1\n".encode(), "x.service")
    assert given.has("NCCL_P2P_DISABLE") or line.endswith("\\")
