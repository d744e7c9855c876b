"""A watch polls RAS only where its release cannot hurt, never while starting; whatever answers is bounded."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from ras_place import Place, fake_server

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.wishes import RasRisk
from rankmuster.evidence.bundle import load
from rankmuster.model.fault import Phase, Progress
from rankmuster.model.plane import Plane
from rankmuster.model.ras import RasPoll
from rankmuster.watch.signals.ras_events import RasEventsSignal
from rankmuster.watch.signals.signal import Declined, Failed, Heard

ERAS = fake_server.ERAS
KILLED_PIDS = fake_server.KILLED_PIDS
STOPPED_PIDS = fake_server.STOPPED_PIDS
FakeServer = fake_server.FakeServer
era = fake_server.era

RISKY = ("2.26.2", "2.27.5", "2.28.3", "2.28.7", "2.28.9")
SAFE = tuple(release for release in ERAS if release not in RISKY)


@pytest.mark.parametrize("release", SAFE)
def test_a_release_that_cannot_be_hurt_is_polled(tmp_path, release):
    with FakeServer(era(release)) as server:
        place = Place(tmp_path, server.port, release=release)
        before = time.time()
        (said,) = place.poll()
        after = time.time()
    assert isinstance(said, Heard)
    poll = said.observation
    assert isinstance(poll, RasPoll)
    assert poll.answered
    assert poll.nccl_version == release
    assert poll.node == "node1"
    assert before - 0.01 <= said.unix <= after
    assert said.unix == pytest.approx(poll.time.unix_seconds, abs=0.001)
    assert server.asked == ["VERBOSE STATUS"]
    assert server.violations == []


def test_the_poll_is_what_a_bundle_would_hold(tmp_path):
    with FakeServer(era("2.29.2")) as server:
        place = Place(tmp_path, server.port, release="2.29.2")
        (said,) = place.poll()
    (tmp_path / "b" / "ras").mkdir(parents=True)
    (tmp_path / "b" / "ras" / f"{said.unix:.3f}-node1.json").write_bytes(era("2.29.2").json)
    (kept,) = load(tmp_path / "b").of(RasPoll)
    assert replace(said.observation, time=None) == replace(kept, time=None)


@pytest.mark.parametrize("release", RISKY)
@pytest.mark.parametrize("progress", [Progress.ADVANCING, Progress.STOPPED, Progress.UNKNOWN])
def test_a_release_whose_status_can_hurt_is_never_asked_and_not_even_connected_to(tmp_path, release, progress):
    with FakeServer(era(release)) as server:
        place = Place(tmp_path, server.port, release=release, told=progress)
        (said,) = place.poll()
        assert place.poll() == []  # said once
    assert isinstance(said, Declined)
    assert said.plane is Plane.RAS
    assert "collect" in said.reason
    assert server.connections == 0


@pytest.mark.parametrize("release", RISKY)
def test_a_risky_release_that_nobody_can_name_is_known_by_the_probe_and_not_asked(tmp_path, release):
    with FakeServer(era(release)) as server:
        place = Place(tmp_path, server.port, told=Progress.STOPPED)
        (said,) = place.poll()
        assert place.poll() == []
        connections = server.connections
    assert isinstance(said, Declined)
    assert server.asked == []
    assert connections == 1


@pytest.mark.parametrize("release", ["2.29.2", "2.32.3"])
def test_a_safe_release_that_nobody_can_name_is_known_by_the_probe_and_asked(tmp_path, release):
    with FakeServer(era(release)) as server:
        (said,) = Place(tmp_path, server.port).poll()
    assert isinstance(said, Heard)


@pytest.mark.parametrize("release", RISKY)
def test_always_asks_a_risky_release(tmp_path, release):
    with FakeServer(era(release)) as server:
        (said,) = Place(tmp_path, server.port, release=release, risk=RasRisk.ALWAYS).poll()
    assert isinstance(said, Heard)


@pytest.mark.parametrize("release", [*RISKY, "2.32.3"])
@pytest.mark.parametrize("risk", RasRisk)
@pytest.mark.parametrize(("progress", "phase"), [(Progress.STARTING, None), (Progress.STOPPED, Phase.INIT)])
def test_nothing_is_asked_while_it_starts_whatever_is_set(tmp_path, release, risk, progress, phase):
    with FakeServer(era(release)) as server:
        place = Place(tmp_path, server.port, release=release, risk=risk, told=progress, phase=phase)
        (said,) = place.poll()
    assert isinstance(said, Declined)
    assert server.connections == 0


@pytest.mark.parametrize("risk", RasRisk)
def test_nothing_is_asked_and_nothing_said_before_a_first_look(tmp_path, risk):
    with FakeServer(era("2.32.3")) as server:
        place = Place(tmp_path, server.port, release="2.32.3", risk=risk, told=None)
        assert place.poll() == []
        assert place.signal.period < 60
        place.signal.tell(Progress.ADVANCING)
        assert place.signal.period == 60
    assert server.connections == 0


def test_never_still_polls_a_release_that_cannot_be_hurt(tmp_path):
    with FakeServer(era("2.29.2")) as server:
        (said,) = Place(tmp_path, server.port, release="2.29.2", risk=RasRisk.NEVER).poll()
    assert isinstance(said, Heard)


def test_a_start_is_declined_and_the_instance_polled_once_it_serves_and_not_again_after_its_restart(tmp_path):
    with FakeServer(era("2.30.7")) as server:
        place = Place(tmp_path, server.port, release="2.30.7", told=Progress.STARTING)
        assert isinstance(place.poll()[0], Declined)
        place.access.tell(Progress.IDLE)
        assert isinstance(place.poll()[0], Heard)
        place.access.retarget(replace(place.target, incarnation="the next"))
        assert place.poll() == []
        place.access.tell(Progress.STARTING)
        assert isinstance(place.poll()[0], Declined)
        assert len(server.asked) == 1


def test_the_release_is_read_again_when_the_ranks_change(tmp_path):
    with FakeServer(era("2.28.9")) as server:
        place = Place(tmp_path, server.port, release="2.30.7", told=Progress.ADVANCING)
        safe = place.stage.root / "venv/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2"
        place.access.way(Deadline.after(5))
        safe.write_bytes(safe.read_bytes().replace(b"2.30.7", b"2.28.9"))
        place.access.way(Deadline.after(5))  # nothing is read of the disk anew
        newer = tuple(replace(process, start_ticks=2) for process in place.target.processes)
        place.access.retarget(replace(place.target, processes=newer))
        (said,) = place.poll()
        assert isinstance(said, Declined)
        assert server.connections == 0


def test_another_jobs_reply_is_no_observation(tmp_path):
    with FakeServer(era("2.29.2")) as server:
        place = Place(tmp_path, server.port, release="2.29.2", story=STOPPED_PIDS)
        (said,) = place.poll()
    assert isinstance(said, Failed)
    assert "different job" in said.reason
    assert len(server.asked) == 1


def test_after_a_failure_it_waits_longer_and_longer_and_after_an_answer_not(tmp_path):
    with FakeServer(era("2.29.2")) as server:
        port = server.port
    place = Place(tmp_path, port, release="2.29.2")
    (said,) = place.poll()
    assert isinstance(said, Failed)
    assert "nobody listens" in said.reason
    assert place.poll() == []
    place.clock.skipped += 61
    assert isinstance(place.poll()[0], Failed)
    place.clock.skipped += 61
    assert place.poll() == []  # the second pause is twice as long
    place.clock.skipped += 61
    with FakeServer(era("2.29.2"), port=port):
        assert isinstance(place.poll()[0], Heard)
        place.clock.skipped += 60
        assert isinstance(place.poll()[0], Heard)


BAD = {
    "silent": fake_server.silent,
    "closes at once": fake_server.closes_at_once,
    "closes after the handshake": fake_server.closes_after_handshake,
    "garbage": fake_server.garbage,
    "a web server": fake_server.web_server,
    "a line without end": fake_server.long_line,
    "answers in the wrong order": fake_server.wrong_order,
    "a slow greeting": fake_server.slow_greeting,
    "mute": fake_server.mute_after_request(era("2.29.2")),
    "no report": fake_server.says_after_request(era("2.29.2"), b"<html>no</html>"),
    "empty": fake_server.says_after_request(era("2.29.2"), b""),
    "endless": fake_server.endless(era("2.29.2")),
}


@pytest.mark.parametrize("how", BAD)
def test_a_service_that_misbehaves_is_a_failure_and_holds_nobody_up(tmp_path, how):
    with FakeServer(handler=BAD[how]) as server:
        place = Place(tmp_path, server.port, release="2.29.2")
        began = time.monotonic()
        (said,) = place.poll(1.8)
        assert time.monotonic() - began < 6
    assert isinstance(said, Failed), said
    assert said.plane is Plane.RAS


@pytest.mark.parametrize("how", ["never closes", "drips", "is reset"])
def test_a_report_that_is_cut_counts_as_far_as_it_came(tmp_path, how):
    made = {
        "never closes": fake_server.never_closes,
        "drips": fake_server.slow_drip,
        "is reset": fake_server.reset_mid_reply,
    }
    with FakeServer(handler=made[how](era("2.29.2"))) as server:
        place = Place(tmp_path, server.port, release="2.29.2")
        place.access.way(Deadline.after(10))  # so that reading the release is not in the time of the poll
        (said,) = place.poll(2.2)
        assert isinstance(said, Heard)
        assert said.observation.truncated or how == "never closes"
        assert place.poll(1.8) == []  # each such poll keeps the RAS threads of the job waiting


def test_no_time_is_no_poll(tmp_path):
    with FakeServer(era("2.29.2")) as server:
        (said,) = Place(tmp_path, server.port, release="2.29.2").poll(0.5)
    assert isinstance(said, Failed)
    assert server.asked == []


@pytest.mark.parametrize(
    ("environ", "word"),
    [({"NCCL_RAS_ENABLE": "0"}, "switched off"), ({"NCCL_RAS_ADDR": "nonsense"}, "names no address")],
)
def test_what_is_set_wrong_or_off_is_said(tmp_path, environ, word):
    with FakeServer(era("2.29.2")) as server:
        place = Place(tmp_path, server.port, release="2.29.2", environ=environ)
        (said,) = place.poll()
        assert place.poll() == []
    assert isinstance(said, Declined)
    assert word in said.reason
    assert server.connections == 0


def test_while_collect_asks_and_after_the_end_nothing_is_asked(tmp_path):
    with FakeServer(era("2.29.2")) as server:
        place = Place(tmp_path, server.port, release="2.29.2")
        place.access.tell(Progress.STOPPED, held=True)
        assert place.poll() == []
        place.access.tell(Progress.STOPPED)
        assert len(place.poll()) == 1
        place.signal.close()
        assert place.poll() == []
    assert len(server.asked) == 1


def test_an_instance_without_nccl_or_without_living_ranks_has_no_ras(tmp_path):
    with FakeServer(era("2.29.2")) as server:
        place = Place(tmp_path, server.port, told=Progress.ADVANCING)
        (place.stage.proc / "71" / "maps").write_text("7ffc00000000-7ffc00001000 rw-p 00000000 00:00 0  [stack]\n")
        place.access.retarget(replace(place.target, nccl_loaded=False))
        assert isinstance(place.poll()[0], Declined)
        dead = tuple(replace(process, state="X") for process in place.target.processes)
        place.access.retarget(replace(place.target, processes=dead))
        assert isinstance(place.poll()[0], Declined)
    assert server.connections == 0


def test_a_network_that_may_not_be_entered_is_said_and_nobody_is_asked(tmp_path):
    with FakeServer(era("2.29.2")) as server:
        place = Place(tmp_path, server.port, release="2.29.2")
        (place.stage.proc / "71" / "ns").mkdir()
        (place.stage.proc / "71" / "ns" / "net").write_text("no namespace, and not ours")
        (said,) = place.poll()
        assert place.poll() == []
        (also,) = RasEventsSignal(place.access, 5.0).poll(Deadline.after(5))
    assert isinstance(said, Declined)
    assert isinstance(also, Declined)
    assert "network namespace" in said.reason
    assert server.connections == 0


def test_a_report_that_is_longer_than_a_watch_reads_is_given_up(tmp_path):
    served = replace(era("2.29.2"), json=era("2.29.2").json + b" " * (3 << 20))
    with FakeServer(served) as server:
        (said,) = Place(tmp_path, server.port, release="2.29.2").poll()
    assert isinstance(said, Failed)
    assert "longer" in said.reason


def test_polls_and_events_at_once_read_the_release_once(tmp_path):
    with FakeServer(era("2.30.7")) as server:
        place = Place(tmp_path, server.port, release="2.30.7")
        events = RasEventsSignal(place.access, 5.0)
        with ThreadPoolExecutor(2) as pool:
            asked = pool.submit(place.poll)
            heard = pool.submit(lambda: list(events.poll(Deadline.after(5))))
            assert isinstance(asked.result()[0], Heard)
            assert not [one for one in heard.result() if not isinstance(one, Heard)]
        events.close()
    assert server.violations == []
