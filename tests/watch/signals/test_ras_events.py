"""RAS's events: heard from one connection that is held open, under the policy of polls, bounded and connected anew."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest
from ras_place import Place, fake_server

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.wishes import RasRisk
from rankmuster.model.fault import Progress
from rankmuster.model.plane import Plane
from rankmuster.model.ras import RasEvent
from rankmuster.watch.signals.ras_events import RasEventsSignal
from rankmuster.watch.signals.ras_objects import MAX_HELD, Splitter
from rankmuster.watch.signals.signal import Declined, Failed, Heard

ERAS = fake_server.ERAS
EVENT = fake_server.EVENT
FakeServer = fake_server.FakeServer
answer_of = fake_server.answer_of
era = fake_server.era


def listening(place: Place) -> RasEventsSignal:
    return RasEventsSignal(place.access, 5.0)


def poll(signal: RasEventsSignal, seconds: float = 5.0):
    return list(signal.poll(Deadline.after(seconds)))


def until(signal: RasEventsSignal, kind: type, count: int = 1):
    """Polls until so many of a kind were said; all that was said."""
    said = []
    end = time.monotonic() + 10
    while sum(isinstance(one, kind) for one in said) < count:
        assert time.monotonic() < end, said
        said += poll(signal)
        time.sleep(0.005)
    return said


def streaming(*pieces: bytes, then=None, release: str = "2.30.7"):
    """Serves the probe, then sends the pieces with a moment between, then does `then`."""

    def handle(server, connection):
        for line in server.lines(connection):
            answer = answer_of(line.upper(), line, era(release))
            connection.sendall(answer.encode() + b"\n")
            if line.upper() == "MONITOR LIFECYCLE" and answer == "OK":
                for piece in pieces:
                    connection.sendall(piece)
                    server.pause(0.03)
                if then is not None:
                    then(connection)
                    return

    return handle


@pytest.mark.parametrize("release", ["2.29.2", "2.30.7", "2.32.3"])
@pytest.mark.parametrize("mapped", [True, False])
def test_events_are_heard_from_one_connection(tmp_path, release, mapped):
    with FakeServer(era(release)) as server:
        signal = listening(Place(tmp_path, server.port, release=release if mapped else None))
        (heard,) = until(signal, Heard)
        for _ in range(3):
            assert poll(signal) == []
        assert server.connections == 1
        signal.close()
        assert not signal.connected
    event = heard.observation
    assert isinstance(event, RasEvent)
    assert (event.event, event.peer.pid, event.line) == ("PEER_DEAD", 6226, 1)
    assert heard.plane is Plane.RAS
    assert server.asked == []
    assert server.violations == []


@pytest.mark.parametrize("release", [one for one in ERAS if tuple(map(int, one.split("."))) < (2, 29)])
@pytest.mark.parametrize("risk", [RasRisk.AFTER_STOP_CONFIRMED, RasRisk.ALWAYS])
def test_a_release_without_monitor_is_not_connected_to(tmp_path, release, risk):
    with FakeServer(era(release)) as server:
        signal = listening(Place(tmp_path, server.port, release=release, risk=risk))
        (said,) = poll(signal)
        assert poll(signal) == []
    assert isinstance(said, Declined)
    assert server.connections == 0


def test_a_service_that_has_no_monitor_is_asked_once(tmp_path):
    with FakeServer(era("2.28.9")) as server:
        place = Place(tmp_path, server.port)
        signal = listening(place)
        (said,) = poll(signal)
        place.clock.skipped += 10_000
        assert poll(signal) == []
    assert isinstance(said, Declined)
    assert "MONITOR" in said.reason
    assert server.connections == 1


def test_nobody_connects_while_it_starts_and_a_connection_that_stands_is_kept(tmp_path):
    with FakeServer(era("2.30.7")) as server:
        place = Place(tmp_path, server.port, release="2.30.7", told=Progress.STARTING)
        signal = listening(place)
        (said,) = poll(signal)
        assert isinstance(said, Declined)
        assert server.connections == 0
        place.access.tell(Progress.ADVANCING)
        until(signal, Heard)
        place.access.tell(Progress.STARTING)
        assert poll(signal) == []
        assert signal.connected
        place.access.retarget(replace(place.target, incarnation="the next"))
        assert poll(signal) == []
        assert not signal.connected
        signal.close()


def test_events_come_in_pieces_and_in_order(tmp_path):
    events = [EVENT.replace(b"6226", str(6000 + number).encode()) for number in range(5)]
    stream = b"".join(events)
    pieces = [stream[at : at + 97] for at in range(0, len(stream), 97)]
    with FakeServer(handler=streaming(*pieces)) as server:
        signal = listening(Place(tmp_path, server.port, release="2.30.7"))
        said = until(signal, Heard, 5)
        signal.close()
    assert [one.observation.peer.pid for one in said] == [6000, 6001, 6002, 6003, 6004]
    assert [one.observation.line for one in said] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("end", [fake_server.close, fake_server.reset])
def test_a_stream_that_ends_is_connected_anew_after_a_pause(tmp_path, end):
    with FakeServer(handler=streaming(EVENT, then=end)) as server:
        place = Place(tmp_path, server.port, release="2.30.7")
        signal = listening(place)
        until(signal, Failed)
        assert not signal.connected
        assert poll(signal) == []
        assert server.connections == 1
        place.clock.skipped += 31
        until(signal, Failed)
        assert server.connections == 2


@pytest.mark.parametrize(
    "stream",
    [
        b"x" * (MAX_HELD * 3),
        b"{" * (MAX_HELD * 3),
        b'{"timestamp": "' + b"a" * (MAX_HELD * 3),
        bytes(range(1, 10)) * 40_000,
    ],
)
def test_a_flood_of_nonsense_is_given_up(tmp_path, stream):
    with FakeServer(handler=streaming(stream)) as server:
        signal = listening(Place(tmp_path, server.port, release="2.30.7"))
        said = until(signal, Failed)
        assert not any(isinstance(one, Heard) for one in said)
        assert not signal.connected


@pytest.mark.parametrize(
    "handler",
    [
        fake_server.silent,
        fake_server.closes_at_once,
        fake_server.closes_after_handshake,
        fake_server.garbage,
        fake_server.web_server,
        fake_server.wrong_order,
        fake_server.long_line,
    ],
)
def test_a_service_that_misbehaves_is_a_failure(tmp_path, handler):
    with FakeServer(handler=handler) as server:
        signal = listening(Place(tmp_path, server.port, release="2.30.7"))
        began = time.monotonic()
        (said,) = poll(signal, 1.5)
        assert time.monotonic() - began < 5
        assert isinstance(said, Failed)
        assert poll(signal, 1.5) == []
        signal.close()


def test_what_cannot_be_read_between_events_does_not_hide_the_next(tmp_path):
    broken = EVENT.replace(b'"event": "PEER_DEAD",', b'"event" "PEER_DEAD"')
    with FakeServer(handler=streaming(broken, b"noise\n", EVENT)) as server:
        signal = listening(Place(tmp_path, server.port, release="2.30.7"))
        said = until(signal, Heard)
        signal.close()
    assert said[-1].observation.event == "PEER_DEAD"


def test_objects_on_one_line_are_cut_as_well():
    one = json.dumps({"timestamp": "x", "event": "é{}", "peer": {"a": {}}}).encode()
    splitter = Splitter()
    assert splitter.feed(one[:20]) == []
    assert [json.loads(piece) for piece in splitter.feed(one[20:] + b"\n" + one + b" " + one[:5])] == [
        json.loads(one)
    ] * 2
    assert splitter.lost == ""


def test_any_cut_of_a_stream_gives_the_same_objects():
    stream = EVENT * 3 + b'{"a": {}}\n' + EVENT
    whole = Splitter().feed(stream)
    assert len(whole) == 4  # the short one stands in front of the last, which `diagnose`'s reader takes apart
    for size in (1, 7, 64, 500):
        splitter = Splitter()
        pieces = [piece for at in range(0, len(stream), size) for piece in splitter.feed(stream[at : at + size])]
        assert b"".join(pieces).count(b"PEER_DEAD") == 4


@pytest.mark.parametrize("unit", [b"\n}", b"{x\n}", b"{}", b"[1]", b"{\n"])
def test_a_flood_of_small_pieces_is_given_up_or_held_within_bounds(unit):
    splitter = Splitter()
    for _ in range(4):
        splitter.feed(unit * (65_536 // len(unit)))
    assert splitter.lost
