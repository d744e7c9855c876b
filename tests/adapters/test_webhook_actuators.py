"""Gateways and nodes behind the operator's own server: what it says is looked at, whatever it says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rankmuster.adapters.webhook_node import WebhookNode
from rankmuster.adapters.webhook_traffic import WebhookTraffic
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Answer, Ending, Fenced, TrafficState


class Operator:
    """A server that keeps a state, does what is posted, and may be told to answer otherwise."""

    def __init__(self, **state: Any) -> None:
        self.state: dict[str, Any] = state
        self.posted: list[tuple[dict[str, Any], dict[str, str]]] = []
        self.paths: list[str] = []
        self.do: Callable[[dict[str, Any]], tuple[int, Any]] = lambda value: (200, {})
        self.says: Callable[[], tuple[int, Any]] = lambda: (200, self.state)
        operator = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                value = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                operator.posted.append((value, dict(self.headers)))
                self.answer(*operator.do(value))

            def do_GET(self) -> None:
                operator.paths.append(self.path)
                self.answer(*operator.says())

            def answer(self, status: int, value: Any) -> None:
                data = value if isinstance(value, bytes) else json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/s3cr3t"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> Operator:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def soon() -> Deadline:
    return Deadline.after(5.0)


def told(answer: Answer, ending: Ending, *words: str) -> None:
    assert answer.ending is ending, answer
    assert "s3cr3t" not in answer.note
    for one in words:
        assert one in answer.note, answer


def obeys(operator: Operator) -> None:
    def do(value: dict[str, Any]) -> tuple[int, Any]:
        verb = value["verb"]
        if verb == "set_weight":
            operator.state["percent"] = value["percent"]
        elif verb == "restore":
            operator.state.update(state="ready", percent=100)
        else:
            operator.state["state"] = {"stop_new": "stopped", "cut": "cut"}[verb]
        return 200, {"requests": 3}

    operator.do = do


def test_every_verb_is_posted_and_looked_at(tmp_path: Path) -> None:
    headers = tmp_path / "headers"
    headers.write_text("Authorization: Bearer s3cr3t\n")
    with Operator(state="ready", running=2, queued=1, percent=100) as operator:
        obeys(operator)
        one = WebhookTraffic("front", operator.url, f"{operator.url}/look", headers, instance="llm-0")
        look = one.look(soon())
        assert (look.state, look.running, look.queued, look.percent) == (TrafficState.READY, 2, 1, 100.0)
        told(one.set_weight(30, soon()), Ending.DONE)
        told(one.stop_new("llm-0 has stopped", soon()), Ending.DONE)
        cut = one.cut("llm-0 is rebuilt", soon())
        told(cut, Ending.DONE)
        assert cut.data["requests"] == 3
        assert one.look(soon()).state is TrafficState.CUT
        told(one.restore(soon()), Ending.DONE)
        told(one.restore(soon()), Ending.DONE)
        values = [value for value, _ in operator.posted]
        assert values[1] == {
            "schema": "rankmuster.traffic/1",
            "verb": "stop_new",
            "instance": "llm-0",
            "percent": None,
            "reason": "llm-0 has stopped",
        }
        keys = [sent["Idempotency-Key"] for _, sent in operator.posted]
        assert len(set(keys)) == len(keys)  # a second restore is wanted as much as the first
        assert {sent["Authorization"] for _, sent in operator.posted} == {"Bearer s3cr3t"}
        would = "".join([*one.would("stop_new"), *one.would("set_weight", percent=30.0)])
        assert '"verb": "set_weight"' in would
        assert "s3cr3t" not in would


def test_what_is_said_to_be_done_and_does_not_show_is_no_success() -> None:
    with Operator(state="ready", percent=100) as operator:
        one = WebhookTraffic("front", operator.url, operator.url, instance="llm-0")
        told(one.stop_new("", Deadline.after(0.4)), Ending.TIMED_OUT, "does not show (ready)")
        told(one.set_weight(30, Deadline.after(0.4)), Ending.TIMED_OUT, "does not show")
        told(one.restore(soon()), Ending.DONE)


@pytest.mark.parametrize(
    ("status", "ending"),
    [
        (200, Ending.DONE),
        (204, Ending.DONE),
        (202, Ending.PARTIAL),
        (409, Ending.REFUSED),
        (501, Ending.REFUSED),
        (404, Ending.FAILED),
        (500, Ending.FAILED),
        (302, Ending.FAILED),
    ],
)
def test_without_a_look_the_status_is_all_there_is(status: int, ending: Ending) -> None:
    with Operator() as operator:
        operator.do = lambda _: (status, {} if status != 204 else b"")
        one = WebhookTraffic("front", operator.url, instance="llm-0")
        told(one.stop_new("", soon()), ending, f"status {status}", "nobody can look")
        assert one.look(soon()).state is TrafficState.UNKNOWN


@pytest.mark.parametrize(
    ("status", "value", "words"),
    [
        (500, {}, "status 500"),
        (200, b"<html>", "something else than JSON"),
        (200, b"[" * 50_000, "something else than JSON"),
        (200, b"x" * 200_000, "something else than JSON"),
        (200, [], "something else than an object"),
        (200, {"state": "fine \u202e"}, "no state that is known"),
        (200, {"state": ["ready"]}, "no state that is known"),
        (200, {}, "no state that is known"),
    ],
)
def test_a_look_that_is_none_is_unknown(status: int, value: Any, words: str) -> None:
    with Operator() as operator:
        operator.says = lambda: (status, value)
        look = WebhookTraffic("front", operator.url, operator.url, instance="llm-0").look(soon())
        assert (look.state, words in look.note) == (TrafficState.UNKNOWN, True), look
        assert look.note.isprintable()
        node = WebhookNode("nodes", operator.url, operator.url).look("node-7", soon())
        assert node.fenced is Fenced.UNKNOWN


def test_numbers_that_are_none_are_left_out() -> None:
    with Operator(state="ready", running="many", queued=True, percent=-1) as operator:
        look = WebhookTraffic("front", operator.url, operator.url, instance="llm-0").look(soon())
        assert (look.state, look.running, look.queued, look.percent) == (TrafficState.READY, None, None, None)
        operator.says = lambda: (200, b'{"state": "ready", "running": NaN, "percent": 1e400}')
        look = WebhookTraffic("front", operator.url, operator.url, instance="llm-0").look(soon())
        assert (look.running, look.percent) == (None, None)


def test_a_node_is_fenced_and_only_our_own_fence_is_lifted() -> None:
    with Operator(fenced=False) as operator:

        def do(value: dict[str, Any]) -> tuple[int, Any]:
            fenced = value["verb"] == "fence"
            operator.state = {"fenced": fenced, "incident": value["incident"] if fenced else None, "reason": "r"}
            return 200, {}

        operator.do = do
        one = WebhookNode("nodes", operator.url, operator.url + "/{node}")
        told(one.lift("node/7", "i-1", soon()), Ending.DONE, "is not fenced")
        assert operator.paths[-1] == "/s3cr3t/node%2F7"
        told(one.fence("node/7", "i-1", "its link is down", soon()), Ending.DONE)
        told(one.fence("node/7", "i-1", "its link is down", soon()), Ending.DONE, "already by incident i-1")
        assert len(operator.posted) == 1
        value, sent = operator.posted[0]
        assert (value["schema"], value["node"], value["reason"]) == ("rankmuster.node/1", "node/7", "its link is down")
        assert sent["Idempotency-Key"] == "i-1/fence/node%2F7"
        assert one.look("node/7", soon()).incident == "i-1"
        told(one.lift("node/7", "i-2", soon()), Ending.REFUSED, "by incident i-1")
        told(one.lift("node/7", "i-1", soon()), Ending.DONE)
        operator.state = {"fenced": True, "reason": "disk"}
        told(one.lift("node/7", "i-1", soon()), Ending.REFUSED, "by others (disk)")
        answer = one.fence("node/7", "i-1", "", soon())
        told(answer, Ending.DONE, "already by others")
        assert answer.data["others"] is True
        operator.says = lambda: (500, {})
        told(one.lift("node/7", "i-1", soon()), Ending.FAILED, "not lifted", "status 500")
        assert len(operator.posted) == 2


def test_a_fence_that_does_not_show_is_no_success() -> None:
    with Operator(fenced=False) as operator:
        one = WebhookNode("nodes", operator.url, operator.url)
        told(one.fence("n", "i-1", "", Deadline.after(0.4)), Ending.TIMED_OUT, "does not show (no)")
        without = WebhookNode("nodes", operator.url)
        told(without.fence("n", "i-1", "", soon()), Ending.DONE, "nobody can look")
        operator.do = lambda _: (409, {})
        told(without.lift("n", "i-1", soon()), Ending.REFUSED, "status 409")
        assert "s3cr3t" not in "".join(without.would("fence", "n", "i-1", "why"))
