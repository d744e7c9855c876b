"""Every era of NCCL is asked in its own words, the reply is kept byte for byte, and `diagnose` reads it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from fake_server import ERAS, KILLED_PIDS, STOPPED_PIDS, FakeServer, capture, era
from ras_scene import Stage, ready

from rankmuster.collect.outcome import Ending
from rankmuster.model.ras import RasEvent, RasPoll

STORIES = {"rank-killed": KILLED_PIDS, "rank-stops-calling": STOPPED_PIDS}


@pytest.fixture(scope="module", params=[(release, story) for release in ERAS for story in STORIES], ids="-".join)
def run(request, tmp_path_factory):
    """(era, server, stage, outcome) of one collect, of a job that had stopped."""
    release, story = request.param
    served = era(release, story)
    with FakeServer(served) as server:
        stage = Stage(tmp_path_factory.mktemp("ras"), server.port, release=release)
        stage.pids = STORIES[story]
        outcome = stage.collect(ready(stage.scene()))
    return served, server, stage, outcome


def test_two_polls_are_kept_raw_and_read_back(run):
    served, server, stage, outcome = run
    assert outcome.ending is Ending.DONE, outcome
    assert stage.replies() == [served.json or served.text] * 2
    assert server.violations == []
    polls = stage.evidence().of(RasPoll)
    form = "json" if served.json else "text"
    assert [(poll.answered, poll.form, poll.node) for poll in polls] == [(True, form, "node1")] * 2
    assert {poll.nccl_version for poll in polls} == {served.release}
    assert not any(poll.corrupt or poll.truncated for poll in polls)
    assert all(poll.time is not None for poll in polls)
    if stage.pids == KILLED_PIDS:
        assert {missing.pid for poll in polls for comm in poll.communicators for missing in comm.missing} == {6226}


def test_nothing_is_sent_that_a_release_does_not_have_beyond_the_probe(run):
    served, server, _, _ = run
    for command in server.commands:
        known = command.startswith(("CLIENT PROTOCOL", "TIMEOUT", "SET FORMAT json", "VERBOSE STATUS"))
        assert known or command in ("MONITOR bogus", "MONITOR lifecycle", "CONTROL x", "DIAGNOSTICS")
    assert "TIMEOUT 0" not in server.commands
    assert server.asked == ["VERBOSE STATUS"] * 2
    assert ("MONITOR lifecycle" in server.commands) is (served.monitor is not None)
    assert server.commands.count("DIAGNOSTICS") == (served.diagnostics is not None)


def test_the_record_of_the_asking_is_no_reply_to_diagnose(run):
    served, _, stage, _ = run
    document = json.loads(stage.record())
    assert document["nccl"]["releases"] == [served.release]
    assert document["decisions"][-1]["action"] == "ask"
    (source,) = [one for one in stage.evidence().sources if one.path.endswith("probe.json")]
    assert source.readers == ("record of asking RAS",)
    assert "probe.json" not in {poll.source.rpartition("/")[2] for poll in stage.evidence().of(RasPoll)}


def test_two_polls_lie_as_far_apart_as_was_wished(tmp_path):
    with FakeServer(era("2.29.2")) as server:
        stage = Stage(tmp_path, server.port)
        stage.collect(ready(stage.scene()))
    first, second = [poll.time.seconds for poll in stage.evidence().of(RasPoll)]
    assert second - first >= stage.wishes.ras_gap_seconds


def test_events_are_kept_where_there_are_any(tmp_path):
    with FakeServer(era("2.30.7")) as server:
        stage = Stage(tmp_path, server.port)
        assert stage.collect(ready(stage.scene())).ending is Ending.DONE
    (event,) = stage.evidence().of(RasEvent)
    assert (event.event, event.peer.pid) == ("PEER_DEAD", 6226)


def test_a_stream_without_events_leaves_no_file_that_looks_like_a_query_in_vain(tmp_path):
    with FakeServer(replace(era("2.30.7"), monitor=b"")) as server:
        stage = Stage(tmp_path, server.port)
        assert stage.collect(ready(stage.scene())).ending is Ending.DONE
    assert not any("events" in path for path in stage.files())
    assert all(poll.answered for poll in stage.evidence().of(RasPoll))


def test_diagnostics_are_kept_as_text(tmp_path):
    served = era("2.31.2")
    with FakeServer(served) as server:
        stage = Stage(tmp_path, server.port)
        outcome = stage.collect(ready(stage.scene()))
    assert "diagnostics: taken" in outcome.note
    (path,) = [path for path in stage.files() if "diagnostics" in path]
    assert (stage.store.folder / path).read_bytes() == served.diagnostics
    assert len(stage.evidence().of(RasPoll)) == 2


def test_busy_diagnostics_are_said_and_leave_no_query_in_vain(tmp_path):
    with FakeServer(replace(era("2.31.2"), diagnostics=b"BUSY: diagnostics already in progress\n")) as server:
        stage = Stage(tmp_path, server.port)
        outcome = stage.collect(ready(stage.scene()))
    assert outcome.ending is Ending.DONE
    assert "BUSY" in outcome.note
    assert all(poll.answered for poll in stage.evidence().of(RasPoll))


def test_invalid_json_of_a_report_with_missing_ranks_is_kept_as_it_is(tmp_path):
    with FakeServer(era("2.28.9")) as server:
        stage = Stage(tmp_path, server.port)
        stage.collect(ready(stage.scene()))
    with pytest.raises(json.JSONDecodeError):
        json.loads(stage.replies()[0])
    assert [len(poll.communicators[0].missing) for poll in stage.evidence().of(RasPoll)] == [1, 1]


def test_incomplete_text_with_time_outs_is_kept_as_it_is(tmp_path):
    frozen = capture("rank-frozen-2.28.9.txt")
    with FakeServer(replace(era("2.28.3"), text=frozen)) as server:
        stage = Stage(tmp_path, server.port)
        stage.pids = (6557, 6558, 6559, 6560)
        stage.collect(ready(stage.scene()))
    assert stage.replies() == [frozen] * 2
    assert [poll.timeouts for poll in stage.evidence().of(RasPoll)] == [2, 2]
