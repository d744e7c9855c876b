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
