"""LLM routers: taken out is taken out once the list says so, and whatever a router does ends in words, in time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llm_router import LlmRouter
from rankmuster.adapters.registry_traffic import RegistryTraffic
from rankmuster.adapters.sglang_router import sglang_router
from rankmuster.adapters.vllm_router import vllm_router
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Answer, Ending, TrafficState

OURS, OTHER = "http://10.0.0.7:8000", "http://10.0.0.8:8000"

Make = Callable[[LlmRouter], RegistryTraffic]

KINDS: dict[str, tuple[str, Make]] = {
    "sglang": ("id", lambda router: sglang_router("front", router.url, OURS)),
    "old sglang": ("add_remove", lambda router: sglang_router("front", router.url, OURS, api="add_remove")),
    "vllm": ("url", lambda router: vllm_router("front", router.url, OURS)),
    "old vllm": ("add_remove", lambda router: vllm_router("front", router.url, OURS)),
}
kinds = pytest.mark.parametrize("kind", list(KINDS))


def soon() -> Deadline:
    return Deadline.after(5.0)


def told(answer: Answer, ending: Ending, *words: str) -> None:
    assert answer.ending is ending, answer
    for one in words:
        assert one in answer.note, answer


@kinds
@pytest.mark.parametrize("late", [0, 2])
def test_it_is_taken_out_and_put_in_again(kind: str, late: int) -> None:
    api, make = KINDS[kind]
    with LlmRouter(api, OTHER, OURS, late=late) as router:
        one = make(router)
        assert one.look(soon()).state is TrafficState.READY
        told(one.stop_new("", soon()), Ending.DONE, "was taken out")
        assert router.urls == [OTHER]
        assert one.look(soon()).state is TrafficState.ABSENT
        told(one.stop_new("", soon()), Ending.DONE, "already")
        told(one.restore(soon()), Ending.DONE, "again")
        assert router.urls == [OTHER, OURS]
        told(one.restore(soon()), Ending.DONE, "already")
        assert router.urls == [OTHER, OURS]
        assert len(router.asked) == 2


@kinds
def test_what_the_router_cannot_is_refused(kind: str) -> None:
    api, make = KINDS[kind]
    with LlmRouter(api, OURS) as router:
        one = make(router)
        told(one.set_weight(30, soon()), Ending.REFUSED, "no weights")
        assert one.would("set_weight", percent=30) == ()
        assert router.urls == [OURS]
        told(one.cut("", soon()), Ending.REFUSED, "was taken out", "cannot end what runs")
        assert router.urls == []


@kinds
def test_a_change_that_was_accepted_and_never_comes_is_no_success(kind: str) -> None:
    api, make = KINDS[kind]
    with LlmRouter(api, OURS, late=None) as router:
        told(make(router).stop_new("", Deadline.after(0.5)), Ending.TIMED_OUT, "still lists it")
    with LlmRouter(api, late=None) as router:
        told(make(router).restore(Deadline.after(0.5)), Ending.TIMED_OUT, "is not in the registry")


@pytest.mark.parametrize("api", ["id", "url"])
def test_what_runs_is_what_the_router_counts_and_zero_is_no_count(api: str) -> None:
    with LlmRouter(api, OTHER) as router:
        router.put(OURS + "/", load=3)
        one = KINDS["sglang" if api == "id" else "vllm"][1](router)
        assert one.look(soon()).running == 3
        router.entries[1]["load"] = 0
        assert one.look(soon()).running is None
        router.entries[1]["is_healthy"] = False
        assert "unhealthy" in one.look(soon()).note
        told(one.restore(Deadline.after(0.4)), Ending.PARTIAL, "unhealthy")


def test_every_rank_of_a_data_parallel_worker_is_taken_out() -> None:
    with LlmRouter("id", OTHER, f"{OURS}@0", f"{OURS}@1") as router:
        told(sglang_router("front", router.url, OURS).stop_new("", soon()), Ending.DONE)
        assert router.urls == [OTHER]


def test_one_that_could_not_be_put_back_as_it_was_is_not_taken_out() -> None:
    with LlmRouter("id") as router:
        router.put(OURS, worker_type="prefill", priority=90)
        plain = sglang_router("front", router.url, OURS)
        told(plain.stop_new("", soon()), Ending.REFUSED, "worker_type 'prefill'", "priority 90", "`add`")
        assert router.urls == [OURS]
        add = {"worker_type": "prefill", "priority": 90, "api_key": "s3cr3t"}
        whole = sglang_router("front", router.url, OURS, add=add)
        assert whole.stop_new("", soon()).ending is Ending.DONE
        assert whole.restore(soon()).ending is Ending.DONE
        assert (router.entries[0]["worker_type"], router.entries[0]["priority"]) == ("prefill", 90)
        assert "s3cr3t" not in "".join(whole.would("restore"))


def test_the_key_comes_from_a_file_and_is_never_told(tmp_path: Path) -> None:
    headers = tmp_path / "headers"
    headers.write_text("Authorization: Bearer s3cr3t\n")
    with LlmRouter("id", OURS, key="s3cr3t") as router:
        without = sglang_router("front", router.url, OURS)
        look = without.look(soon())
        assert (look.state, "status 401" in look.note) == (TrafficState.UNKNOWN, True)
        told(without.stop_new("", soon()), Ending.FAILED, "status 401", "Unauthorized")
        with_key = sglang_router("front", router.url, OURS, headers)
        answer = with_key.stop_new("", soon())
        told(answer, Ending.DONE)
        assert "s3cr3t" not in answer.note + "".join(with_key.would("stop_new"))
        headers.write_text("no header\n")
        told(with_key.restore(soon()), Ending.FAILED, "is no header")


def hangs(handler: Any) -> bool:
    handler.router.over.wait(10)
    return True


def cut_off(handler: Any) -> bool:
    handler.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{"workers": [')
    handler.close_connection = True
    return True


def drips(handler: Any) -> bool:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
    try:
        while not handler.router.over.wait(0.02):
            handler.wfile.write(b" ")
            handler.wfile.flush()
    except OSError:
        handler.close_connection = True
    return True


def answers(status: int, body: str) -> Callable[[Any], bool]:
    def answer(handler: Any) -> bool:
        handler.say(status, body)
        return True

    return answer


@kinds
@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (hangs, "no answer came"),
        (cut_off, "broke off"),
        (drips, "did not end"),
        (answers(500, '{"code": "INTERNAL_SERVER_ERROR"}'), "INTERNAL_SERVER_ERROR"),
        (answers(404, ""), "status 404"),
        (answers(200, "<html>\u202e"), "something else than a list"),
        (answers(200, '{"workers": {}, "urls": 3}'), "something else than a list"),
        (answers(200, "[" * 100_000), "something else than a list"),
        (answers(200, '{"workers": [' + " " * (5 << 20) + "]}"), "something else than a list"),
    ],
)
def test_whatever_it_answers_ends_in_words(kind: str, bad: Callable[[Any], bool], words: str) -> None:
    api, make = KINDS[kind]
    with LlmRouter(api, OURS) as router:
        router.bad = bad
        one = make(router)
        look = one.look(Deadline.after(0.5))
        assert look.state is TrafficState.UNKNOWN
        assert words in look.note
        for answer in (one.stop_new("", Deadline.after(0.5)), one.restore(Deadline.after(0.5))):
            assert answer.ending in (Ending.FAILED, Ending.TIMED_OUT)
            assert words in answer.note
            assert answer.note.isprintable()


@kinds
@pytest.mark.parametrize(("status", "body"), [(500, "INTERNAL_SERVER_ERROR"), (400, "BAD_REQUEST"), (503, "")])
def test_a_change_that_is_refused_is_told(kind: str, status: int, body: str) -> None:
    api, make = KINDS[kind]

    def refuses(handler: Any) -> bool:
        if handler.command == "GET":
            return False
        handler.say(status, body)
        return True

    with LlmRouter(api, OURS) as router:
        router.bad = refuses
        told(make(router).stop_new("", soon()), Ending.FAILED, f"status {status}", body)
        router.drop(OURS)
        told(make(router).restore(soon()), Ending.FAILED, f"status {status}", body)


@kinds
def test_an_addition_that_is_answered_late_is_looked_for(kind: str) -> None:
    api, make = KINDS[kind]

    def adds_silently(handler: Any) -> bool:
        if handler.command != "POST":
            return False
        handler.router.put(OURS)
        handler.router.over.wait(10)
        return True

    with LlmRouter(api, OTHER) as router:
        router.bad = adds_silently
        told(make(router).restore(Deadline.after(2.0)), Ending.DONE, "again")


@kinds
def test_nobody_listens_is_told(kind: str) -> None:
    api, make = KINDS[kind]
    with LlmRouter(api) as router:
        one = make(router)
    look = one.look(soon())
    assert (look.state, "Connection refused" in look.note) == (TrafficState.UNKNOWN, True)
    told(one.stop_new("", soon()), Ending.FAILED, "Connection refused")
    told(one.restore(soon()), Ending.FAILED, "Connection refused")


@kinds
def test_what_would_be_asked_is_what_is_asked(kind: str) -> None:
    api, make = KINDS[kind]
    with LlmRouter(api, OURS) as router:
        one = make(router)
        one.look(soon())
        would = [*one.would("stop_new"), *one.would("restore")]
        known = router.entries[0]["id"]
        one.stop_new("", soon())
        one.restore(soon())
        for asked, line in zip(router.asked, would, strict=True):
            method, path = asked.split()
            assert line.startswith(f"{method} {router.url}{path.replace(known, 'ID')}")
