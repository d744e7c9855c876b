"""Ports and carriers: up, as fast as their siblings, without errors that come with the benchmark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from admitted import QUIET, state_of, statement
from rankmuster.admission.network_ports import port_checks, used
from rankmuster.model.admission import CheckState
from rankmuster.model.unknown import Unknown
from rdma_port import port


@pytest.mark.parametrize(
    ("changes", "state", "words"),
    [
        ({}, CheckState.PASS, ""),
        ({"state": "PORT_DOWN", "physical_state": "Polling"}, CheckState.FAIL, "the port is down (DOWN, Polling)"),
        ({"state": "PORT_INIT"}, CheckState.FAIL, "no subnet manager"),
        ({"state": "PORT_DOWN", "physical_state": "Disabled"}, CheckState.WARN, "switched off"),
        ({"rate_gbps": 200.0}, CheckState.FAIL, "200 Gb/s where its siblings have 400"),
        ({"state": None}, CheckState.UNKNOWN, "could not be read"),
    ],
)
def test_ports(changes: dict[str, object], state: CheckState, words: str) -> None:
    checks = port_checks(replace(QUIET, ports=(port(), port("mlx5_1", **changes))))
    assert state_of(checks, "ports") is state
    if words:
        assert words in statement(checks, "ports")


def test_errors_that_come_with_the_benchmark_refuse_and_old_ones_warn() -> None:
    worn = port(counters={"link_downed": 2})
    assert state_of(port_checks(replace(QUIET, ports=(worn,)), (worn,)), "port-errors") is CheckState.WARN
    worse = port(counters={"link_downed": 3})
    found = port_checks(replace(QUIET, ports=(worse,)), (worn,))
    assert state_of(found, "port-errors") is CheckState.FAIL
    assert "link_downed +1" in statement(found, "port-errors")


def test_single_damaged_packets_during_the_benchmark_only_warn() -> None:
    before, after = port(counters={"symbol_error": 1}), port(counters={"symbol_error": 4})
    assert state_of(port_checks(replace(QUIET, ports=(after,)), (before,)), "port-errors") is CheckState.WARN


def test_a_port_that_nccl_leaves_out_is_not_asked() -> None:
    down = port("mlx5_9", state="PORT_DOWN")
    facts = replace(QUIET, ports=(port(), down))
    assert state_of(port_checks(facts), "ports") is CheckState.FAIL
    assert state_of(port_checks(facts, (), {"NCCL_IB_HCA": "^mlx5_9"}), "ports") is CheckState.PASS
    assert state_of(port_checks(facts, (), {"NCCL_IB_HCA": "=mlx5_0,mlx5_1"}), "ports") is CheckState.PASS


@pytest.mark.parametrize(
    ("wanted", "device", "answer"),
    [
        ("", "mlx5_0", True),
        ("mlx5", "mlx5_10", True),
        ("mlx5_1", "mlx5_10", True),
        ("=mlx5_1", "mlx5_10", False),
        ("^mlx5_1", "mlx5_10", False),
        ("^=mlx5_1", "mlx5_10", True),
        ("mlx5_0:2", "mlx5_0", False),
        ("mlx5_0:1", "mlx5_0", True),
    ],
)
def test_names_as_nccl_reads_them(wanted: str, device: str, answer: bool) -> None:
    assert used(port(device), wanted) is answer


def test_ports_that_could_not_be_read_and_carriers_that_flap() -> None:
    assert state_of(port_checks(replace(QUIET, ports=Unknown("firmware hangs"))), "ports") is CheckState.UNKNOWN
    flapping = replace(QUIET, ports=(port(),), carrier_changes={"eth0": 3, "eth1": 44})
    (found,) = [check for check in port_checks(flapping) if check.name == "carrier-changes"]
    assert (found.subject, found.state) == ("eth1", CheckState.WARN)
