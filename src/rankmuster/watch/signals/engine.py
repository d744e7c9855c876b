"""The engine plane: each server's metrics page, once a period.

Blind to which rank it is, and to work that no counter shows: the pages tell of requests, tokens and iterations only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from rankmuster.collect.deadline import Clock, Deadline
from rankmuster.collect.logs.metrics_page import MAX_SERVERS, by_port
from rankmuster.evidence import engine_page
from rankmuster.evidence.blob import Blob
from rankmuster.model.engine import EnginePage, EngineStream
from rankmuster.model.plane import Plane
from rankmuster.model.problem import ProblemKind
from rankmuster.watch import config
from rankmuster.watch.signals import engine_mapping
from rankmuster.watch.signals.engine_asking import Asking
from rankmuster.watch.signals.engine_blindness import Blindness
from rankmuster.watch.signals.engine_filter import Filtered, PageFilter
from rankmuster.watch.signals.engine_server import PAGE_SECONDS, Answer, Refusal, Server
from rankmuster.watch.signals.engine_steps import StepTimes
from rankmuster.watch.signals.signal import Counted, Declined, Failed, Heard, Said

MOST_STREAMS = 256
"""Engines on one page: more replicas than a node has are no page of one server."""

STEP = "step"
"""What step times are counted as."""


def servers_of(engine: config.Engine, instance: str, found: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The servers of an instance with their addresses: as configured for it, each address a server of its own; else as
    found, where several addresses may lead to one port; else as configured for whatever has none."""
    given = engine.urls.get(instance, () if found else engine.urls.get("*", ()))
    if given:
        return tuple((url,) for url in dict.fromkeys(given))
    return tuple(by_port(found).values())


@dataclass(slots=True)
class _Place:
    """One server and what is remembered of it."""

    server: Server
    steps: StepTimes
    blindness: Blindness
    falls: engine_mapping.Falls
    recognised: bool = False
    lacking: str = ""
    damage: str = ""

    @property
    def notes(self) -> tuple[str, ...]:
        """What is amiss with a page that is used all the same."""
        return tuple(f"{self.server.name}: {text}" for text in (self.lacking, self.damage) if text)

    def fresh(self, tables: engine_mapping.Tables) -> PageFilter:
        """The filter for a page of it; of a page that is not known yet all names are wanted."""
        return PageFilter(tables.pattern, not self.recognised)


class EngineSignal:
    """`servers`: of each its addresses, likeliest first (`servers_of`). `engine`: what the instance runs, as
    `collect` found it, None unknown. `page_seconds`: patience with one page.

    `poll` gives per server a `Heard` of an `EnginePage` under one constant source, `Counted` step times since the
    scrape before, a `Failed` where no server answered, and once a `Declined` where nothing can be read, or a stop could
    not be seen on what is read. `declined` tells whether that still holds.
    """

    name = "engine"
    plane = Plane.ENGINE
    blind_to = (
        "which rank is at fault; work that no counter shows before a request ends; a cache's page that does not say so"
    )

    def __init__(
        self,
        servers: Sequence[Sequence[str]],
        mappings: Iterable[config.Mapping] = (),
        *,
        clock: Clock,
        unix_now: Callable[[], float],
        engine: str | None = None,
        period: float = 5.0,
        page_seconds: float = PAGE_SECONDS,
    ) -> None:
        self.period = period
        self._clock = clock
        self._tables = engine_mapping.tables(mappings)
        self._places = [
            _Place(
                Server(urls, engine=engine, clock=clock, unix_now=unix_now, page_seconds=page_seconds),
                StepTimes(self._tables.buckets),
                Blindness(self._tables),
                engine_mapping.Falls(),
            )
            for urls in list(servers)[:MAX_SERVERS]
            if urls
        ]
        for number, place in enumerate(self._places):
            if any(place.server.name == other.server.name for other in self._places[:number]):
                place.server.name += f"({number + 1})"  # addresses that differ in what is not shown
        self._left_out = max(len(servers) - MAX_SERVERS, 0)
        self._asking = Asking([place.server for place in self._places], clock)
        self._declined: str | None = None
        self._notes: tuple[str, ...] = ()

    @property
    def declined(self) -> str | None:
        """Why the plane is blind at present; None where it is not, or where it was asked in vain."""
        return self._declined

    @property
    def notes(self) -> tuple[str, ...]:
        """What was amiss at the last poll although the plane spoke: servers that did not answer, names that lack."""
        return self._notes

    def poll(self, deadline: Deadline) -> list[Said]:
        """Asks every server at once. See `Signal.poll`."""
        if not self._places:
            return self._declining("no server's metrics page is known: give its address in the configuration")
        answers = self._asking.ask(deadline, [partial(place.fresh, self._tables) for place in self._places])
        if self._asking.closed:
            return []
        said: list[Said] = []
        declined: list[str] = []
        failed: list[str] = []
        sights: list[str | None] = []
        notes = [f"{self._left_out} server(s) above {MAX_SERVERS} are not asked"] if self._left_out else []
        for place, answer in zip(self._places, answers, strict=True):
            heard, refusal = self._read(place, answer) if isinstance(answer, Answer) else ([], answer)
            said.extend(heard)
            if refusal is not None:
                (declined if refusal.declined else failed).append(refusal.reason)
                continue
            sights.append(place.blindness.told)
            notes.extend(place.notes)
        self._notes = (*notes, *(failed + declined if said else ()))
        if not said:
            if failed:
                self._declined = None
                return [Failed(self._clock(), Plane.ENGINE, "; ".join((failed + declined)[:4]))]
            return self._declining("; ".join(declined[:4]))
        if None not in sights:
            said.extend(self._declining("; ".join(dict.fromkeys(text for text in sights if text is not None))))
        else:
            self._declined = None
        return said

    def _declining(self, reason: str) -> list[Said]:
        """The refusal, where it was not said before."""
        if reason == self._declined:
            return []
        self._declined = reason
        return [Declined(self._clock(), Plane.ENGINE, reason)]

    def _read(self, place: _Place, answer: Answer) -> tuple[list[Said], Refusal | None]:
        """What one page tells; a page that cannot be used is refused with the reason."""
        name, filtered = place.server.name, answer.page
        reading = engine_page.read(Blob(name, filtered.lines), self._tables.index)
        pages = self._chosen([one for one in reading.observations if isinstance(one, EnginePage)])
        wrong = self._wrong(place, filtered, pages)
        if wrong is not None:
            place.recognised = False  # the names on the page are wanted again, to say what is missing
            place.blindness.forget()
            return [], Refusal(answer.now, f"{name}: {wrong.reason}", wrong.declined)
        if not place.recognised:
            lacking = [
                text
                for page in pages
                if page.engine in self._tables.own
                and (text := engine_mapping.missing(self._tables.own[page.engine], filtered.names))
            ]
            place.lacking = "; ".join(lacking)
            place.recognised = not lacking
        damaged = [problem.message for problem in reading.problems if problem.kind is ProblemKind.DAMAGED]
        place.damage = "; ".join(damaged)[:300]
        place.blindness.add(pages)
        said: list[Said] = [
            Heard(answer.now, answer.unix, replace(page, source=f"{name}#{page.engine}"), Plane.ENGINE)
            for page in pages
        ]
        for spread in place.steps.add(filtered.lines):
            said.append(Counted(STEP, (("engine", spread.engine),), spread.values, spread.counts))
        return said, None

    def _chosen(self, pages: list[EnginePage]) -> list[EnginePage]:
        """Of several engines on a page a mapping's own before known ones, those with a load before those without."""
        for better in (
            [page for page in pages if page.engine in self._tables.own],
            [page for page in pages if any(stream.running is not None for stream in page.streams)],
        ):
            pages = better or pages
        return [replace(page, streams=tuple(map(_told, page.streams))) for page in pages]

    def _wrong(self, place: _Place, filtered: Filtered, pages: list[EnginePage]) -> Refusal | None:
        """Why the page is not used."""
        now = self._clock()
        if sum(len(page.streams) for page in pages) > MOST_STREAMS:
            return Refusal(now, f"it tells of more than {MOST_STREAMS} engines; the page is not believed")
        for page in pages:
            mapping = self._tables.own.get(page.engine)
            if mapping is not None:
                fell = place.falls.add(page)
                text = engine_mapping.no_counters(mapping, filtered) or fell
                if text is not None:
                    return Refusal(now, text, declined=True)
        if not pages:
            if place.recognised:
                return Refusal(now, "its page has no series of an engine any more")
            return Refusal(now, engine_mapping.unknown(filtered, self._tables.own.values()), declined=True)
        return None

    def close(self) -> None:
        """See `Signal.close`."""
        self._asking.close()


def _told(stream: EngineStream) -> EngineStream:
    """Without the requests that run, none that waits is no sign of rest: the page does not tell its load then."""
    return replace(stream, waiting=None) if stream.running is None and not stream.waiting else stream
