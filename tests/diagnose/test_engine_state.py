"""Counters of a serving engine: whose they are, what a rise and a fall of them mean."""

from __future__ import annotations

import pytest
from build_evidence import T0, flat_pages, instance, said, steady_pages, verdict_of, vllm_page

from rankmuster.evidence.blob import Blob
from rankmuster.model.verdict import Verdict


def diagnosed(pages: list[Blob]) -> Verdict:
    return verdict_of([instance(last_look=T0 + 40), *pages])


def moved_to(name: str, pages: list[Blob]) -> list[Blob]:
    """The same pages under `name`, in which `{at}` is the page's time."""
    return [Blob(name.format(at=page.path[len("engine/") : -len(".prom")]), page.data) for page in pages]


def alternating(name_a: str, name_b: str) -> list[Blob]:
    """Two servers with requests that stand still at 1000 and 5000 tokens, asked in turn."""
    one = flat_pages(T0, 40, 1000, gap=2.0)
    other = flat_pages(T0 + 1, 39, 5000, gap=2.0)
    return [*moved_to(name_a, one), *moved_to(name_b, other)]


@pytest.mark.parametrize(
    ("name_a", "name_b"),
    [
        ("engine/a/{at}.prom", "engine/b/{at}.prom"),
        ("engine/{at}-a.prom", "engine/{at}-b.prom"),
        ("engine/node1-{at}.prom", "engine/node2-{at}.prom"),
        ("10.0.0.1/metrics-{at}.prom", "10.0.0.2/metrics-{at}.prom"),
    ],
)
def test_two_servers_that_stand_still_are_stopped_and_not_advancing(name_a: str, name_b: str) -> None:
    assert diagnosed(alternating(name_a, name_b)).progress.value == "stopped"


def test_pages_of_two_servers_under_one_name_show_nothing() -> None:
    verdict = diagnosed(alternating("engine/{at}.prom", "engine/{at}.prom"))
    assert (verdict.class_.value, verdict.progress.value) == ("inconclusive", "unknown")
    assert "several servers under one name" in said(verdict)


def test_a_counter_that_falls_does_not_advance() -> None:
    verdict = diagnosed([vllm_page(T0 + i, 9000 - 50 * i) for i in range(40)])
    assert verdict.class_.value != "healthy"


def test_a_restart_is_neither_progress_nor_a_stop() -> None:
    served = steady_pages(T0, 20)
    just_back = diagnosed([*served, vllm_page(T0 + 36, 0), vllm_page(T0 + 38, 0)])
    assert just_back.progress.value == "unknown"
    at_work = diagnosed([*served, *steady_pages(T0 + 30, 10, first=0)])
    assert at_work.progress.value == "advancing"
    stuck = diagnosed([*served, *flat_pages(T0 + 22, 18, 0)])
    assert stuck.progress.value == "stopped"


def test_a_server_that_is_asked_no_longer_says_nothing_of_the_end() -> None:
    gone = moved_to("engine/old/{at}.prom", [*steady_pages(T0 - 60, 10), *flat_pages(T0 - 49, 20, 1500)])
    current = moved_to("engine/new/{at}.prom", steady_pages(T0, 40))
    assert diagnosed([*gone, *current]).progress.value == "advancing"


def test_pages_numbered_one_by_one_are_one_server() -> None:
    pages = steady_pages(T0, 20)
    numbered = [Blob(f"engine/{i:03d}/{page.path[len('engine/') :]}", page.data) for i, page in enumerate(pages)]
    assert diagnosed(numbered).progress.value == "advancing"


def test_one_request_and_a_moment_are_told_in_words() -> None:
    assert "1 request running" in said(diagnosed([*steady_pages(T0, 10), *flat_pages(T0 + 11, 29, 1500, running=1)]))
    assert "advanced up to the last page" in said(diagnosed(steady_pages(T0, 40)))


@pytest.mark.parametrize("apart", [0.0, 0.01, 0.4])
def test_two_servers_with_one_page_each_are_two(apart: float) -> None:
    """One look at two servers: what the second has counted more is no progress of the first."""
    pages = [
        *moved_to("engine/{at}-10.0.0.1-8000.prom", [vllm_page(T0, 1000)]),
        *moved_to("engine/{at}-10.0.0.1-8001.prom", [vllm_page(T0 + apart, 5000)]),
    ]
    assert diagnosed(pages).progress.value == "unknown"


def test_one_engine_of_two_that_stands_is_the_instances_stop_and_is_named() -> None:
    pages = [
        vllm_page(T0 + i, 0, engines={"0": (4, 1000 + 50 * i), "1": (3, min(1000 + 50 * i, 1500))}) for i in range(41)
    ]
    verdict = diagnosed(pages)
    assert verdict.progress.value == "stopped"
    assert "vllm engine 1: 3 requests running" in said(verdict)
    assert "meanwhile vllm engine 0 advances" in said(verdict)


def test_counters_that_stood_still_for_want_of_requests_are_counted_from_when_one_came() -> None:
    idle = [*steady_pages(T0, 10), *flat_pages(T0 + 11, 20, 1500, running=0)]
    assert diagnosed([*idle, *flat_pages(T0 + 32, 4, 1500, running=1)]).progress.value != "stopped"
    waiting = diagnosed([*idle, *flat_pages(T0 + 32, 8, 1500, running=1)])
    assert waiting.progress.value == "stopped"
    assert "unchanged for 8 s" in said(waiting)
    assert waiting.window.fault_at == pytest.approx(T0 + 32)


def test_gauges_that_change_no_more_are_of_a_prefill_that_has_ended() -> None:
    prefill = [vllm_page(T0 + 11 + i, 1500, cache=0.1 + i / 100) for i in range(10)]
    at_work = [*steady_pages(T0, 10), *prefill]
    assert diagnosed(at_work).progress.value == "unknown"
    assert (
        diagnosed([*at_work, *(vllm_page(T0 + 21 + i, 1500, cache=0.19) for i in range(20))]).progress.value
        == "stopped"
    )
