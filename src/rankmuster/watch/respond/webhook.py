"""Posts one stop to a server: a process of its own, so that neither a resolver that hangs nor the library for
encryption is the watch's. `python -m rankmuster.watch.respond.webhook`, with a job as JSON on standard input.

A second attempt is made only where the first surely did nothing or was asked to come again: no connection, a status of
5xx, or 429. Exit status: 0 it was taken, 1 it was not, and the last line of standard error says why. No header's value
and no path of the URL is ever printed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rankmuster.adapters.header_file import BadHeaders, read_headers
from rankmuster.adapters.http_call import NotCalled, call
from rankmuster.collect.deadline import Deadline
from rankmuster.watch.respond.back_off import back_off


class NotPosted(Exception):
    """It was not taken; the message says why. `again`: whether another attempt may help."""

    def __init__(self, message: str, *, again: bool = False) -> None:
        super().__init__(message)
        self.again = again


@dataclass(frozen=True, slots=True)
class Job:
    """`seconds`: of each attempt."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    attempts: int
    seconds: float


def post(job: Job) -> str:
    """What the server said to it. Raises NotPosted after the last attempt."""
    for attempt in range(1, job.attempts + 1):
        try:
            return _attempt(job)
        except NotPosted as error:
            if not error.again or attempt == job.attempts:
                tried = f" ({attempt} attempts)" if attempt > 1 else ""
                raise NotPosted(f"{error}{tried}", again=error.again) from error
        time.sleep(back_off(attempt))
    raise NotPosted("no attempt was wanted")


def _attempt(job: Job) -> str:
    try:
        # What it says besides its status is of no use to anybody.
        status = call("POST", job.url, Deadline.after(job.seconds), headers=job.headers, body=job.body, most=0).status
    except NotCalled as error:
        raise NotPosted(str(error), again=error.again) from error
    if 200 <= status < 300:
        return f"{status}"
    raise NotPosted(f"the server answered with status {status}", again=status >= 500 or status == 429)


def main() -> int:
    """Reads the job, posts it, says how that went."""
    raw = json.load(sys.stdin.buffer)
    try:
        headers = read_headers(Path(raw["header_file"])) if raw["header_file"] is not None else {}
        job = Job(raw["url"], headers, raw["body"].encode("ascii"), raw["attempts"], raw["seconds"])
        answered = post(job)
    except (NotPosted, BadHeaders) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stderr.write(f"the server answered with status {answered}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
