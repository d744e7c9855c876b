"""All servers asked at once, each in a thread of its own, so that one that does not come back makes nobody late."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rankmuster.collect.deadline import Clock, Deadline
from rankmuster.watch.signals.engine_filter import PageFilter
from rankmuster.watch.signals.engine_server import Answer, Refusal, Server

Fresh = Callable[[], PageFilter]
"""Gives the filter for one attempt."""


@dataclass(slots=True)
class _Question:
    """`round`: the number of the round whose question is on, 0 for none."""

    server: Server
    round: int = 0
    answer: Answer | Refusal | None = None


class Asking:
    """At most one thread a server, whatever a server or the resolver does."""

    def __init__(self, servers: Sequence[Server], clock: Clock) -> None:
        self._questions = [_Question(server) for server in servers]
        self._clock = clock
        self._changed = threading.Condition()
        self._round = 0
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    def ask(self, deadline: Deadline, filters: Sequence[Fresh]) -> list[Answer | Refusal]:
        """What each server said, in their order; returns by the deadline, or when closed."""
        with self._changed:
            self._round += 1
            mine = [question for question in self._questions if not question.round]
            for question in self._questions:
                question.answer = None
            for question in mine:
                question.round = self._round
        for question, fresh in zip(self._questions, filters, strict=True):
            if question.round == self._round:
                work = threading.Thread(
                    target=self._work,
                    args=(question, self._round, deadline, fresh),
                    name=f"engine-{question.server.name}"[:60],
                    daemon=True,
                )
                work.start()
        with self._changed:
            self._changed.wait_for(
                lambda: self._closed or all(question.round != self._round for question in mine), deadline.remaining()
            )
            return [question.answer or self._late(question) for question in self._questions]

    def _work(self, question: _Question, number: int, deadline: Deadline, fresh: Fresh) -> None:
        answer: Answer | Refusal
        try:
            answer = question.server.ask(deadline, fresh)
        except Exception as error:  # a defect here must not end the watch's sight for good
            answer = Refusal(self._clock(), f"{question.server.name}: {type(error).__name__}: {error}"[:300])
        with self._changed:
            if number == self._round:
                question.answer = answer
            question.round = 0
            self._changed.notify_all()

    def _late(self, question: _Question) -> Refusal:
        again = "still " if question.round < self._round else ""
        where = "in the resolver, or in a connection that does not end"
        return Refusal(self._clock(), f"{question.server.name}: the question is {again}under way, {where}")

    def close(self) -> None:
        """Ends what is on, from any thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for question in self._questions:
            question.server.close()
