"""The process group of one instance behind our own supervisor, `rankmuster run`: a `Group` over its control socket."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rankmuster.adapters import supervisor_wire as wire
from rankmuster.collect.deadline import Clock, Deadline
from rankmuster.model.incident import Answer, Ending, GroupLook, GroupState, StartWish

SPARE_SECONDS = 0.5
"""Of a deadline, kept for the answer's way back: what the supervisor is told to take is that much less."""

AGAIN_SECONDS = 0.02
"""Between two attempts to connect where too many wait already."""

MAX_NOTE = 2000


class _Unreachable(Exception):
    """`sent`: whether the request may have arrived."""

    def __init__(self, why: str, *, sent: bool, late: bool = False) -> None:
        super().__init__(why)
        self.sent = sent
        self.late = late


class Supervisor:
    """A `Group` (`incident.actuators`). `socket_path`: of the supervisor; `clock`: seconds, for how long calls took.

    It is one host's: `start` cannot keep to other nodes.
    """

    def __init__(self, name: str, socket_path: Path, clock: Clock = time.monotonic) -> None:
        self._name = name
        self._path = socket_path
        self._clock = clock

    @property
    def name(self) -> str:
        return self._name

    @property
    def elsewhere(self) -> bool:
        return False

    def look(self, deadline: Deadline) -> GroupLook:
        try:
            said = self._ask({"ask": "look"}, deadline)
            return _look(said.get("look"))
        except (_Unreachable, wire.NotUnderstood) as error:
            return GroupLook(state=GroupState.UNKNOWN, note=str(error))

    def about(self, deadline: Deadline) -> Mapping[str, Any]:
        """What the supervisor says besides: `host`, `command`, `metrics_url`, `log`, `folder`; empty where it does not
        answer."""
        try:
            said = self._ask({"ask": "look"}, deadline).get("about")
        except (_Unreachable, wire.NotUnderstood):
            return {}
        return said if isinstance(said, dict) else {}

    def terminate(self, incarnation: str | None, operation: str, deadline: Deadline) -> Answer:
        return self._act({"ask": "terminate", "incarnation": incarnation, "operation": operation}, deadline)

    def start(self, after: str | None, operation: str, wish: StartWish, deadline: Deadline) -> Answer:
        wanted = {"environment": dict(wish.environment), "avoid": list(wish.avoid), "suspect": wish.suspect}
        return self._act({"ask": "start", "after": after, "operation": operation, "wish": wanted}, deadline)

    def would(self, verb: str, *, incarnation: str | None = None, wish: StartWish | None = None) -> tuple[str, ...]:
        """`verb`: "terminate" or "start" (`incident.actuators.Verb`)."""
        word = str(getattr(verb, "value", verb))
        if word == "terminate":
            return (f"{self._path}: terminate the whole group of incarnation {incarnation or '(the one that runs)'}",)
        lines = [f"{self._path}: start the whole group anew, where no other incarnation than {incarnation} runs"]
        if wish is not None and wish.suspect is not None:
            lines.append(f"with the incident logging profile for {wish.suspect}, for this one start")
        if wish is not None and wish.environment:
            lines.append(f"with the variables {', '.join(sorted(wish.environment))}, for this one start")
        return tuple(lines)

    # -- the socket ----------------------------------------------------------------------------------------------------

    def _act(self, request: Mapping[str, Any], deadline: Deadline) -> Answer:
        begun = self._clock()
        try:
            said = self._ask(request, deadline, timed=True)
            found = _answer(said.get("answer"))
        except _Unreachable as error:
            data = {"sent": error.sent}
            ending = Ending.TIMED_OUT if error.late else Ending.FAILED
            return Answer(ending=ending, note=str(error), data=data)
        except wire.NotUnderstood as error:
            return Answer(ending=Ending.FAILED, note=str(error), data={"sent": True})
        return Answer(
            ending=found.ending, note=found.note, data={**found.data, "seconds": round(self._clock() - begun, 3)}
        )

    def _line(self, request: Mapping[str, Any], deadline: Deadline, *, timed: bool) -> bytes:
        """Raises _Unreachable."""
        if timed:
            seconds = min(deadline.remaining() - SPARE_SECONDS, wire.MAX_SECONDS)
            if seconds <= 0.0:
                raise _Unreachable(f"{self._path} was not asked: the deadline is too near", sent=False, late=True)
            request = {**request, "seconds": seconds}
        try:
            line = wire.encode(request)
        except ValueError as error:
            raise _Unreachable(f"the request to {self._path} cannot be written ({error})", sent=False) from error
        if len(line) > wire.MAX_REQUEST:
            raise _Unreachable(f"the request to {self._path} has {len(line)} bytes, too many", sent=False)
        return line

    def _ask(self, request: Mapping[str, Any], deadline: Deadline, *, timed: bool = False) -> dict[str, Any]:
        """`timed`: the supervisor is told how long it may take. Raises _Unreachable and NotUnderstood."""
        self._line(request, deadline, timed=timed)  # what cannot be asked is no reason to connect
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            self._connect(connection, deadline)
            # its time counts from when it hears it: one that is slow to take calls would else have more than there is
            line = self._line(request, deadline, timed=timed)
            sent = False
            try:
                _send(connection, line, deadline)
                sent = True
                answer = _receive(connection, deadline)
            except TimeoutError as error:
                raise _Unreachable(
                    f"the supervisor at {self._path} did not answer in time; it may be asked again with the same "
                    "operation",
                    sent=sent,
                    late=True,
                ) from error
            except OSError as error:
                raise _Unreachable(
                    f"the supervisor at {self._path} went away while it was asked ({error.strerror or error})",
                    sent=sent,
                ) from error
        if not answer:
            raise _Unreachable(f"the supervisor at {self._path} went away without an answer", sent=True)
        try:
            said = wire.decode(answer)
        except wire.NotUnderstood as error:
            raise wire.NotUnderstood(f"the answer of {self._path} is not understood: {error}") from error
        if "error" in said:
            raise _Unreachable(f"the supervisor at {self._path} refused: {str(said['error'])[:MAX_NOTE]}", sent=False)
        return said

    def _connect(self, connection: socket.socket, deadline: Deadline) -> None:
        while True:
            left = deadline.remaining()
            if left <= 0.0:
                raise _Unreachable(f"nobody took the call at {self._path} in time", sent=False, late=True)
            try:
                connection.settimeout(left)
                connection.connect(os.fspath(self._path))
                break
            except BlockingIOError:  # its queue is full
                time.sleep(min(AGAIN_SECONDS, left))
            except TimeoutError as error:
                raise _Unreachable(f"nobody took the call at {self._path} in time", sent=False, late=True) from error
            except OSError as error:
                raise _Unreachable(
                    f"no supervisor answers at {self._path} ({error.strerror or error}): "
                    "`rankmuster run` of this instance has ended, or runs with another --folder, name or user",
                    sent=False,
                ) from error
        _check_peer(connection, self._path)


def _check_peer(connection: socket.socket, path: Path) -> None:
    """Somebody else's process behind our path is not believed."""
    size = struct.calcsize("3i")
    peer = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[1]
    if os.geteuid() not in (0, peer) and peer != 0:
        raise _Unreachable(f"at {path} listens a process of user {peer}, which is not asked", sent=False)


def _send(connection: socket.socket, line: bytes, deadline: Deadline) -> None:
    rest = memoryview(line)
    while rest:
        _limit(connection, deadline)
        rest = rest[connection.send(rest) :]


def _receive(connection: socket.socket, deadline: Deadline) -> bytes:
    """The first line. Raises TimeoutError, OSError, NotUnderstood for one without end."""
    data = bytearray()
    while b"\n" not in data:
        _limit(connection, deadline)
        piece = connection.recv(1 << 16)
        if not piece:
            return b""
        data += piece
        if len(data) > wire.MAX_ANSWER:
            raise wire.NotUnderstood(f"the answer has more than {wire.MAX_ANSWER} bytes")
    return bytes(data[: data.index(b"\n")])


def _limit(connection: socket.socket, deadline: Deadline) -> None:
    left = deadline.remaining()
    if left <= 0.0:
        raise TimeoutError
    connection.settimeout(left)


def _answer(raw: object) -> Answer:
    if not isinstance(raw, dict):
        raise wire.NotUnderstood("the supervisor's answer has no 'answer'")
    try:
        ending = Ending(raw.get("ending"))
    except ValueError as error:
        raise wire.NotUnderstood(f"the supervisor's answer ends in {str(raw.get('ending'))[:40]!r}") from error
    data = raw.get("data")
    return Answer(
        ending=ending, note=str(raw.get("note") or "")[:MAX_NOTE], data=data if isinstance(data, dict) else {}
    )


def _look(raw: object) -> GroupLook:
    if not isinstance(raw, dict):
        raise wire.NotUnderstood("the supervisor's answer has no 'look'")
    try:
        state = GroupState(raw.get("state"))
    except ValueError as error:
        raise wire.NotUnderstood(f"the supervisor says the state {str(raw.get('state'))[:40]!r}") from error
    status, at = raw.get("exit_status"), raw.get("at")
    return GroupLook(
        state=state,
        incarnation=wire.optional_text(raw, "incarnation"),
        operation=wire.optional_text(raw, "operation") or "",
        hosts=tuple(one for one in _list(raw, "hosts") if isinstance(one, str)),
        pids=tuple(one for one in _list(raw, "pids") if isinstance(one, int) and not isinstance(one, bool)),
        ended_by_itself=raw.get("ended_by_itself") is True,
        exit_status=status if isinstance(status, int) and not isinstance(status, bool) else None,
        at=float(at) if isinstance(at, (int, float)) and not isinstance(at, bool) else None,
        note=str(raw.get("note") or "")[:MAX_NOTE],
    )


def _list(raw: Mapping[str, Any], key: str) -> list[Any]:
    found = raw.get(key)
    return found[: wire.MAX_PIDS] if isinstance(found, list) else []
