"""The sidecar ends for nothing but a signal, and says what is in its way."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kube_wire_talk import TOKEN, talk, wish

from rankmuster.collect.deadline import Deadline
from rankmuster.kube.agents import sidecar as module
from rankmuster.kube.agents.roll import Roll
from rankmuster.kube.agents.sidecar import Sidecar, SidecarSettings
from rankmuster.model.run_record import parse


def wait_for(true: object, seconds: float = 20.0) -> None:
    assert callable(true)
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


@contextmanager
def running(tmp_path: Path, **more: Any) -> Iterator[tuple[tuple[str, int], list[str]]]:
    """One in this process, without a watch; its address, and what it says."""
    (tmp_path / "token").write_text(TOKEN)
    port = free_port()
    own = {"listen": f"127.0.0.1:{port}", "token": tmp_path / "token", "folder": tmp_path / "evidence"}
    settings = SidecarSettings(**{**own, "work": tmp_path / "work", "watch": False, "grace": 3.0, **more})
    said: list[str] = []
    stop = threading.Event()
    thread = threading.Thread(target=Sidecar(settings, said.append).run, args=(stop,))
    thread.start()
    try:
        yield ("127.0.0.1", port), said
    finally:
        stop.set()
        thread.join(20)
        assert not thread.is_alive()


def test_it_waits_for_its_port_and_says_so_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LISTEN_PAUSE", 0.05)
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        with running(tmp_path, listen=listen) as (_, said):
            wait_for(lambda: said)
            time.sleep(0.3)
            assert len(said) == 1
            taken.close()
            wait_for(lambda: any("serving on" in line for line in said))


def test_what_is_missing_is_told_and_nothing_ends(tmp_path: Path) -> None:
    (tmp_path / "evidence").write_text("a file stands there")
    with running(tmp_path, pod_uid="own-uid", agent="http://127.0.0.1:9") as (address, said):
        wait_for(lambda: any("serving" in line for line in said))
        assert any("cannot be used" in line for line in said)
        assert talk(address, "GET", "/healthz", token=None)[0] == 200
        code, _, body = talk(address, "GET", "/v1/state")
        assert (code, "no state file" in json.loads(body)["error"]) == (503, True)
        assert talk(address, "GET", "/v1/state", headers={"X-Rankmuster-Pod-Uid": "another"})[0] == 422
        assert talk(address, "POST", "/v1/collect", b"{")[0] == 400
        code, _, body = talk(address, "POST", "/v1/collect", wish())
        assert (code, b"own-uid" in body) == (422, True)
        both = wish(pods=[{"namespace": "a", "name": "a", "uid": uid} for uid in ("own-uid", "another")])
        assert talk(address, "POST", "/v1/collect", both, headers={"X-Rankmuster-Pod-Uid": "another"})[0] == 422
        assert talk(address, "PUT", "/v1/bundles/x.tar.zst", b"x")[0] == 404
        (tmp_path / "token").unlink()
        assert talk(address, "GET", "/v1/state")[0] == 503


def test_a_stale_or_spoilt_state_is_none(tmp_path: Path) -> None:
    with running(tmp_path) as (address, said):
        wait_for(lambda: any("serving" in line for line in said))
        state = tmp_path / "work" / "watch" / "state"
        state.mkdir(parents=True)
        for text in (
            "",
            "{",
            '{"schema": "rankmuster.watch/1"}',
            "\udcff".encode("utf-8", "surrogateescape").decode("latin-1"),
        ):
            (state / "state.json").write_text(text)
            assert talk(address, "GET", "/v1/state")[0] == 503


@contextmanager
def engine(**environ: str) -> Iterator[subprocess.Popen[bytes]]:
    """A rank, as far as /proc tells."""
    own = {"RANKMUSTER_INSTANCE": "ns.roll", "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_PORT": "29511"}
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"], env={**os.environ, **own, **environ}
    )
    while b"RANKMUSTER_INSTANCE=ns.roll" not in Path(f"/proc/{process.pid}/environ").read_bytes():
        time.sleep(0.01)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_the_roll_knows_who_was_there_and_a_new_start_is_another(tmp_path: Path) -> None:
    at = [1000.0]
    roll = Roll(tmp_path / "run", "ns.roll", clock=lambda: at[0])

    def look() -> None:
        at[0] += 60.0  # past every pause of the search
        roll.look(Deadline.after(10.0))

    look()
    if roll.target is not None:
        pytest.skip("something else on this machine looks like an engine")
    assert not roll.ended
    with engine() as first:
        look()
        assert roll.target is not None
        assert [one.pid for one in roll.target.workers] == [first.pid]
        assert not roll.ended
    look()
    assert roll.ended
    ended = parse((tmp_path / "run" / "engine.json").read_bytes())
    assert ended.life is not None
    (member,) = ended.life.members
    assert (member.pid, member.rank, member.world, ended.ended) == (first.pid, 0, 1, True)
    assert member.gone is not None
    roll.told_to_end("somebody")
    with engine() as second:
        look()
        assert not roll.ended
        began = parse((tmp_path / "run" / "engine.json").read_bytes())
        assert began.life is not None
        assert [one.pid for one in began.life.members] == [second.pid]
        assert began.incarnation != ended.incarnation or began.at != ended.at
