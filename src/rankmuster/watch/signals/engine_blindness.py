"""Whether the pages of one server could show a stop at all: counters that move with steps, and a load beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rankmuster.model.engine import EnginePage
from rankmuster.watch.signals.engine_mapping import Tables

SURE_PAGES = 3
"""Pages in a row under load before what they lack is believed to be lacking for good: prometheus-client shows a
labelled counter only when it has counted once."""

ENDS_ONLY = "its counters move only when requests end: flat ones say nothing"


@dataclass(slots=True)
class Blindness:
    """Fed with every page of the server. `told`: what it cannot show, one sentence; None while it can, or may."""

    tables: Tables
    told: str | None = None
    _stepless: int = 0
    _loadless: int = 0

    def add(self, pages: Sequence[EnginePage]) -> None:
        """Takes the pages of one scrape."""
        streams = [stream for page in pages for stream in page.streams]
        engine = pages[0].engine if pages else ""
        stepped = any(stream.steps for stream in streams)
        ended = any(value > 0 for stream in streams for value in stream.ends.values())
        load = sum((stream.running or 0.0) + (stream.waiting or 0.0) for stream in streams)
        loads = any(stream.running is not None for stream in streams)
        worked = ended or any(value > 0 for stream in streams for value in stream.steps.values())
        self._stepless = 0 if stepped else self._stepless + (load > 0)
        self._loadless = 0 if loads else self._loadless + worked
        known = self.tables.engines.get(engine)
        if stepped:
            never = False
        else:
            never = ended or self._stepless >= SURE_PAGES or (known is not None and not known.counts_steps)
        if never:
            self.told = f"{engine}: {ENDS_ONLY}"
        elif self._loadless >= SURE_PAGES:
            self.told = f"{engine}: its page does not tell how many requests run, so flat counters may be rest"
        elif stepped:
            self.told = None

    def forget(self) -> None:
        """Another server may be behind the address."""
        self.told, self._stepless, self._loadless = None, 0, 0
