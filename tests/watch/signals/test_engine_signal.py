"""The engine plane on real servers: those that answer, and every way in which one may not."""

from __future__ import annotations

import gzip
import math
import socket
import threading
import time

import pytest
from engine_serving import always, counted, dripping, failure, only, pages, poll, raw, refusal, signal, silent
from engine_versions import State, sglang, tensorrt_llm, vllm

from page_server import Answer, reply, serving
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.logs import http_get
from rankmuster.model.plane import Plane
from rankmuster.watch import config
from rankmuster.watch.progress.settings import DEFAULTS
from rankmuster.watch.progress.window import Window
from rankmuster.watch.signals.engine import EngineSignal, servers_of
from rankmuster.watch.signals.signal import Declined, Failed, Heard, Signal

PAGE = vllm((0, 33), State())


def test_it_is_a_signal_of_the_engine_plane() -> None:
    of: Signal = signal("http://127.0.0.1:1/metrics")
    assert (of.name, of.plane, of.period) == ("engine", Plane.ENGINE, 5.0)
    assert of.blind_to


def test_a_page_is_heard_in_the_middle_of_its_request_under_one_source() -> None:
    def late(connection: socket.socket, request: bytes, count: int) -> None:
        time.sleep(0.2)
        connection.sendall(reply(PAGE))

    with serving(late) as url:
        of = signal(f"{url}/metrics", page_seconds=3.0)
        begun, said, ended = time.monotonic(), poll(of), time.monotonic()
        (heard,) = [one for one in said if isinstance(one, Heard)]
        assert heard.now == pytest.approx((begun + ended) / 2, abs=0.08)
        assert heard.now - heard.unix == pytest.approx(time.monotonic() - time.time(), abs=0.05)
        again = only(poll(of))
    assert only(said).source == again.source == f"{url.removeprefix('http://')}/metrics#vllm"


def test_a_window_takes_what_it_says() -> None:
    with serving(lambda c, r, n: c.sendall(reply(vllm((0, 33), State(tokens=100 + n))))) as url:
        of = signal(f"{url}/metrics")
        window = Window(DEFAULTS)
        for look in range(3):  # pages of one millisecond are one page
            for one in poll(of):
                assert isinstance(one, Heard)
                window.feed(one.now + 5.0 * look, one.unix + 5.0 * look, one.observation, one.plane)
    ((kept),) = window.pages.values()
    assert [one.page.streams[0].steps["vllm:generation_tokens_total"] for one in kept] == [101.0, 102.0, 103.0]


def test_all_servers_are_asked_at_once_and_one_that_fails_is_noted() -> None:
    barrier = threading.Barrier(2, timeout=5)

    def together(connection: socket.socket, request: bytes, count: int) -> None:
        barrier.wait()  # nobody is answered before both are asked
        connection.sendall(reply(PAGE))

    with serving(together) as one, serving(together) as two, serving(silent) as hung:
        of = signal(f"{one}/metrics", f"{hung}/metrics", f"{two}/metrics", page_seconds=0.5)
        said = poll(of)
    assert len({page.source for page in pages(said)}) == 2
    assert not [one for one in said if isinstance(one, Failed)]
    assert any(hung.removeprefix("http://") in note and "no answer came" in note for note in of.notes)


def test_the_first_address_that_answers_is_remembered_until_it_fails() -> None:
    asked: list[bytes] = []
    with serving(silent, requests=asked) as hung, serving(always(PAGE)) as url:
        of = signal((f"{hung}/metrics", f"{url}/metrics"))
        source = only(poll(of)).source
        assert only(poll(of)).source == source  # of the server, not of the address
        assert len(asked) == 1


@pytest.mark.parametrize("status", ["500 Internal Server Error", "503 Service Unavailable", "429 Too Many Requests"])
def test_a_scrape_that_fails_once_is_tried_again_at_once(status: str) -> None:
    def at_first(connection: socket.socket, request: bytes, count: int) -> None:
        connection.sendall(reply("busy", status) if count % 2 else reply(PAGE))

    with serving(at_first) as url:
        assert pages(poll(signal(f"{url}/metrics")))
    with serving(always("busy", status)) as url:
        assert status[:3] in failure(poll(signal(f"{url}/metrics")))


def test_a_connection_that_breaks_once_is_tried_again_and_no_piece_of_it_is_kept() -> None:
    def at_first(connection: socket.socket, request: bytes, count: int) -> None:
        connection.sendall(reply(PAGE)[:-400] if count == 1 else reply(PAGE))

    with serving(at_first) as url:
        page = only(poll(signal(f"{url}/metrics")))
    assert page.streams[0].running == 3.0


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (always("<html><body>log in</body></html>"), "no metrics page"),
        (always('{"detail":"Not Found"}', "404 Not Found"), "--enable-metrics"),
        (always("{}", "401 Unauthorized"), "wants a key"),
        (always("", "403 Forbidden"), "wants a key"),
        (always(""), "no metrics page"),
        (always(b"\x00\xff" * 100), "no metrics page"),
        (always(gzip.compress(PAGE.encode()), "200 OK", "Content-Encoding: gzip"), "gzip"),
        (always(gzip.compress(PAGE.encode())), "no metrics page"),
        (raw(b"SSH-2.0-OpenSSH_9.6\r\n"), "BadStatusLine"),
        (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\nvllm:num_requests_running 1\n"), "broke off"),
        (raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), "IncompleteRead"),
        (raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nvllm:"), "IncompleteRead"),
        (raw(b""), "RemoteDisconnected"),
        (silent, "no answer came"),
        (dripping, "had not ended"),
        (always("", "302 Found", "Location: http://192.0.2.1/metrics"), "another server"),
        (always("", "302 Found", "Location: /metrics"), "redirects more than"),
    ],
)
def test_what_is_no_page_is_a_failure_with_its_reason(answer: Answer, word: str) -> None:
    with serving(answer) as url:
        begun = time.monotonic()
        reason = failure(poll(signal(f"{url}/metrics")))
        assert time.monotonic() - begun < 4
    assert word in reason
    assert url.removeprefix("http://") in reason


def test_a_page_longer_than_its_content_length_is_read_to_that_length() -> None:
    body = PAGE + "vllm:num_requests_running 99.0\n"
    answer = f"HTTP/1.1 200 OK\r\nContent-Length: {len(PAGE) - 3}\r\n\r\n{body}".encode()
    with serving(raw(answer)) as url:
        assert only(poll(signal(f"{url}/metrics"))).streams[0].running == 3.0


def test_megabytes_are_filtered_without_being_kept() -> None:
    import tracemalloc

    more = "".join(f'other_{n}_bucket{{le="1",path="/a/b/c/d"}} {n}.0\n' for n in range(160_000)).encode()
    body = more + PAGE.encode()
    assert len(body) > 6 << 20
    with serving(always(body)) as url:
        of = signal(f"{url}/metrics", page_seconds=10.0)
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            page = only(of.poll(Deadline.after(30)))
            peak = tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()
    assert page.streams[0].running == 3.0
    assert peak < len(body) + (4 << 20)  # the server of this test, in the same process, holds its answer once


def test_a_page_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(connection: socket.socket, request: bytes, count: int) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b"vllm:x 1\n" * 10_000)

    monkeypatch.setattr(http_get, "MAX_BODY", 300_000)
    asked: list[bytes] = []
    with serving(endless, requests=asked) as url:
        assert "longer than" in failure(poll(signal(f"{url}/metrics", page_seconds=5.0)))
    assert len(asked) == 1


@pytest.mark.parametrize(
    "body",
    [
        "".join(f'vllm:num_requests_running{{engine="{n}"}} 1.0\n' for n in range(1000)),
        "".join(f'vllm:num_requests_running{{engine="{n}",x="{"y" * 300}"}} 1.0\n' for n in range(9000)),
    ],
)
def test_thousands_of_engines_on_a_page_are_not_believed(body: str) -> None:
    with serving(always(body)) as url:
        assert "not believed" in failure(poll(signal(f"{url}/metrics", page_seconds=5.0)))


def test_values_that_are_no_numbers_cost_only_themselves() -> None:
    body = (
        'vllm:num_requests_running{engine="0"} 2.0\nvllm:num_requests_running{engine="0"} 2.0\n'
        'vllm:num_requests_waiting{engine="0"} NaN\nvllm:generation_tokens_total{engine="0"} 7.0\n'
        'vllm:generation_tokens_total{engine="0"} 5.0\nvllm:prompt_tokens_total{engine="0"} +Inf\n'
        'vllm:kv_cache_usage_perc{engine="0"} -0.5\nvllm:request_success_total{engine="0" 5\n'
        'vllm:iteration_tokens_total_count{engine="0"} 12'  # cut: it may have been 1234
    )
    with serving(always(body)) as url:
        of = signal(f"{url}/metrics")
        (stream,) = only(poll(of)).streams
    assert (stream.running, stream.waiting) == (2.0, None)
    assert (dict(stream.steps), dict(stream.ends), dict(stream.gauges)) == (
        {"vllm:generation_tokens_total": 7.0},
        {},
        {},
    )
    assert any("damaged" in note for note in of.notes)


def test_openmetrics_with_exemplars_and_times_is_read() -> None:
    body = (
        "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 2 1795986500.5\n"
        "# TYPE vllm:generation_tokens counter\n"
        'vllm:generation_tokens_total 71 1795986500.5 # {trace_id="a{b}"} 1.0 1795986500.1\n'
        "vllm:generation_tokens_created 1795986000\n# EOF"
    )
    with serving(always(body, "200 OK", "Content-Type: application/openmetrics-text; version=1.0.0")) as url:
        (stream,) = only(poll(signal(f"{url}/metrics"))).streams
    assert (stream.running, dict(stream.steps)) == (2.0, {"vllm:generation_tokens_total": 71.0})


def test_a_server_that_vanishes_and_comes_back_with_counters_reset() -> None:
    times = (0, 50, 60)
    with serving(always(vllm((0, 33), State(tokens=9000, times=(10, 90, 100))))) as url:
        of = signal(f"{url}/metrics")
        source = only(poll(of)).source
        port = int(url.rsplit(":", 1)[1])
    assert "nobody listens" in failure(poll(of))
    with serving(always(vllm((0, 33), State(tokens=12, times=times))), port=port):
        said = poll(of)
    assert only(said).source == source
    assert only(said).streams[0].steps["vllm:generation_tokens_total"] == 12.0
    (steps,) = counted(said)
    assert sum(steps.counts) == 60.0  # all of what came since its start, and nothing negative


def test_ipv6() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 loopback here")
    with serving(always(PAGE), host="::1") as url:
        assert only(poll(signal(f"{url}/metrics"))).source.startswith("[::1]:")


@pytest.mark.parametrize(
    "url", ["http://no-such-host.invalid:8000/metrics", "http://a..b:80/metrics", "ftp://x/", "http://[::1/m", "x", ""]
)
def test_names_that_do_not_resolve_and_what_is_no_url(url: str) -> None:
    (one,) = poll(signal(url))
    assert isinstance(one, Failed)
    assert one.plane is Plane.ENGINE
    assert one.reason


def test_credentials_and_queries_are_not_told() -> None:
    with serving(always("", "404 Not Found")) as url:
        port = url.rsplit(":", 1)[1]
        reason = failure(poll(signal(f"http://user:secret@127.0.0.1:{port}/metrics?token=secret")))
    assert "secret" not in reason


def test_servers_that_differ_in_their_query_alone_have_two_sources() -> None:
    with serving(always(PAGE)) as url:
        said = poll(signal(f"{url}/metrics?replica=a", f"{url}/metrics?replica=b"))
    assert len({page.source for page in pages(said)}) == 2


def test_a_deadline_that_has_passed_asks_nobody() -> None:
    asked: list[bytes] = []
    with serving(always(PAGE), requests=asked) as url:
        (one,) = poll(signal(f"{url}/metrics"), seconds=0)
        assert isinstance(one, Failed)
    assert asked == []


def test_the_deadline_holds_where_the_patience_does_not() -> None:
    with serving(silent) as url:
        of = signal(f"{url}/metrics", page_seconds=30.0)
        begun = time.monotonic()
        failure(poll(of, seconds=0.6))
        assert time.monotonic() - begun < 3


def test_closing_ends_a_poll_that_hangs() -> None:
    arrived = threading.Event()

    def hang(connection: socket.socket, request: bytes, count: int) -> None:
        arrived.set()
        silent(connection, request, count)  # ends when the client has gone

    with serving(hang) as url:
        of = signal(f"{url}/metrics", page_seconds=60.0)
        result: list[object] = []
        polling = threading.Thread(target=lambda: result.append(poll(of, seconds=120)))
        polling.start()
        assert arrived.wait(10)
        of.close()
        polling.join(10)
        assert not polling.is_alive()
        assert result == [[]]
    assert poll(of) == []


@pytest.mark.parametrize("drained", ['[{"iter":154,"iterLatencyMS":7.0,"numActiveRequests":1}]', "[]", " [ ]\n"])
def test_the_page_that_a_read_empties_is_read_once_at_most(drained: str) -> None:
    asked: list[bytes] = []
    with serving(always(drained, "200 OK", "Content-Type: application/json"), requests=asked) as url:
        of = signal(f"{url}/metrics")
        assert "/prometheus/metrics" in refusal(poll(of))
        assert poll(of) == []
        assert poll(of) == []
    assert len(asked) == 1


@pytest.mark.parametrize("path", ["/metrics", "/metrics/", "/perf_metrics", ""])
def test_of_tensorrt_llm_only_the_prometheus_page_is_ever_asked(path: str) -> None:
    asked: list[bytes] = []
    with serving(always(tensorrt_llm(State())), requests=asked) as url:
        of = signal(f"{url}{path}", engine="tensorrt-llm")
        assert "/prometheus/metrics" in refusal(poll(of))
        assert poll(of) == []
        assert asked == []
        of = signal((f"{url}{path}", f"{url}/prometheus/metrics"), engine="tensorrt-llm")
        assert only(poll(of)).engine == "tensorrt-llm"
    assert [request.split()[1] for request in asked] == [b"/prometheus/metrics"]


def test_no_server_is_declined_once() -> None:
    of = EngineSignal((), clock=time.monotonic, unix_now=time.time)
    assert "configuration" in refusal(poll(of))
    assert poll(of) == []


def test_sixteen_servers_are_asked_and_the_rest_noted() -> None:
    with serving(always(PAGE)) as url:
        of = signal(*(f"{url}/metrics?n={n}" for n in range(20)))
        assert len(pages(poll(of))) == 16
    assert any("4 server(s)" in note for note in of.notes)


def test_a_bare_page_is_declined_and_heard_when_the_engine_speaks() -> None:
    bodies = ["python_info 1.0\n", "python_info 1.0\n", PAGE, PAGE, "python_info 1.0\n", "python_info 1.0\n"]
    with serving(lambda c, r, n: c.sendall(reply(bodies[n - 1]))) as url:
        of = signal(f"{url}/metrics")
        assert "python_info" in refusal(poll(of))
        assert of.declined
        assert poll(of) == []
        assert pages(poll(of))
        assert of.declined is None
        assert pages(poll(of))
        assert "any more" in failure(poll(of))
        assert "python_info" in refusal(poll(of))


def test_counters_of_labels_that_have_not_counted_yet_are_no_blindness() -> None:
    """A new SGLang has its gauges and no counter before the first batch is done."""
    fresh = "sglang:num_running_reqs 0.0\nsglang:num_queue_reqs 0.0\n"
    queued = "sglang:num_running_reqs 0.0\nsglang:num_queue_reqs 1.0\n"
    bodies = [fresh, fresh, fresh, queued, sglang((0, 5, 23), State()), queued, queued, queued]
    with serving(lambda c, r, n: c.sendall(reply(bodies[n - 1]))) as url:
        of = signal(f"{url}/metrics")
        said = [poll(of) for _ in bodies]
    declined = [any(isinstance(one, Declined) for one in some) for some in said]
    assert declined == [False] * 7 + [True]


def test_a_page_that_tells_no_load_is_declined_and_its_counters_heard() -> None:
    with serving(lambda c, r, n: c.sendall(reply(f"vllm:generation_tokens_total {n}\n"))) as url:
        of = signal(f"{url}/metrics")
        said = [poll(of) for _ in range(4)]
    assert "how many requests run" in refusal(said[2])
    assert all(pages(some) for some in said)


def test_requests_that_wait_are_no_rest_where_those_that_run_are_not_told() -> None:
    with serving(always("vllm:num_requests_waiting 0.0\nvllm:generation_tokens_total 7.0\n")) as url:
        (stream,) = only(poll(signal(f"{url}/metrics"))).streams
    assert (stream.running, stream.waiting) == (None, None)


def test_another_engine_beside_it_on_the_page_does_not_hide_the_load() -> None:
    """Triton with the vLLM backend counts its own requests beside vLLM's page."""
    body = 'nv_inference_request_success{model="m"} 7\n' + vllm((0, 12), State())
    with serving(always(body)) as url:
        assert only(poll(signal(f"{url}/metrics"))).engine == "vllm"


def test_servers_of_an_instance() -> None:
    found = ("http://127.0.0.1:8000/metrics", "http://10.0.0.7:8000/metrics", "http://127.0.0.1:8001/metrics")
    assert servers_of(config.Engine(), "a", found) == (found[:2], found[2:])
    given = config.Engine(urls={"a": ("http://x:1/m", "http://y:1/m"), "*": ("http://z/m",)})
    assert servers_of(given, "a", found) == (("http://x:1/m",), ("http://y:1/m",))
    assert servers_of(given, "b", found) == (found[:2], found[2:])  # "*" is for whoever has none
    assert servers_of(given, "b", ()) == (("http://z/m",),)
    assert servers_of(config.Engine(), "a", ()) == ()


def test_step_times_are_never_infinite_nor_negative() -> None:
    def body(n: int) -> str:
        rows = [("0.01", f"{n}"), ("0.02", "NaN"), ("nan", "3"), ("-1", "3"), ("+Inf", f"{3 * n}"), ("x", "2")]
        lines = "".join(f'vllm:inter_token_latency_seconds_bucket{{le="{le}"}} {value}\n' for le, value in rows)
        return f"vllm:num_requests_running 1\n{lines}"

    with serving(lambda c, r, n: c.sendall(reply(body(n)))) as url:
        of = signal(f"{url}/metrics")
        said = [poll(of) for _ in range(3)]
    for some in said[1:]:
        (steps,) = counted(some)
        assert all(math.isfinite(value) and value > 0 for value in steps.values)
        assert steps.counts == (1.0, 2.0)
