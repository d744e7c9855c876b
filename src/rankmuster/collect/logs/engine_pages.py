"""The engine's metrics page, at two moments or more: what was running, and whether any of it moved in between."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from rankmuster.collect.collector import Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.logs import metrics_page
from rankmuster.collect.logs.http_get import Unanswered, get
from rankmuster.collect.logs.metrics_page import MAX_SERVERS, by_port, shown
from rankmuster.collect.outcome import Ending, Outcome
from rankmuster.collect.sink import Sink
from rankmuster.evidence import engine_page
from rankmuster.evidence.blob import Blob

PAGE_SECONDS = 2.0
"""For one page: an engine answers in milliseconds, one whose event loop is blocked does not answer at all."""
_POLL = 0.1
"""Seconds between two glances at whether the others are done, and the last look is due."""


@dataclass
class _Server:
    """One port, and the addresses at which it may be reached."""

    key: str
    urls: list[str]
    answered: list[str] = field(default_factory=list)
    refused: bool = True
    errors: list[str] = field(default_factory=list)
    bare: bool = False
    failure: Exception | None = None


@dataclass(frozen=True, slots=True)
class EnginePages:
    """`page_seconds`: patience with one page."""

    name: str = "engine"
    budget_seconds: float = 30.0
    page_seconds: float = PAGE_SECONDS

    def collect(self, scene: Scene, sink: Sink, deadline: Deadline) -> Outcome:
        """Looks at once, after the gap that was asked for, and once more when all else is done."""
        given = scene.wishes.metrics_url
        if scene.target is not None and not scene.target.processes:
            return Outcome(Ending.NOTHING, "no process of it lives: whoever answers at its address is another's")
        urls = (given,) if given is not None else (scene.target.metrics_urls if scene.target is not None else ())
        if not urls:
            return Outcome(Ending.NOTHING, _why(scene))
        servers = [_Server(port, list(same)) for port, same in by_port(urls).items()][:MAX_SERVERS]
        host = scene.target.host if scene.target is not None else None
        begun = scene.clock()
        self._look(servers, scene, sink, deadline, host)
        second = begun + scene.wishes.look_seconds
        while scene.clock() < second and not deadline.passed:
            threading.Event().wait(min(max(second - scene.clock(), 0.001), deadline.remaining()))
        self._look(servers, scene, sink, deadline, host)
        if any(server.answered for server in servers):
            done = scene.clock()
            spare = deadline.before(self.page_seconds + 0.5)
            while not spare.passed and not scene.board.ending(min(_POLL, spare.remaining())):
                pass
            if scene.clock() - done >= scene.wishes.look_seconds / 2:
                self._look(servers, scene, sink, deadline, host)
        return _outcome(servers)

    def _look(self, servers: Sequence[_Server], scene: Scene, sink: Sink, deadline: Deadline, host: str | None) -> None:
        """All servers at once: one that does not answer must not make the others' looks late."""
        several = len(servers) > 1
        threads = [
            threading.Thread(
                target=self._guarded,
                args=(server, scene, sink, deadline, host, several),
                name="engine-page",
                daemon=True,
            )
            for server in servers
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(deadline.remaining())
        for server in servers:
            if server.failure is not None:
                raise server.failure

    def _guarded(
        self, server: _Server, scene: Scene, sink: Sink, deadline: Deadline, host: str | None, several: bool
    ) -> None:
        try:
            self._ask(server, scene, sink, deadline, host, several)
        except Exception as error:  # the sink is closed or full: raised in the collector's own thread
            server.failure = error

    def _ask(
        self, server: _Server, scene: Scene, sink: Sink, deadline: Deadline, host: str | None, several: bool
    ) -> None:
        """The first address that answers; from then on that one alone."""
        for url in server.urls:
            seconds = min(self.page_seconds, deadline.before(0.2).remaining())
            if seconds <= 0:
                server.refused = False
                server.errors.append(f"{shown(url)}: no time left to ask")
                return
            try:
                page = get(url, seconds)
            except Unanswered as error:
                server.refused = server.refused and error.refused
                server.errors.append(f"{shown(url)}: {error}" + ("" if error.refused else f" ({seconds:.1f} s)"))
                continue
            looked = scene.now()
            server.refused = False
            problem = metrics_page.problem(page)
            if problem is not None:
                server.errors.append(f"{shown(url)}: {problem}")
                continue
            suffix = f"-{server.key}" if several else ""
            path = f"engine/{looked:.3f}{suffix}.prom"
            server.bare = not engine_page.recognises(Blob(path, page.body))
            sink.put(path, page.body, look_time=looked, host=host, text=True)
            server.answered.append(url)
            server.urls = [url]
            return


def _why(scene: Scene) -> str:
    if scene.target is None:
        return "no instance was found, so there is no server whose page could be asked for; give --metrics-url"
    return (
        f"{scene.target.name} has no server on this node whose address is known (a headless node, or a program of "
        "one's own); give --metrics-url"
    )


def _outcome(servers: Sequence[_Server]) -> Outcome:
    answered = [server for server in servers if server.answered]
    errors = list(dict.fromkeys(error for server in servers for error in server.errors))
    said = "; ".join(errors[:4])
    if not answered:
        if all(server.refused for server in servers):
            return Outcome(Ending.NOTHING, f"no server answers for metrics: {said}")
        return Outcome(Ending.FAILED, f"the metrics page could not be had: {said}")
    looks = sum(len(server.answered) for server in servers)
    note = f"{looks} page(s) of {', '.join(shown(server.answered[0]) for server in answered)}"
    warnings = []
    if any(server.bare for server in answered):
        warnings.append(
            "the page has no series of a serving engine that is known here (vLLM with --disable-log-stats?)"
        )
    if errors:
        return Outcome(Ending.PARTIAL, f"{note}; not always: {said}", tuple(warnings))
    return Outcome(Ending.DONE, note, tuple(warnings))
