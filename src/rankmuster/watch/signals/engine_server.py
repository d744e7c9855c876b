"""One server's metrics page, asked for at the address that answered last, and filtered while it comes in."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from rankmuster.collect.deadline import Clock, Deadline
from rankmuster.collect.find.titles import TRTLLM
from rankmuster.collect.logs import metrics_page
from rankmuster.collect.logs.http_get import Hold, Page, Unanswered, pour
from rankmuster.evidence import engine_iterations
from rankmuster.evidence.blob import Blob
from rankmuster.watch.signals.engine_filter import Filtered, PageFilter

PAGE_SECONDS = 2.0
"""For one page: an engine answers in milliseconds, one whose event loop is blocked does not answer at all. Twice this
fits into a period of 5 s."""

SPARE_SECONDS = 0.2
"""Left of the deadline for what is done with the answers."""

PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses that may be others a moment later."""

OLDEST_AGE = 1
"""Seconds that a cache may have had a page: they come in whole ones."""

SAME_DATE_SECONDS = 2.5
"""From here on two answers that were written in the same second by their `Date` are one answer, kept by a cache."""

DRAINED = (
    "it is not asked, for TensorRT-LLM's iteration statistics are taken away by every read; give the address of its "
    "/prometheus/metrics (trtllm-serve with return_perf_metrics: true)"
)


@dataclass(frozen=True, slots=True)
class Answer:
    """A page. `now`: the middle of the request, monotonic seconds; `unix`: the wall clock then."""

    now: float
    unix: float
    page: Filtered


@dataclass(frozen=True, slots=True)
class Refusal:
    """No page. `declined`: it is not asked (any more), rather than asked in vain."""

    now: float
    reason: str
    declined: bool = False


class Server:
    """`urls`: every address of it, at least one, likeliest first; where `engine` is TensorRT-LLM, none that leads to
    the page which a read empties is asked. `name`: without credentials and query, for people and as a source.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        engine: str | None,
        clock: Clock,
        unix_now: Callable[[], float],
        page_seconds: float = PAGE_SECONDS,
    ) -> None:
        self.name = shown(urls[0])
        self._urls = [url for url in dict.fromkeys(urls) if not (engine == TRTLLM and _is_json_page(url))]
        self._clock = clock
        self._unix_now = unix_now
        self._page_seconds = page_seconds
        self._answering: str | None = None
        self._dates: dict[str, tuple[str, float]] = {}  # of each address, and when it was first seen
        self._lock = threading.Lock()
        self._hold: Hold | None = None
        self._closed = False

    def ask(self, deadline: Deadline, fresh: Callable[[], PageFilter]) -> Answer | Refusal:
        """The page of the first address that answers; all are tried once more where that may help. Never raises for
        what a server does. `fresh`: gives the filter for one attempt."""
        if not self._urls:
            return self._drained()
        spare = deadline.before(SPARE_SECONDS)
        errors: list[str] = []
        first = [self._answering] if self._answering is not None else list(self._urls)
        left = len(first) + len(self._urls)
        for urls in (first, list(self._urls)):
            passing = False
            for url in urls:
                patience = min(self._page_seconds, spare.remaining() / left)
                left -= 1
                if patience <= 0:
                    errors.append(f"{shown(url)}: no time was left to ask")
                    break
                outcome, again = self._once(url, patience, fresh())
                if isinstance(outcome, Answer):
                    self._answering = url
                    return outcome
                passing = passing or again
                errors.append(f"{shown(url)}: {outcome}")
            if not passing:
                break
        self._answering = None
        if not self._urls:
            return self._drained()
        return Refusal(self._clock(), "; ".join(list(dict.fromkeys(errors))[:4]))

    def _drained(self) -> Refusal:
        return Refusal(self._clock(), f"{self.name}: {DRAINED}", declined=True)

    def _once(self, url: str, patience: float, page_filter: PageFilter) -> tuple[Answer | str, bool]:
        """The answer, or why there is none and whether that may pass."""
        hold = Hold()
        with self._lock:
            if self._closed:
                return "the watch ends", False
            self._hold = hold
        begun = self._clock()
        try:
            page = pour(url, patience, page_filter.feed, hold)
        except Unanswered as error:
            timed = "" if error.refused else f" ({patience:.1f} s)"
            return f"{error}{timed}", True
        finally:
            with self._lock:
                self._hold = None
        ended, unix = self._clock(), self._unix_now()
        if _drains(page):
            self._urls = [one for one in self._urls if one != url]
            return DRAINED, False
        wrong = metrics_page.problem(page)
        if wrong is not None:
            return wrong, page.status in PASSING
        cached = self._cached(url, page, begun)
        if cached is not None:
            return cached, False
        filtered = page_filter.done()
        if filtered.overflow:
            return "it has more samples of an engine's series than any engine has; the page is not believed", False
        half = (ended - begun) / 2
        return Answer(ended - half, unix - half, filtered), False

    def _cached(self, url: str, page: Page, asked: float) -> str | None:
        """Why a page is of earlier: what stands on it has not stood still."""
        if page.age > OLDEST_AGE:
            return f"a cache answers with a page that is {page.age} s old; give the server's own address"
        date, since = self._dates.get(url, ("", asked))
        if not page.date or page.date != date:
            self._dates[url] = (page.date, asked)
        elif asked - since >= SAME_DATE_SECONDS:
            return (
                f"the answer was written {asked - since:.0f} s ago by its own word (Date: {date}), as one from a cache "
                "is; give the server's own address"
            )
        return None

    def close(self) -> None:
        """Ends the request that is on; nothing is asked any more. From any thread."""
        with self._lock:
            self._closed = True
            hold = self._hold
        if hold is not None:
            hold.drop()


def _is_json_page(url: str) -> bool:
    """Whether TensorRT-LLM would answer with its list: anything but the Prometheus page is not risked."""
    try:
        return not urlsplit(url).path.rstrip("/").endswith("/prometheus/metrics")
    except ValueError:
        return False


def _drains(page: Page) -> bool:
    """Whether what came is that list; where nobody has served since the last read it is empty."""
    if page.status != 200 or page.body.lstrip()[:1] not in (b"[", b"{"):
        return False
    if engine_iterations.recognises(Blob("", page.body)):
        return True
    try:
        return bool(json.loads(page.body) == [])
    except (ValueError, RecursionError):
        return False


def shown(url: str) -> str:
    """The address without what may be secret, and without the scheme: short, for people and as a source."""
    return metrics_page.shown(url).partition("://")[2] or "an address that is no URL"
