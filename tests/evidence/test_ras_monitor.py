"""What the event stream of RAS must tell."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.evidence.blob import Blob, Reading
from rankmuster.evidence.ras_monitor import READER
from rankmuster.model.problem import ProblemKind
from rankmuster.model.ras import RasEvent, RasProcess
from rankmuster.model.stamp import Stamp, StampKind

FROM = "on node 10.77.0.11 managing"
TEXT = f"""\
RAS Monitor Mode - watching for peer changes (Ctrl+C to exit)...
================================================================
[2025-12-19 13:06:40] PEER_UNRESPONSIVE: Process 45 {FROM} GPUs 0,1 (NVML 4,5) peer not responding for 5s (keepalive)
[2025-12-19 13:07:05] PEER_RETRY: 10.77.0.12<40123> retrying
[2025-12-19 13:07:07] PEER_DEAD: Process 24345 {FROM} GPU 1 \n\
[2025-12-19 13:07:08] PEER_SEND_STUCK: nothing known of the peer
"""

JSON = """\
{
  "timestamp": "2025-12-19 13:07:07",
  "group": "LIFECYCLE",
  "event": "PEER_DEAD",
  "peer": {
    "host": "10.77.0.11",
    "pid": 24345,
    "cuda_devs": [1],
    "nvml_devs": [5]
  },
  "details": ""
}
{
  "timestamp": "2025-12-19 13:07:09",
  "group": "TRACE",
  "event": "PEER_RETRY",
  "peer": {
    "addr": "10.77.0.12<40123>"
  },
  "details": "again"
}
{
  "timestamp": "2025-12-19 13:07:10",
  "group": "TRACE",
  "event": "PEER_SEND_STUCK",
  "details": "unknown"
}
"""


def events(stream: str) -> list[RasEvent]:
    blob = Blob("ras/monitor", stream.encode())
    assert READER.recognises(blob)
    return [event for event in READER.read(blob).observations if isinstance(event, RasEvent)]


@pytest.mark.parametrize("before", ["", "OK\n", "SERVER PROTOCOL 2\nOK\n"])
def test_each_text_event_has_its_time_its_peer_and_its_reason(before: str) -> None:
    unresponsive, retry, dead, stuck = events(before + TEXT)
    assert unresponsive.peer == RasProcess("10.77.0.11", 45, (0, 1), (4, 5))
    assert unresponsive.details == "peer not responding for 5s (keepalive)"
    assert retry.peer == RasProcess("10.77.0.12", None)
    assert (dead.event, dead.details, dead.peer) == ("PEER_DEAD", "", RasProcess("10.77.0.11", 24345, (1,), (1,)))
    assert dead.stamp == Stamp(1766149627.0, StampKind.LOCAL)
    assert dead.line == 5 + before.count("\n")
    assert (stuck.peer, stuck.details) == (None, "nothing known of the peer")


def test_json_says_the_same() -> None:
    dead, retry, stuck = events("OK\n" + JSON)
    assert (dead.event, dead.peer, dead.line) == ("PEER_DEAD", RasProcess("10.77.0.11", 24345, (1,), (5,)), 2)
    assert (retry.peer, retry.details, retry.line) == (RasProcess("10.77.0.12", None), "again", 14)
    assert (stuck.peer, stuck.details) == (None, "unknown")
    assert stuck.stamp == Stamp(1766149630.0, StampKind.LOCAL)


def test_a_stream_in_which_nothing_happened_is_still_one() -> None:
    reading = READER.read(Blob("m", "\n".join(TEXT.splitlines()[:2]).encode()))
    assert (reading.observations, reading.problems) == ((), ())
    assert reading.known


def test_a_stream_cut_in_an_event_keeps_the_others_and_says_so() -> None:
    reading = READER.read(Blob("m", JSON[: JSON.rindex('"event"')].encode()))
    assert len(reading.observations) == 2
    assert [p.kind for p in reading.problems] == [ProblemKind.DAMAGED]


def test_other_lines_are_reported() -> None:
    reading = READER.read(Blob("m", (TEXT + "Killed\n").encode()))
    assert len(reading.observations) == 4
    assert [p.kind for p in reading.problems] == [ProblemKind.DAMAGED]


@pytest.mark.parametrize(
    "other",
    [
        "[2025-12-19 13:07:07] INFO: PEER_DEAD was seen\n",
        "starting\n" * 10 + TEXT,
        '{"nccl_version": "2.29.1", "communicators": []}',
        "",
    ],
)
def test_other_files_are_not_claimed(other: str) -> None:
    assert not READER.recognises(Blob("x", other.encode()))


def survive(data: bytes) -> Reading:
    blob = Blob("m", data)
    READER.recognises(blob)
    return READER.read(blob)


@settings(max_examples=80, deadline=None)
@given(st.sampled_from([TEXT, JSON]), st.sampled_from([TEXT, JSON]), st.integers(0, 700), st.integers(0, 700))
def test_cut_and_spliced_streams_are_survived(one: str, other: str, end: int, start: int) -> None:
    assert isinstance(survive(one[:end].encode()), Reading)
    assert isinstance(survive((one[:end] + other[start:]).encode()), Reading)


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from([TEXT, JSON]),
    st.lists(st.tuples(st.integers(0, 700), st.integers(0, 255)), max_size=8),
    st.binary(max_size=300),
)
def test_flipped_and_random_bytes_are_survived(stream: str, flips: list[tuple[int, int]], noise: bytes) -> None:
    data = bytearray(stream.encode())
    for at, value in flips:
        data[at % len(data)] = value
    assert isinstance(survive(bytes(data)), Reading)
    assert isinstance(survive(noise), Reading)
    assert isinstance(survive(b'{"timestamp": ' + noise), Reading)
