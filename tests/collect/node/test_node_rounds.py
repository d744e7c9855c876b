"""The lean mode of the NVML child: few calls, the dear ones only where something changed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rankmuster
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.node.nvml_rounds import AFTER_CHANGE, RARELY
from rankmuster.collect.node.nvml_session import NvmlSession
from rankmuster.collect.own_path import FLAGS, own_path


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
        "import sys, json, rankmuster.collect.node.nvml_rounds; from rankmuster.collect.node import nvml_child; "
        "nvml_child._do_without_search(); import pynvml; print(json.dumps(sorted(sys.modules)))"
    )
    ready = f"import sys; sys.path[:] = {own_path()!r}; {program}"
    done = subprocess.run([sys.executable, *FLAGS, "-c", ready], capture_output=True, check=True, timeout=60)
    modules = set(json.loads(done.stdout))
    assert "pynvml" in modules
    assert not {"numpy", "pydantic", "yaml", "rich", "typer", "asyncio", "typing", "subprocess", "site"} & modules


def test_it_is_found_where_an_editable_install_needs_hooks_of_site(monkeypatch):
    """Such an install puts no folder on the path: what the child gets holds this package all the same."""
    root = str(Path(rankmuster.__file__).parent.parent)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place != root])
    assert own_path()[-1] == root
    monkeypatch.setattr(sys, "path", ["", "relative", *sys.path, root])
    assert own_path().count(root) == 1
    assert all(place.startswith("/") for place in own_path())
