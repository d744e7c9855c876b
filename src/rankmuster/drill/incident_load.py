"""Clients of a drill's engine: each asks, waits for all of its answer, and asks again where it is told to wait.

Every attempt ends as one of `How` and is written down. What may never be is LOST: no answer and no error that says so.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from rankmuster.drill.engine_http import FINGERPRINT, GOOD, NAME_HEADER
from rankmuster.drill.incident_gateway import REASON_HEADER

ANSWER_SECONDS = 150.0
"""After which an answer counts as lost: a fault, its detection, its evidence and a new start all fit into it."""
PAUSE_SECONDS = 0.05
"""Between two requests of one client."""
REFUSED_SECONDS = 0.5
"""Before the next attempt where nobody says how long to wait."""
TOKENS = (10, 60)


class How(str, Enum):
    FULL = "full"
    TURNED = "turned"  # 503 with Retry-After
    FAILED = "failed"  # another status that says so
    BROKEN = "broken"  # the connection ended in the middle, which a client sees
    REFUSED = "refused"  # no connection
    LOST = "lost"  # no answer in time, or one that looks whole and is not right


@dataclass(frozen=True, slots=True)
class Attempt:
    """`name`: of the request, `attempt` in it. Times are unix seconds. `first_at`: of the first good token.

    `tokens`: that came; `wanted`: how many were asked for. `incarnation`: who answered. `reason`: as the gateway gives
    it with its own errors.
    """

    name: str
    stream: bool
    wanted: int
    sent_at: float
    how: How = How.LOST
    ended_at: float = 0.0
    first_at: float | None = None
    tokens: int = 0
    incarnation: int | None = None
    status: int | None = None
    retry_after: float | None = None
    reason: str | None = None
    note: str = ""

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self), sort_keys=True)


@dataclass(slots=True)
class _Answer:
    """What came so far. `made`: whether each token was good. `whole`: the answer says that it is complete."""

    made: list[bool] = field(default_factory=list)
    first_at: float | None = None
    incarnation: int | None = None
    whole: bool = False

    def take(self, plain: dict[str, Any]) -> None:
        choice = plain["choices"][0]
        words = choice["text"].split(" ")[1:]
        good = [f" {word}" == GOOD for word in words]
        if any(good) and self.first_at is None:
            self.first_at = time.time()
        self.made += good
        self.incarnation = int(plain["system_fingerprint"].removeprefix(FINGERPRINT))


PROMPT = "who is there"


def ask(
    address: tuple[str, int],
    name: str,
    wanted: int,
    *,
    stream: bool,
    seconds: float = ANSWER_SECONDS,
    prompt: str = PROMPT,
) -> Attempt:
    """One attempt. `prompt`: each of its words is a token to read. Never raises."""
    blank = Attempt(name, stream, wanted, time.time())
    end = time.monotonic() + seconds
    connection = http.client.HTTPConnection(*address, timeout=seconds)
    answer = _Answer()
    try:
        body = json.dumps({"prompt": prompt, "max_tokens": wanted, "stream": stream})
        connection.request("POST", "/v1/completions", body, {NAME_HEADER: name, "Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != http.client.OK:
            said = response.read(2000).decode(errors="replace")
            blank = replace(blank, status=response.status)
            blank = replace(blank, reason=response.headers.get(REASON_HEADER))
            return _turned(blank, response.headers.get("Retry-After"), said)
        blank = replace(blank, status=response.status)
        _read(response, answer, end, stream=stream)
        how, note = _judged(answer, wanted, stream=stream)
    except TimeoutError:
        how, note = How.LOST, f"no answer within {seconds:.0f} s"
    except ConnectionRefusedError as error:
        how, note = How.REFUSED, str(error)
    except (http.client.HTTPException, OSError) as error:
        how, note = How.BROKEN, f"{type(error).__name__}: {error}"
    except (ValueError, KeyError, IndexError, TypeError) as error:
        how, note = How.LOST, f"an answer that cannot be read: {type(error).__name__}: {error}"
    finally:
        connection.close()
    return replace(
        blank,
        how=how,
        note=note,
        ended_at=time.time(),
        first_at=answer.first_at,
        tokens=len(answer.made),
        incarnation=answer.incarnation,
    )


def _turned(blank: Attempt, retry: str | None, said: str) -> Attempt:
    seconds = float(retry) if retry is not None and retry.isdigit() else None
    turned = blank.status == http.client.SERVICE_UNAVAILABLE and seconds is not None
    how = How.TURNED if turned else How.FAILED
    return replace(blank, how=how, ended_at=time.time(), retry_after=seconds, note=said[:300])


def _read(response: http.client.HTTPResponse, answer: _Answer, end: float, *, stream: bool) -> None:
    if not stream:
        answer.take(json.loads(response.read()))
        answer.whole = True
        return
    while line := response.readline():
        if time.monotonic() > end:
            raise TimeoutError
        data = line.strip().removeprefix(b"data: ")
        if data == b"[DONE]":
            answer.whole = True
        elif data:
            answer.take(json.loads(data))


def _judged(answer: _Answer, wanted: int, *, stream: bool) -> tuple[How, str]:
    if stream and not answer.whole:
        return How.BROKEN, f"the stream ended after {len(answer.made)} of {wanted} tokens, without [DONE]"
    if len(answer.made) != wanted:
        return How.LOST, f"{len(answer.made)} of {wanted} tokens, and it looks whole"
    if not all(answer.made):
        return How.LOST, f"{answer.made.count(False)} tokens are not the sum over all ranks"
    return How.FULL, ""


class Load:
    """`clients` threads that ask until they are told to stop; every second request is a stream. `path`: a line of JSON
    for every attempt, as it ends."""

    def __init__(self, address: tuple[str, int], clients: int, path: Path, seed: int = 1) -> None:
        self._address, self._path = address, path
        self._attempts: list[Attempt] = []
        self._lock, self._end = threading.Lock(), threading.Event()
        self._threads = [
            threading.Thread(target=self._client, args=(number, seed), daemon=True) for number in range(clients)
        ]

    def start(self) -> None:
        """The clients begin."""
        for thread in self._threads:
            thread.start()

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """Those that have ended, in that order."""
        with self._lock:
            return tuple(self._attempts)

    def stop(self, seconds: float = ANSWER_SECONDS) -> int:
        """No new requests; waits for what is on its way. How many clients are still waiting then."""
        self._end.set()
        end = time.monotonic() + seconds
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(end - time.monotonic(), 0.0))
        return sum(thread.is_alive() for thread in self._threads)

    def _client(self, number: int, seed: int) -> None:
        rng = random.Random(seed * 1000 + number)  # noqa: S311  # no secret
        count = 0
        while not self._end.wait(PAUSE_SECONDS):
            name, wanted, stream = f"{number}-{count}", rng.randint(*TOKENS), bool((number + count) % 2)
            count += 1
            tries = 0
            while True:
                attempt = ask(self._address, f"{name}-{tries}", wanted, stream=stream)
                self._keep(attempt)
                tries += 1
                if attempt.how not in (How.TURNED, How.REFUSED):
                    break
                if self._end.wait(attempt.retry_after if attempt.retry_after is not None else REFUSED_SECONDS):
                    break

    def _keep(self, attempt: Attempt) -> None:
        with self._lock:
            self._attempts.append(attempt)
            with self._path.open("a", encoding="utf-8") as lines:
                lines.write(attempt.to_json() + "\n")
