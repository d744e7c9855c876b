"""Each fault is what it says: what was done, and what came back."""

from __future__ import annotations

import http.client
from collections.abc import Iterator

import pytest

from kube_sim.asking import MERGE, ask, watched
from kube_sim.faults import Fault, Harm
from kube_sim.made import pod
from kube_sim.running import serving
from kube_sim.server import Server
from kube_sim.store import Store

PODS = "/api/v1/namespaces/default/pods"
BROKEN = (OSError, http.client.HTTPException)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Store()) as made:
        made.store.create(pod())
        yield made


def label(server: Server) -> str | None:
    return (server.store.get("pods", "default", "a")["metadata"].get("labels") or {}).get("x")


def set_label(server: Server, seconds: float = 20.0) -> object:
    return ask(server.url, "PATCH", f"{PODS}/a", {"metadata": {"labels": {"x": "1"}}}, MERGE, seconds=seconds)


@pytest.mark.parametrize(
    ("harm", "done"),
    [(Harm.CUT_BEFORE, None), (Harm.CUT_AFTER, "1"), (Harm.HALF, "1")],
)
def test_a_connection_that_is_lost_before_and_after(server: Server, harm: Harm, done: str | None) -> None:
    server.faults.switch_on(Fault(harm, verb="patch", resource="pods"))
    with pytest.raises(BROKEN):
        set_label(server)
    assert label(server) == done
    assert set_label(server).status == 200  # once


def test_a_late_answer_whose_change_was_done_or_not(server: Server) -> None:
    for harm, done in ((Harm.SLOW, None), (Harm.SLOW_AFTER, "1")):
        server.faults.switch_on(Fault(harm, seconds=60))
        with pytest.raises(TimeoutError):
            set_label(server, seconds=0.05)
        assert label(server) == done


def test_refusals_have_a_status_object_and_a_time_to_wait(server: Server) -> None:
    fault = server.faults.switch_on(Fault(Harm.REFUSE, status=429, retry_after=7, times=None, agent="one"))
    told = ask(server.url, "GET", PODS, User_Agent="one/1")
    assert (told.status, told.reason, told.headers["Retry-After"]) == (429, "TooManyRequests", "7")
    assert ask(server.url, "GET", PODS, User_Agent="two/1").status == 200
    server.faults.switch_off(fault)
    assert ask(server.url, "GET", PODS, User_Agent="one/1").status == 200
    assert fault.struck == 1


@pytest.mark.parametrize(
    ("harm", "status", "data"),
    [(Harm.PLAIN, 502, b"<html>"), (Harm.GARBAGE, 200, b"\x00\xff"), (Harm.EMPTY, 200, b"")],
)
def test_answers_that_are_no_answers(server: Server, harm: Harm, status: int, data: bytes) -> None:
    server.faults.switch_on(Fault(harm, status=502, skip=1))
    assert ask(server.url, "GET", PODS).body["kind"] == "PodList"
    told = ask(server.url, "GET", PODS)
    assert (told.status, told.data[: len(data)], told.body) == (status, data, None)


def test_watches_that_are_silent_gone_broken_or_cut(server: Server) -> None:
    for harm in (Harm.SILENT, Harm.GONE, Harm.BROKEN):
        server.faults.switch_on(Fault(harm, verb="watch"))
    path = f"{PODS}?watch=1"
    with watched(server.url, path + "&timeoutSeconds=0.05") as events:
        assert list(events) == []
    with watched(server.url, path) as events:
        assert [one["object"]["code"] for one in events] == [410]
    with watched(server.url, path) as events, pytest.raises((*BROKEN, ValueError)):
        next(events)
    with watched(server.url, path) as events:
        assert next(events)["type"] == "ADDED"
        server.watching.drop(cut=True)
        with pytest.raises(BROKEN):
            next(events)
