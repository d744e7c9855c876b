"""The lean mode of the NVML child: few calls, the dear ones only where something changed."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.node.nvml_rounds import AFTER_CHANGE, RARELY
from rankmuster.collect.node.nvml_session import NvmlSession


@pytest.fixture
def mode(nvml, tmp_path, monkeypatch):
    """Changes what the driver does while a child runs."""
    file = tmp_path / "mode"

    def change(name: str) -> None:
        fresh = tmp_path / "fresh"
        fresh.write_text(name)
        fresh.replace(file)

    change("normal")
    nvml()
    monkeypatch.setenv("FAKE_NVML_FILE", str(file))
    return change


def ask(session):
    """The lines of one round; the first ones may come before NVML has started, and are its, too."""
    deadline = Deadline.after(20.0)
    lines = []
    while not any(line.get("begun") for line in lines) and not session.ended and not deadline.passed:
        session.ask()
        rounds = sum(line["kind"] == "round" for line in lines)
        while sum(line["kind"] == "round" for line in lines) == rounds and not session.ended and not deadline.passed:
            lines += session.lines(deadline)
    assert any(line.get("begun") for line in lines), lines
    return lines


def moved(session):
    """A round after bytes have moved: the driver of the tests counts milliseconds."""
    time.sleep(0.005)
    return ask(session)


def listed(lines):
    return [line["gpu"] for line in lines if line["kind"] == "moving" and "pids" in line]


def test_processes_are_listed_at_the_start_then_seldom_and_again_where_something_changes(mode):
    with NvmlSession(mode="rounds") as session:
        rounds = [moved(session) for _ in range(RARELY + 2)]
        assert all(len([line for line in lines if line["kind"] == "moving"]) == 4 for lines in rounds)
        with_lists = [bool(listed(lines)) for lines in rounds]
        assert with_lists == [n < AFTER_CHANGE or n % RARELY == 0 for n in range(RARELY + 2)]
        mode("still")
        moved(session)
        assert listed(ask(session)) == [0, 1, 2, 3]
        assert "sm_clock_mhz" in ask(session)[-2]


def test_a_round_has_no_facts_and_says_what_it_cost(mode):
    with NvmlSession(mode="rounds") as session:
        ask(session)
        lines = ask(session)
        assert [line["kind"] for line in lines] == ["moving"] * 4 + ["round"]
        assert 0 < lines[-1]["cpu_seconds"] < 30
        moving = lines[0].keys() - {"kind", "gpu", "time", "pids", "sm_clock_mhz"}
        assert moving == {"nvlink_tx_kib", "nvlink_rx_kib", "sm_util_percent", "memory_util_percent", "power_w"}


def test_several_gpus_that_hang_leave_the_others_and_the_child_answers(mode):
    mode("block")
    with NvmlSession(mode="rounds") as session:
        for _ in range(3):
            lines = ask(session)
            assert [line["gpu"] for line in lines if line["kind"] == "slow"] == [2]
            assert {line["gpu"] for line in lines if line["kind"] == "moving"} == {0, 1, 3}


def test_xids_are_listened_to_only_where_asked_for(mode):
    with NvmlSession(mode="rounds", xids=True) as session:
        lines = ask(session)
        while not any(line["kind"] == "xids" for line in lines):
            lines += session.lines(Deadline.after(20.0)) or pytest.fail("nobody listens")
        mode("xid")
        while not any(line["kind"] == "xid" for line in lines):
            lines += session.lines(Deadline.after(20.0)) or pytest.fail("no Xid was told")
        [xid] = [line for line in lines if line["kind"] == "xid"]
        assert (xid["code"], xid["bus_id"]) == (79, "00000000:9B:00.0")
    with NvmlSession(mode="rounds") as session:
        assert not any(line["kind"].startswith("xid") for _ in range(3) for line in ask(session))


def test_the_child_of_days_stays_small():
    """What it imports: the binding and this package's few modules, no numpy, no pydantic."""
    program = (
        "import sys, json; import rankmuster.collect.node.nvml_rounds, rankmuster.collect.node.nvml_child, pynvml; "
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, check=True, timeout=60)
    assert not {"numpy", "pydantic", "yaml", "rich", "typer", "asyncio"} & set(json.loads(done.stdout))
