"""Between the engine's front end and its scheduler on rank 0: requests one way, tokens the other, a datagram each.

A pair of sockets that their parent made: neither is looked for by name, and each sees the other's end. The front end
never waits for a rank that hangs; rank 0 waits for the front end, since a token that is lost would be a lost answer.
"""

from __future__ import annotations

import json
import os
import select
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

LINE_FD = "RANKMUSTER_DRILL_LINE_FD"
"""Variable with the number of the socket, for rank 0 and for the front end."""
MOST_BYTES = 1 << 16
"""Of a datagram: a step of some hundred requests takes a tenth of it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request. `number`: of this incarnation, from 1. `prompt`, `tokens`: to read, and to generate."""

    number: int
    prompt: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Dropped:
    """Nobody waits for this request any more."""

    number: int


@dataclass(frozen=True, slots=True)
class Stepped:
    """A step has ended on every rank. `good`: the sum over all ranks is what it has to be. `came`: (request, its tokens
    so far, whether it has all of them). `refused`: requests for which there is no place."""

    step: int
    good: bool
    came: tuple[tuple[int, int, bool], ...] = ()
    refused: tuple[int, ...] = ()


Message = Asked | Dropped | Stepped


def pair() -> tuple[socket.socket, socket.socket]:
    """Both ends."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class Line:
    """One end of it."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    @classmethod
    def handed(cls, environment: Mapping[str, str] = os.environ) -> Line:
        """The end that the parent handed on. Raises KeyError, ValueError or OSError when there is none."""
        return cls(socket.socket(fileno=int(environment[LINE_FD])))

    def tell(self, message: Message) -> None:
        """Waits until the other end can take it. Raises OSError when it has ended."""
        self._socket.send(_encoded(message))

    def offer(self, message: Message) -> bool:
        """Whether it was taken; False where the other end takes nothing now. Raises OSError when it has ended."""
        try:
            self._socket.send(_encoded(message), socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        return True

    def waiting(self, seconds: float = 0.0) -> Iterator[Message]:
        """What is there, the first of it within `seconds`. Raises EOFError when the other end has ended."""
        while select.select([self._socket], [], [], seconds)[0]:
            data = self._socket.recv(MOST_BYTES)
            if not data:
                raise EOFError("the other end of the line has ended")
            yield _decoded(data)
            seconds = 0.0

    def wait(self, seconds: float) -> None:
        """Until something is there, and no longer than that."""
        select.select([self._socket], [], [], seconds)

    def close(self) -> None:
        """Lets go of it."""
        self._socket.close()


def _encoded(message: Message) -> bytes:
    plain: dict[str, Any]
    if isinstance(message, Asked):
        plain = {"ask": [message.number, message.prompt, message.tokens]}
    elif isinstance(message, Dropped):
        plain = {"drop": message.number}
    else:
        plain = {"step": message.step, "good": message.good, "came": message.came, "refused": message.refused}
    return json.dumps(plain, separators=(",", ":")).encode()


def _decoded(data: bytes) -> Message:
    plain = json.loads(data)
    if "ask" in plain:
        return Asked(*plain["ask"])
    if "drop" in plain:
        return Dropped(plain["drop"])
    came = tuple((number, made, last) for number, made, last in plain["came"])
    return Stepped(plain["step"], plain["good"], came, tuple(plain["refused"]))
