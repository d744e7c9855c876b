"""Whether an instance serves: one HTTP request to the instance itself, past the gateway.

A health page is a bad probe: engines answer it while their ranks hang. A completion of one token goes through all.
"""

from __future__ import annotations

from pathlib import Path

from rankmuster.adapters.header_file import BadHeaders, read_headers
from rankmuster.adapters.http_call import NotCalled, call, server_of
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Answer, Ending
from rankmuster.report.inert import plain

SHOWN = 200
"""Characters of an answer that are quoted."""


class HttpProbe:
    """A Probe. `body`: sent by POST as JSON; None: GET. `expect`: text that a good answer has in it."""

    def __init__(
        self,
        name: str,
        url: str,
        body: str | None = None,
        expect: str | None = None,
        header_file: Path | None = None,
        seconds: float = 10.0,
    ) -> None:
        self._name, self._url, self._expect = name, url, expect
        self._body = body.encode() if body is not None else None
        self._headers, self._seconds = header_file, seconds

    @property
    def name(self) -> str:
        """As the journal calls it."""
        return self._name

    def serves(self, incarnation: str | None, deadline: Deadline) -> Answer:
        """One attempt of at most `seconds`. DONE for a status of 2xx with `expect` in the answer, else FAILED."""
        del incarnation  # a URL does not say which one answers
        whom, method = server_of(self._url), "GET" if self._body is None else "POST"
        within = deadline.within(self._seconds)
        try:
            reply = call(method, self._url, within, headers=read_headers(self._headers), body=self._body)
        except (BadHeaders, NotCalled) as error:
            return Answer(ending=Ending.FAILED, note=f"{method} to {whom}: {error}")
        text = reply.text()
        said = plain(text, SHOWN) or "nothing"
        if not reply.good:
            return Answer(ending=Ending.FAILED, note=f"{whom} answered with status {reply.status}: {said}")
        if self._expect is not None and self._expect not in text:
            return Answer(ending=Ending.FAILED, note=f"{whom} answered without the text that is expected: {said}")
        return Answer(ending=Ending.DONE, note=f"{whom} answered with status {reply.status}")
