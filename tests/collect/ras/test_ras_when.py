"""When RAS is asked, seen from the socket: dumps first, then a confirmed stop, never during init."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest
from fake_server import FakeServer, era
from ras_scene import MOVING, STARTING, STOPPED, STUCK_IN_INIT, Stage, ready

from rankmuster.collect.outcome import Ending
from rankmuster.collect.ras import collector
from rankmuster.collect.wishes import RasRisk
from rankmuster.evidence.bundle import load
from rankmuster.model.ras import RasPoll

RISKY = ("2.26.2", "2.27.5", "2.28.9")


def _wait(condition) -> None:
    until = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)


@pytest.mark.parametrize("release", RISKY)
@pytest.mark.parametrize("mapped", [True, False])
def test_a_risky_release_is_asked_only_after_the_dumps_and_the_stop(tmp_path, release, mapped):
    with FakeServer(era(release)) as server:
        stage = Stage(tmp_path, server.port, release=release if mapped else None)
        scene = stage.scene()
        outcomes = []
        thread = threading.Thread(target=lambda: outcomes.append(stage.collect(scene)))
        thread.start()
        _wait(lambda: "TIMEOUT 0.5" in server.commands)
        scene.board.post_assessment(STOPPED)
        thread.join(0.1)  # the time in which a collector that does not wait would ask
        assert thread.is_alive()
        assert server.asked == []
        scene.board.post_dumped()
        thread.join(10)
    assert outcomes[0].ending is Ending.DONE
    assert server.asked == ["VERBOSE STATUS"] * 2
    assert "asked after the dumps" in outcomes[0].note


@pytest.mark.parametrize("release", RISKY)
def test_a_moving_instance_with_a_risky_release_is_not_asked(tmp_path, release):
    with FakeServer(era(release)) as server:
        stage = Stage(tmp_path, server.port, release=release)
        outcome = stage.collect(ready(stage.scene(), MOVING))
    assert outcome.ending is Ending.DECLINED
    assert "no stop is confirmed" in outcome.note
    assert server.asked == []
    assert load(stage.store.folder).of(RasPoll) == ()


@pytest.mark.parametrize("release", RISKY)
def test_always_asks_a_moving_instance_after_the_dumps(tmp_path, release):
    with FakeServer(era(release)) as server:
        stage = Stage(tmp_path, server.port, release=release)
        outcome = stage.collect(ready(stage.scene(risk=RasRisk.ALWAYS), MOVING))
    assert outcome.ending is Ending.DONE
    assert server.asked == ["VERBOSE STATUS"] * 2


@pytest.mark.parametrize("release", RISKY)
def test_never_does_not_even_connect_to_a_known_risky_release(tmp_path, release):
    with FakeServer(era(release)) as server:
        stage = Stage(tmp_path, server.port, release=release)
        outcome = stage.collect(ready(stage.scene(risk=RasRisk.NEVER)))
    assert outcome.ending is Ending.DECLINED
    assert "ras_risk=never" in outcome.note
    assert server.connections == 0


@pytest.mark.parametrize(("release", "asked"), [("2.27.5", 0), ("2.28.9", 0), ("2.29.2", 2), ("2.32.3", 2)])
def test_an_unknown_release_is_risky_until_the_probe_says_otherwise(tmp_path, release, asked):
    with FakeServer(era(release)) as server:
        stage = Stage(tmp_path, server.port)
        stage.collect(ready(stage.scene(risk=RasRisk.NEVER)))
    assert len(server.asked) == asked


@pytest.mark.parametrize("risk", RasRisk)
@pytest.mark.parametrize("state", [STARTING, STUCK_IN_INIT])
@pytest.mark.parametrize("release", [*RISKY, "2.30.7"])
def test_nothing_is_asked_during_init_whatever_is_set(tmp_path, release, state, risk):
    with FakeServer(era(release)) as server:
        stage = Stage(tmp_path, server.port, release=release)
        outcome = stage.collect(ready(stage.scene(risk=risk), state))
    assert outcome.ending is Ending.DECLINED
    assert server.asked == []
    assert "DIAGNOSTICS" not in server.commands


@pytest.mark.parametrize("release", ["2.25.1", "2.29.2", "2.30.7"])
def test_a_safe_release_waits_for_nobody(tmp_path, release):
    with FakeServer(era(release)) as server:
        stage = Stage(tmp_path, server.port, release=release)
        outcome = stage.collect(ready(stage.scene(), None, dumped=False))
    assert outcome.ending is Ending.DONE
    assert server.asked == ["VERBOSE STATUS"] * 2


@pytest.mark.parametrize(("assessment", "dumped"), [(None, True), (STOPPED, False)])
def test_what_never_comes_is_not_waited_for_beyond_the_deadline(tmp_path, monkeypatch, assessment, dumped):
    monkeypatch.setattr(collector, "LEAST_SECONDS", 0.2)
    with FakeServer(era("2.28.9")) as server:
        stage = Stage(tmp_path, server.port, release="2.28.9")
        begun = time.monotonic()
        outcome = stage.collect(ready(stage.scene(risk=RasRisk.ALWAYS), assessment, dumped=dumped), seconds=0.9)
        assert time.monotonic() - begun < 3
    assert outcome.ending is Ending.DECLINED
    assert "no time is left to wait" in outcome.note
    assert server.asked == []


def test_a_release_before_ras_is_not_looked_for(tmp_path):
    with FakeServer(era("2.28.9")) as server:
        stage = Stage(tmp_path, server.port, release="2.21.5")
        outcome = stage.collect(ready(stage.scene(risk=RasRisk.ALWAYS)))
    assert outcome.ending is Ending.NOTHING
    assert "2.21.5 has no RAS" in outcome.note
    assert server.connections == 0


def test_an_instance_without_nccl_is_not_looked_for(tmp_path):
    with FakeServer(era("2.28.9")) as server:
        stage = Stage(tmp_path, server.port)
        stage.nccl_loaded = False
        (stage.proc / "71" / "maps").write_text("")
        outcome = stage.collect(ready(stage.scene()))
    assert outcome.ending is Ending.NOTHING
    assert server.connections == 0


def test_a_release_that_contradicts_the_service_counts_as_the_worse(tmp_path, monkeypatch):
    monkeypatch.setattr(collector, "LEAST_SECONDS", 0.2)
    with FakeServer(era("2.31.2")) as server:
        stage = Stage(tmp_path, server.port, release="2.28.9")
        outcome = stage.collect(ready(stage.scene(), dumped=False), seconds=0.9)
    assert outcome.ending is Ending.DECLINED
    assert server.asked == []
    assert any("2.28.9 mapped" in warning for warning in outcome.warnings)


def test_no_instance_is_no_question(tmp_path):
    stage = Stage(tmp_path, 1)
    assert stage.collect(replace(stage.scene(), target=None)).ending is Ending.NOTHING
    assert stage.files() == []
