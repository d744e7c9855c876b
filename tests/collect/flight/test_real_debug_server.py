"""torch's own debug server in a hanging gloo job: found, asked, and what it says names the culprit.

Needs torch, which the tests do without otherwise: `pip install '.[real]'`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from flight_job import STOPPED, ticks

from rankmuster.collect.collector import Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.flight.debug_server import DebugServer
from rankmuster.collect.flight.tcp_store import read_keys
from rankmuster.collect.flight.torch_version import torch_version
from rankmuster.collect.machine import Machine
from rankmuster.collect.outcome import Ending, Outcome
from rankmuster.collect.sink import Store
from rankmuster.collect.target import ProcessOfInstance, Role, Target
from rankmuster.collect.wishes import DumpWish, Wishes
from rankmuster.diagnose.run import diagnose
from rankmuster.evidence.bundle import load
from rankmuster.model.fault import Role as Part
from rankmuster.model.fault import Subkind

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "jinja2", "tabulate")),
    reason="torch and what its debug server needs are not installed (pip install '.[real]')",
)

RANKS = 4


@dataclass
class Hanging:
    ranks: list[subprocess.Popen[bytes]]
    port: int
    since: float

    @property
    def processes(self) -> tuple[ProcessOfInstance, ...]:
        return tuple(
            ProcessOfInstance(
                pid=child.pid,
                inner_pid=child.pid,
                host_pid=child.pid,
                start_ticks=ticks(child.pid),
                started_at=self.since,
                role=Role.WORKER,
                name="python",
                rank=rank,
                uid=os.getuid(),
                environ=environment(rank, self.port),
                command=(sys.executable,),
            )
            for rank, child in enumerate(self.ranks)
        )

    def collect(self, folder: Path, wishes: Wishes) -> tuple[Outcome, Store]:
        scene = Scene(Target("llm-0", "a7", self.processes), Machine(hostname="a7"), wishes)
        scene.board.post_assessment(STOPPED)
        store = Store(folder)
        return DebugServer().collect(scene, store.sink("flight-http"), Deadline.after(30)), store


def environment(rank: int, port: int) -> dict[str, str]:
    return {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def hanging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hanging]:
    folder = tmp_path_factory.mktemp("hanging")
    port, since = free_port(), time.time()
    script = Path(__file__).with_name("debug_worker.py")
    logs = [(folder / f"stderr_{rank}").open("wb") for rank in range(RANKS)]
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script)],
            stdout=subprocess.PIPE,
            stderr=logs[rank],
            env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **environment(rank, port)},
            start_new_session=True,  # rank 0's frontend outlives it, and is ended with its session
        )
        for rank in range(RANKS)
    ]
    try:
        for rank, child in enumerate(ranks):
            assert child.stdout is not None
            line = child.stdout.readline()
            assert line == b"ready\n", (folder / f"stderr_{rank}").read_text(errors="replace")[-2000:]
        yield Hanging(ranks, port, since)
    finally:
        for child in ranks:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            if child.stdout is not None:
                child.stdout.close()
        for log in logs:
            log.close()


def bundle(store: Store) -> Path:
    """Writes what the manifest says of each piece beside them."""
    files = {piece.path: {"look_time": piece.look_time, "rank": piece.rank} for piece in store.pieces()}
    manifest = {"schema": "rankmuster.bundle/1", "files": files}
    (store.folder / "manifest.json").write_text(json.dumps(manifest))
    return store.folder


def test_the_store_tells_a_key_that_is_set_and_does_not_wait_for_one_that_is_not(hanging: Hanging) -> None:
    keys = ["debug_server/rank0", "debug_server/rank3", "debug_server/rank77"]
    found = read_keys("127.0.0.1", hanging.port, keys, Deadline.after(10))
    assert sorted(found) == keys[:2]
    assert found[keys[0]].startswith(b"http://")


def test_two_looks_at_a_hanging_job_name_its_culprit(hanging: Hanging, tmp_path: Path) -> None:
    outcome, store = hanging.collect(tmp_path / "bundle", Wishes(look_seconds=2.5))
    assert outcome.ending is Ending.DONE, outcome
    taken = sorted(piece.path for piece in store.pieces())
    once = [f"flight/fr_trace_rank_{rank}.json" for rank in range(RANKS)]
    again = [f"flight/fr_trace_rank_{rank}-2.json" for rank in range(RANKS)]
    assert taken == sorted(once + again)
    verdict = diagnose(load(bundle(store))).verdict
    assert [suspect.rank for suspect in verdict.suspects if suspect.role is Part.CULPRIT] == [2]
    assert verdict.subclass is Subkind.ORDER_CYCLE


def test_the_version_of_torch_is_read_off_the_process(hanging: Hanging) -> None:
    found = torch_version(Path("/proc"), hanging.processes[0])
    assert found is not None
    assert found >= (2, 10)


def test_a_frozen_rank_is_not_waited_for(hanging: Hanging, tmp_path: Path) -> None:
    child = hanging.ranks[1]
    child.send_signal(signal.SIGSTOP)
    os.waitpid(child.pid, os.WUNTRACED)
    try:
        outcome, store = hanging.collect(tmp_path / "bundle", Wishes(look_seconds=0.1))
    finally:
        child.send_signal(signal.SIGCONT)
    assert outcome.ending is Ending.PARTIAL
    assert "rank 1: its process is frozen" in outcome.note
    assert {piece.rank for piece in store.pieces()} == {0, 2, 3}


def test_nobody_is_asked_when_dumps_are_not_wanted(hanging: Hanging, tmp_path: Path) -> None:
    outcome, store = hanging.collect(tmp_path / "bundle", Wishes(dumps=DumpWish.NEVER))
    assert outcome.ending is Ending.DECLINED
    assert store.pieces() == ()


def test_without_the_store_no_port_is_guessed(hanging: Hanging, tmp_path: Path) -> None:
    hanging.ranks[0].kill()  # it holds the store
    hanging.ranks[0].wait()
    outcome, store = hanging.collect(tmp_path / "bundle", Wishes(look_seconds=0.1))
    assert outcome.ending is Ending.FAILED
    assert f"the store at 127.0.0.1:{hanging.port}" in outcome.note
    assert store.pieces() == ()
