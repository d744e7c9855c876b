"""A proxy that answers from its cache: what stands on its page has not stood still, and the page is not used."""

from __future__ import annotations

from engine_serving import failure, pages, poll

from page_server import reply, serving
from rankmuster.watch.signals.engine import EngineSignal
from rankmuster.watch.signals.signal import Said

PAGE = "vllm:num_requests_running 1.0\nvllm:generation_tokens_total 100.0\n"


def answers(*headers: tuple[str, ...]) -> list[list[Said]]:
    """What is said of a server that answers with these headers in turn, 5 s apart."""
    now = [1000.0]
    with serving(
        lambda connection, request, count: connection.sendall(reply(PAGE, "200 OK", *headers[count - 1]))
    ) as url:
        of = EngineSignal([(url + "/metrics",)], clock=lambda: now[0], unix_now=lambda: 1.79e9 + now[0])
        found = []
        for _ in headers:
            found.append(poll(of))
            now[0] += 5.0
        of.close()
    return found


def test_a_page_that_a_cache_has_had_for_long_is_refused() -> None:
    fresh, old = answers(("Age: 0",), ("Age: 17",))
    assert pages(fresh)
    assert "17 s old" in failure(old)


def test_answers_of_the_same_second_that_come_apart_are_one_answer() -> None:
    one, two, three = "Date: Mon, 30 Nov 2026 04:00:00 GMT", "Date: Mon, 30 Nov 2026 04:00:05 GMT", "Date: soon"
    first, again, next_, odd = answers((one,), (one,), (two,), (three,))
    assert pages(first)
    assert "written 5 s ago" in failure(again)
    assert pages(next_)
    assert pages(odd)


def test_headers_that_tell_nothing_are_no_reason_to_refuse() -> None:
    assert all(
        map(pages, answers((), ("Age: x",), ("Age: -5",), ("Age: 99999999999999999999",), ("Date:",), ("Date:",)))
    )


def test_a_server_is_asked_for_a_page_of_now() -> None:
    requests: list[bytes] = []
    with serving(lambda connection, request, count: connection.sendall(reply(PAGE)), requests=requests) as url:
        poll(EngineSignal([(url,)], clock=lambda: 0.0, unix_now=lambda: 1.79e9))
    assert b"cache-control: no-cache" in requests[0].lower()
